//! Affinity and anti-affinity between pods.

use serde_json::{Value, json};

use super::super::Verdict;
use super::{World, node, pod};
use crate::kind::Kind;
use crate::object::Key;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn labelled(name: &str, app: &str, affinity: Value) -> Value {
    let mut value = pod(name, json!({"affinity": affinity}));
    value["metadata"]["labels"] = json!({"app": app});
    value
}

/// Two zones of two nodes: a and b, c and d.
fn cluster() -> World {
    let mut world = World::new(1);
    for (name, zone) in [("a", "one"), ("b", "one"), ("c", "two"), ("d", "two")] {
        let mut value = node(name, "64", "64Gi");
        value["metadata"]["labels"]["zone"] = json!(zone);
        world.put(Kind::NODE, value);
    }
    world
}

fn on(world: &mut World, name: &str, app: &str, node: &str, affinity: Value) -> Key {
    let mut value = labelled(name, app, affinity);
    value["spec"]["nodeName"] = json!(node);
    world.put(Kind::POD, value)
}

/// What is said of every node: its reason, or nothing.
fn verdicts(world: &mut World, value: Value) -> Vec<String> {
    let key = world.put(Kind::POD, value);
    let found = world.explain(&key);
    world.delete(&key);
    let words = |verdict: &Verdict| match verdict {
        Verdict::Feasible { .. } => String::new(),
        Verdict::Refused { reasons } => reasons[0].words.clone(),
    };
    found.verdicts.values().map(words).collect()
}

fn refused(world: &mut World, value: Value, words: &str) -> Vec<bool> {
    let found = verdicts(world, value);
    assert!(found.iter().all(|found| found.is_empty() || found == words), "{found:?}");
    found.iter().map(|found| !found.is_empty()).collect()
}

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

// SCH-01
#[test]
fn required_affinity_wants_a_domain_in_which_such_a_pod_is() {
    let mut world = cluster();
    let near = |key: &str| labelled("p", "web", json!({"podAffinity": {REQUIRED: [term(key, "db")]}}));
    assert_eq!(refused(&mut world, near("zone"), AFFINITY), [true; 4]);
    on(&mut world, "db", "db", "a", json!({}));
    assert_eq!(refused(&mut world, near("zone"), AFFINITY), [false, false, true, true]);
    assert_eq!(refused(&mut world, near("kubernetes.io/hostname"), AFFINITY), [false, true, true, true]);
    assert_eq!(refused(&mut world, near("missing"), AFFINITY), [true; 4]);
    // Every term must be met, and by pods that meet all of them.
    let both = json!({"podAffinity": {REQUIRED: [term("zone", "db"), term("zone", "cache")]}});
    on(&mut world, "cache", "cache", "b", json!({}));
    assert_eq!(refused(&mut world, labelled("p", "web", both), AFFINITY), [true; 4]);
}

// SCH-01
#[test]
fn the_first_pod_that_wants_to_be_with_its_own_kind_may_go_anywhere_with_the_key() {
    let mut world = cluster();
    let own = || labelled("p", "db", json!({"podAffinity": {REQUIRED: [term("zone", "db")]}}));
    assert_eq!(refused(&mut world, own(), AFFINITY), [false; 4]);
    world.edit(&Key::new(Kind::NODE, "", "d"), |node| node["metadata"]["labels"] = json!({}));
    assert_eq!(refused(&mut world, own(), AFFINITY), [false, false, false, true]);
    on(&mut world, "first", "db", "c", json!({}));
    assert_eq!(refused(&mut world, own(), AFFINITY), [true, true, false, true]);
}

// SCH-01
#[test]
fn anti_affinity_holds_both_ways() {
    let mut world = cluster();
    let apart = || json!({"podAntiAffinity": {REQUIRED: [term("zone", "db")]}});
    let holder = on(&mut world, "holder", "web", "a", apart());
    // What a bound pod refuses is refused to the one that comes.
    assert_eq!(refused(&mut world, labelled("p", "db", json!({})), EXISTING), [true, true, false, false]);
    assert_eq!(refused(&mut world, labelled("p", "other", json!({})), EXISTING), [false; 4]);
    on(&mut world, "db", "db", "c", json!({}));
    assert_eq!(refused(&mut world, labelled("p", "x", apart()), ANTI), [false, false, true, true]);
    world.delete(&holder);
    assert_eq!(refused(&mut world, labelled("p", "db", json!({})), EXISTING), [false; 4]);
    // A pod that changes its labels is another one to the rules.
    world.edit(&Key::new(Kind::POD, "default", "db"), |pod| pod["metadata"]["labels"] = json!({"app": "z"}));
    assert_eq!(refused(&mut world, labelled("p", "x", apart()), ANTI), [false; 4]);
}

// SCH-01
#[test]
fn namespaces_are_meant_by_name_by_label_or_are_the_pods_own() {
    let mut world = cluster();
    for (name, team) in [("default", "x"), ("blue", "devops"), ("green", "devops")] {
        world.put(Kind::NAMESPACE, json!({"metadata": {"name": name, "labels": {"team": team}}}));
    }
    let mut there = labelled("db", "db", json!({}));
    there["metadata"]["namespace"] = json!("blue");
    there["spec"]["nodeName"] = json!("a");
    world.put(Kind::POD, there);
    let apart = |extra: Value| {
        let mut found = term("zone", "db");
        for (key, value) in extra.as_object().unwrap() {
            found[key] = value.clone();
        }
        labelled("p", "x", json!({"podAntiAffinity": {REQUIRED: [found]}}))
    };
    for (extra, want) in [
        (json!({}), false),
        (json!({"namespaces": ["blue"]}), true),
        (json!({"namespaces": ["green"]}), false),
        (json!({"namespaceSelector": {"matchLabels": {"team": "devops"}}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "none"}}}), false),
        (json!({"namespaceSelector": {}}), true),
    ] {
        let found = refused(&mut world, apart(extra.clone()), ANTI);
        assert_eq!(found, [want, want, false, false], "{extra}");
    }
    // The namespace changes its labels, and nobody in it is meant any more.
    world.edit(&Key::new(Kind::NAMESPACE, "", "blue"), |found| found["metadata"]["labels"] = json!({}));
    let extra = json!({"namespaceSelector": {"matchLabels": {"team": "devops"}}});
    assert_eq!(refused(&mut world, apart(extra), ANTI), [false; 4]);
}

// SCH-01
#[test]
fn label_keys_that_must_match_or_must_not_take_their_value_from_the_pod() {
    let mut world = cluster();
    let mut there = labelled("old", "db", json!({}));
    there["metadata"]["labels"]["tenant"] = json!("one");
    there["spec"]["nodeName"] = json!("a");
    world.put(Kind::POD, there);
    for (field, tenant, want) in [
        ("matchLabelKeys", "one", true),
        ("matchLabelKeys", "two", false),
        ("mismatchLabelKeys", "one", false),
        ("mismatchLabelKeys", "two", true),
    ] {
        let mut found = term("zone", "db");
        found[field] = json!(["tenant"]);
        let mut value = labelled("p", "db", json!({"podAntiAffinity": {REQUIRED: [found]}}));
        value["metadata"]["labels"]["tenant"] = json!(tenant);
        assert_eq!(refused(&mut world, value, ANTI), [want, want, false, false], "{field} {tenant}");
    }
}

// SCH-02
#[test]
fn preferences_count_both_ways_and_so_does_what_bound_pods_require() {
    let mut world = cluster();
    let points = |world: &mut World, value: Value| {
        let key = world.put(Kind::POD, value);
        let found = world.explain(&key);
        world.delete(&key);
        let of = |verdict: &Verdict| match verdict {
            Verdict::Feasible { points, .. } => {
                points.iter().find(|points| points.score == "InterPodAffinity").map_or(0, |points| points.points)
            }
            Verdict::Refused { .. } => -1,
        };
        found.verdicts.values().map(of).collect::<Vec<_>>()
    };
    let preferring = |kind: &str, weight: i64, app: &str| json!({kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term("zone", app)}]}});
    on(&mut world, "db", "db", "a", json!({}));
    let near = labelled("p", "web", preferring("podAffinity", 10, "db"));
    assert_eq!(points(&mut world, near), [200, 200, 0, 0]);
    let apart = labelled("p", "web", preferring("podAntiAffinity", 10, "db"));
    assert_eq!(points(&mut world, apart), [0, 0, 200, 200]);
    // A bound pod that would rather be near the one that comes.
    on(&mut world, "fan", "fan", "c", preferring("podAffinity", 5, "star"));
    assert_eq!(points(&mut world, labelled("p", "star", json!({}))), [0, 0, 200, 200]);
    // One that requires it counts with Kubernetes' weight of 1; the fifth node is in no zone.
    world.put(Kind::NODE, node("e", "64", "64Gi"));
    on(&mut world, "need", "need", "a", json!({"podAffinity": {REQUIRED: [term("zone", "star")]}}));
    assert_eq!(points(&mut world, labelled("p", "star", json!({}))), [40, 40, 200, 200, 0]);
}
