//! A broker that dies and comes back, under a few agents and under a thousand.

use std::process::Command;
use std::time::Duration;

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{Process, built, succeed};
use coracle_tests::wait;

use super::{nobody_was_given_up, pod, ready_since, runs, web};

#[test]
fn a_broker_that_restarts_disturbs_nothing_and_delays_what_was_new() {
    // EDGE-05
    let mut cluster = Cluster::start(BrokerKind::Mosquitto, 2);
    cluster.apply("web.yaml", &web(2));
    let before = runs(&cluster.wait_for_ready_pods("app=web", 2));
    let ready = [ready_since(&cluster, "node-1"), ready_since(&cluster, "node-2")];
    for round in 0..3 {
        cluster.kill_mosquitto();
        // The API needs no broker.
        let name = format!("new-{round}");
        cluster.apply("new.yaml", &pod(&name, "samples/job:1", "'0', '0'"));
        cluster.start_mosquitto_again();
        let _ = cluster.wait_for_pod(&name, "arrives", |pod| pod["status"]["phase"] == "Succeeded");
    }
    assert_eq!(before, runs(&cluster.wait_for_ready_pods("app=web", 2)), "healthy work was disturbed");
    assert_eq!(ready, [ready_since(&cluster, "node-1"), ready_since(&cluster, "node-2")]);
    nobody_was_given_up(&cluster);
}

/// Nodes that lose their connection at one moment.
const NODES: usize = 1000;
/// What a controller may take for that many, in kilobytes.
const MOST_KB: u64 = 400 * 1024;

#[test]
fn a_thousand_nodes_that_lose_the_broker_at_once_come_back_and_the_controller_stays_small() {
    for broker in [BrokerKind::Mosquitto, BrokerKind::Embedded] {
        let mut cluster = Cluster::start(broker, 0);
        let nodes = NODES.to_string();
        let mut command = Command::new(built("coracle"));
        command.args(["fleet", "--broker", &cluster.broker, "--nodes", &nodes]);
        let fleet = Process::start("fleet", &mut command, cluster.dir());
        let long = Duration::from_secs(240);
        let all_ready = |cluster: &Cluster| {
            let shown = succeed(&mut cluster.kubectl(&["get", "nodes", "--no-headers"]));
            let ready = shown.lines().filter(|line| line.split_whitespace().nth(1) == Some("Ready")).count();
            if ready == NODES { Ok(()) } else { Err(format!("{ready} of {NODES} are Ready\n{}", fleet.output())) }
        };
        wait::until_after(long, "the fleet joins", || all_ready(&cluster));
        let before = cluster.controller.memory_kb();
        for replicas in [NODES / 2, NODES] {
            match broker {
                BrokerKind::Mosquitto => {
                    cluster.kill_mosquitto();
                    cluster.start_mosquitto_again();
                }
                BrokerKind::Embedded => cluster.kill_and_restart_controller(),
            }
            // Only nodes that are back can run new pods.
            cluster.apply("web.yaml", &web(u32::try_from(replicas).expect("small")));
            wait::until_after(long, "new pods run everywhere", || {
                let web = cluster.get(&["deployment", "web"]).unwrap_or_default();
                let ready = web["status"]["readyReplicas"].as_u64().unwrap_or(0);
                if ready == replicas as u64 {
                    Ok(())
                } else {
                    Err(format!("{ready} of {replicas}\n{}", fleet.output()))
                }
            });
        }
        wait::until_after(long, "everybody is Ready", || all_ready(&cluster));
        let after = cluster.controller.memory_kb();
        assert!(after < MOST_KB, "{broker:?}: {before} kB before, {after} kB after");
        nobody_was_given_up(&cluster);
    }
}
