//! Work that must not grow faster than what causes it, in steps.

use serde_json::{Map, Value, json};

use super::{World, node, pod, refusals};
use crate::kind::Kind;
use crate::object::Key;
use crate::schedule::work;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn bound(mut value: Value, node: &str) -> Value {
    value["spec"]["nodeName"] = json!(node);
    value
}

/// Ten times as much takes ten times the steps, or few more.
fn is_linear(steps: impl Fn(usize) -> u64, few: usize) {
    let (one, ten) = (steps(few), steps(10 * few));
    assert!(ten <= 11 * one, "{one} steps for {few}, {ten} for {}", 10 * few);
}

/// A pod that other pods avoid by a label of its own.
fn lonely(index: usize) -> Value {
    let own = json!({"matchLabels": {"own": format!("v{index}")}});
    let terms = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": own}]);
    let mut value = pod(&format!("p{index}"), json!({"affinity": {"podAntiAffinity": {REQUIRED: terms}}}));
    value["metadata"]["labels"] = own["matchLabels"].clone();
    value
}

#[test]
fn ten_times_as_many_distinct_labels_are_ten_times_the_work() {
    // SCH-01: an index finds the rules that a label concerns.
    let steps = |pods: usize| {
        let mut world = World::new(1);
        world.put(Kind::NODE, node("a", "4", "4Gi"));
        let budget = json!({"metadata": {"name": "all"}, "spec": {"selector": {"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": ["x"]}]}}});
        world.put(Kind::POD_DISRUPTION_BUDGET, budget);
        work::of(|| {
            let keys: Vec<Key> = (0..pods).map(|index| world.put(Kind::POD, bound(lonely(index), "a"))).collect();
            keys.iter().for_each(|key| world.delete(key));
        })
    };
    is_linear(steps, 1000);
}

#[test]
fn thousands_of_terms_are_as_much_work_as_there_are_terms() {
    // SCH-01
    let steps = |count: usize| {
        let mut world = World::new(1);
        world.put(Kind::NODE, node("a", "4", "4Gi"));
        let term = |index: usize| {
            let selector = json!({"matchLabels": {"app": format!("a{index}")}});
            json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector})
        };
        let terms: Vec<Value> = (0..count).map(term).collect();
        work::of(|| {
            let affinity = json!({"podAffinity": {REQUIRED: terms}, "podAntiAffinity": {REQUIRED: terms}});
            let key = world.put(Kind::POD, pod("p", json!({"affinity": affinity})));
            let found = world.explain(&key);
            assert_eq!(refusals(&found, "a"), ["InterPodAffinity: node(s) didn't match pod affinity rules"]);
            let other = json!({"affinity": {"podAntiAffinity": {REQUIRED: terms}}});
            world.put(Kind::POD, bound(pod("q", other), "a"));
            world.settle();
        })
    };
    is_linear(steps, 1000);
}

/// Nodes with a label for each of so many topology keys; on some one is missing.
fn in_many_topologies(world: &mut World, keys: usize) {
    for (name, missing) in [("a", keys), ("b", keys), ("c", 0)] {
        let mut value = node(name, "4", "4Gi");
        let labels = (0..keys).filter(|key| *key != missing || missing == keys);
        let labels: Map<String, Value> = labels.map(|key| (format!("k{key}"), json!(name))).collect();
        value["metadata"]["labels"] = Value::Object(labels);
        world.put(Kind::NODE, value);
    }
}

#[test]
fn thousands_of_spread_constraints_are_as_much_work_as_there_are_constraints() {
    // TSC-03, TSC-04: every node was asked for every key of every constraint by every constraint.
    for when in ["DoNotSchedule", "ScheduleAnyway"] {
        let steps = |count: usize| {
            let mut world = World::new(1);
            in_many_topologies(&mut world, count);
            let constraint = |index: usize| {
                json!({"maxSkew": 1, "topologyKey": format!("k{index}"), "whenUnsatisfiable": when,
                    "labelSelector": {"matchLabels": {"app": "a"}}})
            };
            let constraints: Vec<Value> = (0..count).map(constraint).collect();
            let mut value = pod("p", json!({"topologySpreadConstraints": constraints}));
            value["metadata"]["labels"] = json!({"app": "a"});
            work::of(|| {
                let key = world.put(Kind::POD, value);
                world.settle();
                let place = world.node_of(&key);
                assert!(place.as_deref().is_some_and(|place| place != "c"), "{place:?}");
                world.delete(&key);
            })
        };
        is_linear(steps, 100);
    }
}

/// So many bound pods, each with a rule about others by host name.
fn with_rules(rules: usize) -> World {
    let mut world = World::new(1);
    for name in ["a", "b"] {
        let mut value = node(name, "4", "4Gi");
        value["metadata"]["labels"]["zone"] = json!("one");
        world.put(Kind::NODE, value);
    }
    world.put(Kind::NAMESPACE, json!({"metadata": {"name": "default"}}));
    for index in 0..rules {
        world.put(Kind::POD, bound(lonely(index), "a"));
    }
    let near =
        json!([{"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "x"}}}]);
    world.put(Kind::POD, bound(pod("social", json!({"affinity": {"podAffinity": {REQUIRED: near}}})), "b"));
    world
}

#[test]
fn a_change_of_a_node_or_a_namespace_is_as_much_work_as_there_are_rules_that_it_concerns() {
    // SCH-04, TSC-03: every rule of any pod was looked at.
    type Edit = fn(&mut Value);
    let on_node: [(&str, Edit, u64); 5] = [
        ("a status", |node| node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]), 0),
        ("what there is", |node| node["status"]["allocatable"]["cpu"] = json!("8"), 0),
        ("a taint", |node| node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]), 0),
        ("a label that nobody reads", |node| node["metadata"]["labels"]["x"] = json!("y"), 0),
        ("another zone", |node| node["metadata"]["labels"]["zone"] = json!("two"), 40),
    ];
    for (what, edit, most) in on_node {
        for rules in [10, 1000] {
            let mut world = with_rules(rules);
            let steps = work::of(|| world.edit(&Key::new(Kind::NODE, "", "b"), edit));
            assert!(steps <= most, "{what}: {steps} steps with {rules} rules about other things");
        }
    }
    let relabel = |rules: usize, team: &str| {
        let mut world = with_rules(rules);
        let key = Key::new(Kind::NAMESPACE, "", "default");
        work::of(|| world.edit(&key, |namespace| namespace["metadata"]["labels"] = json!({"team": team})))
    };
    for rules in [10, 1000] {
        assert!(relabel(rules, "y") <= 10, "a label that no rule means");
    }
}
