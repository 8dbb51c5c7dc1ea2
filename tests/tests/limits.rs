//! Limits and the environment as `kubectl` and a guest see them.

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{root, succeed};
use coracle_tests::wait;
use serde_json::Value;

const KEYS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue, speed: '7'}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: open-sesame}
";

fn push(cluster: &Cluster, guest: &str) {
    let file = root().join(format!("workloads/built/{guest}.wasm")).display().to_string();
    let _pushed = succeed(&mut cluster.coracle(&["image", "push", &file, &format!("bounds/{guest}:1")]));
}

/// A quantity as it is in a node's status, in thousandths of a core or in kibibytes.
fn amount(node: &Value, field: &str, resource: &str) -> u64 {
    let text = node["status"][field][resource].as_str().unwrap_or_default();
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{field} {resource}: {text}"));
    match (text.strip_suffix('m'), text.strip_suffix("Ki")) {
        (Some(thousandths), _) => number(thousandths),
        (_, Some(kibibytes)) => number(kibibytes),
        _ => number(text) * 1000,
    }
}

fn wait_for_log(cluster: &Cluster, pod: &str, wanted: &[&str]) {
    wait::until(&format!("the log of {pod} has {wanted:?}"), || {
        let log = succeed(&mut cluster.kubectl(&["logs", pod]));
        if wanted.iter().all(|wanted| log.lines().any(|line| line == *wanted)) { Ok(()) } else { Err(log) }
    });
}

#[test]
fn what_a_node_keeps_for_itself_how_a_pod_is_classed_and_what_holds_it_back_is_shown() {
    // EDGE-09, LIF-07, PRI-09
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let node = cluster.get(&["node", "node-1"]).expect("it is there");
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let (all, given) = (amount(&node, "capacity", resource), amount(&node, "allocatable", resource));
        assert!(0 < given && given < all, "{resource}: {given} of {all}");
    }
    let whole = node["status"]["capacity"]["cpu"].as_str().unwrap_or_default().to_owned();
    push(&cluster, "spin");
    push(&cluster, "files");
    let pod = |name: &str, guest: &str, arguments: &str, resources: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, image: 'bounds/{guest}:1', args: [{arguments}], \
             resources: {{{resources}}}}}\n"
        );
        cluster.apply(name, &text);
    };
    pod("whole", "files", "wait", &format!("requests: {{cpu: '{whole}'}}"));
    pod("guaranteed", "spin", "", "limits: {cpu: 50m, memory: 16Mi}");
    pod("burstable", "files", "wait", "requests: {cpu: 10m}");
    pod("effort", "files", "wait", "");
    for (name, class) in [("guaranteed", "Guaranteed"), ("burstable", "Burstable"), ("effort", "BestEffort")] {
        let _pod = cluster
            .wait_for_pod(name, class, |pod| pod["status"]["qosClass"] == class && pod["status"]["phase"] == "Running");
        let shown = succeed(&mut cluster.kubectl(&["describe", "pod", name]));
        assert!(shown.lines().any(|line| line.starts_with("QoS Class:") && line.ends_with(class)), "{shown}");
    }
    let _whole = cluster.wait_for_pod("whole", "does not fit", |pod| {
        let condition = pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
        condition.contains("Insufficient cpu")
    });
    // A guest that never yields wants to run in every period, and is held back in every one.
    wait::until("the spinning guest is held back", || {
        let page = succeed(&mut cluster.kubectl(&["get", "--raw", "/api/v1/nodes/node-1/proxy/metrics/cadvisor"]));
        let of = |name: &str| {
            let line = page.lines().find(|line| line.starts_with(name) && line.contains("pod=\"guaranteed\""));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or_default()
        };
        let (used, held) = (of("container_cpu_usage_seconds_total"), of("container_cpu_cfs_throttled_seconds_total"));
        let throttled = of("container_cpu_cfs_throttled_periods_total");
        // A share of 5 % with much room for a busy machine: it is held back for more than four times as long as it runs.
        if throttled > 20.0 && held > 4.0 * used { Ok(()) } else { Err(format!("{used} {held} {throttled}\n{page}")) }
    });
}

#[test]
fn the_environment_of_a_guest_comes_from_all_places_that_kubernetes_has() {
    // POD-08
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    push(&cluster, "files");
    cluster.apply("keys", KEYS);
    let manifest = "apiVersion: v1
kind: Pod
metadata: {name: told, labels: {app: told}, annotations: {note: hello}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: bounds/files:1
    args: [env, wait]
    resources: {limits: {cpu: 250m, memory: 64Mi}, requests: {memory: 32Mi}}
    envFrom: [{configMapRef: {name: settings}, prefix: SET_}, {secretRef: {name: nothing, optional: true}}]
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: SPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
    - {name: APP, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['app']\"}}}
    - {name: NOTE, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['note']\"}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
    - {name: CORES, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
    - {name: ROOM, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: keys, key: token}}}
    - {name: MISSING, valueFrom: {configMapKeyRef: {name: settings, key: none, optional: true}}}
    - {name: ALL, value: '$(NAME) of $(SPACE) is $(COLOUR), $$(NOT) $(UNKNOWN)'}
";
    cluster.apply("told", manifest);
    let told = cluster.wait_for_pod("told", "runs", |pod| pod["status"]["phase"] == "Running");
    let uid = format!("UID={}", told["metadata"]["uid"].as_str().unwrap_or_default());
    wait_for_log(
        &cluster,
        "told",
        &[
            "NAME=told",
            "SPACE=default",
            &uid,
            "APP=told",
            "NOTE=hello",
            "NODE=node-1",
            "ACCOUNT=default",
            "CORES=250",
            "ROOM=32",
            "COLOUR=blue",
            "TOKEN=open-sesame",
            "SET_colour=blue",
            "SET_speed=7",
            "ALL=told of default is blue, $(NOT) $(UNKNOWN)",
            "HOSTNAME=told",
        ],
    );
    let log = succeed(&mut cluster.kubectl(&["logs", "told"]));
    assert!(!log.contains("MISSING"), "{log}");
    let shown = succeed(&mut cluster.kubectl(&["get", "pod", "told", "-o", "yaml"]));
    assert!(!shown.contains("open-sesame") && !cluster.controller.output().contains("open-sesame"), "{shown}");
}
