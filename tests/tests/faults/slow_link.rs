//! A node behind a link of 64 kbit/s, 300 ms and one lost packet in a hundred: everything takes longer, and nothing
//! else.

use std::process::Command;
use std::time::Duration;

use coracle_tests::cluster::{BrokerKind, Cluster, condition};
use coracle_tests::namespaces::{Corner, enter, left_out};
use coracle_tests::programs::{Process, root, run, succeed};
use coracle_tests::slow_link::{SlowLink, Weather};
use coracle_tests::wait;
use serde_json::Value;

use super::{nobody_was_given_up, pod, ready_since};

const THIN: Weather = Weather { bytes_per_second: 8_000, delay: Duration::from_millis(150), loss_per_mille: 10 };
/// For an image of some hundred kilobytes, with all the trouble.
const LONG: Duration = Duration::from_secs(600);

fn port(cluster: &Cluster) -> u16 {
    cluster.broker.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

fn push(cluster: &Cluster) {
    let file = root().join("workloads/built/misbehave.wasm");
    let _ = succeed(cluster.coracle(&["image", "push"]).arg(file).arg("test/misbehave:1"));
}

/// The node is Ready whenever one looks.
fn ready(cluster: &Cluster) {
    let node = cluster.get(&["node", "node-1"]).expect("it joined");
    assert_eq!(condition(&node, "Ready"), "True", "{node}");
}

fn phase(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get(&["pod", name]).unwrap_or_default();
    pod["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

/// Pulls, is cut off in the middle, goes on, runs, and is followed: `cut` breaks the link once.
fn work_over(cluster: &Cluster, came_down: impl Fn() -> u64, cut: impl Fn()) {
    let joined = ready_since(cluster, "node-1");
    push(cluster);
    let before = came_down();
    cluster.apply("flood.yaml", &pod("flood", "test/misbehave:1", "flood"));
    wait::until_after(LONG, "a part of the image has come", || {
        ready(cluster);
        let came = came_down() - before;
        if came > 60_000 { Ok(()) } else { Err(format!("{came} bytes")) }
    });
    cut();
    wait::until_after(LONG, "the pod runs", || {
        ready(cluster);
        match phase(cluster, "flood") {
            phase if phase == "Running" => Ok(()),
            phase => Err(phase),
        }
    });
    // What had come before the cut was not sent again: the image, what was on its way, and what keeps the link alive.
    let (came, size) = (came_down() - before, artifact_bytes(cluster));
    assert!(came < size + size / 4 + 200_000, "{came} bytes for an image of {size}");

    // A guest that prints without end, followed by two: leases are renewed all the same.
    let mut followers: Vec<Process> = ["one", "two"]
        .iter()
        .map(|name| Process::start(name, &mut cluster.kubectl(&["logs", "-f", "flood"]), cluster.dir()))
        .collect();
    for follower in &mut followers {
        let _line = follower.said("flood: line");
    }
    let mut renewals = vec![String::new()];
    wait::until_after(LONG, "eight leases", || {
        ready(cluster);
        let lease = cluster.get(&["lease", "node-1", "-n", "kube-node-lease"]).unwrap_or_default();
        let renewed = lease["spec"]["renewTime"].as_str().unwrap_or_default().to_owned();
        if renewals.last() != Some(&renewed) {
            renewals.push(renewed);
        }
        if renewals.len() > 8 { Ok(()) } else { Err(format!("{renewals:?}")) }
    });
    for follower in &followers {
        assert!(follower.output().len() > 10_000, "output goes on coming: {}", follower.output().len());
    }
    drop(followers);
    assert_eq!(ready_since(cluster, "node-1"), joined);
    nobody_was_given_up(cluster);
}

/// The largest artifact that the controller has made.
fn artifact_bytes(cluster: &Cluster) -> u64 {
    let folder = cluster.dir().join("controller/images/artifacts");
    let files = std::fs::read_dir(folder).expect("artifacts").flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).max().expect("an artifact")
}

#[test]
fn a_thin_long_and_lossy_link_is_slow_and_nothing_else() {
    // EDGE-05, SAF-02
    let mut cluster = Cluster::start(BrokerKind::Embedded, 0);
    let link = SlowLink::to(port(&cluster), THIN, 7);
    cluster.add_agent_over(&link.url(), "node-1", "zone-a");
    cluster.wait_for_nodes(1);
    work_over(&cluster, || link.bytes_down(), || link.cut());
    assert!(link.connections() <= 3, "{} connections: the link broke by itself", link.connections());
}

/// The same with the kernel's own bad link, where there is one.
#[test]
fn a_thin_link_of_the_kernel_is_slow_and_nothing_else() {
    const NAME: &str = "slow_link::a_thin_link_of_the_kernel_is_slow_and_nothing_else";
    match enter(NAME, &["--net"]) {
        Corner::Done => return,
        Corner::Refused(why) => return left_out(NAME, &why),
        Corner::Inside => {}
    }
    let ip = |words: &[&str]| succeed(Command::new("ip").args(words));
    let tc = |words: &[&str]| run(Command::new("tc").args(words));
    ip(&["link", "set", "lo", "up"]);
    let mut cluster = Cluster::start(BrokerKind::Embedded, 0);
    // Only the agent's packets go through the thin band: whatever comes from, or goes to, its own proxy.
    let near = SlowLink::to(
        port(&cluster),
        Weather { bytes_per_second: 1 << 40, delay: Duration::ZERO, loss_per_mille: 0 },
        1,
    );
    let own = near.url().rsplit(':').next().expect("a port").to_owned();
    let netem =
        ["qdisc", "add", "dev", "lo", "parent", "1:3", "netem", "delay", "150ms", "loss", "1%", "rate", "64kbit"];
    let prio = ["qdisc", "add", "dev", "lo", "root", "handle", "1:", "prio", "bands", "3", "priomap"];
    let prio = [&prio[..], &["0"; 16][..]].concat();
    for words in [&prio[..], &netem[..]] {
        let done = tc(words);
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
            return left_out(NAME, &format!("tc {}: {why}", words.join(" ")));
        }
    }
    for side in ["sport", "dport"] {
        let filter = [
            "filter", "add", "dev", "lo", "parent", "1:", "protocol", "ip", "u32", "match", "ip", side, &own, "0xffff",
            "flowid", "1:3",
        ];
        let done = tc(&filter);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    cluster.add_agent_over(&near.url(), "node-1", "zone-a");
    cluster.wait_for_nodes(1);
    work_over(&cluster, || near.bytes_down(), || near.cut());
}

/// Nodes behind the same thin link share it.
#[test]
fn a_large_set_of_pods_comes_through_a_thin_link_once() {
    let mut cluster = Cluster::start(BrokerKind::Embedded, 0);
    let link = SlowLink::to(port(&cluster), THIN, 8);
    cluster.add_agent_over(&link.url(), "node-1", "zone-a");
    cluster.wait_for_nodes(1);
    // 60 pods with a kilobyte of environment each, whose image does not exist: the set alone travels.
    let mut manifest = String::new();
    for number in 0..60 {
        let text = format!("{number:04}").repeat(256);
        manifest.push_str(&format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: big-{number}, labels: {{app: big}}}}\nspec:\n  containers:\n  - {{name: main, \
             image: 'test/none:1', imagePullPolicy: Never, env: [{{name: TEXT, value: '{text}'}}]}}\n"
        ));
    }
    let before = link.bytes_down();
    cluster.apply("big.yaml", &manifest);
    wait::until_after(LONG, "the node has said that it cannot run any of them", || {
        ready(&cluster);
        let pods = cluster.list(&["pods", "-l", "app=big"]);
        let reason =
            |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImageNeverPull";
        let said = pods.iter().filter(|pod| reason(pod)).count();
        if said == 60 { Ok(()) } else { Err(format!("{said} of 60")) }
    });
    let came = link.bytes_down() - before;
    assert!(came < 400_000, "{came} bytes for a set of 70 kB");
    assert!(link.connections() <= 2, "{} connections", link.connections());
    nobody_was_given_up(&cluster);
}
