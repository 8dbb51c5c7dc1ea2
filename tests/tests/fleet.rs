//! Fifty hollow nodes against a real controller: many pods at once, and a controller that is killed under them.

use std::process::Command;

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{Process, built, succeed};
use coracle_tests::wait;
use serde_json::Value;

const NODES: usize = 50;
const PODS: usize = 500;

const WEB: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 500
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: hello, image: 'samples/hello:1'}]
";

fn fleet(cluster: &Cluster) -> Process {
    let mut command = Command::new(built("coracle"));
    command.args(["fleet", "--json", "--every", "1", "--zones", "zone-a,zone-b", "--start-ms", "1..1500"]);
    command.args(["--nodes", &NODES.to_string(), "--broker", &cluster.broker]);
    let mut fleet = Process::start("fleet", &mut command, cluster.dir());
    let _joined = fleet.said("\"event\":\"joined\"");
    fleet
}

/// What the fleet said last.
fn latest(fleet: &Process) -> Value {
    let output = fleet.output();
    let line = output.lines().rev().find(|line| line.starts_with('{') && line.ends_with('}'));
    line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

fn wait_for_pods_running(fleet: &Process, count: usize) {
    wait::until(&format!("{count} pods run in the fleet"), || {
        let figures = latest(fleet);
        if figures["podsRunning"] == count { Ok(()) } else { Err(figures.to_string()) }
    });
}

#[test]
fn five_hundred_pods_of_a_deployment_come_and_go_on_fifty_nodes() {
    let cluster = Cluster::start(BrokerKind::Embedded, 0);
    let mut fleet = fleet(&cluster);
    cluster.wait_for_nodes(NODES);
    cluster.apply("web.yaml", WEB);
    let pods = cluster.wait_for_ready_pods("app=web", PODS);
    let mut per_node = std::collections::BTreeMap::new();
    for pod in &pods {
        *per_node.entry(pod["spec"]["nodeName"].as_str().unwrap_or_default()).or_insert(0_usize) += 1;
    }
    assert_eq!(per_node.len(), NODES, "every node has its share: {per_node:?}");
    wait_for_pods_running(&fleet, PODS);
    let _ = succeed(&mut cluster.kubectl(&["scale", "deployment/web", "--replicas=0"]));
    let _ = cluster.wait_for_ready_pods("app=web", 0);
    wait_for_pods_running(&fleet, 0);
    fleet.terminate();
    assert_eq!(fleet.ended(), 0, "{}", fleet.output());
    let summary = latest(&fleet);
    assert_eq!(summary["event"], "summary");
    assert_eq!((&summary["starts"], &summary["ends"]), (&Value::from(PODS), &Value::from(PODS)), "no pod ran twice");
    // A goodbye is heard at once, not when a lease runs out.
    cluster.wait_for_nodes(0);
}

#[test]
fn a_controller_that_is_killed_in_the_middle_finds_every_node_and_pod_again() {
    // EDGE-05, SAF-01
    for broker in [BrokerKind::Embedded, BrokerKind::Mosquitto] {
        let mut cluster = Cluster::start(broker, 0);
        let fleet = fleet(&cluster);
        cluster.wait_for_nodes(NODES);
        cluster.apply("web.yaml", WEB);
        // Some run and some do not: whichever, it is killed now.
        wait::until("some pods run", || match latest(&fleet)["podsRunning"].as_u64() {
            Some(0) | None => Err(latest(&fleet).to_string()),
            Some(_) => Ok(()),
        });
        cluster.kill_and_restart_controller();
        let _ = cluster.wait_for_ready_pods("app=web", PODS);
        cluster.wait_for_nodes(NODES);
        let before = latest(&fleet);
        wait::until("the fleet says more", || {
            let now = latest(&fleet);
            if now["seconds"].as_f64() > before["seconds"].as_f64() { Ok(()) } else { Err(now.to_string()) }
        });
        let figures = latest(&fleet);
        assert_eq!(figures["joined"], NODES, "{broker:?}: {figures}");
        assert_eq!(figures["podsRunning"], PODS, "{broker:?}: {figures}");
        assert_eq!(figures["starts"], PODS, "{broker:?}: no healthy pod was disturbed: {figures}");
        assert_eq!(figures["ends"], 0, "{broker:?}: {figures}");
    }
}
