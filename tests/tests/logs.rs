//! Logs as `kubectl` asks for them, and a flood of them.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{Process, fail, root, succeed};
use coracle_tests::tools::KUBECTLS;
use coracle_tests::wait;
use serde_json::Value;

const SENSORS: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: sensors}
spec:
  replicas: 2
  selector: {matchLabels: {app: sensors}}
  template:
    metadata: {labels: {app: sensors}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: one, image: 'samples/sensor:1'}
      - {name: two, image: 'samples/sensor:1'}
";

fn pod(name: &str, image: &str, arguments: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
         containers: [{{name: main, image: '{image}', args: {arguments}, resources: {{limits: {{cpu: 200m}}}}}}]\n"
    )
}

#[test]
fn logs_are_read_by_label_by_container_and_by_time() {
    // POD-11, API-01
    let cluster = Cluster::start(BrokerKind::Embedded, 2);
    cluster.apply("sensors.yaml", SENSORS);
    let pods = cluster.wait_for_ready_pods("app=sensors", 2);
    let names: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    for version in KUBECTLS {
        let kubectl = |words: &[&str]| succeed(&mut cluster.kubectl_of(version, words));
        wait::until("every container of every pod has printed", || {
            let text = kubectl(&["logs", "-l", "app=sensors", "--all-containers", "--prefix", "--tail=1"]);
            let all = names.iter().flat_map(|pod| ["one", "two"].map(|name| format!("[pod/{pod}/{name}] ")));
            if all.into_iter().all(|prefix| text.contains(&prefix)) { Ok(()) } else { Err(text) }
        });
        let errors = fail(
            &mut cluster
                .kubectl_of(version, &["logs", "-f", "-l", "app=sensors", "--all-containers", "--max-log-requests=3"]),
        );
        assert!(errors.contains("--max-log-requests"), "{errors}");
        let of_one = |words: &[&str]| kubectl(&[&["logs", names[0], "-c", "one"], words].concat());
        assert_eq!(of_one(&["--limit-bytes=5"]).len(), 5);
        assert_eq!(of_one(&["--tail=1"]).lines().count(), 1);
        assert!(!of_one(&["--since=1h"]).is_empty());
        assert_eq!(of_one(&["--since-time=2999-01-01T00:00:00Z"]), "");
        let stamped = of_one(&["--timestamps", "--tail=1"]);
        let (stamp, _) = stamped.split_once(' ').unwrap_or_default();
        assert!(stamp.len() == "2026-11-21T03:40:30.123456789Z".len() && stamp.ends_with('Z'), "{stamped}");
        let errors = fail(&mut cluster.kubectl_of(version, &["logs", names[0], "-c", "three"]));
        assert!(errors.contains("container three is not valid for pod"), "{errors}");
    }
    // A follower's stream ends with the container.
    let mut command = cluster.kubectl(&["logs", "-f", names[0], "-c", "one", "--tail=1"]);
    let mut follower = command.stdout(Stdio::piped()).spawn().expect("kubectl");
    let mut lines = BufReader::new(follower.stdout.take().expect("its output")).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok()), "a line, before the pod is asked to end");
    let _ = succeed(&mut cluster.kubectl(&["delete", "deployment", "sensors"]));
    assert!(lines.all(|line| line.is_ok()));
    assert!(follower.wait().expect("kubectl").success());
}

#[test]
fn between_two_runs_the_last_one_can_be_read() {
    // POD-11, LIF-05
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    cluster.apply("loop.yaml", &pod("loop", "samples/job:1", "['0', '3']"));
    let _ = cluster.wait_for_pod("loop", "backs off", |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        status["state"]["waiting"]["reason"] == "CrashLoopBackOff" && status["restartCount"].as_u64() >= Some(1)
    });
    let current = succeed(&mut cluster.kubectl(&["logs", "loop"]));
    let previous = succeed(&mut cluster.kubectl(&["logs", "loop", "--previous"]));
    assert!(!current.is_empty() && !previous.is_empty(), "{current:?} {previous:?}");
    cluster.apply("once.yaml", &pod("once", "samples/sensor:1", "[]"));
    let _ = cluster.wait_for_pod("once", "runs", |pod| pod["status"]["phase"] == "Running");
    let errors = fail(&mut cluster.kubectl(&["logs", "once", "--previous"]));
    assert!(errors.contains("previous terminated container \"main\" in pod \"once\" not found"), "{errors}");
}

/// Followers of a pod's log in one process, each with a connection of its own that is read at this rate (bytes in a
/// second, as curl writes them); what they read is in files `NAME-1`, `NAME-2`, ….
fn follow(cluster: &Cluster, name: &str, pod: &str, readers: usize, rate: &str) -> Process {
    let url =
        format!("https://{}/api/v1/namespaces/default/pods/{pod}/log?follow=true&reader=[1-{readers}]", cluster.api);
    let mut command = Command::new("curl");
    command.args(["-sSk", "--http1.1", "--no-buffer", "--limit-rate", rate]);
    command.args(["--parallel", "--parallel-immediate", "--parallel-max", "300"]);
    for (flag, field) in [("--cert", "client-certificate-data"), ("--key", "client-key-data")] {
        let path = format!("jsonpath={{.users[0].user.{field}}}");
        let encoded = succeed(&mut cluster.kubectl(&["config", "view", "--raw", "-o", &path]));
        let encoded = cluster.write("encoded", &encoded);
        let decoded = succeed(Command::new("base64").arg("-d").arg(encoded));
        command.arg(flag).arg(cluster.write(field, &decoded));
    }
    command.arg("-o").arg(cluster.dir().join(format!("{name}-#1"))).arg(url);
    Process::start(name, &mut command, cluster.dir())
}

/// How much each of them has read.
fn read_by(cluster: &Cluster, name: &str, readers: usize) -> Vec<u64> {
    let size = |number| std::fs::metadata(cluster.dir().join(format!("{name}-{number}"))).map_or(0, |file| file.len());
    (1..=readers).map(size).collect()
}

/// Resident memory of a process, in bytes.
fn resident(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024
}

#[test]
fn two_hundred_readers_of_a_flood_disturb_nobody() {
    // POD-11: most readers stall; leases, reports and kills go on, and memory stays bounded.
    const STALLED: usize = 190;
    const EAGER: usize = 10;
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let image = root().join("workloads/built/misbehave.wasm");
    let _ = succeed(cluster.coracle(&["image", "push"]).arg(image).arg("test/misbehave:1"));
    cluster.apply("flood.yaml", &pod("flood", "test/misbehave:1", "['flood']"));
    cluster.apply("quiet.yaml", &pod("quiet", "samples/sensor:1", "[]"));
    for name in ["flood", "quiet"] {
        let _ = cluster.wait_for_pod(name, "runs", |pod| pod["status"]["phase"] == "Running");
    }
    let before = [resident(&cluster.agents[0]), resident(&cluster.controller)];
    let _stalled = follow(&cluster, "stalled", "flood", STALLED, "1");
    wait::until("every stalled reader has begun", || {
        let read = read_by(&cluster, "stalled", STALLED);
        if read.iter().all(|read| *read > 0) { Ok(()) } else { Err(format!("{read:?}")) }
    });
    let mut eager = follow(&cluster, "eager", "flood", EAGER, "500k");
    wait::until("eager readers go on", || {
        let read = read_by(&cluster, "eager", EAGER);
        if read.iter().all(|read| *read > 400_000) { Ok(()) } else { Err(format!("{read:?}")) }
    });
    let renewed = |cluster: &Cluster| -> Value {
        let lease = cluster.get(&["lease", "node-1", "--namespace=kube-node-lease"]).unwrap_or_default();
        lease["spec"]["renewTime"].clone()
    };
    let first = renewed(&cluster);
    wait::until("the lease is renewed", || if renewed(&cluster) == first { Err(first.to_string()) } else { Ok(()) });
    assert!(!succeed(&mut cluster.kubectl(&["logs", "quiet", "--tail=1"])).is_empty(), "one more reader is served");
    let _ = succeed(&mut cluster.kubectl(&["delete", "pod", "quiet"]));
    assert!(cluster.get(&["pod", "quiet"]).is_none());
    for ((process, before), most) in [&cluster.agents[0], &cluster.controller].into_iter().zip(before).zip([48, 128]) {
        let grown = resident(process).saturating_sub(before) / (1024 * 1024);
        assert!(grown < most, "process {} grew by {grown} MiB", process.pid());
    }
    cluster.wait_for_nodes(1);
    let _ = succeed(&mut cluster.kubectl(&["delete", "pod", "flood"]));
    assert_eq!(eager.ended(), 0, "followers come to their end with the container: {}", eager.output());
}
