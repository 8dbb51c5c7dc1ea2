//! Clusters that are broken on purpose: what must never be is found.

use std::sync::Arc;

use coracle_controller_core::request::{Answer, Outcome};
use coracle_controller_core::store::Action;
use coracle_controller_core::{Change, Kind, Object};
use serde_json::{Value, json};

use crate::checkers::{self, Judge};
use crate::promises::Promises;
use crate::rest;
use crate::scheduling::{LONGEST_WAIT_MS, SchedulingJudge};
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
    // Somebody may write the object anew before anybody looks, so not every run shows it.
    let shows = |seed: u64| {
        let mut trace = |_: &str| {};
        let mut world = World::new(seed, &mut trace);
        for _ in 0..200 {
            world.step().expect("safe so far");
        }
        let lost = world.lose(Kind::DEPLOYMENT)?;
        let found = (0..200).find_map(|_| world.step().err())?;
        Some(found.what.contains(&format!("{lost:?} was acknowledged and is lost")))
    };
    assert_eq!((0..8).find_map(shows), Some(true));
}

/// A node with a label, and room for one core and three pods.
fn roomy_node(more: &Value) -> Arc<Object> {
    let mut node = json!({
        "metadata": {"name": "node-0", "uid": "00000000-0000-4000-8000-000000000001", "labels": {"disk": "ssd"}},
        "spec": {}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "3"}},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        node["spec"][field] = value.clone();
    }
    object_of(&node)
}

fn waiting(uid: u64, name: &str, spec: &Value) -> Arc<Object> {
    let mut more = json!({
        "metadata": {"name": name, "uid": format!("00000000-0000-4000-8000-{uid:012}")},
        "spec": {"nodeName": null}, "status": {"phase": "Pending", "containerStatuses": null},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        more["spec"][field] = value.clone();
    }
    pod(2, &more)
}

/// What the judge says when this pod is bound to the node, on which another pod uses 600 thousandths.
fn bound(node: &Arc<Object>, spec: &Value) -> Result<(), String> {
    let mut judge = SchedulingJudge::default();
    let there = [Arc::clone(node), pod(2, &json!({}))];
    judge.started(&there.into_iter().map(|it| (it.key.clone(), it)).collect());
    let mut spec = spec.clone();
    spec["nodeName"] = json!("node-0");
    judge.batch(&[change(waiting(9, "new", &spec))])
}

#[test]
fn a_pod_that_is_bound_where_it_may_not_be_is_found() {
    // SCH-01, TSC-03
    let asks = |cpu: &str| json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
    let small = || json!({"containers": asks("400m")});
    let with = |field: &str, value: Value| {
        let mut spec = small();
        spec[field] = value;
        spec
    };
    let plain = roomy_node(&json!({}));
    assert_eq!(bound(&plain, &small()), Ok(()));
    let cordoned = roomy_node(&json!({"unschedulable": true}));
    let tainted = roomy_node(&json!({"taints": [{"key": "mine", "effect": "NoSchedule"}]}));
    let spread =
        json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]);
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "disk", "labelSelector": {"matchLabels": {"app": "none"}}}]}});
    for (node, spec, why) in [
        (&plain, json!({"containers": asks("401m")}), "of cpu"),
        (&cordoned, small(), "unschedulable"),
        (&tainted, small(), "a taint"),
        (&plain, with("nodeSelector", json!({"disk": "hdd"})), "does not select"),
        (&plain, with("topologySpreadConstraints", spread), "has no zone"),
        (&plain, with("affinity", affinity), "no pod is near"),
    ] {
        let found = bound(node, &spec).expect_err("a violation");
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn a_victim_that_goes_for_nobody_or_in_vain_is_found() {
    // PRI-05, PRI-07
    let judged = |priority: i64, cpu: &str| {
        let mut judge = SchedulingJudge::default();
        let there = [roomy_node(&json!({})), pod(2, &json!({}))];
        judge.started(&there.into_iter().map(|it| (it.key.clone(), it)).collect());
        let containers = json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
        let preemptor = waiting(9, "new", &json!({"containers": containers, "priority": priority}));
        let mut nominated = preemptor.value();
        nominated["status"]["nominatedNodeName"] = json!("node-0");
        let condition = json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]);
        let victim = pod(
            3,
            &json!({"metadata": {"deletionTimestamp": "2026-11-21T03:40:30Z"}, "status": {"conditions": condition}}),
        );
        judge.batch(&[change(victim), change(object(Kind::POD, 4, nominated))])
    };
    assert_eq!(judged(1, "500m"), Ok(()));
    assert!(judged(0, "500m").expect_err("a violation").contains("for nobody above it"));
    assert!(judged(1, "1001m").expect_err("a violation").contains("in vain"));
    assert!(judged(1, "400m").expect_err("a violation").contains("could have stayed"));
}

#[test]
fn a_pod_that_fits_and_waits_for_too_long_is_found() {
    // PRI-03, SCH-04
    let mut judge = SchedulingJudge::default();
    let there = [roomy_node(&json!({})), waiting(9, "new", &json!({}))];
    judge.started(&there.into_iter().map(|it| (it.key.clone(), it)).collect());
    assert_eq!(judge.waits(1_000, true, true), Ok(()));
    assert_eq!(judge.waits(1_000 + LONGEST_WAIT_MS, true, false), Ok(()));
    let found = judge.clone().waits(1_001 + LONGEST_WAIT_MS, true, false).expect_err("a violation");
    assert!(found.contains("new waits since 1000 ms and would fit on [\"node-0\"]"), "{found}");
    // Of a time in which nobody could decide, nothing is expected.
    assert_eq!(judge.waits(1_001 + LONGEST_WAIT_MS, false, false), Ok(()));
    assert_eq!(judge.waits(1_002 + LONGEST_WAIT_MS, true, true), Ok(()));
}
