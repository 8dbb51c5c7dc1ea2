//! Processes that stand still for longer than a lease lasts (SIGSTOP), and go on as if nothing had been.

use std::time::Duration;

use coracle_tests::cluster::{BrokerKind, Cluster, condition};
use coracle_tests::wait;

use super::{nobody_was_given_up, note, ready_since, runs, web};

/// For what only happens after a lease, or two.
const LONG: Duration = Duration::from_secs(240);

#[test]
fn a_controller_that_stood_still_blames_nobody() {
    // EDGE-05, SAF-02
    let cluster = Cluster::start(BrokerKind::Embedded, 2);
    cluster.apply("web.yaml", &web(2));
    let before = runs(&cluster.wait_for_ready_pods("app=web", 2));
    let ready = [ready_since(&cluster, "node-1"), ready_since(&cluster, "node-2")];
    cluster.controller.freeze();
    // Each of these lines stands for ten seconds at least, and they come one after another.
    let gave_up = |number: usize| cluster.agents[number].output().matches("failed to connect").count();
    wait::until_after(LONG, "both agents have long been alone", || {
        let times = [gave_up(0), gave_up(1)];
        if times.iter().all(|times| *times >= 4) { Ok(()) } else { Err(format!("{times:?}")) }
    });
    cluster.controller.thaw();
    wait::until("the API answers", || note(&cluster, "after"));
    for number in [0, 1] {
        let before = cluster.agents[number].output().matches(" connected").count();
        wait::until("the agent is back", || {
            let output = cluster.agents[number].output();
            let back = output.rfind("connected ") > output.rfind("failed to connect")
                || output.matches(" connected").count() > before;
            if back { Ok(()) } else { Err(output) }
        });
    }
    assert_eq!(before, runs(&cluster.wait_for_ready_pods("app=web", 2)), "healthy work was disturbed");
    assert_eq!(ready, [ready_since(&cluster, "node-1"), ready_since(&cluster, "node-2")]);
    nobody_was_given_up(&cluster);
}

#[test]
fn an_agent_that_stood_still_is_missed_and_goes_on_with_the_same_containers() {
    // EDGE-05, SAF-02, SAF-04
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    cluster.apply("web.yaml", &web(2));
    let before = runs(&cluster.wait_for_ready_pods("app=web", 2));
    cluster.agents[0].freeze();
    let of_node = |status: &str| {
        let node = cluster.get(&["node", "node-1"]).unwrap_or_default();
        if condition(&node, "Ready") == status { Ok(()) } else { Err(node["status"]["conditions"].to_string()) }
    };
    wait::until_after(LONG, "the node is missed", || of_node("Unknown"));
    let pods = cluster.list(&["pods", "-l", "app=web"]);
    assert!(
        pods.iter().all(|pod| pod["status"]["phase"] == "Running" && condition(pod, "Ready") == "False"),
        "{pods:?}"
    );
    cluster.agents[0].thaw();
    wait::until_after(LONG, "the node is heard again", || of_node("True"));
    assert_eq!(before, runs(&cluster.wait_for_ready_pods("app=web", 2)), "healthy work was disturbed");
}
