use serde_json::json;

use crate::kind::Kind;
use crate::object::Key;
use crate::plan::Propagation;
use crate::reconcile::fixtures::{deployment, pod};
use crate::reconcile::harness::Cluster;

fn web() -> Key {
    Key::new(Kind::DEPLOYMENT, "default", "web")
}

/// A deployment with its set and two pods.
fn running() -> Cluster {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(deployment("web", 2));
    cluster.run();
    cluster
}

fn count(cluster: &Cluster, kind: Kind) -> usize {
    cluster.all(kind).len()
}

// GC-03
#[test]
fn in_the_background_the_owner_goes_first_and_pods_end_gracefully() {
    let mut cluster = running();
    cluster.delete(&web(), Propagation::Background);
    assert!(!cluster.has(&web()));
    assert_eq!(count(&cluster, Kind::REPLICA_SET), 0);
    let pods = cluster.all(Kind::POD);
    assert!(pods.len() == 2 && pods.iter().all(|pod| pod.is_deleting()));
    cluster.run();
    assert_eq!(count(&cluster, Kind::POD), 0);
}

// GC-03
#[test]
fn in_the_foreground_the_owner_goes_last() {
    let mut cluster = running();
    cluster.delete(&web(), Propagation::Foreground);
    assert!(cluster.object(&web()).is_deleting());
    let sets = cluster.all(Kind::REPLICA_SET);
    assert!(sets.len() == 1 && sets[0].is_deleting() && sets[0].finalizers);
    assert!(cluster.all(Kind::POD).iter().all(|pod| pod.is_deleting()));
    assert!(cluster.agent_step());
    assert!(cluster.has(&web()));
    assert!(cluster.agent_step());
    assert!(!cluster.has(&web()));
    assert_eq!((count(&cluster, Kind::REPLICA_SET), count(&cluster, Kind::POD)), (0, 0));
}

// GC-03
#[test]
fn orphans_stay_without_an_owner() {
    let mut cluster = running();
    cluster.delete(&web(), Propagation::Orphan);
    cluster.run();
    assert!(!cluster.has(&web()));
    assert_eq!((count(&cluster, Kind::REPLICA_SET), count(&cluster, Kind::POD)), (1, 2));
    let set = cluster.all(Kind::REPLICA_SET)[0].clone();
    assert!(set.owners.is_empty() && !set.is_deleting());
    // What the orphan owns goes with it.
    cluster.delete(&set.key, Propagation::Background);
    cluster.run();
    assert_eq!(count(&cluster, Kind::POD), 0);
}

fn owned_by(references: &[(&str, &str, u128)]) -> serde_json::Value {
    let mut value = pod("owned").build();
    value["metadata"]["ownerReferences"] = references
        .iter()
        .map(|(kind, name, uid)| {
            let api_version = if *kind == "ConfigMap" { "v1" } else { "example.com/v1" };
            json!({
                "apiVersion": api_version, "kind": kind, "name": name, "uid": coracle_model::PodUid(*uid).to_string(),
            })
        })
        .collect();
    value
}

// GC-03
#[test]
fn what_never_had_its_owner_goes_and_what_has_an_unknown_one_stays() {
    let mut cluster = Cluster::new(&["n1"]);
    let owned = Key::new(Kind::POD, "default", "owned");
    cluster.create(owned_by(&[("ConfigMap", "settings", 1)]));
    assert!(!cluster.has(&owned));
    cluster.create(owned_by(&[("Widget", "widget", 1)]));
    assert!(cluster.has(&owned));
}

// GC-03
#[test]
fn what_has_two_owners_stays_with_the_second() {
    let mut cluster = Cluster::new(&["n1"]);
    let key = |name: &str| Key::new(Kind::CONFIG_MAP, "default", name);
    for name in ["one", "two"] {
        cluster.create(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}),
        );
    }
    let uid = |cluster: &Cluster, name: &str| cluster.object(&key(name)).uid.0;
    let value = owned_by(&[("ConfigMap", "one", uid(&cluster, "one")), ("ConfigMap", "two", uid(&cluster, "two"))]);
    cluster.create(value);
    let owned = Key::new(Kind::POD, "default", "owned");
    cluster.delete(&key("one"), Propagation::Background);
    assert_eq!(cluster.object(&owned).owners.len(), 1);
    cluster.delete(&key("two"), Propagation::Background);
    assert!(!cluster.has(&owned));
}
