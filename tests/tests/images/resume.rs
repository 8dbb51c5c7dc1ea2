//! A pull that was broken off goes on where it was.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{Process, succeed};
use coracle_tests::{tools, wait};
use coracle_wire::up::Up;

use crate::{pod, wasm};

/// Enough blocks that an agent can be killed among them.
const IMAGE_BYTES: usize = 31 << 20;
/// Blocks that are on their way at once, at most: these may be asked for twice.
const IN_FLIGHT: usize = 16;

#[test]
fn a_pull_goes_on_after_its_agent_was_killed() {
    // EDGE-02, EDGE-05
    let mut cluster = Cluster::start(BrokerKind::Mosquitto, 1);
    let file = cluster.dir().join("large.wasm");
    fs::write(&file, wasm::large(IMAGE_BYTES)).expect("writable");
    let _pushed = succeed(&mut cluster.coracle(&["image", "push", &file.display().to_string(), "team/large:1"]));
    let port = cluster.broker.rsplit(':').next().unwrap_or_default().to_owned();
    let mut listener = Command::new(tools::tool("mosquitto_sub"));
    listener.args(["-h", "127.0.0.1", "-p", &port, "-t", "coracle/default/n/node-1/up", "-F", "%x", "-d"]);
    let mut heard = Process::start("heard", &mut listener, cluster.dir());
    let _subscribed = heard.said("Subscribed");
    cluster.apply("large", &pod("large", "team/large:1", "IfNotPresent", ""));
    let before = wait::until("some blocks came", || {
        let asked = blocks(&heard.output());
        if asked.len() > 2 * IN_FLIGHT { Ok(asked) } else { Err(format!("{asked:?}")) }
    });
    cluster.agents[0].kill();
    let before: BTreeSet<u32> = blocks(&heard.output()).into_iter().chain(before).collect();
    let lines = heard.output().lines().count();
    cluster.kill_and_restart_agent(1);
    let _done = cluster.wait_for_pod("large", "has ended", |pod| pod["status"]["phase"] == "Succeeded");
    let said: String = heard.output().lines().skip(lines).map(|line| format!("{line}\n")).collect();
    let after: BTreeSet<u32> = blocks(&said).into_iter().collect();
    let twice = before.intersection(&after).count();
    assert!(twice <= IN_FLIGHT, "of {} blocks, {twice} were asked for twice", before.len());
    let all = u32::try_from(before.union(&after).count()).unwrap_or_default();
    assert_eq!(before.union(&after).copied().collect::<Vec<_>>(), (0..all).collect::<Vec<_>>());
    assert!(!after.is_empty(), "the agent was killed in the middle");
}

/// The blocks that an agent asked for, in what `mosquitto_sub` wrote.
fn blocks(output: &str) -> Vec<u32> {
    let payloads = output.lines().filter_map(|line| {
        let digits: Option<Vec<u32>> = line.chars().map(|digit| digit.to_digit(16)).collect();
        let pairs = digits.filter(|digits| digits.len() % 2 == 0 && !digits.is_empty())?;
        pairs.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect::<Option<Vec<u8>>>()
    });
    payloads
        .filter_map(|payload| match Up::decode(&payload) {
            Ok(Up::Blocks(request)) => Some(request.blocks),
            _ => None,
        })
        .flatten()
        .collect()
}
