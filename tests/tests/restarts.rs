//! Programs that are killed: nothing acknowledged is lost, and nothing healthy restarts.

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{Process, built, free_port, succeed};
use serde_json::Value;
use std::process::Command;

const WEB: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: hello, image: 'samples/hello:1'}]
";

fn uids_and_restarts(pods: &[Value]) -> Vec<(String, u64)> {
    let mut found: Vec<_> = pods
        .iter()
        .map(|pod| {
            let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(99);
            (pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), restarts)
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_killed_controller_comes_back_and_disturbs_nothing() {
    // EDGE-05, SAF-01
    for broker in [BrokerKind::Embedded, BrokerKind::Mosquitto] {
        let mut cluster = Cluster::start(broker, 2);
        cluster.apply("web.yaml", WEB);
        let before = uids_and_restarts(&cluster.wait_for_ready_pods("app=web", 2));
        cluster.kill_and_restart_controller();
        assert!(cluster.get(&["deployment", "web"]).is_some(), "what was acknowledged is there");
        let after = uids_and_restarts(&cluster.wait_for_ready_pods("app=web", 2));
        assert_eq!(before, after, "{broker:?}: healthy work was disturbed");
        let _ = succeed(&mut cluster.kubectl(&["scale", "deployment/web", "--replicas=4"]));
        let _ = cluster.wait_for_ready_pods("app=web", 4);
    }
}

#[test]
fn a_killed_agent_starts_its_pods_again_without_a_controller() {
    // EDGE-05
    let mut cluster = Cluster::start(BrokerKind::Mosquitto, 1);
    cluster.apply("web.yaml", WEB);
    let before = cluster.wait_for_ready_pods("app=web", 2);
    cluster.controller.terminate();
    let _ = cluster.controller.ended();
    cluster.kill_and_restart_agent(1);
    let agent = cluster.agents.first_mut().expect("an agent");
    let _ready = agent.said("ready");
    cluster.start_controller_again();
    let after = cluster.wait_for_ready_pods("app=web", 2);
    let uids = |pods: &[Value]| uids_and_restarts(pods).into_iter().map(|(uid, _)| uid).collect::<Vec<_>>();
    assert_eq!(uids(&before), uids(&after), "the same pods, started anew");
}

#[test]
fn a_second_agent_with_the_same_name_is_refused_and_exits() {
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let mut command = Command::new(built("coracle-agent"));
    command.args(["--broker", &cluster.broker, "--node", "node-1", "--data-dir"]).arg(cluster.dir().join("twin"));
    let mut twin = Process::start("twin", &mut command, cluster.dir());
    assert_eq!(twin.ended(), 1, "{}", twin.output());
    assert!(twin.output().contains("another agent holds the node name"), "{}", twin.output());
    cluster.wait_for_nodes(1);
}

#[test]
fn a_second_controller_on_the_same_directory_is_refused() {
    let cluster = Cluster::start(BrokerKind::Embedded, 0);
    let mut command = Command::new(built("coracle"));
    command.args(["controller", "--api-listen", &format!("127.0.0.1:{}", free_port())]);
    command.args(["--mqtt-listen", &format!("127.0.0.1:{}", free_port())]);
    command.arg("--data-dir").arg(cluster.dir().join("controller"));
    let mut second = Process::start("second", &mut command, cluster.dir());
    assert_eq!(second.ended(), 1, "{}", second.output());
    assert!(second.output().contains("use"), "{}", second.output());
}
