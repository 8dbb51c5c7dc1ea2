use coracle_model::Millis;
use serde_json::{Value, json};

use super::*;
use crate::clock::Now;
use crate::kind::Kind;
use crate::names::Names;
use crate::store::Change;
use crate::view::View;

/// A namespace's worth of objects, without reconcilers.
struct Cluster {
    view: View,
    names: Names,
    changes: Vec<Change>,
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self { view: View::default(), names: Names::new(1), changes: Vec::new() };
        cluster.create(Kind::NAMESPACE, json!({"metadata": {"name": "default"}}));
        cluster
    }

    fn writer(&mut self) -> Writer<'_> {
        let now = Now { wall_ms: 1_795_232_430_000, mono: Millis(0) };
        Writer { view: &mut self.view, names: &mut self.names, now, dry_run: false, changes: &mut self.changes }
    }

    fn create(&mut self, kind: Kind, value: Value) -> Key {
        let namespace = if kind.info().namespaced { "default" } else { "" };
        let written = self.writer().create(kind, namespace, value).expect("created");
        written.object().key.clone()
    }

    /// A pod on a node with the label `app: a`.
    fn pod(&mut self, name: &str, phase: &str, ready: bool) -> Key {
        let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i:1"}]});
        let key = self.create(Kind::POD, json!({"metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec}));
        let ready = if ready { "True" } else { "False" };
        let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": "2026-11-21T03:40:30Z"}]);
        let status = json!({"status": {"phase": phase, "conditions": conditions}});
        self.writer().status(&key, None, &status).expect("a status");
        key
    }

    fn budget(&mut self, name: &str, fields: Value) {
        let mut spec = json!({"selector": {"matchLabels": {"app": "a"}}});
        for (name, value) in fields.as_object().expect("fields") {
            spec[name] = value.clone();
        }
        self.create(Kind::POD_DISRUPTION_BUDGET, json!({"metadata": {"name": name}, "spec": spec}));
    }

    fn evict(&mut self, key: &Key) -> Result<Answer, ApiError> {
        self.evict_with(key, Value::Null)
    }

    fn evict_with(&mut self, key: &Key, options: Value) -> Result<Answer, ApiError> {
        let eviction = json!({"metadata": {"name": &*key.name}, "deleteOptions": options});
        evict(&mut self.writer(), key, &eviction)
    }

    fn pod_of(&self, key: &Key) -> Value {
        self.view.get(key).expect("a pod").value()
    }
}

// PDB-01
#[test]
fn an_eviction_is_a_graceful_deletion_that_says_why() {
    let mut cluster = Cluster::new();
    let pod = cluster.pod("p", "Running", true);
    let answer = cluster.evict(&pod).expect("evicted");
    assert!(matches!(answer.outcome, Outcome::Evicted));
    let value = cluster.pod_of(&pod);
    assert_eq!(value["metadata"]["deletionGracePeriodSeconds"], 30);
    let condition = &value["status"]["conditions"][1];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("DisruptionTarget"), &json!("EvictionByEvictionAPI"))
    );
    let short = cluster.pod("q", "Running", true);
    cluster.evict_with(&short, json!({"gracePeriodSeconds": 5})).expect("evicted");
    assert_eq!(cluster.pod_of(&short)["metadata"]["deletionGracePeriodSeconds"], 5);
}

// PDB-01
#[test]
fn a_budget_refuses_what_would_break_it_also_between_two_counts_of_its_status() {
    let mut cluster = Cluster::new();
    let pods: Vec<Key> = ["a", "b", "c"].iter().map(|name| cluster.pod(name, "Running", true)).collect();
    cluster.budget("two", json!({"minAvailable": 2}));
    cluster.evict(&pods[0]).expect("one more than needed");
    let error = cluster.evict(&pods[1]).expect_err("refused");
    assert_eq!((error.code, error.reason), (429, "TooManyRequests"));
    assert_eq!(error.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = json!([{"reason": "DisruptionBudget",
        "message": "The disruption budget two needs 2 healthy pods and has 2 currently"}]);
    assert_eq!(error.to_json()["details"]["causes"], cause);
    // One that is on its way out already is not asked for again.
    cluster.evict(&pods[0]).expect("evicted before");
    assert!(!cluster.view.get(&pods[1]).expect("a pod").is_deleting());
}

// PDB-01
#[test]
fn pods_that_count_for_nothing_may_go() {
    for (fields, phase, healthy, allowed) in [
        (json!({"minAvailable": 1}), "Pending", 0, true),
        (json!({"minAvailable": 1}), "Succeeded", 0, true),
        (json!({"minAvailable": 1}), "Running", 1, true),
        (json!({"minAvailable": 1}), "Running", 0, false),
        (json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}), "Running", 0, false),
        (json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}), "Running", 0, true),
    ] {
        let mut cluster = Cluster::new();
        cluster.budget("b", fields.clone());
        for number in 0..healthy {
            cluster.pod(&format!("h{number}"), "Running", true);
        }
        let pod = cluster.pod("p", phase, false);
        assert_eq!(cluster.evict(&pod).is_ok(), allowed, "{fields} {phase} {healthy}");
    }
}

// PDB-01
#[test]
fn evictions_that_make_no_sense_are_refused() {
    let mut cluster = Cluster::new();
    let pod = cluster.pod("p", "Running", true);
    let other = json!({"metadata": {"name": "q"}});
    assert_eq!(evict(&mut cluster.writer(), &pod, &other).expect_err("refused").code, 400);
    let nobody = Key::new(Kind::POD, "default", "nobody");
    assert_eq!(cluster.evict(&nobody).expect_err("refused").code, 404);
    for (options, code) in [
        (json!({"gracePeriodSeconds": "soon"}), 400),
        (json!({"preconditions": {"uid": "x"}}), 400),
        (json!({"preconditions": {"resourceVersion": "1"}}), 409),
    ] {
        assert_eq!(cluster.evict_with(&pod, options).expect_err("refused").code, code);
    }
    cluster.budget("one", json!({"maxUnavailable": 1}));
    let message = cluster.evict(&pod).expect_err("nothing controls the pod, so nothing is expected").message;
    assert_eq!(message, "Cannot evict pod as it would violate the pod's disruption budget.");
    cluster.budget("two", json!({"minAvailable": 0}));
    let error = cluster.evict(&pod).expect_err("two budgets");
    assert!(error.code == 500 && error.message.starts_with("This pod has more than one PodDisruptionBudget"));
    cluster.evict_with(&pod, json!({"dryRun": ["All"]})).expect_err("two budgets");
    assert!(!cluster.view.get(&pod).expect("a pod").is_deleting());
}
