//! Volumes as guests see them: what is in them, when it changes, how much fits, and when they go.

use std::path::PathBuf;

use coracle_tests::cluster::{BrokerKind, Cluster, condition};
use coracle_tests::programs::{root, run, succeed};
use coracle_tests::wait;
use serde_json::Value;

const CONFIG: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {greeting: hello, colour: blue}
binaryData: {bytes: aGk=}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {user: me}
";

fn start() -> Cluster {
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let file = root().join("workloads/built/files.wasm");
    let _ = succeed(cluster.coracle(&["image", "push"]).arg(file).arg("test/files:1"));
    cluster
}

/// A pod of one container, `main`; `container` and `spec` are lines of YAML, indented as they stand.
fn pod(name: &str, args: &str, container: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  restartPolicy: Never\n  \
         terminationGracePeriodSeconds: 3\n{spec}  containers:\n  - name: main\n    image: test/files:1\n    \
         args: [{args}]\n{container}"
    )
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

fn logs(cluster: &Cluster, words: &[&str]) -> String {
    succeed(cluster.kubectl(&["logs"]).args(words))
}

/// Waits until the log of a container holds these words.
fn wait_for_log(cluster: &Cluster, words: &[&str], wanted: &str) -> String {
    wait::until(&format!("{words:?} prints {wanted:?}"), || {
        // Before a container has run there is no log of it.
        let output = run(cluster.kubectl(&["logs"]).args(words));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains(wanted) { Ok(text) } else { Err(text) }
    })
}

/// Where a volume lies on the disk of the first node.
fn on_disk(cluster: &Cluster, pod: &Value, volume: &str) -> PathBuf {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    cluster.dir().join("node-1/pods").join(uid).join("volumes").join(volume)
}

fn wait_for_event(cluster: &Cluster, reason: &str) -> Value {
    wait::until(&format!("an event {reason}"), || {
        let events = cluster.list(&["events"]);
        let found = events.iter().find(|event| event["reason"] == reason).cloned();
        found.ok_or_else(|| format!("{events:?}"))
    })
}

#[test]
fn guests_read_what_config_maps_secrets_and_the_downward_api_put_into_files() {
    // VOL-01, POD-08
    let cluster = start();
    cluster.apply("config.yaml", CONFIG);
    let volumes = "  volumes:
  - {name: conf, configMap: {name: conf}}
  - {name: key, secret: {secretName: key, defaultMode: 256}}
  - {name: all, projected: {sources: [
      {configMap: {name: conf, items: [{key: colour, path: deep/colour}]}},
      {secret: {name: key}},
      {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]}}
";
    let mounts = "    env:
    - {name: GREETING, valueFrom: {configMapKeyRef: {name: conf, key: greeting}}}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    envFrom: [{prefix: KEY_, secretRef: {name: key}}]
    volumeMounts:
    - {name: conf, mountPath: /conf}
    - {name: key, mountPath: /key}
    - {name: all, mountPath: /all}
    - {name: conf, mountPath: /etc/app/greeting.txt, subPath: greeting}
";
    let args = "cat, /conf/greeting, cat, /conf/bytes, cat, /key/user, cat, /all/deep/colour, cat, /all/user, cat, \
        /all/labels, cat, /etc/app/greeting.txt, write, /conf/greeting, '1', env, GREETING, env, POD, env, KEY_user, cat, \
        /etc/hostname";
    cluster.apply("reader.yaml", &pod("reader", args, mounts, volumes));
    // The two that must fail: a write into what is only read, and a file that nobody mounted.
    let _ = cluster.wait_for_pod("reader", "has ended", |pod| phase(pod) == "Failed");
    let text = logs(&cluster, &["reader"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..7], ["hello", "hi", "me", "blue", "me", "app=\"reader\"", "hello"], "{text}");
    assert!(lines[7].starts_with("write /conf/greeting: "), "{text}");
    assert_eq!(lines[8..11], ["GREETING=hello", "POD=reader", "KEY_user=me"], "{text}");
    assert!(lines[11].starts_with("cat /etc/hostname: "), "{text}");
}

#[test]
fn a_changed_config_map_reaches_running_guests_and_a_missing_one_is_waited_for() {
    // VOL-01
    let cluster = start();
    let volumes = "  volumes: [{name: conf, configMap: {name: conf}}]\n";
    let mounts = "    env: [{name: G, valueFrom: {configMapKeyRef: {name: conf, key: greeting, optional: true}}}]\n    \
         volumeMounts: [{name: conf, mountPath: /conf}, {name: conf, mountPath: /once/greeting, subPath: greeting}]\n";
    cluster.apply("watcher.yaml", &pod("watcher", "env, G, watch, /conf/greeting", mounts, volumes));
    let event = wait_for_event(&cluster, "FailedMount");
    assert_eq!(event["message"], "MountVolume.SetUp failed for volume \"conf\" : configmap \"conf\" not found");
    assert_eq!(event["type"], "Warning");
    let waiting = cluster.get(&["pod", "watcher"]).unwrap_or_default();
    assert_eq!(phase(&waiting), "Pending");
    assert_eq!(waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");

    cluster.apply("config.yaml", CONFIG);
    let _ = wait_for_log(&cluster, &["watcher"], "hello\n");
    let before = cluster.get(&["pod", "watcher"]).unwrap_or_default();
    cluster.apply("config.yaml", &CONFIG.replace("greeting: hello", "greeting: good evening"));
    let text = wait_for_log(&cluster, &["watcher"], "good evening\n");
    assert_eq!(text.lines().collect::<Vec<_>>(), ["G=hello", "hello", "good evening"]);
    // The container is the same one: nothing was restarted.
    let after = cluster.get(&["pod", "watcher"]).unwrap_or_default();
    let started = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"].clone();
    assert_eq!(started(&before), started(&after));
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 0);
}

#[test]
fn an_empty_directory_is_shared_outlives_restarts_and_goes_with_its_pod() {
    // POD-01, VOL-01
    let mut cluster = start();
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: pair}
spec:
  terminationGracePeriodSeconds: 3
  volumes: [{name: data, emptyDir: {}}, {name: fast, emptyDir: {medium: Memory}}]
  containers:
  - name: writer
    image: test/files:1
    args: [append, /data/sub/lines, one, append, /fast/lines, two, ls, /data, ls, /fast, wait]
    volumeMounts: [{name: data, mountPath: /data}, {name: fast, mountPath: /fast}, {name: data, mountPath: /data/sub, subPath: inner}]
  - name: reader
    image: test/files:1
    args: [watch, /shared/inner/lines]
    volumeMounts: [{name: data, mountPath: /shared, readOnly: true}]
  - name: stranger
    image: test/files:1
    args: [ls, /data, wait]
";
    cluster.apply("pair.yaml", text);
    let _ = wait_for_log(&cluster, &["pair", "-c", "reader"], "one\n");
    let _ = wait_for_log(&cluster, &["pair", "-c", "stranger"], "ls /data: ");
    let pod = cluster.wait_for_pod("pair", "is ready", |pod| condition(pod, "Ready") == "True");
    let data = on_disk(&cluster, &pod, "data");
    assert!(data.join("inner/lines").exists());
    cluster.kill_and_restart_agent(1);
    // A second line in both: nothing was lost with the agent.
    let _ = wait_for_log(&cluster, &["pair", "-c", "reader"], "one\none\n");
    let text = wait_for_log(&cluster, &["pair", "-c", "writer"], "waiting");
    assert!(text.contains("appended"), "{text}");
    let _ = succeed(&mut cluster.kubectl(&["delete", "pod", "pair"]));
    wait::until("the volume is gone", || if data.exists() { Err(format!("{}", data.display())) } else { Ok(()) });
}

#[test]
fn a_guest_cannot_write_more_than_its_volume_may_hold_and_a_pod_that_has_more_is_evicted() {
    // VOL-01, PRI-09, EDGE-09
    let cluster = start();
    let volumes = "  volumes: [{name: data, emptyDir: {sizeLimit: 1Mi}}]\n";
    let mounts = "    volumeMounts: [{name: data, mountPath: /data}]\n";
    let args = "write, /data/a, '1000000', write, /data/b, '1000000', rm, /data/a, write, /data/c, '1000000'";
    cluster.apply("full.yaml", &pod("full", args, mounts, volumes));
    let _ = cluster.wait_for_pod("full", "has ended", |pod| phase(pod) == "Failed");
    let text = logs(&cluster, &["full"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "wrote 1000000", "{text}");
    assert!(lines[1].starts_with("write /data/b: "), "{text}");

    let set = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: keeper}
spec:
  replicas: 1
  selector: {matchLabels: {app: keeper}}
  template:
    metadata: {labels: {app: keeper}}
    spec:
      volumes: [{name: data, emptyDir: {sizeLimit: 1Mi}}]
      containers:
      - name: main
        image: test/files:1
        args: [wait]
        volumeMounts: [{name: data, mountPath: /data}]
";
    cluster.apply("keeper.yaml", set);
    let pods = cluster.wait_for_ready_pods("app=keeper", 1);
    let name = pods[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    // Somebody else on the node writes into it.
    std::fs::write(on_disk(&cluster, &pods[0], "data").join("more"), vec![7; 2 << 20]).expect("the volume is there");
    let evicted = cluster.wait_for_pod(&name, "is evicted", |pod| phase(pod) == "Failed");
    assert_eq!(evicted["status"]["reason"], "Evicted");
    assert_eq!(evicted["status"]["message"], "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\".");
    assert_eq!(condition(&evicted, "DisruptionTarget"), "True");
    assert_eq!(wait_for_event(&cluster, "Evicted")["type"], "Warning");
    // Its set has another one, with a volume of its own, and what the first one held is free again.
    wait::until("another pod is ready", || {
        let pods = cluster.list(&["pods", "-l", "app=keeper"]);
        let fresh = pods.iter().any(|pod| pod["metadata"]["name"] != *name && condition(pod, "Ready") == "True");
        if fresh { Ok(()) } else { Err(format!("{pods:?}")) }
    });
    wait::until("the evicted pod's volume is gone", || {
        let path = on_disk(&cluster, &evicted, "data");
        if path.exists() { Err(format!("{}", path.display())) } else { Ok(()) }
    });
    let node = cluster.get(&["node", "node-1"]).unwrap_or_default();
    assert!(node["status"]["allocatable"]["ephemeral-storage"].as_str().unwrap_or_default().ends_with("Ki"));
}
