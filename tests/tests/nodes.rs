//! What nodes say of themselves, and what follows: images that draw pods, and shortages that cost some of them their place.

use coracle_tests::cluster::{AGENT_FLAGS, BrokerKind, Cluster, condition};
use coracle_tests::namespaces::{Corner, enter, left_out, small_disk};
use coracle_tests::programs::{root, succeed};
use coracle_tests::wait;
use serde_json::Value;

/// A WebAssembly program that does nothing and has so many bytes in it that do not compress.
fn large_program(bytes: usize) -> Vec<u8> {
    fn number(mut value: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }
    let mut state = 1_u32;
    let noise = (0..bytes).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    // One passive segment.
    let mut data = vec![1, 1];
    data.extend(number(bytes));
    data.extend(noise);
    let exports = [&[2, 6][..], b"_start", &[0, 0, 6], b"memory", &[2, 0]].concat();
    let sections: [(u8, Vec<u8>); 6] = [
        (1, vec![1, 0x60, 0, 0]),
        (3, vec![1, 0]),
        (5, vec![1, 0, 1]),
        (7, exports),
        (10, vec![1, 2, 0, 0x0b]),
        (11, data),
    ];
    let mut program = b"\0asm\x01\0\0\0".to_vec();
    for (id, body) in sections {
        program.push(id);
        program.extend(number(body.len()));
        program.extend(body);
    }
    program
}

fn phase(object: &Value) -> &str {
    object["status"]["phase"].as_str().unwrap_or_default()
}

fn node(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&["node", name]).unwrap_or_default()
}

/// The size of an image as a node states it.
fn image_bytes(node: &Value, name: &str) -> Option<u64> {
    let images = node["status"]["images"].as_array().into_iter().flatten();
    let has = |image: &&Value| image["names"].as_array().is_some_and(|names| names.iter().any(|found| found == name));
    images.into_iter().find(has).and_then(|image| image["sizeBytes"].as_u64())
}

fn has_taint(node: &Value, key: &str) -> bool {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.into_iter().any(|taint| taint["key"] == key && taint["effect"] == "NoSchedule")
}

fn reason_of(node: &Value, kind: &str) -> String {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["reason"].as_str()).unwrap_or_default().to_owned()
}

fn wait_for_node(cluster: &Cluster, what: &str, look: impl Fn(&Value) -> bool) -> Value {
    wait::until(&format!("the node {what}"), || {
        let node = node(cluster, "node-1");
        if look(&node) { Ok(node) } else { Err(format!("{} {}", node["spec"], node["status"])) }
    })
}

fn wait_for_event(cluster: &Cluster, reason: &str, about: &str) -> Value {
    wait::until(&format!("an event {reason}"), || {
        let events = cluster.list(&["events", "-A"]);
        let is = |event: &&Value| event["reason"] == reason && event["involvedObject"]["name"] == about;
        events.iter().find(is).cloned().ok_or_else(|| format!("{events:?}"))
    })
}

/// A pod; `spec` is lines of YAML of its spec, and the first line of its container's follows.
fn pod(name: &str, spec: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n{spec}  \
         containers:\n  - {{name: main, {container}}}\n"
    )
}

#[test]
fn a_node_says_which_images_it_holds_and_the_scheduler_counts_a_large_one_for_it() {
    // SCH-02
    let cluster = Cluster::start(BrokerKind::Embedded, 2);
    let file = cluster.dir().join("large.wasm");
    std::fs::write(&file, large_program(31 << 20)).expect("a file");
    let pushed = succeed(cluster.coracle(&["image", "push"]).arg(file).arg("test/large:1"));
    assert!(pushed.contains("test/large:1"), "{pushed}");
    let first = "  nodeName: node-1\n  restartPolicy: Never\n";
    cluster.apply("first.yaml", &pod("first", first, "image: 'test/large:1'"));
    let first = cluster.wait_for_pod("first", "has ended", |pod| phase(pod) == "Succeeded");
    let digest = first["status"]["containerStatuses"][0]["imageID"].as_str().unwrap_or_default().to_owned();
    let holder = wait_for_node(&cluster, "says what it holds", |node| image_bytes(node, "test/large:1").is_some());
    assert!(image_bytes(&holder, "test/large:1") > Some(31 << 20), "{}", holder["status"]["images"]);
    assert_eq!(
        holder["status"]["images"][0]["names"],
        Value::from(vec![format!("test/large@{digest}"), "test/large:1".to_owned()])
    );
    assert!(node(&cluster, "node-2")["status"]["images"].is_null());
    let shown = succeed(&mut cluster.kubectl(&["get", "node", "node-1", "-o", "yaml"]));
    assert!(shown.contains("- test/large:1\n"), "{shown}");

    // Ten containers of it come to 100 x (10 x 31 / 2 - 23) / (10 x 1000 - 23) points, rounded down.
    let containers: String =
        (0..10).map(|number| format!("  - {{name: c{number}, image: 'test/large:1'}}\n")).collect();
    let many = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: many}}\nspec:\n  restartPolicy: Never\n  \
         schedulingGates: [{{name: test/look-first}}]\n  containers:\n{containers}"
    );
    cluster.apply("many.yaml", &many);
    let path = "/api/v1/namespaces/default/pods/many/placement";
    let answer: Value = serde_json::from_str(&succeed(&mut cluster.kubectl(&["get", "--raw", path]))).expect("JSON");
    let points = |name: &str| {
        let verdicts = answer["verdicts"].as_array().into_iter().flatten();
        let verdict = verdicts.into_iter().find(|verdict| verdict["node"] == name).cloned().unwrap_or_default();
        let points = verdict["points"].as_array().into_iter().flatten();
        points.into_iter().find(|points| points["plugin"] == "ImageLocality").and_then(|it| it["points"].as_i64())
    };
    assert_eq!((points("node-1"), points("node-2")), (Some(1), Some(0)), "{answer:#}");

    let table = succeed(&mut cluster.coracle(&["explain-placement", "many"]));
    assert!(table.contains("ImageLocality 1x1"), "{table}");

    // What is known survives a restart of the controller, and nothing is written while nothing changes.
    let version = node(&cluster, "node-1")["metadata"]["resourceVersion"].clone();
    let mut cluster = cluster;
    cluster.kill_and_restart_controller();
    cluster.wait_for_nodes(2);
    let after = node(&cluster, "node-1");
    assert_eq!(after["metadata"]["resourceVersion"], version);
    assert!(image_bytes(&after, "test/large:1").is_some());
}

#[test]
fn a_node_short_of_memory_says_so_and_evicts_a_pod_above_its_request_and_no_other() {
    // PRI-09
    let cluster = Cluster::start_in(BrokerKind::Embedded, 1, |dir| {
        std::fs::write(dir.join(AGENT_FLAGS), "--eviction-hard=memory.available<1000Ti").expect("a file");
    });
    let short = wait_for_node(&cluster, "is short of memory", |node| condition(node, "MemoryPressure") == "True");
    assert_eq!(reason_of(&short, "MemoryPressure"), "KubeletHasInsufficientMemory");
    assert_eq!(reason_of(&short, "DiskPressure"), "KubeletHasNoDiskPressure");
    assert_eq!(condition(&short, "Ready"), "True");
    let _ = wait_for_node(&cluster, "is tainted", |node| has_taint(node, "node.kubernetes.io/memory-pressure"));
    assert_eq!(
        wait_for_event(&cluster, "NodeHasInsufficientMemory", "node-1")["message"],
        "Node node-1 status is now: NodeHasInsufficientMemory"
    );
    assert_eq!(wait_for_event(&cluster, "EvictionThresholdMet", "node-1")["message"], "Attempting to reclaim memory");

    let tolerates = "  tolerations: [{key: node.kubernetes.io/memory-pressure, operator: Exists}]\n";
    let image = "image: 'samples/sensor:1'";
    cluster.apply("plain.yaml", &pod("plain", "", image));
    let plain = cluster.wait_for_pod("plain", "is refused", |pod| condition(pod, "PodScheduled") == "False");
    let why = plain["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
    assert!(why.contains("untolerated taint") && why.contains("node.kubernetes.io/memory-pressure"), "{why}");

    let within = format!("{image}, resources: {{requests: {{memory: 64Mi}}}}");
    cluster.apply("modest.yaml", &pod("modest", tolerates, &within));
    cluster.apply("greedy.yaml", &pod("greedy", tolerates, image));
    let evicted = cluster.wait_for_pod("greedy", "is evicted", |pod| phase(pod) == "Failed");
    assert_eq!(evicted["status"]["reason"], "Evicted");
    let message = evicted["status"]["message"].as_str().unwrap_or_default();
    let begin = "The node was low on resource: memory. Threshold quantity: 1000Ti, available: ";
    assert!(message.starts_with(begin), "{message:?}");
    assert!(message.contains("Ki. Container main was using "), "{message:?}");
    assert!(message.ends_with(", request is 0, has larger consumption of memory. "), "{message:?}");
    assert_eq!(condition(&evicted, "DisruptionTarget"), "True");
    assert_eq!(wait_for_event(&cluster, "Evicted", "greedy")["type"], "Warning");
    let modest = cluster.wait_for_pod("modest", "runs", |pod| condition(pod, "Ready") == "True");
    assert_eq!(modest["status"]["containerStatuses"][0]["restartCount"], 0);
}

#[test]
fn a_node_short_of_room_on_its_disk_cleans_it_then_evicts_and_then_takes_pods_again() {
    // PRI-09
    const NAME: &str = "a_node_short_of_room_on_its_disk_cleans_it_then_evicts_and_then_takes_pods_again";
    match enter(NAME, &["--mount"]) {
        Corner::Done => return,
        Corner::Refused(why) => return left_out(NAME, &why),
        Corner::Inside => {}
    }
    let cluster = Cluster::start_in(BrokerKind::Embedded, 1, |dir| {
        small_disk(&dir.join("node-1"), 64);
        std::fs::write(dir.join(AGENT_FLAGS), "--eviction-pressure-transition-period=5s").expect("a file");
    });
    let file = root().join("workloads/built/files.wasm");
    let _ = succeed(cluster.coracle(&["image", "push"]).arg(file).arg("test/files:1"));
    // An image that nobody needs any more.
    cluster.apply("job.yaml", &pod("job", "  restartPolicy: Never\n", "image: 'samples/job:1', args: ['0', '0']"));
    let _ = cluster.wait_for_pod("job", "has ended", |pod| phase(pod) == "Succeeded");
    let _ = wait_for_node(&cluster, "holds the image", |node| image_bytes(node, "samples/job:1").is_some());
    let _ = succeed(&mut cluster.kubectl(&["delete", "pod", "job"]));

    let volume = "  volumes: [{name: data, emptyDir: {sizeLimit: 60Mi}}]\n";
    let writes = |bytes: u64, more: &str| {
        format!(
            "image: 'test/files:1', args: [write, /data/a, '{bytes}', wait], \
             volumeMounts: [{{name: data, mountPath: /data}}]{more}"
        )
    };
    let asks = ", resources: {requests: {ephemeral-storage: 1Mi}}";
    cluster.apply("modest.yaml", &pod("modest", volume, &writes(100_000, asks)));
    let before = cluster.wait_for_pod("modest", "is Ready", |pod| condition(pod, "Ready") == "True");
    cluster.apply("hoard.yaml", &pod("hoard", volume, &writes(58 << 20, "")));
    let evicted = cluster.wait_for_pod("hoard", "is evicted", |pod| phase(pod) == "Failed");
    assert_eq!(evicted["status"]["reason"], "Evicted", "{}", evicted["status"]);
    let message = evicted["status"]["message"].as_str().unwrap_or_default();
    let begin = "The node was low on resource: ephemeral-storage. Threshold quantity: 6710886, available: ";
    assert!(message.starts_with(begin), "{message:?}");
    let end = "Container main was using 58Mi, request is 0, has larger consumption of ephemeral-storage. ";
    assert!(message.ends_with(end), "{message:?}");
    assert_eq!(wait_for_event(&cluster, "NodeHasDiskPressure", "node-1")["type"], "Normal");
    let _ = wait_for_node(&cluster, "no longer holds what nobody needs", |node| {
        image_bytes(node, "samples/job:1").is_none() && image_bytes(node, "test/files:1").is_some()
    });

    // There is room again, and after a while the node is trusted again.
    let node = wait_for_node(&cluster, "has room", |node| {
        condition(node, "DiskPressure") == "False" && !has_taint(node, "node.kubernetes.io/disk-pressure")
    });
    assert_eq!(reason_of(&node, "DiskPressure"), "KubeletHasNoDiskPressure");
    assert_eq!(wait_for_event(&cluster, "NodeHasNoDiskPressure", "node-1")["type"], "Normal");
    let after = cluster.get(&["pod", "modest"]).unwrap_or_default();
    assert_eq!(after["status"]["containerStatuses"], before["status"]["containerStatuses"], "it was not disturbed");
    cluster.apply("job.yaml", &pod("job", "  restartPolicy: Never\n", "image: 'samples/job:1', args: ['0', '0']"));
    let _ = cluster.wait_for_pod("job", "has ended", |pod| phase(pod) == "Succeeded");
}
