//! Pods from manifest to status and back: what they print, how they end, and why they do not start.

use coracle_tests::cluster::{BrokerKind, Cluster, condition};
use coracle_tests::programs::{fail, root, run, succeed};
use coracle_tests::wait;
use serde_json::Value;

/// A pod of one container.
fn pod(name: &str, image: &str, policy: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  restartPolicy: {policy}\n  \
         terminationGracePeriodSeconds: 3\n  containers:\n  - name: main\n    image: {image}\n{more}"
    )
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

fn terminated(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]["terminated"]
}

fn push(cluster: &Cluster, file: &str, name: &str) {
    let file = root().join("workloads/built").join(file);
    let pushed = succeed(cluster.coracle(&["image", "push"]).arg(file).arg(name));
    assert!(pushed.contains("sha256:"), "{pushed}");
}

#[test]
fn pods_end_as_their_exit_codes_say() {
    // LIF-01, LIF-02, LIF-04, LIF-09, POD-08
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    cluster.apply("good.yaml", &pod("good", "samples/job:1", "Never", "    args: ['1', '0']\n"));
    cluster.apply("bad.yaml", &pod("bad", "samples/job:1", "Never", "    args: ['0', '3']\n"));
    cluster.apply("loop.yaml", &pod("loop", "samples/job:1", "Always", "    args: ['0', '1']\n"));
    let good = cluster.wait_for_pod("good", "has succeeded", |pod| phase(pod) == "Succeeded");
    assert_eq!(terminated(&good)["reason"], "Completed");
    assert_eq!(terminated(&good)["exitCode"], 0);
    assert_eq!(condition(&good, "Ready"), "False");
    let bad = cluster.wait_for_pod("bad", "has failed", |pod| phase(pod) == "Failed");
    assert_eq!(terminated(&bad)["reason"], "Error");
    assert_eq!(terminated(&bad)["exitCode"], 3);
    assert!(terminated(&bad)["containerID"].as_str().unwrap_or_default().starts_with("coracle://"));
    // LIF-05: the first restart is immediate, the second waits.
    let looping = cluster.wait_for_pod("loop", "backs off", |pod| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    });
    assert_eq!(phase(&looping), "Running");
    assert_eq!(looping["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    assert!(looping["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1));
    let shown = succeed(&mut cluster.kubectl(&["get", "pods"]));
    for word in ["Completed", "Error", "CrashLoopBackOff"] {
        assert!(shown.contains(word), "{word} is missing in:\n{shown}");
    }
    // LIF-12
    let events = succeed(&mut cluster.kubectl(&["get", "events"]));
    for word in ["Scheduled", "Started", "BackOff"] {
        assert!(events.contains(word), "{word} is missing in:\n{events}");
    }
    // Deleted pods go: ended ones at once, the other one when its node has said so (TRM-06).
    let _ = succeed(&mut cluster.kubectl(&["delete", "pod", "good", "bad", "loop"]));
    assert!(cluster.list(&["pods"]).is_empty());
}

#[test]
fn a_guest_that_sees_the_signal_ends_early_and_one_that_does_not_is_killed_on_time() {
    // TRM-01, TRM-03, TRM-06, EDGE-09
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    push(&cluster, "stubborn.wasm", "test/stubborn:1");
    push(&cluster, "spin.wasm", "test/spin:1");
    push(&cluster, "echo-stdin-eof.wasm", "test/eof:1");
    let mut sensor = pod("sensor", "samples/sensor:1", "Always", "");
    sensor = sensor.replace("terminationGracePeriodSeconds: 3", "terminationGracePeriodSeconds: 600");
    let eof = pod("eof", "test/eof:1", "Always", "");
    let eof = eof.replace("terminationGracePeriodSeconds: 3", "terminationGracePeriodSeconds: 600");
    cluster.apply("sensor.yaml", &sensor);
    cluster.apply("eof.yaml", &eof);
    cluster.apply("stubborn.yaml", &pod("stubborn", "test/stubborn:1", "Always", ""));
    cluster.apply("spin.yaml", &pod("spin", "test/spin:1", "Always", ""));
    for name in ["sensor", "eof", "stubborn", "spin"] {
        let _ready = cluster.wait_for_pod(name, "is ready", |pod| condition(pod, "Ready") == "True");
    }
    // A deadline far below the grace period of 600 s: they ended by themselves.
    for name in ["sensor", "eof"] {
        let _ = succeed(&mut cluster.kubectl(&["delete", "pod", name, "--wait=false"]));
    }
    // Their grace period of 3 s is the least that a killed one takes.
    let _ = succeed(&mut cluster.kubectl(&["delete", "pod", "stubborn", "spin", "--wait=false"]));
    let marked = cluster.get(&["pod", "stubborn"]).unwrap_or_default();
    if !marked.is_null() {
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 3);
    }
    wait::until("all four pods are gone", || {
        let left = cluster.list(&["pods"]);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    let nodes = cluster.list(&["nodes"]);
    assert_eq!(condition(&nodes[0], "Ready"), "True");
}

#[test]
fn what_cannot_run_says_why() {
    // LIF-10, POD-09, EDGE-02
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    push(&cluster, "trap.wasm", "test/trap:1");
    push(&cluster, "grow.wasm", "test/grow:1");
    let not_wasm = cluster.write("not.wasm", "this is no WebAssembly");
    let errors = fail(cluster.coracle(&["image", "push"]).arg(not_wasm).arg("test/not:1"));
    assert!(errors.to_lowercase().contains("wasm") || errors.contains("WebAssembly"), "{errors}");
    let errors =
        fail(cluster.coracle(&["image", "push"]).arg(root().join("workloads/built/trap.wasm")).arg("samples/x:1"));
    assert!(errors.contains("samples/"), "{errors}");

    cluster.apply("trap.yaml", &pod("trap", "test/trap:1", "Never", ""));
    let limit = "    resources: {limits: {memory: 16Mi}}\n";
    cluster.apply("grow.yaml", &pod("grow", "test/grow:1", "Never", limit));
    cluster.apply("missing.yaml", &pod("missing", "test/missing:1", "Never", ""));
    cluster.apply("never.yaml", &pod("never", "test/other:1", "Never", "    imagePullPolicy: Never\n"));
    let from = "    env: [{name: A, valueFrom: {configMapKeyRef: {name: later, key: a}}}]\n    args: ['0', '0']\n";
    cluster.apply("config.yaml", &pod("config", "samples/job:1", "Never", from));

    let trap = cluster.wait_for_pod("trap", "has failed", |pod| phase(pod) == "Failed");
    assert_eq!(terminated(&trap)["reason"], "Error");
    let message = terminated(&trap)["message"].as_str().unwrap_or_default();
    assert!(message.contains("unreachable"), "{trap}");
    // LIF-07
    let grow = cluster.wait_for_pod("grow", "has failed", |pod| phase(pod) == "Failed");
    assert_eq!(terminated(&grow)["reason"], "OOMKilled");
    assert_eq!(terminated(&grow)["exitCode"], 137);
    let waiting = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].as_str().unwrap_or_default().to_owned()
    };
    let _ = cluster.wait_for_pod("missing", "cannot pull", |pod| {
        ["ErrImagePull", "ImagePullBackOff"].contains(&waiting(pod).as_str())
    });
    let _ = cluster.wait_for_pod("never", "never pulls", |pod| waiting(pod) == "ErrImageNeverPull");
    let config =
        cluster.wait_for_pod("config", "waits for its config map", |pod| waiting(pod) == "CreateContainerConfigError");
    let message = config["status"]["containerStatuses"][0]["state"]["waiting"]["message"].as_str().unwrap_or_default();
    assert_eq!(message, "configmap \"later\" not found");
    cluster.apply("later.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later}\ndata: {a: '1'}\n");
    let _ = cluster.wait_for_pod("config", "runs once its config map is there", |pod| phase(pod) == "Succeeded");
}

#[test]
fn logs_are_kept_followed_and_read_after_the_end() {
    // POD-11
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    cluster.apply("job.yaml", &pod("job", "samples/job:1", "Never", "    args: ['2', '0']\n"));
    let _ = cluster.wait_for_pod("job", "has started", |pod| phase(pod) != "Pending");
    let followed = succeed(&mut cluster.kubectl(&["logs", "-f", "job"]));
    assert!(!followed.trim().is_empty());
    let _ = cluster.wait_for_pod("job", "has succeeded", |pod| phase(pod) == "Succeeded");
    let whole = succeed(&mut cluster.kubectl(&["logs", "job", "-c", "main"]));
    assert_eq!(whole, followed);
    let last = succeed(&mut cluster.kubectl(&["logs", "job", "--tail=1"]));
    assert_eq!(last.lines().count(), 1);
    assert!(whole.ends_with(&last), "{whole:?} ends with {last:?}");
    let stamped = succeed(&mut cluster.kubectl(&["logs", "job", "--timestamps", "--tail=1"]));
    assert!(stamped.starts_with("20") && stamped.contains('T') && stamped.ends_with(&last), "{stamped}");
    let errors = fail(&mut cluster.kubectl(&["logs", "job", "--previous"]));
    assert!(errors.contains("previous"), "{errors}");
    let errors = fail(&mut cluster.kubectl(&["logs", "job", "-c", "other"]));
    assert!(errors.contains("other"), "{errors}");
    // The run before this one.
    cluster.apply("loop.yaml", &pod("loop", "samples/job:1", "Always", "    args: ['0', '1']\n"));
    let _ = cluster.wait_for_pod("loop", "has restarted", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1)
    });
    wait::until("the previous run's output", || {
        let output = run(&mut cluster.kubectl(&["logs", "loop", "--previous"]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && !text.is_empty() { Ok(()) } else { Err(text) }
    });
}
