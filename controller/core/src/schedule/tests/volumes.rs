//! Claims and volumes: where pods with claims can go, in Kubernetes' words, and what is bound when they go there.

use serde_json::{Value, json};

use super::super::Detail;
use super::{World, node, pod, refusals};
use crate::kind::Kind;
use crate::object::Key;

const AFFINITY: &str = "VolumeBinding: node(s) didn't match PersistentVolume's node affinity";
const NONE_TO_BIND: &str = "VolumeBinding: node(s) didn't find available persistent volumes to bind";
const IN_USE: &str = "VolumeRestrictions: node has pod using PersistentVolumeClaim with the same name and \
                      ReadWriteOncePod access mode";
const ATTACHED: &str = "VolumeRestrictions: node(s) had no available disk";

/// A volume that may be reached from nodes with one of these host names; from all, if none is given.
fn volume(name: &str, class: &str, size: &str, modes: &[&str], hosts: &[&str]) -> Value {
    let mut spec = json!({"capacity": {"storage": size}, "accessModes": modes, "storageClassName": class,
        "volumeMode": "Filesystem", "hostPath": {"path": "/data"}});
    if !hosts.is_empty() {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}]}]}});
    }
    json!({"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}})
}

fn claim(name: &str, class: &str, size: &str, modes: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "status": {"phase": "Pending"}, "spec": {"storageClassName": class,
        "accessModes": modes, "volumeMode": "Filesystem", "resources": {"requests": {"storage": size}}}})
}

/// A claim that has this volume.
fn bound(mut claim: Value, volume: &str) -> Value {
    claim["spec"]["volumeName"] = json!(volume);
    claim["status"]["phase"] = json!("Bound");
    claim
}

fn class(name: &str, mode: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode})
}

fn using(name: &str, claims: &[&str]) -> Value {
    let volumes: Vec<_> =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})).collect();
    pod(name, json!({"volumes": volumes}))
}

/// Nodes of these names, and the classes `now` and `later`.
fn cluster(nodes: &[&str]) -> World {
    let mut world = World::new(1);
    for name in nodes {
        world.put(Kind::NODE, node(name, "8", "8Gi"));
    }
    world.put(Kind::STORAGE_CLASS, class("now", "Immediate"));
    world.put(Kind::STORAGE_CLASS, class("later", "WaitForFirstConsumer"));
    world
}

/// Binds claims and places pods, until nothing moves.
fn run(world: &mut World) {
    world.settle();
    while world.bind_volumes() {
        world.settle();
    }
}

fn claim_key(name: &str) -> Key {
    Key::new(Kind::PERSISTENT_VOLUME_CLAIM, "default", name)
}

fn volume_key(name: &str) -> Key {
    Key::new(Kind::PERSISTENT_VOLUME, "", name)
}

/// Phase and volume of a claim.
fn claim_state(world: &World, name: &str) -> (String, String) {
    let value = world.view.get(&claim_key(name)).unwrap().value();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&value["status"]["phase"]), text(&value["spec"]["volumeName"]))
}

fn message(world: &World, key: &Key) -> String {
    world.condition(key)["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn what_is_wrong_with_a_claim_is_told_of_the_pod_and_not_of_its_nodes() {
    // SCH-01, VOL-02
    let help = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    let mut going = bound(claim("c", "now", "1Gi", &["ReadWriteOnce"]), "v");
    going["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z");
    let mut lost = bound(claim("c", "now", "1Gi", &["ReadWriteOnce"]), "v");
    lost["status"]["phase"] = json!("Lost");
    let mut stated = claim("c", "later", "1Gi", &["ReadWriteOnce"]);
    stated["spec"]["volumeName"] = json!("v");
    for (claim, words) in [
        (None, "persistentvolumeclaim \"c\" not found"),
        (Some(claim("c", "now", "1Gi", &["ReadWriteOnce"])), "pod has unbound immediate PersistentVolumeClaims"),
        (Some(claim("c", "", "1Gi", &["ReadWriteOnce"])), "pod has unbound immediate PersistentVolumeClaims"),
        (Some(claim("c", "none", "1Gi", &["ReadWriteOnce"])), "pod has unbound immediate PersistentVolumeClaims"),
        // A user has said which volume it is to be, so it does not wait for a pod.
        (Some(stated), "pod has unbound immediate PersistentVolumeClaims"),
        (Some(going), "persistentvolumeclaim \"c\" is being deleted"),
        (Some(lost), "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\""),
    ] {
        let mut world = cluster(&["a", "b"]);
        if let Some(claim) = claim {
            world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim);
        }
        let key = world.put(Kind::POD, using("p", &["c"]));
        world.settle();
        assert_eq!(message(&world, &key), format!("0/2 nodes are available: {words}. {help}"));
        assert_eq!(refusals(&world.explain(&key), "a"), [format!("VolumeBinding: {words}")]);
    }
}

#[test]
fn a_volume_may_name_its_zone_in_labels() {
    // SCH-01
    const ELSEWHERE: &str = "VolumeZone: node(s) had no available volume zone";
    const ZONE: &str = "topology.kubernetes.io/zone";
    const BEFORE: &str = "failure-domain.beta.kubernetes.io/zone";
    const REGION: &str = "topology.kubernetes.io/region";
    for (labels, allowed) in [
        (json!({ZONE: "z1"}), ["in-z1", "nowhere"].as_slice()),
        (json!({BEFORE: "z2"}), &["in-z2", "nowhere"]),
        (json!({ZONE: "z1__z2"}), &["in-z1", "in-z2", "nowhere"]),
        (json!({ZONE: "z1", REGION: "r"}), &["nowhere"]),
        (json!({REGION: "r"}), &["in-r", "nowhere"]),
        (json!({"zone": "z1"}), &["in-z1", "in-z2", "in-r", "nowhere"]),
    ] {
        let mut world = cluster(&["nowhere"]);
        for (name, key, value) in [("in-z1", ZONE, "z1"), ("in-z2", ZONE, "z2"), ("in-r", REGION, "r")] {
            let mut node = node(name, "8", "8Gi");
            node["metadata"]["labels"][key] = json!(value);
            world.put(Kind::NODE, node);
        }
        let mut there = volume("v", "now", "1Gi", &["ReadWriteOnce"], &[]);
        there["metadata"]["labels"] = labels.clone();
        world.put(Kind::PERSISTENT_VOLUME, there);
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, bound(claim("c", "now", "1Gi", &["ReadWriteOnce"]), "v"));
        let key = world.put(Kind::POD, using("p", &["c"]));
        let explanation = world.explain(&key);
        for node in ["in-z1", "in-z2", "in-r", "nowhere"] {
            let expected = if allowed.contains(&node) { Vec::new() } else { vec![ELSEWHERE.to_owned()] };
            assert_eq!(refusals(&explanation, node), expected, "{labels} and {node}");
        }
    }
}

#[test]
fn a_pod_goes_where_the_volumes_of_its_claims_are() {
    // SCH-01, VOL-02
    let mut world = cluster(&["a", "b", "c"]);
    world.put(Kind::PERSISTENT_VOLUME, volume("on-b", "now", "1Gi", &["ReadWriteOnce"], &["b"]));
    world.put(Kind::PERSISTENT_VOLUME, volume("on-bc", "now", "2Gi", &["ReadWriteOnce"], &["b", "c"]));
    world.put(Kind::PERSISTENT_VOLUME, volume("on-c", "now", "3Gi", &["ReadWriteOnce"], &["c"]));
    for (name, volume) in [("one", "on-b"), ("two", "on-bc"), ("three", "on-c"), ("four", "gone")] {
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, bound(claim(name, "now", "1Gi", &["ReadWriteOnce"]), volume));
    }
    let gone = "VolumeBinding: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    for (claims, want) in [
        (&["one"][..], [vec![AFFINITY], vec![], vec![AFFINITY]]),
        (&["two"], [vec![AFFINITY], vec![], vec![]]),
        (&["one", "two"], [vec![AFFINITY], vec![], vec![AFFINITY]]),
        (&["one", "three"], [vec![AFFINITY], vec![AFFINITY], vec![AFFINITY]]),
        (&["four"], [vec![gone], vec![gone], vec![gone]]),
        (&["one", "four"], [vec![AFFINITY, gone], vec![gone], vec![AFFINITY, gone]]),
    ] {
        let key = world.put(Kind::POD, using("p", claims));
        let explanation = world.explain(&key);
        assert_eq!(["a", "b", "c"].map(|node| refusals(&explanation, node)), want, "{claims:?}");
        world.delete(&key);
    }
    let key = world.put(Kind::POD, using("p", &["one", "three"]));
    world.settle();
    assert_eq!(
        message(&world, &key),
        "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity. preemption: 0/3 nodes are \
         available: 3 Preemption is not helpful for scheduling."
    );
}

#[test]
fn a_claim_that_waits_for_its_pod_makes_nodes_feasible_that_have_a_volume_for_it() {
    // VOL-02
    let once = &["ReadWriteOnce"][..];
    let mut selecting = claim("c", "later", "1Gi", once);
    selecting["spec"]["selector"] = json!({"matchLabels": {"disk": "ssd"}});
    let mut block = claim("c", "later", "1Gi", once);
    block["spec"]["volumeMode"] = json!("Block");
    let mut beta = claim("c", "other", "1Gi", once);
    beta["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "later"});
    for (claim, feasible) in [
        (claim("c", "later", "1Gi", once), true),
        (claim("c", "later", "2Gi", once), true),
        (claim("c", "later", "2049Mi", once), false),
        (claim("c", "later", "1Gi", &["ReadOnlyMany"]), true),
        (claim("c", "later", "1Gi", &["ReadWriteOnce", "ReadOnlyMany"]), true),
        (claim("c", "later", "1Gi", &["ReadWriteMany"]), false),
        (claim("c", "later", "1Gi", &["ReadWriteOnce", "ReadWriteMany"]), false),
        (selecting, false),
        (block, false),
        (beta, true),
    ] {
        let mut world = cluster(&["a", "b"]);
        let two = ["ReadWriteOnce", "ReadOnlyMany"];
        world.put(Kind::PERSISTENT_VOLUME, volume("v", "later", "2Gi", &two, &["b"]));
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim.clone());
        let key = world.put(Kind::POD, using("p", &["c"]));
        let explanation = world.explain(&key);
        let on_b = if feasible { vec![] } else { vec![NONE_TO_BIND] };
        assert_eq!(refusals(&explanation, "a"), [NONE_TO_BIND], "{claim}");
        assert_eq!(refusals(&explanation, "b"), on_b, "{claim}");
    }
}

#[test]
fn volumes_that_are_not_free_are_not_found() {
    // VOL-02
    let free = || volume("v", "later", "2Gi", &["ReadWriteOnce"], &[]);
    let with = |edit: fn(&mut Value)| {
        let mut value = free();
        edit(&mut value);
        value
    };
    for (value, feasible) in [
        (free(), true),
        (with(|value| value["status"]["phase"] = json!("Released")), false),
        (with(|value| value["status"] = json!({})), false),
        (with(|value| value["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z")), false),
        (with(|value| value["spec"]["claimRef"] = json!({"namespace": "default", "name": "other"})), false),
        (with(|value| value["spec"]["storageClassName"] = json!("now")), false),
        // Terms that match nothing, and one that is not about a label.
        (with(|value| value["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": []}})), false),
        (
            with(|value| {
                value["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["b"]}]}]}});
            }),
            true,
        ),
    ] {
        let mut world = cluster(&["a"]);
        world.put(Kind::PERSISTENT_VOLUME, value.clone());
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("c", "later", "1Gi", &["ReadWriteOnce"]));
        let key = world.put(Kind::POD, using("p", &["c"]));
        world.settle();
        assert_eq!(world.node_of(&key).is_some(), feasible, "{value}");
    }
}

#[test]
fn the_smallest_volumes_that_fit_are_bound_and_the_pod_goes_there() {
    // VOL-02
    let mut world = cluster(&["a", "b"]);
    for (name, size, host) in [("a1", "1Gi", "a"), ("b5", "5Gi", "b"), ("b2", "2Gi", "b"), ("b3", "3Gi", "b")] {
        world.put(Kind::PERSISTENT_VOLUME, volume(name, "later", size, &["ReadWriteOnce"], &[host]));
    }
    for (name, size) in [("small", "1Gi"), ("large", "2Gi")] {
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim(name, "later", size, &["ReadWriteOnce"]));
    }
    let key = world.put(Kind::POD, using("p", &["large", "small"]));
    run(&mut world);
    // `a` has a volume for one of them only.
    assert_eq!(world.node_of(&key).as_deref(), Some("b"));
    let state = |name: &str| claim_state(&world, name);
    assert_eq!(state("small"), ("Bound".to_owned(), "b2".to_owned()));
    assert_eq!(state("large"), ("Bound".to_owned(), "b3".to_owned()));
    let small = world.view.get(&volume_key("b2")).unwrap().value();
    assert_eq!(small["status"]["phase"], "Bound");
    assert_eq!(small["spec"]["claimRef"]["name"], "small");
    let untouched = world.view.get(&volume_key("b5")).unwrap().value();
    assert_eq!((&untouched["status"]["phase"], &untouched["spec"]["claimRef"]), (&json!("Available"), &Value::Null));

    // Later pods of the claim follow the volume.
    world.delete(&key);
    let next = world.put(Kind::POD, using("next", &["small"]));
    run(&mut world);
    assert_eq!(world.node_of(&next).as_deref(), Some("b"));
}

#[test]
fn pods_that_share_a_claim_get_one_volume() {
    // VOL-02: before the claim was told of the volume that the first pod had set aside, the second set another one aside.
    let mut world = cluster(&["a", "b"]);
    for (name, host) in [("v", "a"), ("w", "b")] {
        world.put(Kind::PERSISTENT_VOLUME, volume(name, "later", "1Gi", &["ReadWriteMany"], &[host]));
    }
    world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("c", "later", "1Gi", &["ReadWriteMany"]));
    let first = world.put(Kind::POD, using("first", &["c"]));
    world.settle();
    let place = world.node_of(&first);
    let mut value = using("second", &["c"]);
    value["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([{
        "weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}}]);
    let second = world.put(Kind::POD, value);
    world.settle();
    assert_eq!(world.node_of(&second), place);
    let is_free = |name: &&&str| world.view.get(&volume_key(name)).unwrap().value()["spec"]["claimRef"].is_null();
    assert_eq!(["v", "w"].iter().filter(is_free).count(), 1);
    run(&mut world);
    assert_eq!(claim_state(&world, "c").0, "Bound");
}

#[test]
fn a_volume_that_a_user_has_set_aside_is_the_one_that_its_claim_gets() {
    // VOL-02: it was found by nobody until the claim had been told of it.
    let mut world = cluster(&["a", "b"]);
    let mut reserved = volume("v", "later", "3Gi", &["ReadWriteOnce"], &["b"]);
    reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": "c"});
    world.put(Kind::PERSISTENT_VOLUME, reserved);
    world.put(Kind::PERSISTENT_VOLUME, volume("w", "later", "1Gi", &["ReadWriteOnce"], &[]));
    world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("c", "later", "1Gi", &["ReadWriteOnce"]));
    let key = world.put(Kind::POD, using("p", &["c"]));
    let explanation = world.explain(&key);
    assert_eq!(["a", "b"].map(|node| refusals(&explanation, node)), [vec![NONE_TO_BIND], vec![]]);
    run(&mut world);
    assert_eq!(world.node_of(&key).as_deref(), Some("b"));
    assert_eq!(claim_state(&world, "c"), ("Bound".to_owned(), "v".to_owned()));
}

#[test]
fn two_pods_never_get_one_volume() {
    // VOL-02
    let mut world = cluster(&["a", "b"]);
    world.put(Kind::PERSISTENT_VOLUME, volume("v", "later", "1Gi", &["ReadWriteOnce"], &[]));
    let mut keys = Vec::new();
    for name in ["one", "two"] {
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim(name, "later", "1Gi", &["ReadWriteOnce"]));
        keys.push(world.put(Kind::POD, using(name, &[name])));
    }
    run(&mut world);
    assert_eq!((world.node_of(&keys[0]).is_some(), world.node_of(&keys[1])), (true, None));
    assert_eq!(
        message(&world, &keys[1]),
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. preemption: 0/2 nodes are \
         available: 2 Preemption is not helpful for scheduling."
    );
    assert_eq!(claim_state(&world, "two"), ("Pending".to_owned(), String::new()));
    // A volume that appears wakes the pod that waits for it.
    world.put(Kind::PERSISTENT_VOLUME, volume("w", "later", "1Gi", &["ReadWriteOnce"], &["b"]));
    world.now.mono = world.scheduler.wake_at().unwrap();
    run(&mut world);
    assert_eq!(world.node_of(&keys[1]).as_deref(), Some("b"));
    assert_eq!(claim_state(&world, "two"), ("Bound".to_owned(), "w".to_owned()));
}

#[test]
fn a_pod_wakes_when_its_claim_is_there_or_bound_and_others_do_not() {
    // SCH-04, VOL-02
    let mut world = cluster(&["a"]);
    let key = world.put(Kind::POD, using("p", &["c"]));
    let other = world.put(Kind::POD, using("other", &["d"]));
    world.settle();
    assert!(message(&world, &key).contains("\"c\" not found") && message(&world, &other).contains("\"d\" not found"));
    let notes = world.notes.len();
    world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("c", "now", "1Gi", &["ReadWriteOnce"]));
    world.wake();
    assert_eq!(world.notes.len(), notes + 1, "only the pod that names the claim is tried again");
    assert!(message(&world, &key).contains("unbound immediate"));
    world.put(Kind::PERSISTENT_VOLUME, volume("v", "now", "1Gi", &["ReadWriteOnce"], &[]));
    run(&mut world);
    world.now.mono = world.scheduler.wake_at().unwrap();
    run(&mut world);
    assert_eq!(world.node_of(&key).as_deref(), Some("a"));
    assert_eq!(world.node_of(&other), None);
}

#[test]
fn a_class_that_turns_up_late_wakes_the_pods_of_its_claims() {
    // SCH-04, VOL-02
    let mut world = cluster(&["a"]);
    world.put(Kind::PERSISTENT_VOLUME, volume("v", "fast", "1Gi", &["ReadWriteOnce"], &[]));
    world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("c", "fast", "1Gi", &["ReadWriteOnce"]));
    let key = world.put(Kind::POD, using("p", &["c"]));
    world.settle();
    assert!(message(&world, &key).contains("unbound immediate"));
    world.put(Kind::STORAGE_CLASS, class("fast", "WaitForFirstConsumer"));
    world.wake();
    assert_eq!(world.node_of(&key).as_deref(), Some("a"));
}

#[test]
fn a_claim_for_one_pod_has_one_pod() {
    // SCH-01
    let mut world = cluster(&["a", "b"]);
    world.put(Kind::PERSISTENT_VOLUME, volume("v", "now", "1Gi", &["ReadWriteOncePod"], &[]));
    let only = bound(claim("c", "now", "1Gi", &["ReadWriteOncePod"]), "v");
    world.put(Kind::PERSISTENT_VOLUME_CLAIM, only);
    let first = world.put(Kind::POD, using("first", &["c"]));
    let second = world.put(Kind::POD, using("second", &["c"]));
    world.settle();
    assert_eq!((world.node_of(&first).is_some(), world.node_of(&second)), (true, None));
    let explanation = world.explain(&second);
    assert_eq!(["a", "b"].map(|node| refusals(&explanation, node)), [[IN_USE], [IN_USE]]);
    // The one that has it is not in its own way.
    let pod = world.view.get(&first).cloned().unwrap();
    let placement = world.scheduler.placement(&world.view, &pod, &Detail::default());
    assert_eq!(placement.chosen_node, world.node_of(&first));
    assert_eq!(refusals(&world.explain(&second), "a"), [IN_USE]);
    world.delete(&first);
    world.wake();
    assert!(world.node_of(&second).is_some());
}

#[test]
fn pods_on_a_node_that_is_gone_use_no_claim() {
    // SCH-01, SCH-04: they kept a claim for one pod from every other pod, as long as their objects were there.
    let mut world = cluster(&["a", "b"]);
    world.put(Kind::PERSISTENT_VOLUME, volume("v", "now", "1Gi", &["ReadWriteOncePod"], &[]));
    world.put(Kind::PERSISTENT_VOLUME_CLAIM, bound(claim("c", "now", "1Gi", &["ReadWriteOncePod"]), "v"));
    let first = world.put(Kind::POD, using("first", &["c"]));
    world.settle();
    let second = world.put(Kind::POD, using("second", &["c"]));
    world.settle();
    assert_eq!(world.node_of(&second), None);
    let gone = world.node_of(&first).unwrap();
    world.delete(&Key::new(Kind::NODE, "", &gone));
    world.wake_all();
    let left = if gone == "a" { "b" } else { "a" };
    assert_eq!(world.node_of(&second).as_deref(), Some(left));
}

#[test]
fn of_several_wrong_claims_the_first_is_told_whatever_was_asked_before() {
    // SCH-06: it was the one that had been heard of first, or one that was only not bound yet.
    for before in [vec!["none", "unbound"], vec!["unbound", "none"]] {
        let mut world = cluster(&["a"]);
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("unbound", "now", "1Gi", &["ReadWriteOnce"]));
        let first = world.put(Kind::POD, using("first", &before));
        for (index, claims) in [["unbound", "none"], ["none", "unbound"]].iter().enumerate() {
            let key = world.put(Kind::POD, using(&format!("p{index}"), claims));
            let told = refusals(&world.explain(&key), "a");
            assert_eq!(told, ["VolumeBinding: persistentvolumeclaim \"none\" not found"], "{before:?} {claims:?}");
        }
        world.delete(&first);
    }
}

#[test]
fn a_pod_of_higher_priority_takes_a_claim_for_one_pod_over() {
    // PRI-04: Kubernetes counts this refusal among those that preemption can resolve.
    let mut world = cluster(&["a", "b"]);
    world.put(Kind::PERSISTENT_VOLUME, volume("v", "now", "1Gi", &["ReadWriteOncePod"], &[]));
    world.put(Kind::PERSISTENT_VOLUME_CLAIM, bound(claim("c", "now", "1Gi", &["ReadWriteOncePod"]), "v"));
    let low = world.put(Kind::POD, using("low", &["c"]));
    world.settle();
    let place = world.node_of(&low).unwrap();
    let mut high = using("high", &["c"]);
    high["spec"]["priority"] = json!(1000);
    let high = world.put(Kind::POD, high);
    world.settle();
    assert!(world.view.get(&low).unwrap().is_deleting());
    assert_eq!(world.view.get(&high).unwrap().value()["status"]["nominatedNodeName"], json!(place));
    world.delete(&low);
    world.wake();
    assert_eq!(world.node_of(&high), Some(place));
}

#[test]
fn a_volume_for_one_node_keeps_its_pods_together_while_it_is_in_use() {
    // SCH-01
    let mut local = volume("local", "now", "1Gi", &["ReadWriteOnce"], &["a", "b"]);
    local["spec"]["local"] = local["spec"]["hostPath"].take();
    for (volume, keeps) in [
        (volume("v", "now", "1Gi", &["ReadWriteOnce"], &[]), true),
        (volume("v", "now", "1Gi", &["ReadWriteOnce"], &["a", "b"]), true),
        (volume("v", "now", "1Gi", &["ReadWriteOnce", "ReadOnlyMany"], &[]), false),
        (volume("v", "now", "1Gi", &["ReadWriteMany"], &[]), false),
        // Which node it is on is said by its affinity.
        (local, false),
    ] {
        // Enough nodes that what was found of them is kept.
        let mut world = cluster(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
        let name = volume["metadata"]["name"].as_str().unwrap().to_owned();
        world.put(Kind::PERSISTENT_VOLUME, volume.clone());
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, bound(claim("c", "now", "1Gi", &["ReadWriteOnce"]), &name));
        let first = world.put(Kind::POD, using("first", &["c"]));
        world.settle();
        let place = world.node_of(&first).unwrap();
        let other = if place == "a" { "b" } else { "a" };
        let second = world.put(Kind::POD, using("second", &["c"]));
        let explanation = world.explain(&second);
        assert!(refusals(&explanation, &place).is_empty(), "{volume}");
        assert_eq!(refusals(&explanation, other), if keeps { vec![ATTACHED] } else { vec![] }, "{volume}");
        world.delete(&second);
        // Once nobody uses it, it may be used anywhere.
        world.delete(&first);
        let third = world.put(Kind::POD, using("third", &["c"]));
        assert!(refusals(&world.explain(&third), other).is_empty());
    }
}

#[test]
fn pods_without_claims_are_asked_the_same_whatever_becomes_of_storage() {
    let mut world = cluster(&["a"]);
    let first = world.put(Kind::POD, pod("first", json!({})));
    let number = |world: &World, key: &Key| world.scheduler.pods[key].seen.asked.number;
    let before = number(&world, &first);
    world.put(Kind::PERSISTENT_VOLUME, volume("v", "later", "1Gi", &["ReadWriteOnce"], &[]));
    world.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("c", "later", "1Gi", &["ReadWriteOnce"]));
    let second = world.put(Kind::POD, pod("second", json!({})));
    assert_eq!((number(&world, &first), number(&world, &second)), (before, before));
}

#[test]
fn claims_and_volumes_that_make_no_sense_stop_nobody() {
    let mut world = cluster(&["a"]);
    for (index, spec) in [
        json!({}),
        json!({"capacity": {"storage": "much"}, "accessModes": "ReadWriteOnce", "claimRef": "x"}),
        json!({"capacity": 7, "nodeAffinity": {"required": {"nodeSelectorTerms": "none"}}, "storageClassName": 3}),
        json!({"capacity": {"storage": "-5Gi"}, "claimRef": {"name": 5, "uid": "no uid"}}),
    ]
    .into_iter()
    .enumerate()
    {
        let value = json!({"metadata": {"name": format!("v{index}")}, "spec": spec, "status": {"phase": "Available"}});
        world.put(Kind::PERSISTENT_VOLUME, value);
    }
    for (index, spec) in [
        json!({}),
        json!({"storageClassName": "later", "selector": {"matchLabels": 5}, "resources": "all"}),
        json!({"storageClassName": "later", "volumeName": 5, "accessModes": [null, 1]}),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("c{index}");
        world.put(Kind::PERSISTENT_VOLUME_CLAIM, json!({"metadata": {"name": name}, "spec": spec}));
        world.put(Kind::POD, using(&format!("p{index}"), &[&name]));
    }
    world.put(Kind::POD, pod("odd", json!({"volumes": [{"persistentVolumeClaim": {"claimName": 5}}, 7, null]})));
    world.put(Kind::POD, using("long", &["x".repeat(10_000).as_str()]));
    let plain = world.put(Kind::POD, pod("plain", json!({})));
    run(&mut world);
    assert_eq!(world.node_of(&plain).as_deref(), Some("a"));
}
