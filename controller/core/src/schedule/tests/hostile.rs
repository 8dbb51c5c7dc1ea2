//! What nobody would write who means well: none of it may stop the scheduler, or cost more than its own size.

use serde_json::{Map, Value, json};

use super::{World, asking, node, pod, refusals};
use crate::kind::Kind;
use crate::object::Key;
use crate::schedule::Verdict;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn fits(world: &mut World, value: Value, node: &str) -> bool {
    let key = world.put(Kind::POD, value);
    let found = world.explain(&key);
    world.delete(&key);
    matches!(found.verdicts[node], Verdict::Feasible { .. })
}

fn bound(mut value: Value, node: &str) -> Value {
    value["spec"]["nodeName"] = json!(node);
    value
}

#[test]
fn amounts_that_make_no_sense_are_no_room_and_no_panic() {
    // SCH-01
    for (found, fits_there) in [
        (json!("-4"), false),
        (json!("lots"), false),
        (json!(""), false),
        (json!(null), false),
        (json!([1]), false),
        (json!("1e-9"), false),
        (json!("0.999"), false),
        (json!("1e400"), true),
        (json!("99999999999999999999999999E"), true),
        (json!(2), true),
        (json!("1.0000001"), true),
    ] {
        let mut world = World::new(1);
        let mut value = node("a", "8", "8Gi");
        value["status"]["allocatable"]["cpu"] = found.clone();
        world.put(Kind::NODE, value);
        assert_eq!(fits(&mut world, asking("p", "1", "1Mi"), "a"), fits_there, "{found}");
    }
    let mut world = World::new(1);
    let mut value = node("a", "1", "1Gi");
    value["status"]["allocatable"]["pods"] = json!("-1");
    value["spec"]["taints"] = json!([{"key": "k", "effect": "Explode"}, {"effect": 7}, "none"]);
    value["metadata"]["labels"]["size"] = json!("99999999999999999999");
    world.put(Kind::NODE, value);
    let key = world.put(Kind::POD, asking("p", "1", "1Mi"));
    assert_eq!(refusals(&world.explain(&key), "a"), ["NodeResourcesFit: Too many pods"]);
}

#[test]
fn sums_that_are_too_large_for_a_number_come_back_to_what_they_were() {
    // SCH-01
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "4", "4Gi"));
    world.put(Kind::POD, bound(asking("small", "1", "3Gi"), "a"));
    let giants: Vec<Key> =
        (0..9).map(|index| world.put(Kind::POD, bound(asking(&format!("giant-{index}"), "8E", "9E"), "a"))).collect();
    assert!(!fits(&mut world, asking("p", "1", "1Mi"), "a"));
    giants.iter().for_each(|key| world.delete(key));
    assert!(fits(&mut world, asking("p", "3", "1Gi"), "a"));
    assert!(!fits(&mut world, asking("p", "3", "1025Mi"), "a"), "what is small still counts");
}

#[test]
fn operators_that_do_not_exist_match_nothing() {
    // SCH-01: a stored object may be older than the rule that refuses it.
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "4", "4Gi"));
    let expression = json!({"key": "kubernetes.io/hostname", "operator": "Resembles", "values": ["a"]});
    let affinity = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}});
    assert!(!fits(&mut world, pod("p", json!({"affinity": affinity})), "a"));
    let term = json!({"labelSelector": {"matchExpressions": [expression]}});
    for affinity in
        [json!({"podAntiAffinity": {REQUIRED: [term]}}), json!({"podAntiAffinity": {REQUIRED: [{}, 5, null]}})]
    {
        assert!(fits(&mut world, pod("p", json!({"affinity": affinity})), "a"));
    }
    let spread = json!([{"maxSkew": -3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": -1, "labelSelector": {}}]);
    assert!(!fits(&mut world, pod("p", json!({"topologySpreadConstraints": spread})), "a"));
}

#[test]
fn a_pod_that_contradicts_itself_stays_pending_and_says_so() {
    // SCH-04
    let mut world = World::new(1);
    for name in ["a", "b"] {
        let mut value = node(name, "4", "4Gi");
        value["metadata"]["labels"]["disk"] = json!("ssd");
        world.put(Kind::NODE, value);
    }
    let expressions = json!([{"key": "disk", "operator": "DoesNotExist"}]);
    let affinity = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}});
    let selector =
        world.put(Kind::POD, pod("selector", json!({"nodeSelector": {"disk": "ssd"}, "affinity": affinity})));
    let mut friend = bound(pod("friend", json!({})), "a");
    friend["metadata"]["labels"] = json!({"app": "a"});
    world.put(Kind::POD, friend);
    let terms = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]);
    let both = json!({"podAffinity": {REQUIRED: terms}, "podAntiAffinity": {REQUIRED: terms}});
    let lonely = world.put(Kind::POD, pod("lonely", json!({"affinity": both})));
    world.settle();
    let preemption = |reasons: &str| format!("preemption: 0/2 nodes are available: {reasons}.");
    assert_eq!(
        world.condition(&selector)["message"],
        format!(
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. {}",
            preemption("2 Preemption is not helpful for scheduling")
        )
    );
    let message = world.condition(&lonely)["message"].as_str().unwrap_or_default().to_owned();
    let words = "0/2 nodes are available: 1 node(s) didn't match pod affinity rules, 1 node(s) didn't match pod \
                 anti-affinity rules. ";
    assert!(message.starts_with(words), "{message}");
}

#[test]
fn words_that_nobody_uses_any_more_are_forgotten_and_nothing_else_is() {
    // SCH-06
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "1", "1Gi"));
    world.put(Kind::POD, bound(asking("there", "1", "1Mi"), "a"));
    let waiting = world.put(Kind::POD, asking("waiting", "1", "1Mi"));
    let mut most = 0;
    for round in 0..400 {
        let labels: Map<String, Value> =
            (0..200).map(|index| (format!("l{round}-{index}"), json!(format!("v{round}-{index}")))).collect();
        let mut value = node("odd", "0", "0");
        value["metadata"]["labels"] = Value::Object(labels);
        value["status"]["allocatable"][format!("example.com/r{round}")] = json!("1");
        world.put(Kind::NODE, value);
        world.settle();
        most = most.max(world.scheduler.words());
    }
    assert!(most < 70_000, "{most} words, of which a few hundred are in use");
    world.delete(&Key::new(Kind::POD, "default", "there"));
    world.wake_all();
    assert_eq!(world.node_of(&waiting).as_deref(), Some("a"));
}

#[test]
fn a_scheduler_begins_anew_bit_by_bit_and_decides_meanwhile() {
    // SCH-06: it was done in one go, and every pod waited for it.
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "64", "64Gi"));
    for index in 0..90 {
        world.put(Kind::POD, bound(asking(&format!("there-{index}"), "100m", "1Mi"), "a"));
    }
    let mut odd = node("odd", "0", "0");
    odd["metadata"]["labels"] = (0..500).map(|index| (format!("l{index}"), json!("v"))).collect::<Map<_, _>>().into();
    let odd = world.put(Kind::NODE, odd);
    world.delete(&odd);
    let words = world.scheduler.words();
    world.scheduler.compact(&world.view, 10);
    let mut keys = Vec::new();
    while world.scheduler.words() >= words {
        keys.push(world.put(Kind::POD, asking(&format!("new-{}", keys.len()), "100m", "1Mi")));
        let plan = world.scheduler.step(&world.view, world.now).unwrap();
        world.carry_out(plan);
        assert!(keys.len() < 50, "it never takes over");
    }
    assert_eq!(keys.len(), 10, "91 objects, 10 with each step");
    assert!(keys.iter().all(|key| world.node_of(key).is_some()));
    assert!(!fits(&mut world, asking("large", "55", "1Mi"), "a"));
    assert!(fits(&mut world, asking("small", "54", "1Mi"), "a"));
}

#[test]
fn a_service_that_selects_everything_spreads_everything_and_one_that_selects_nothing_nothing() {
    // TSC-05
    let mut world = World::new(1);
    for name in ["a", "b"] {
        world.put(Kind::NODE, node(name, "64", "64Gi"));
    }
    let service = |name: &str, selector: Value| json!({"metadata": {"name": name}, "spec": {"selector": selector}});
    world.put(Kind::SERVICE, service("everything", json!({"all": "yes"})));
    for (name, selector) in [("nothing", json!({})), ("null", Value::Null), ("odd", json!([1, {}]))] {
        world.put(Kind::SERVICE, service(name, selector));
    }
    let keys: Vec<Key> = (0..40)
        .map(|index| {
            let mut value = pod(&format!("p{index}"), json!({}));
            value["metadata"]["labels"] = json!({"all": "yes", "own": index.to_string()});
            world.put(Kind::POD, value)
        })
        .collect();
    world.settle();
    let on = |name: &str| keys.iter().filter(|key| world.node_of(key).as_deref() == Some(name)).count();
    assert_eq!((on("a"), on("b")), (20, 20));
}
