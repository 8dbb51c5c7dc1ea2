use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Key;
use crate::plan::Propagation;
use crate::reconcile::fixtures::{daemon_set, deployment, pod, replica_set};
use crate::reconcile::harness::Cluster;

fn budget(app: &str, field: &str, value: Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, field: value},
    })
}

fn key() -> Key {
    Key::new(Kind::POD_DISRUPTION_BUDGET, "default", "b")
}

/// `[currentHealthy, desiredHealthy, expectedPods, disruptionsAllowed]`
fn counts(cluster: &Cluster) -> [i64; 4] {
    let status = cluster.status(&key());
    ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"]
        .map(|field| status[field].as_i64().unwrap_or(-1))
}

fn condition(cluster: &Cluster) -> (String, String) {
    let condition = cluster.status(&key())["conditions"][0].take();
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("type"), "DisruptionAllowed");
    (text("reason"), text("message"))
}

// PDB-01
#[test]
fn a_budget_counts_as_kubernetes_does() {
    for (field, value, replicas, expected) in [
        ("minAvailable", json!(2), 3, [3, 2, 3, 1]),
        ("minAvailable", json!(3), 3, [3, 3, 3, 0]),
        ("minAvailable", json!(5), 3, [3, 5, 3, 0]),
        ("minAvailable", json!("50%"), 5, [5, 3, 5, 2]),
        ("minAvailable", json!("100%"), 5, [5, 5, 5, 0]),
        ("maxUnavailable", json!(1), 3, [3, 2, 3, 1]),
        ("maxUnavailable", json!(9), 3, [3, 0, 3, 3]),
        ("maxUnavailable", json!("30%"), 5, [5, 3, 5, 2]),
        ("maxUnavailable", json!(0), 3, [3, 3, 3, 0]),
        ("unhealthyPodEvictionPolicy", json!("AlwaysAllow"), 3, [3, 0, 0, 0]),
    ] {
        for of in [replica_set("web", replicas), deployment("web", replicas)] {
            let mut cluster = Cluster::new(&["n1"]);
            cluster.create(of);
            cluster.create(budget("web", field, value.clone()));
            cluster.run();
            assert_eq!(counts(&cluster), expected, "{field} {value} of {replicas}");
            let reason = if expected[3] > 0 { "SufficientPods" } else { "InsufficientPods" };
            assert_eq!(condition(&cluster).0, reason);
            assert_eq!(cluster.status(&key())["observedGeneration"], 1);
        }
    }
}

// PDB-01
#[test]
fn the_status_follows_the_pods_and_the_size() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(budget("web", "maxUnavailable", json!(1)));
    assert_eq!(counts(&cluster), [0, 0, 0, 0]);
    assert_eq!(cluster.take_events("NoPods"), ["No matching pods found"]);
    cluster.create(replica_set("web", 3));
    // As many are expected as the set wants, from the first pod on.
    assert_eq!(counts(&cluster), [0, 2, 3, 0]);
    cluster.run();
    assert_eq!(counts(&cluster), [3, 2, 3, 1]);
    cluster.silent.insert("n1".to_owned());
    let first = cluster.all(Kind::POD)[0].key.clone();
    cluster.delete(&first, Propagation::Background);
    assert_eq!(counts(&cluster), [2, 2, 3, 0]);
    assert_eq!(condition(&cluster).0, "InsufficientPods");
    cluster.silent.clear();
    cluster.run();
    assert_eq!(counts(&cluster), [3, 2, 3, 1]);
    let set = Key::new(Kind::REPLICA_SET, "default", "web");
    cluster.edit(&set, |set| set["spec"]["replicas"] = json!(5));
    assert_eq!(counts(&cluster), [3, 4, 5, 0]);
    cluster.run();
    assert_eq!(counts(&cluster), [5, 4, 5, 1]);
    cluster.edit(&key(), |budget| budget["spec"]["maxUnavailable"] = json!(2));
    assert_eq!((counts(&cluster)[3], cluster.status(&key())["observedGeneration"].as_i64()), (2, Some(2)));
}

// PDB-01
#[test]
fn an_empty_selector_means_all_pods_and_a_missing_one_none() {
    for (selector, expected) in [(json!({}), [2, 1, 2, 1]), (Value::Null, [0, 1, 0, 0])] {
        let mut cluster = Cluster::new(&["n1"]);
        cluster.create(replica_set("one", 1));
        cluster.create(replica_set("two", 1));
        let mut budget = budget("", "minAvailable", json!(1));
        budget["spec"]["selector"] = selector;
        cluster.create(budget);
        cluster.run();
        assert_eq!(counts(&cluster), expected);
    }
}

// PDB-01
#[test]
fn what_cannot_be_counted_allows_nothing_and_says_so() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(daemon_set("web"));
    cluster.create(budget("web", "maxUnavailable", json!(1)));
    cluster.run();
    let failed = ("SyncFailed".to_owned(), "daemonsets.apps does not implement the scale subresource".to_owned());
    assert_eq!((condition(&cluster), counts(&cluster)[3]), (failed, 0));
    assert_eq!(cluster.take_events("CalculateExpectedPodCountFailed").len(), 1);
    // A number needs no scale.
    cluster.edit(&key(), |budget| budget["spec"] = json!({"selector": budget["spec"]["selector"], "minAvailable": 0}));
    assert_eq!(counts(&cluster), [1, 0, 1, 1]);
}

// PDB-01
#[test]
fn pods_that_nothing_controls_are_told_of() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(pod("alone").label("app", "web").build());
    cluster.create(budget("web", "minAvailable", json!("50%")));
    cluster.run();
    assert_eq!(counts(&cluster), [1, 0, 0, 0]);
    let events = cluster.take_events("UnmanagedPods");
    assert!(events[0].starts_with("Pods selected by this PodDisruptionBudget (selector: app=web)"), "{events:?}");
}
