//! Mistakes that the oracle has found, one a test: each is what was left of a history.

use serde_json::{Value, json};

use super::{World, node, pod};
use crate::kind::Kind;
use crate::object::Key;
use crate::plan::Write;
use crate::schedule::Verdict;

const ZONE: &str = "topology.kubernetes.io/zone";

fn asking(name: &str, cpu: &str, priority: i64) -> Value {
    pod(name, json!({"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}))
}

fn labelled(mut value: Value, app: &str) -> Value {
    value["metadata"]["labels"] = json!({"app": app});
    value
}

fn on(mut value: Value, node: &str) -> Value {
    value["spec"]["nodeName"] = json!(node);
    value
}

/// A pod for which room is held already.
fn nominated(mut value: Value, node: &str) -> Value {
    value["status"]["nominatedNodeName"] = json!(node);
    value
}

fn avoiding(mut value: Value, key: &str, app: &str) -> Value {
    value["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]);
    value
}

fn small(name: &str, pods: &str) -> Value {
    let mut value = node(name, "2", "8Gi");
    value["status"]["allocatable"]["pods"] = json!(pods);
    value
}

fn held(world: &World, key: &Key) -> Value {
    world.view.get(key).unwrap().value()["status"]["nominatedNodeName"].clone()
}

fn is_going(world: &World, key: &Key) -> bool {
    world.view.get(key).unwrap().is_deleting()
}

fn fits(world: &mut World, key: &Key, node: &str) -> bool {
    matches!(world.explain(key).verdicts[node], Verdict::Feasible { .. })
}

// PRI-05: the time of a start that comes after the binding was not seen.
#[test]
fn a_pod_that_started_after_it_was_bound_is_as_old_as_its_start() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    let keys = ["young", "old"].map(|name| world.put(Kind::POD, on(asking(name, "1", 0), "a")));
    for (key, minute) in keys.iter().zip([20, 10]) {
        world.edit(key, |pod| pod["status"]["startTime"] = json!(format!("2026-11-21T00:{minute}:00Z")));
    }
    world.put(Kind::POD, asking("p", "1", 10));
    world.settle();
    assert_eq!(keys.each_ref().map(|key| is_going(&world, key)), [true, false]);
}

// PRI-05: it was taken for as old as its object.
#[test]
fn a_pod_that_has_not_started_goes_before_one_that_has() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    let mut started = on(asking("started", "1", 0), "a");
    started["metadata"]["creationTimestamp"] = json!("2026-11-20T00:00:00Z");
    started["status"]["startTime"] = json!("2026-11-21T00:00:00Z");
    let mut bound = on(asking("bound", "1", 0), "a");
    bound["metadata"]["creationTimestamp"] = json!("2026-11-19T00:00:00Z");
    let keys = [bound, started].map(|value| world.put(Kind::POD, value));
    world.put(Kind::POD, asking("p", "1", 10));
    world.settle();
    assert_eq!(keys.each_ref().map(|key| is_going(&world, key)), [true, false]);
}

// PRI-04: any pod on its way out was waited for.
#[test]
fn only_victims_are_waited_for() {
    let mut world = World::new(1);
    for name in ["a", "b"] {
        world.put(Kind::NODE, node(name, "2", "8Gi"));
    }
    let mut leaving = on(asking("leaving", "1", 0), "a");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z");
    world.put(Kind::POD, leaving);
    world.put(Kind::POD, on(asking("important", "1", 50), "a"));
    let low = world.put(Kind::POD, on(asking("low", "2", 0), "b"));
    let p = world.put(Kind::POD, nominated(asking("p", "2", 10), "a"));
    world.settle();
    assert_eq!((held(&world, &p), is_going(&world, &low)), (json!("b"), true));
}

// PRI-04: victims were waited for even when their node was gone.
#[test]
fn victims_on_a_node_that_is_gone_are_not_waited_for() {
    let mut world = World::new(1);
    let nodes = ["a", "b"].map(|name| world.put(Kind::NODE, node(name, "2", "8Gi")));
    world.put(Kind::POD, on(asking("first", "2", 0), "a"));
    let important = world.put(Kind::POD, on(asking("second", "2", 50), "b"));
    let p = world.put(Kind::POD, asking("p", "2", 10));
    world.settle();
    assert_eq!(held(&world, &p), "a");
    world.delete(&nodes[0]);
    world.wake_all();
    assert_eq!(held(&world, &p), Value::Null);
    assert!(!is_going(&world, &important));
}

// PRI-04: the row of a node that was gone was given to another, with the room that was held on it.
#[test]
fn room_held_on_a_node_that_is_gone_is_held_on_no_other() {
    let mut world = World::new(1);
    let gone = world.put(Kind::NODE, node("gone", "2", "8Gi"));
    let high =
        world.put(Kind::POD, nominated(pod("high", json!({"priority": 10, "nodeSelector": {"no": "such"}})), "gone"));
    world.delete(&gone);
    world.put(Kind::NODE, small("other", "1"));
    let low = world.put(Kind::POD, asking("low", "1", 0));
    assert!(fits(&mut world, &low, "other"));
    assert_eq!(held(&world, &high), "gone");
}

// PRI-04, SCH-06: a nomination was forgotten when its node came later.
#[test]
fn room_is_held_on_a_node_that_comes_after_the_nomination() {
    let mut world = World::new(1);
    world.put(Kind::POD, nominated(asking("high", "2", 10), "a"));
    let low = world.put(Kind::POD, asking("low", "1", 0));
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    assert!(!fits(&mut world, &low, "a"));
}

// PRI-04: a nominee's anti-affinity was overlooked when no other rule looked at pods.
#[test]
fn a_pod_for_which_room_is_held_keeps_those_away_that_it_avoids() {
    for (key, kept_away) in [("kubernetes.io/hostname", true), (ZONE, false)] {
        let mut world = World::new(1);
        world.put(Kind::NODE, node("a", "4", "8Gi"));
        let high = asking("high", "1", 10);
        world.put(Kind::POD, nominated(avoiding(high, key, "x"), "a"));
        let low = world.put(Kind::POD, labelled(asking("low", "1", 0), "x"));
        // A node without the key is no domain, so nobody is near there.
        assert_eq!(fits(&mut world, &low, "a"), !kept_away, "{key}");
    }
}

// PRI-04: the pod's own nomination was in its way, so it had no victims where room was held for it.
#[test]
fn a_pod_is_not_in_its_own_way_where_room_is_held_for_it() {
    let mut world = World::new(1);
    world.put(Kind::NODE, small("a", "1"));
    let low = world.put(Kind::POD, on(asking("low", "1", 0), "a"));
    let p = world.put(Kind::POD, nominated(asking("p", "1", 10), "a"));
    world.settle();
    assert_eq!((held(&world, &p), is_going(&world, &low)), (json!("a"), true));
    world.delete(&low);
    assert!(fits(&mut world, &p, "a"));
}

// TSC-03, PRI-04: the least of all domains stayed what it was without the pods that room is held for.
#[test]
fn a_pod_for_which_room_is_held_counts_for_the_fewest_too() {
    let mut world = World::new(1);
    let mut only = node("a", "4", "8Gi");
    only["metadata"]["labels"][ZONE] = json!("one");
    world.put(Kind::NODE, only);
    world.put(Kind::POD, nominated(labelled(asking("high", "1", 10), "x"), "a"));
    let mut value = labelled(asking("p", "1", 0), "x");
    value["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}]);
    let p = world.put(Kind::POD, value);
    assert!(fits(&mut world, &p, "a"));
}

// PRI-04: that nobody could go was remembered from when a pod on another node was in the way.
#[test]
fn victims_are_looked_for_anew_when_nobody_is_avoided_any_more() {
    let mut world = World::new(1);
    for name in ["a", "b"] {
        let mut value = node(name, "2", "8Gi");
        value["metadata"]["labels"][ZONE] = json!("one");
        world.put(Kind::NODE, value);
    }
    let low = world.put(Kind::POD, on(asking("low", "2", 0), "a"));
    let important = asking("important", "2", 50);
    let important = world.put(Kind::POD, on(avoiding(important, ZONE, "x"), "b"));
    let p = world.put(Kind::POD, labelled(asking("p", "2", 10), "x"));
    world.settle();
    assert_eq!((held(&world, &p), is_going(&world, &low)), (Value::Null, false));
    world.delete(&important);
    world.put(Kind::POD, on(asking("second", "2", 50), "b"));
    world.wake_all();
    assert_eq!((held(&world, &p), is_going(&world, &low)), (json!("a"), true));
}

// PRI-07: victims were found for a pod that wanted to be with one that might never come.
#[test]
fn nobody_goes_for_a_pod_whose_friend_has_not_come() {
    let mut world = World::new(1);
    world.put(Kind::NODE, small("a", "2"));
    let low = world.put(Kind::POD, on(asking("low", "1", 0), "a"));
    let mut p = asking("p", "2", 10);
    p["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "friend"}}}]);
    let p = world.put(Kind::POD, p);
    let mut friend = nominated(labelled(pod("friend", json!({"priority": 10})), "friend"), "a");
    friend["spec"]["nodeSelector"] = json!({"no": "such"});
    world.put(Kind::POD, friend);
    world.settle();
    assert_eq!((held(&world, &p), is_going(&world, &low)), (Value::Null, false));
}

// SCH-04, PRI-08: nobody was told that the room is free again.
#[test]
fn room_that_is_held_no_more_is_used_by_the_pod_that_waits() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    let mut victim = on(asking("victim", "1", 0), "a");
    victim["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z");
    victim["status"]["conditions"] =
        json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]);
    world.put(Kind::POD, victim);
    let high = world.put(Kind::POD, nominated(asking("high", "2", 10), "a"));
    let low = world.put(Kind::POD, asking("low", "1", 0));
    world.settle();
    assert_eq!((held(&world, &high), world.node_of(&low)), (json!("a"), None));
    world.delete(&high);
    world.wake_all();
    assert_eq!(world.node_of(&low).as_deref(), Some("a"));
}

// SCH-04: nobody was told that a node is gone, and with it the pods that were in the way.
#[test]
fn a_pod_is_tried_again_when_the_node_is_gone_whose_pods_were_in_its_way() {
    let mut world = World::new(1);
    let nodes = ["a", "b"].map(|name| {
        let mut value = node(name, "2", "8Gi");
        value["metadata"]["labels"][ZONE] = json!("one");
        world.put(Kind::NODE, value)
    });
    world.put(Kind::POD, on(avoiding(asking("alone", "2", 0), ZONE, "x"), "a"));
    let p = world.put(Kind::POD, labelled(asking("p", "1", 0), "x"));
    world.settle();
    assert_eq!(world.node_of(&p), None);
    world.delete(&nodes[0]);
    world.wake_all();
    assert_eq!(world.node_of(&p).as_deref(), Some("b"));
}

// SCH-01: a port that two pods took was free when one of them was to go; and what only prepares a pod takes none.
#[test]
fn a_port_is_free_when_everybody_who_takes_it_has_gone() {
    let port = |name: &str, field: &str, priority: i64| {
        let taking = json!([{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]);
        let mut value = pod(name, json!({"priority": priority}));
        value["spec"][field] = taking;
        value
    };
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    let low = world.put(Kind::POD, on(port("low", "containers", 0), "a"));
    world.put(Kind::POD, on(port("important", "containers", 50), "a"));
    let p = world.put(Kind::POD, port("p", "containers", 10));
    world.settle();
    assert_eq!((held(&world, &p), is_going(&world, &low)), (Value::Null, false));
    let prepared = world.put(Kind::POD, port("prepared", "initContainers", 0));
    assert!(fits(&mut world, &prepared, "a"));
    world.edit(&prepared, |pod| pod["spec"]["initContainers"][0]["restartPolicy"] = json!("Always"));
    assert!(!fits(&mut world, &prepared, "a"));
}

// SCH-06: reasons came in the order in which the resources had been heard of.
#[test]
fn what_is_lacking_is_told_in_the_same_order_whatever_was_asked_before() {
    let lacks = |first: &str, second: &str| {
        let mut world = World::new(1);
        world.put(Kind::NODE, node("a", "2", "8Gi"));
        let asks = |name: &str, resources: &[&str]| {
            let mut value = pod(name, json!({"containers": [{"name": "c", "resources": {"requests": {}}}]}));
            for resource in resources {
                value["spec"]["containers"][0]["resources"]["requests"][*resource] = json!("1");
            }
            value
        };
        world.put(Kind::POD, asks(first, &[first]));
        let both = world.put(Kind::POD, asks("both", &[first, second]));
        super::refusals(&world.explain(&both), "a")
    };
    assert_eq!(lacks("gpio", "camera"), lacks("camera", "gpio"));
}

#[test]
fn those_who_lose_their_room_lose_it_in_the_same_order_whatever_came_before() {
    // SCH-06, PRI-08
    let losers = |order: [&str; 3]| {
        let mut world = World::new(1);
        world.put(Kind::NODE, node("a", "2", "8Gi"));
        world.put(Kind::POD, on(asking("low", "2", -5), "a"));
        for name in order {
            world.put(Kind::POD, nominated(asking(name, "500m", 1), "a"));
        }
        world.settle();
        world.put(Kind::POD, asking("high", "2", 10));
        let plan = world.scheduler.step(&world.view, world.now).unwrap();
        let cleared = plan.writes.iter().filter_map(|write| match write {
            Write::Status { key, status, .. } if status["nominatedNodeName"].is_null() => Some(key.name.to_string()),
            _ => None,
        });
        cleared.filter(|name| name != "low").collect::<Vec<_>>()
    };
    assert_eq!(losers(["x", "y", "z"]), ["x", "y", "z"]);
    assert_eq!(losers(["z", "x", "y"]), ["x", "y", "z"]);
}
