use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Key;
use crate::plan::{Propagation, Write};
use crate::reconcile::conditions;
use crate::reconcile::fixtures::pod;
use crate::reconcile::harness::Cluster;

use super::{NOT_READY, UNREACHABLE};

fn node(name: &str) -> Key {
    Key::new(Kind::NODE, "", name)
}

fn pod_key(name: &str) -> Key {
    Key::new(Kind::POD, "default", name)
}

fn condition(cluster: &Cluster, key: &Key, kind: &str) -> Value {
    conditions::get(&cluster.status(key), kind).cloned().unwrap_or_default()
}

/// Taints as `key:effect`.
fn taints(cluster: &Cluster, name: &str) -> Vec<String> {
    let node = cluster.object(&node(name));
    let row = node.row.node().expect("a node");
    row.taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

/// Says that a node is ready, or not.
fn report(cluster: &mut Cluster, name: &str, ready: &str) {
    let object = cluster.object(&node(name));
    let mut status = object.value()["status"].take();
    conditions::put(&mut status, json!({"type": "Ready", "status": ready, "reason": "KubeletReady"}));
    cluster.write(Write::Status { key: object.key.clone(), expected: object.revision, status }).expect("a status");
    cluster.settle();
}

/// A patient pod and one for ever, both on `n1`.
fn two_pods() -> Cluster {
    let mut cluster = Cluster::new(&["n1"]);
    let patient = pod("patient").on("n1").tolerates(NOT_READY, Some(300)).tolerates(UNREACHABLE, Some(300));
    cluster.create(patient.build());
    cluster.create(pod("stoic").on("n1").tolerates(UNREACHABLE, None).build());
    cluster.run();
    cluster.pass(5);
    cluster
}

// SAF-02, SAF-09
#[test]
fn a_silent_node_loses_its_pods_after_the_tolerated_time() {
    let mut cluster = two_pods();
    cluster.silent.insert("n1".to_owned());
    cluster.pass(41);
    let ready = condition(&cluster, &node("n1"), "Ready");
    assert_eq!((ready["status"].as_str(), ready["reason"].as_str()), (Some("Unknown"), Some("NodeStatusUnknown")));
    assert_eq!(ready["message"], "Kubelet stopped posting node status.");
    let expected = ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"];
    assert_eq!(taints(&cluster, "n1"), expected);
    for name in ["patient", "stoic"] {
        let ready = condition(&cluster, &pod_key(name), "Ready");
        assert_eq!((ready["status"].as_str(), ready["reason"].as_str()), (Some("False"), Some("NodeNotReady")));
        assert_eq!(cluster.status(&pod_key(name))["phase"], "Running");
    }
    assert!(cluster.take_events("NodeNotReady").contains(&"Node n1 status is now: NodeNotReady".to_owned()));
    cluster.pass(295);
    assert!(!cluster.object(&pod_key("patient")).is_deleting());
    cluster.pass(10);
    let patient = cluster.object(&pod_key("patient"));
    assert!(patient.is_deleting());
    assert_eq!(condition(&cluster, &patient.key, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    let status = cluster.status(&patient.key);
    assert_eq!((status["reason"].as_str(), status["phase"].as_str()), (Some("NodeLost"), Some("Running")));
    assert_eq!(status["message"], "Node n1 which was running pod patient is unresponsive");
    assert_eq!(cluster.take_events("TaintManagerEviction"), ["Marking for deletion Pod default/patient"]);
    // SAF-01: it stays until its agent says that it has ended; nobody touches the other one.
    cluster.pass(3600);
    assert!(cluster.has(&pod_key("patient")));
    assert!(!cluster.object(&pod_key("stoic")).is_deleting());
}

// SAF-02
#[test]
fn a_node_that_is_heard_again_in_time_keeps_its_pods() {
    let mut cluster = two_pods();
    cluster.silent.insert("n1".to_owned());
    cluster.pass(200);
    cluster.silent.clear();
    cluster.pass(1);
    report(&mut cluster, "n1", "True");
    cluster.run();
    cluster.pass(600);
    assert_eq!(taints(&cluster, "n1"), [""; 0]);
    assert!(!cluster.object(&pod_key("patient")).is_deleting());
    assert_eq!(condition(&cluster, &pod_key("patient"), "Ready")["status"], "True");
}

// SAF-02
#[test]
fn after_a_restart_of_the_controller_every_node_has_its_full_time() {
    let mut cluster = two_pods();
    cluster.silent.insert("n1".to_owned());
    cluster.pass(100);
    // The controller is away for an hour and starts again: the leases are new, the steady clock goes on.
    cluster.now.wall_ms += 3_600_000;
    cluster.now.mono = cluster.now.mono + 3_600_000;
    cluster.leases = crate::nodes::leases::Leases::new(cluster.now.mono);
    cluster.pass(290);
    assert!(!cluster.object(&pod_key("patient")).is_deleting());
    cluster.pass(20);
    assert!(cluster.object(&pod_key("patient")).is_deleting());
}

// SAF-02
#[test]
fn a_wall_clock_that_jumps_neither_evicts_nor_keeps_anybody() {
    for jump_ms in [3_600_000, -3_600_000] {
        let mut cluster = two_pods();
        cluster.silent.insert("n1".to_owned());
        cluster.pass(100);
        cluster.now.wall_ms = cluster.now.wall_ms.saturating_add_signed(jump_ms);
        cluster.pass(190);
        assert!(!cluster.object(&pod_key("patient")).is_deleting(), "{jump_ms}");
        cluster.pass(60);
        assert!(cluster.object(&pod_key("patient")).is_deleting(), "{jump_ms}");
    }
}

// SAF-02
#[test]
fn a_node_goes_silent_also_after_the_wall_clock_was_set_back() {
    let mut cluster = two_pods();
    cluster.now.wall_ms -= 3_600_000;
    cluster.pass(20);
    assert_eq!(condition(&cluster, &node("n1"), "Ready")["status"], "True");
    cluster.silent.insert("n1".to_owned());
    cluster.pass(60);
    assert_eq!(condition(&cluster, &node("n1"), "Ready")["status"], "Unknown");
}

#[test]
fn a_node_that_says_it_is_not_ready_is_tainted_so() {
    let mut cluster = Cluster::new(&["n1"]);
    report(&mut cluster, "n1", "False");
    let expected = ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"];
    assert_eq!(taints(&cluster, "n1"), expected);
    report(&mut cluster, "n1", "True");
    assert_eq!(taints(&cluster, "n1"), [""; 0]);
}

#[test]
fn a_node_that_was_never_heard_is_given_no_pods_and_then_given_up() {
    let mut cluster = Cluster::new(&[]);
    cluster.silent.insert("n1".to_owned());
    cluster.pass(3600);
    cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {}}));
    assert_eq!(taints(&cluster, "n1"), ["node.kubernetes.io/not-ready:NoSchedule"]);
    cluster.pass(41);
    let ready = condition(&cluster, &node("n1"), "Ready");
    assert_eq!((ready["status"].as_str(), ready["reason"].as_str()), (Some("Unknown"), Some("NodeStatusNeverUpdated")));
    let expected = ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"];
    assert_eq!(taints(&cluster, "n1"), expected);
}

#[test]
fn a_cordoned_node_is_tainted_and_other_peoples_taints_stay() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.edit(&node("n1"), |value| {
        value["spec"] = json!({"unschedulable": true, "taints": [{"key": "mine", "effect": "NoSchedule"}]});
    });
    assert_eq!(taints(&cluster, "n1"), ["mine:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"]);
    cluster.edit(&node("n1"), |value| value["spec"]["unschedulable"] = json!(false));
    assert_eq!(taints(&cluster, "n1"), ["mine:NoSchedule"]);
}

#[test]
fn a_users_no_execute_taint_counts_from_when_it_was_seen() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(pod("brief").on("n1").tolerates("maker", Some(60)).build());
    cluster.create(pod("averse").on("n1").build());
    cluster.run();
    cluster.pass(1000);
    cluster.edit(&node("n1"), |value| value["spec"]["taints"] = json!([{"key": "maker", "effect": "NoExecute"}]));
    assert!(cluster.object(&pod_key("averse")).is_deleting());
    cluster.pass(55);
    assert!(!cluster.object(&pod_key("brief")).is_deleting());
    cluster.pass(6);
    assert!(cluster.object(&pod_key("brief")).is_deleting());
}

// SAF-03, GC-02
#[test]
fn deleting_the_node_says_that_its_pods_are_gone() {
    let mut cluster = two_pods();
    cluster.silent.insert("n1".to_owned());
    cluster.pass(60);
    cluster.delete(&node("n1"), Propagation::Background);
    assert_eq!(cluster.all(Kind::POD).len(), 0);
}

// GC-02
#[test]
fn a_pod_for_a_node_that_never_joins_is_removed_after_a_while() {
    let mut cluster = Cluster::new(&[]);
    cluster.create(pod("early").on("nowhere").build());
    cluster.pass(30);
    assert!(cluster.has(&pod_key("early")));
    cluster.pass(15);
    assert!(!cluster.has(&pod_key("early")));
}

// SAF-03, GC-02
#[test]
fn a_node_out_of_service_gives_up_the_pods_that_are_to_go() {
    let mut cluster = two_pods();
    cluster.silent.insert("n1".to_owned());
    cluster.pass(60);
    cluster.delete(&pod_key("patient"), Propagation::Background);
    assert!(cluster.has(&pod_key("patient")));
    cluster.edit(&node("n1"), |value| {
        let taint =
            json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"});
        value["spec"]["taints"].as_array_mut().expect("taints").push(taint);
    });
    assert!(!cluster.has(&pod_key("patient")));
    assert!(cluster.has(&pod_key("stoic")));
}
