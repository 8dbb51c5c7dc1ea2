//! Clusters that are broken on purpose: what must never be is found.

use std::sync::Arc;

use coracle_controller_core::request::{Answer, Outcome};
use coracle_controller_core::store::Action;
use coracle_controller_core::{Change, Kind, Object};
use serde_json::{Value, json};

use crate::checkers::{self, Judge};
use crate::promises::Promises;
use crate::rest;
use crate::world::World;

const UID: &str = "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11";

fn object(kind: Kind, revision: u64, value: Value) -> Arc<Object> {
    Arc::new(Object::from_value(kind, revision, value).expect("an object"))
}

fn pod(revision: u64, more: &Value) -> Arc<Object> {
    let mut value = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": UID},
        "spec": {"nodeName": "node-0", "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "600m"}}}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 2}]},
    });
    for (field, more) in more.as_object().into_iter().flatten() {
        for (name, inner) in more.as_object().into_iter().flatten() {
            value[field][name] = inner.clone();
        }
    }
    object(Kind::POD, revision, value)
}

fn change(object: Arc<Object>) -> Change {
    Change { revision: object.revision, action: Action::Modified, object, previous: None }
}

/// What the judge says of a second form of a pod that ran on node-0 after two restarts.
fn judged(revision: u64, more: &Value) -> String {
    let mut judge = Judge::default();
    judge.batch(&[change(pod(5, &json!({})))]).expect("the first form");
    judge.batch(&[change(pod(revision, more))]).expect_err("a violation")
}

#[test]
fn the_judge_finds_a_pod_that_goes_back() {
    // LIF-01, LIF-02, POD-02
    assert!(judged(6, &json!({"status": {"phase": "Pending"}})).contains("back to Pending"));
    assert!(judged(6, &json!({"spec": {"nodeName": "node-1"}})).contains("moved"));
    assert!(judged(6, &json!({"status": {"containerStatuses": []}})).contains("forgot restarts"));
    assert!(judged(5, &json!({})).contains("revision 5 after 5"));
    let mut judge = Judge::default();
    judge.batch(&[change(pod(5, &json!({"status": {"phase": "Succeeded"}})))]).expect("the first form");
    let failed = judge.batch(&[change(pod(6, &json!({"status": {"phase": "Failed"}})))]);
    assert!(failed.expect_err("a violation").contains("from Succeeded back to Failed"));
}

#[test]
fn a_node_that_is_promised_too_much_is_found() {
    // SCH-01
    let node = json!({
        "metadata": {"name": "node-0", "uid": "00000000-0000-4000-8000-000000000001"},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "20"}},
    });
    let second = json!({"metadata": {"name": "q", "uid": "00000000-0000-4000-8000-000000000002"}});
    let mut objects = vec![object(Kind::NODE, 1, node), pod(2, &json!({}))];
    let durable = |objects: &[Arc<Object>]| objects.iter().map(|it| (it.key.clone(), Arc::clone(it))).collect();
    assert_eq!(checkers::capacity(&durable(&objects)), Ok(()));
    objects.push(pod(3, &second));
    assert!(checkers::capacity(&durable(&objects)).expect_err("a violation").contains("promised 1200m"));
}

#[test]
fn a_pod_that_waits_while_there_is_room_is_no_rest() {
    let node = json!({
        "metadata": {"name": "node-0", "uid": "00000000-0000-4000-8000-000000000001"},
        "status": {
            "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "20"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    let waiting = |cpu: &str| {
        let containers = json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
        let object =
            pod(2, &json!({"spec": {"nodeName": null, "containers": containers}, "status": {"phase": "Pending"}}));
        let objects = [object, object_of(&node)];
        rest::unrest(&objects.into_iter().map(|it| (it.key.clone(), it)).collect(), &[])
    };
    assert_eq!(waiting("1001m"), Vec::<String>::new());
    assert_eq!(waiting("1000m"), ["pod p is still pending on None"]);
}

fn object_of(node: &Value) -> Arc<Object> {
    object(Kind::NODE, 1, node.clone())
}

#[test]
fn an_object_that_nobody_deleted_may_not_go() {
    let node = json!({"metadata": {"name": "node-0", "uid": "00000000-0000-4000-8000-000000000001"}});
    let durable = [object_of(&node)].map(|it| (it.key.clone(), it)).into_iter().collect();
    let gone = |more: &Value| {
        let mut promises = Promises::default();
        promises.answered(&Answer { outcome: Outcome::Created(pod(2, &json!({}))), warnings: Vec::new() });
        promises.batch(&[Change { action: Action::Deleted, ..change(pod(3, more)) }], &durable, &[])
    };
    assert!(gone(&json!({})).expect_err("a violation").contains("nobody deleted it"));
    // SAF-02, SAF-03
    assert_eq!(gone(&json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}})), Ok(()));
    assert_eq!(gone(&json!({"spec": {"nodeName": "node-that-was-deleted"}})), Ok(()));
}

#[test]
fn an_acknowledged_object_that_is_lost_is_found() {
    // SAF-01
    let mut trace = |_: &str| {};
    let mut world = World::new(3, &mut trace);
    for _ in 0..200 {
        world.step().expect("safe so far");
    }
    let lost = world.lose(Kind::DEPLOYMENT).expect("a deployment");
    let found = (0..2000).find_map(|_| world.step().err()).expect("a violation");
    assert!(found.what.contains(&format!("{lost:?} was acknowledged and is lost")), "{found}");
}
