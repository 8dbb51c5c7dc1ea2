//! Topology spread: every example of the seeds, with the very nodes and pods shown there.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::Verdict;
use super::{World, node, pod};
use crate::kind::Kind;
use crate::object::Key;

const SKEW: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// Nodes: name, labels, and how many pods there are already.
type There<'a> = [(&'a str, &'a [(&'a str, &'a str)], usize)];

/// Nodes with these labels, and pods `foo: bar` on them.
fn cluster(nodes: &There<'_>) -> World {
    let mut world = World::new(1);
    for (name, labels, pods) in nodes {
        let mut value = node(name, "64", "64Gi");
        for (key, label) in *labels {
            value["metadata"]["labels"][*key] = json!(label);
        }
        world.put(Kind::NODE, value);
        for number in 0..*pods {
            let mut there = marked(&format!("{name}-{number}"), json!({"nodeName": name}));
            there["status"]["phase"] = json!("Running");
            world.put(Kind::POD, there);
        }
    }
    world
}

/// Four nodes in two zones with pods on the first three.
fn two_zones() -> World {
    cluster(&[
        ("node1", &[("zone", "zoneA"), ("node", "node1")], 1),
        ("node2", &[("zone", "zoneA"), ("node", "node2")], 1),
        ("node3", &[("zone", "zoneB"), ("node", "node3")], 1),
        ("node4", &[("zone", "zoneB"), ("node", "node4")], 0),
    ])
}

fn marked(name: &str, spec: Value) -> Value {
    let mut value = pod(name, spec);
    value["metadata"]["labels"] = json!({"foo": "bar"});
    value
}

fn constraint(key: &str, max_skew: i64, when: &str) -> Value {
    json!({"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"foo": "bar"}}})
}

fn hard(key: &str, max_skew: i64) -> Value {
    constraint(key, max_skew, "DoNotSchedule")
}

fn mypod(constraints: &[Value]) -> Value {
    marked("mypod", json!({"topologySpreadConstraints": constraints}))
}

/// The nodes to which a pod can go.
fn feasible(world: &mut World, value: Value) -> BTreeSet<String> {
    let key = world.put(Kind::POD, value);
    let found = world.explain(&key);
    world.delete(&key);
    let fits = |verdict: &Verdict| matches!(verdict, Verdict::Feasible { .. });
    found.verdicts.iter().filter(|(_, verdict)| fits(verdict)).map(|(name, _)| name.to_string()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

// TSC-02
#[test]
fn one_constraint_leaves_the_zone_with_fewer_pods() {
    let mut world = two_zones();
    for (constraints, want) in [
        (vec![hard("zone", 1)], vec!["node3", "node4"]),
        (vec![hard("zone", 2)], vec!["node1", "node2", "node3", "node4"]),
        (vec![hard("node", 1)], vec!["node4"]),
        (vec![constraint("zone", 1, "ScheduleAnyway")], vec!["node1", "node2", "node3", "node4"]),
        (vec![hard("zone", 1), hard("node", 1)], vec!["node4"]),
    ] {
        assert_eq!(feasible(&mut world, mypod(&constraints)), names(&want), "{constraints:?}");
    }
    // 001: in zoneA the skew would be 2, in zoneB 0.
    let key = world.put(Kind::POD, mypod(&[hard("zone", 1)]));
    let found = world.explain(&key);
    let Verdict::Refused { reasons } = &found.verdicts["node1"] else { panic!("{found:?}") };
    assert_eq!((reasons[0].filter, reasons[0].words.as_str()), ("PodTopologySpread", SKEW));
}

// TSC-02, TSC-04
#[test]
fn a_preference_goes_to_the_zone_with_fewer_pods() {
    let mut world = two_zones();
    let key = world.put(Kind::POD, mypod(&[constraint("zone", 1, "ScheduleAnyway")]));
    world.settle();
    assert!(world.node_of(&key).is_some_and(|node| node == "node3" || node == "node4"));
}

// TSC-02
#[test]
fn constraints_that_contradict_each_other_leave_the_pod_pending_and_there_are_two_ways_out() {
    let three = || {
        cluster(&[
            ("node1", &[("zone", "zoneA"), ("node", "node1")], 2),
            ("node2", &[("zone", "zoneA"), ("node", "node2")], 1),
            ("node3", &[("zone", "zoneB"), ("node", "node3")], 2),
        ])
    };
    let mut world = three();
    let key = world.put(Kind::POD, mypod(&[hard("zone", 1), hard("node", 1)]));
    world.settle();
    assert_eq!(world.node_of(&key), None);
    assert!(world.notes.iter().any(|note| note.reason == "FailedScheduling" && note.message.contains(SKEW)));
    for ways_out in [
        [hard("zone", 2), hard("node", 1)],
        [constraint("zone", 1, "ScheduleAnyway"), hard("node", 1)],
        [hard("zone", 1), constraint("node", 1, "ScheduleAnyway")],
    ] {
        assert!(!feasible(&mut three(), mypod(&ways_out)).is_empty(), "{ways_out:?}");
    }
}

// TSC-02, TSC-03
#[test]
fn nodes_without_the_key_do_not_count_and_take_nothing() {
    let mut world = cluster(&[
        ("node1", &[("node", "node1")], 2),
        ("node2", &[("zone", "zoneA"), ("node", "node2")], 0),
        ("node3", &[("zone", "zoneB"), ("node", "node3")], 1),
    ]);
    assert_eq!(feasible(&mut world, mypod(&[hard("zone", 1)])), names(&["node2"]));
    let key = world.put(Kind::POD, mypod(&[hard("zone", 1)]));
    let found = world.explain(&key);
    let Verdict::Refused { reasons } = &found.verdicts["node1"] else { panic!("{found:?}") };
    assert_eq!(reasons[0].words, NO_LABEL);
    // A mistyped key is no key.
    let mut mistyped = two_zones();
    let mut fifth = node("node5", "64", "64Gi");
    fifth["metadata"]["labels"] = json!({"zone-typo": "zoneC", "node": "node5"});
    mistyped.put(Kind::NODE, fifth);
    assert_eq!(feasible(&mut mistyped, mypod(&[hard("zone", 1)])), names(&["node3", "node4"]));
}

// TSC-02
#[test]
fn a_pod_that_does_not_match_its_own_selector_changes_no_skew() {
    let mut world = two_zones();
    let mut stranger = mypod(&[hard("zone", 1)]);
    stranger["metadata"]["labels"] = json!({});
    // In zoneA the skew stays 1, so both zones would do; the pod itself is not counted.
    assert_eq!(feasible(&mut world, stranger), names(&["node1", "node2", "node3", "node4"]));
}

// TSC-02
#[test]
fn zones_that_the_pod_excludes_do_not_count() {
    let five = || {
        let mut world = two_zones();
        let mut fifth = node("node5", "64", "64Gi");
        fifth["metadata"]["labels"] = json!({"zone": "zoneC", "node": "node5"});
        world.put(Kind::NODE, fifth);
        world
    };
    // Without an exclusion zoneC is the emptiest, and takes it.
    assert_eq!(feasible(&mut five(), mypod(&[hard("zone", 1)])), names(&["node5"]));
    let mut excluding = mypod(&[hard("zone", 1)]);
    excluding["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["zoneC"]}]}]}}});
    assert_eq!(feasible(&mut five(), excluding.clone()), names(&["node3", "node4"]));
    // The domain counts again where the policy says so; then there is no way out.
    excluding["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
    assert_eq!(feasible(&mut five(), excluding), names(&[]));
    let mut selecting = mypod(&[hard("node", 1)]);
    selecting["spec"]["nodeSelector"] = json!({"zone": "zoneA"});
    assert_eq!(feasible(&mut five(), selecting), names(&["node1", "node2"]));
}

// TSC-01, TSC-03
#[test]
fn few_domains_tainted_nodes_and_ending_pods_count_as_they_should() {
    let mut world = two_zones();
    let mut few = mypod(&[hard("zone", 1)]);
    few["spec"]["topologySpreadConstraints"][0]["minDomains"] = json!(3);
    // With fewer than three domains the fewest are 0, so a second pod in zoneB is one too many.
    assert_eq!(feasible(&mut world, few), names(&[]));

    // node4 is tainted: by default it counts all the same, and by policy it does not.
    world.edit(&Key::new(Kind::NODE, "", "node4"), |node| {
        node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    });
    assert_eq!(feasible(&mut world, mypod(&[hard("node", 1)])), names(&[]));
    let mut honouring = mypod(&[hard("node", 1)]);
    honouring["spec"]["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = json!("Honor");
    assert_eq!(feasible(&mut world, honouring), names(&["node1", "node2", "node3"]));

    // A pod that is ending does not count any more.
    let mut world = two_zones();
    world.edit(&Key::new(Kind::POD, "default", "node1-0"), |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z");
    });
    assert_eq!(feasible(&mut world, mypod(&[hard("zone", 1)])), names(&["node1", "node2", "node3", "node4"]));
}

// TSC-01
#[test]
fn only_pods_of_the_same_revision_count_with_match_label_keys() {
    let mut world = two_zones();
    let mut value = mypod(&[hard("zone", 1)]);
    value["metadata"]["labels"]["pod-template-hash"] = json!("new");
    value["spec"]["topologySpreadConstraints"][0]["matchLabelKeys"] = json!(["pod-template-hash"]);
    assert_eq!(feasible(&mut world, value), names(&["node1", "node2", "node3", "node4"]));
}

// TSC-03: 001's worked state: zones count 3 and 4, nodes 2, 1, 0 and 4.
#[test]
fn the_worked_state_of_two_constraints() {
    let mut world = cluster(&[
        ("node-a", &[("zone", "zone1"), ("node", "node-a")], 2),
        ("node-b", &[("zone", "zone1"), ("node", "node-b")], 1),
        ("node-x", &[("zone", "zone2"), ("node", "node-x")], 0),
        ("node-y", &[("zone", "zone2"), ("node", "node-y")], 4),
    ]);
    // zone1 would count 4 beside 4; nodes: the fewest are 0, so only node-x stays within 1.
    for (constraints, want) in [
        (vec![hard("zone", 1)], vec!["node-a", "node-b"]),
        (vec![hard("node", 1)], vec!["node-x"]),
        (vec![hard("zone", 1), hard("node", 1)], vec![]),
        (vec![hard("zone", 2), hard("node", 1)], vec!["node-x"]),
    ] {
        assert_eq!(feasible(&mut world, mypod(&constraints)), names(&want), "{constraints:?}");
    }
}

// TSC-05
#[test]
fn pods_of_a_set_spread_by_themselves_and_bare_pods_do_not() {
    let mut world = World::new(3);
    for number in 0..4 {
        world.put(Kind::NODE, node(&format!("n{number}"), "64", "64Gi"));
    }
    let set = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"foo": "bar"}}}});
    let set = world.put(Kind::REPLICA_SET, set);
    let uid = world.view.get(&set).unwrap().uid;
    let mut last = Vec::new();
    for number in 0..4 {
        let mut value = marked(&format!("web-{number}"), json!({}));
        value["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid.to_string(), "controller": true}]);
        let key = world.put(Kind::POD, value);
        let found = world.explain(&key);
        last = found
            .verdicts
            .values()
            .filter_map(|verdict| match verdict {
                Verdict::Feasible { points, .. } => {
                    points.iter().find(|points| points.score == "PodTopologySpread").map(|points| points.points)
                }
                Verdict::Refused { .. } => None,
            })
            .collect();
        world.settle();
    }
    let placed: BTreeSet<_> =
        (0..4).map(|number| world.node_of(&Key::new(Kind::POD, "default", &format!("web-{number}")))).collect();
    assert_eq!(placed.len(), 4, "each on a node of its own");
    assert!(last.contains(&200) && last.iter().any(|points| *points < 200), "the empty node gets most: {last:?}");
    let bare = world.put(Kind::POD, marked("bare", json!({})));
    let found = world.explain(&bare);
    let spread = |verdict: &Verdict| match verdict {
        Verdict::Feasible { points, .. } => {
            points.iter().filter(|points| points.score == "PodTopologySpread").all(|points| points.points == 0)
        }
        Verdict::Refused { .. } => false,
    };
    assert!(found.verdicts.values().all(spread));
}

// TSC-05
#[test]
fn pods_of_a_service_spread_by_themselves_from_when_it_is_there() {
    let mut world = World::new(3);
    for number in 0..4 {
        world.put(Kind::NODE, node(&format!("n{number}"), "64", "64Gi"));
    }
    let placed = |world: &mut World, from: usize| {
        let keys: Vec<_> =
            (from..from + 4).map(|number| world.put(Kind::POD, marked(&format!("p{number}"), json!({})))).collect();
        world.settle();
        keys.iter().filter_map(|key| world.node_of(key)).collect::<BTreeSet<_>>()
    };
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"foo": "bar"}}});
    let service = world.put(Kind::SERVICE, service);
    assert_eq!(placed(&mut world, 0).len(), 4, "each on a node of its own");
    let spread = |world: &mut World, key: &Key| {
        let found = world.explain(key);
        found.verdicts.values().any(|verdict| match verdict {
            Verdict::Feasible { points, .. } => {
                points.iter().any(|points| points.score == "PodTopologySpread" && points.points > 0)
            }
            Verdict::Refused { .. } => false,
        })
    };
    let mut later = marked("later", json!({}));
    later["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    let later = world.put(Kind::POD, later);
    assert!(spread(&mut world, &later));
    for selector in [json!({"foo": "other"}), json!({}), json!(null)] {
        world.edit(&service, |service| service["spec"]["selector"] = selector);
        assert!(!spread(&mut world, &later));
    }
    world.edit(&service, |service| service["spec"]["selector"] = json!({"foo": "bar"}));
    assert!(spread(&mut world, &later));
    world.delete(&service);
    assert!(!spread(&mut world, &later));
}

// TSC-05: what a pod that waits has been asked about is asked anew.
#[test]
fn a_service_that_comes_later_spreads_pods_that_wait() {
    let mut world = World::new(3);
    let keys: Vec<_> = (0..4).map(|number| world.put(Kind::POD, marked(&format!("p{number}"), json!({})))).collect();
    world.settle();
    world.put(Kind::SERVICE, json!({"metadata": {"name": "web"}, "spec": {"selector": {"foo": "bar"}}}));
    for number in 0..4 {
        world.put(Kind::NODE, node(&format!("n{number}"), "64", "64Gi"));
    }
    world.wake_all();
    let nodes: BTreeSet<_> = keys.iter().filter_map(|key| world.node_of(key)).collect();
    assert_eq!(nodes.len(), 4);
}
