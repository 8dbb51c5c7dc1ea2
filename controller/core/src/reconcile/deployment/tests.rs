use proptest::prelude::{ProptestConfig, any, prop_assert, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy as _};
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Key;
use crate::plan::Propagation;
use crate::reconcile::fixtures::{deployment, template};
use crate::reconcile::harness::Cluster;
use crate::reconcile::{conditions, pods};
use crate::view::View;

fn web() -> Key {
    Key::new(Kind::DEPLOYMENT, "default", "web")
}

/// A deployment `web` that has come to rest.
fn rolled_out(replicas: u64, adjust: impl FnOnce(&mut Value)) -> Cluster {
    let mut cluster = Cluster::new(&["n1", "n2"]);
    let mut value = deployment("web", replicas);
    adjust(&mut value);
    cluster.create(value);
    cluster.run();
    cluster
}

fn set_image(cluster: &mut Cluster, image: &str) {
    cluster.edit(&web(), |value| value["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image));
}

fn set_replicas(cluster: &mut Cluster, replicas: u64) {
    cluster.edit(&web(), |value| value["spec"]["replicas"] = json!(replicas));
}

/// The sets: image, size, by the number of the rollout.
fn sets(cluster: &Cluster) -> Vec<(i64, String, i64)> {
    let number =
        |value: &Value| value["metadata"]["annotations"][super::sets::REVISION].as_str().unwrap_or("0").to_owned();
    let mut sets: Vec<_> = cluster
        .all(Kind::REPLICA_SET)
        .iter()
        .map(|set| {
            let value = set.value();
            let image =
                value["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
            (number(&value).parse().unwrap_or_default(), image, value["spec"]["replicas"].as_i64().unwrap_or_default())
        })
        .collect();
    sets.sort();
    sets
}

fn sizes(cluster: &Cluster) -> Vec<(String, i64)> {
    sets(cluster).into_iter().map(|(_, image, size)| (image, size)).collect()
}

fn owned(sizes: &[(&str, i64)]) -> Vec<(String, i64)> {
    sizes.iter().map(|(image, size)| ((*image).to_owned(), *size)).collect()
}

/// The events of scaling since the last call, with images instead of names.
fn scaling(cluster: &mut Cluster) -> Vec<String> {
    let names: Vec<(String, String)> = cluster
        .all(Kind::REPLICA_SET)
        .iter()
        .map(|set| {
            let value = set.value();
            let image =
                value["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
            (set.name().to_owned(), image)
        })
        .collect();
    let events = cluster.take_events("ScalingReplicaSet").into_iter();
    events.map(|event| names.iter().fold(event, |event, (name, image)| event.replace(name.as_str(), image))).collect()
}

fn condition(cluster: &Cluster, kind: &str) -> (String, String) {
    let status = cluster.status(&web());
    let found = conditions::get(&status, kind).cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn said(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

// DEP-01, DEP-08, DEP-09, DEP-12
#[test]
fn a_deployment_makes_one_set_and_becomes_complete() {
    let mut cluster = rolled_out(3, |_| {});
    let made = cluster.all(Kind::REPLICA_SET);
    assert_eq!(made.len(), 1);
    let value = made[0].value();
    let hash = value["metadata"]["labels"]["pod-template-hash"].as_str().expect("a hash").to_owned();
    assert_eq!(made[0].name(), format!("web-{hash}"));
    assert_eq!(value["spec"]["selector"]["matchLabels"]["pod-template-hash"], *hash);
    assert!(
        cluster
            .all(Kind::POD)
            .iter()
            .all(|pod| pod.labels.get("pod-template-hash").is_some_and(|label| **label == *hash))
    );
    assert_eq!(value["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"], "3");
    assert_eq!(value["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"], "4");
    assert_eq!(cluster.object(&web()).value()["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let status = cluster.status(&web());
    for (field, count) in [("replicas", 3), ("updatedReplicas", 3), ("readyReplicas", 3), ("availableReplicas", 3)] {
        assert_eq!(status[field], count, "{field}");
    }
    assert!(status["unavailableReplicas"].is_null());
    assert_eq!(condition(&cluster, "Available"), said("True", "MinimumReplicasAvailable"));
    assert_eq!(condition(&cluster, "Progressing"), said("True", "NewReplicaSetAvailable"));
    let progressing = conditions::get(&status, "Progressing").cloned().expect("a condition");
    assert_eq!(progressing["message"], format!("ReplicaSet \"web-{hash}\" has successfully progressed."));
    assert_eq!(scaling(&mut cluster), ["Scaled up replica set app:1 from 0 to 3"]);
}

// DEP-02
#[test]
fn three_replicas_roll_one_up_one_down() {
    let mut cluster = rolled_out(3, |_| {});
    scaling(&mut cluster);
    cluster.check = Some(|view| check_bounds(view, 3, 4));
    set_image(&mut cluster, "app:2");
    cluster.run();
    assert_eq!(
        scaling(&mut cluster),
        [
            "Scaled up replica set app:2 from 0 to 1",
            "Scaled down replica set app:1 from 3 to 2",
            "Scaled up replica set app:2 from 1 to 2",
            "Scaled down replica set app:1 from 2 to 1",
            "Scaled up replica set app:2 from 2 to 3",
            "Scaled down replica set app:1 from 1 to 0",
        ]
    );
    assert_eq!(sets(&cluster), [(1, "app:1".to_owned(), 0), (2, "app:2".to_owned(), 3)]);
}

// DEP-01
#[test]
fn only_a_new_template_starts_a_rollout() {
    let mut cluster = rolled_out(2, |_| {});
    cluster.edit(&web(), |value| {
        value["metadata"]["labels"] = json!({"team": "edge"});
        value["metadata"]["annotations"]["kubernetes.io/change-cause"] = json!("a note");
        value["spec"]["minReadySeconds"] = json!(1);
    });
    cluster.run();
    assert_eq!(cluster.all(Kind::REPLICA_SET).len(), 1);
    let set = cluster.all(Kind::REPLICA_SET)[0].value();
    // DEP-05: the change cause is copied to the set.
    assert_eq!(set["metadata"]["annotations"]["kubernetes.io/change-cause"], "a note");
    assert_eq!(set["spec"]["minReadySeconds"], 1);
}

// DEP-03
#[test]
fn recreate_waits_until_every_old_pod_is_gone() {
    let mut cluster = rolled_out(3, |value| value["spec"]["strategy"] = json!({"type": "Recreate"}));
    cluster.check = Some(|view| {
        let hashes = view.list(Kind::POD, None).filter_map(|pod| pod.labels.get("pod-template-hash"));
        let hashes: std::collections::BTreeSet<_> = hashes.collect();
        assert!(hashes.len() <= 1, "old and new pods at once");
    });
    cluster.silent.insert("n1".to_owned());
    set_image(&mut cluster, "app:2");
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 0)]));
    cluster.silent.clear();
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 0), ("app:2", 3)]));
    assert_eq!(cluster.status(&web())["availableReplicas"], 3);
}

// DEP-04
#[test]
fn a_new_template_in_mid_rollout_ends_the_one_before_at_once() {
    let mut cluster = rolled_out(5, |_| {});
    set_image(&mut cluster, "broken");
    cluster.run();
    // 25 %: two more, one fewer.
    assert_eq!(sizes(&cluster), owned(&[("app:1", 4), ("broken", 3)]));
    set_image(&mut cluster, "app:3");
    assert_eq!(sizes(&cluster), owned(&[("app:1", 4), ("broken", 0), ("app:3", 3)]));
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 0), ("broken", 0), ("app:3", 5)]));
}

// DEP-05
#[test]
fn going_back_gives_the_old_set_a_new_number() {
    let mut cluster = rolled_out(1, |_| {});
    set_image(&mut cluster, "app:2");
    cluster.run();
    set_image(&mut cluster, "app:1");
    cluster.run();
    assert_eq!(sets(&cluster), [(2, "app:2".to_owned(), 0), (3, "app:1".to_owned(), 1)]);
    assert_eq!(cluster.object(&web()).value()["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let one = cluster.all(Kind::REPLICA_SET).into_iter().find(|set| set.body().contains("app:1")).expect("the set");
    assert_eq!(one.value()["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
}

// DEP-05
#[test]
fn the_history_is_limited() {
    let mut cluster = rolled_out(1, |value| value["spec"]["revisionHistoryLimit"] = json!(1));
    for image in ["app:2", "app:3", "app:4"] {
        set_image(&mut cluster, image);
        cluster.run();
    }
    assert_eq!(sets(&cluster), [(3, "app:3".to_owned(), 0), (4, "app:4".to_owned(), 1)]);
    cluster.edit(&web(), |value| value["spec"]["revisionHistoryLimit"] = json!(0));
    assert_eq!(sets(&cluster), [(4, "app:4".to_owned(), 1)]);
}

// DEP-06
#[test]
fn scaling_in_mid_rollout_is_proportional() {
    for paused in [false, true] {
        let mut cluster = rolled_out(10, |value| {
            value["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 3, "maxUnavailable": 2});
        });
        set_image(&mut cluster, "broken");
        cluster.run();
        assert_eq!(sizes(&cluster), owned(&[("app:1", 8), ("broken", 5)]));
        if paused {
            cluster.edit(&web(), |value| value["spec"]["paused"] = json!(true));
        }
        set_replicas(&mut cluster, 15);
        assert_eq!(sizes(&cluster), owned(&[("app:1", 11), ("broken", 7)]), "paused: {paused}");
    }
}

// DEP-07
#[test]
fn a_paused_deployment_is_scaled_but_not_rolled_out() {
    let mut cluster = rolled_out(2, |_| {});
    cluster.edit(&web(), |value| value["spec"]["paused"] = json!(true));
    assert_eq!(condition(&cluster, "Progressing"), said("Unknown", "DeploymentPaused"));
    set_image(&mut cluster, "app:2");
    set_replicas(&mut cluster, 4);
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 4)]));
    cluster.pass(1200);
    assert_eq!(condition(&cluster, "Progressing"), said("Unknown", "DeploymentPaused"));
    cluster.edit(&web(), |value| value["spec"]["paused"] = json!(false));
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 0), ("app:2", 4)]));
    assert_eq!(condition(&cluster, "Progressing"), said("True", "NewReplicaSetAvailable"));
}

// DEP-08, DEP-10
#[test]
fn the_deadline_passes_and_the_controller_goes_on() {
    let mut cluster = rolled_out(3, |_| {});
    set_image(&mut cluster, "broken");
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 3), ("broken", 1)]));
    assert_eq!(condition(&cluster, "Progressing"), said("True", "ReplicaSetUpdated"));
    cluster.pass(602);
    assert_eq!(condition(&cluster, "Progressing"), said("False", "ProgressDeadlineExceeded"));
    assert_eq!(condition(&cluster, "Available"), said("True", "MinimumReplicasAvailable"));
    cluster.broken_image = "another";
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 0), ("broken", 3)]));
    assert_eq!(condition(&cluster, "Progressing"), said("True", "NewReplicaSetAvailable"));
}

// DEP-08
#[test]
fn progress_takes_min_ready_seconds_a_step() {
    let mut cluster = rolled_out(2, |value| value["spec"]["minReadySeconds"] = json!(10));
    cluster.pass(11);
    set_image(&mut cluster, "app:2");
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 2), ("app:2", 1)]));
    cluster.pass(11);
    cluster.run();
    assert_eq!(sizes(&cluster), owned(&[("app:1", 1), ("app:2", 2)]));
}

// DEP-01
#[test]
fn a_deployment_that_is_made_again_restarts_nothing() {
    let mut cluster = rolled_out(2, |_| {});
    let names = |cluster: &Cluster| -> Vec<Key> { cluster.all(Kind::POD).iter().map(|pod| pod.key.clone()).collect() };
    let before = names(&cluster);
    cluster.delete(&web(), Propagation::Orphan);
    assert!(!cluster.has(&web()));
    cluster.create(deployment("web", 2));
    cluster.run();
    assert_eq!(names(&cluster), before);
    assert_eq!(cluster.all(Kind::REPLICA_SET).len(), 1);
    assert_eq!(condition(&cluster, "Progressing"), said("True", "NewReplicaSetAvailable"));
}

// DEP-01
#[test]
fn a_collision_of_hashes_is_counted_and_avoided() {
    let mut cluster = Cluster::new(&["n1"]);
    let wanted = template("web", "app:1");
    let name = format!("web-{}", crate::reconcile::template::hash(&wanted, None));
    let mut squatter = crate::reconcile::fixtures::replica_set("other", 0);
    squatter["metadata"]["name"] = json!(name);
    cluster.create(squatter);
    cluster.create(deployment("web", 1));
    cluster.run();
    assert_eq!(cluster.status(&web())["collisionCount"], 1);
    assert_eq!(cluster.status(&web())["availableReplicas"], 1);
}

// DEP-08
#[test]
fn a_refused_set_is_a_condition_and_an_event() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.refuse = Some((Kind::REPLICA_SET, "no sets today"));
    cluster.create(deployment("web", 1));
    assert_eq!(condition(&cluster, "Progressing"), said("False", "ReplicaSetCreateError"));
    let events = cluster.take_events("ReplicaSetCreateError");
    assert!(events[0].starts_with("Failed to create new replica set \"web-"), "{events:?}");
    cluster.refuse = None;
    cluster.pass(10);
    cluster.run();
    assert_eq!(condition(&cluster, "Progressing"), said("True", "NewReplicaSetAvailable"));
}

// DEP-08
#[test]
fn the_failure_of_a_set_is_the_deployments() {
    let mut cluster = rolled_out(1, |_| {});
    cluster.refuse = Some((Kind::POD, "no pods today"));
    set_replicas(&mut cluster, 2);
    assert_eq!(condition(&cluster, "ReplicaFailure"), said("True", "FailedCreate"));
    cluster.refuse = None;
    cluster.pass(10);
    assert_eq!(condition(&cluster, "ReplicaFailure"), said("", ""));
}

/// At least `least` pods available, and at most `most` that are not on their way out.
fn check_bounds(view: &View, least: usize, most: usize) {
    let active: Vec<_> = view.list(Kind::POD, None).filter(|pod| pods::is_active(pod)).collect();
    let available = active.iter().filter(|pod| pods::is_ready(pod)).count();
    assert!(active.len() <= most, "{} pods, at most {most}", active.len());
    assert!(available >= least, "{available} available, at least {least}");
}

fn bound() -> impl proptest::strategy::Strategy<Value = Value> {
    prop_oneof![(0_u64..5).prop_map(|count| json!(count)), (0_u64..=100).prop_map(|share| json!(format!("{share}%")))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    // DEP-02: at every instant, with agents that work in any order and rollouts that overtake each other.
    #[test]
    fn bounds_hold_at_every_instant(
        replicas in 1_u64..9,
        surge in bound(),
        unavailable in bound(),
        steps in proptest::collection::vec(prop_oneof![4 => Just(None), 1 => any::<u8>().prop_map(Some)], 1..60),
    ) {
        let mut cluster = rolled_out(replicas, |value| {
            value["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        });
        let read = super::Deployment::of(&cluster.object(&web()));
        let least = usize::try_from(read.replicas - read.max_unavailable()).expect("a number");
        let most = usize::try_from(read.replicas + read.max_surge()).expect("a number");
        for step in steps {
            match step {
                None => { cluster.agent_step(); }
                Some(version) => set_image(&mut cluster, ["app:1", "app:2", "broken", "app:4"][usize::from(version % 4)]),
            }
            check_bounds(&cluster.view, least, most);
        }
        cluster.broken_image = "nothing";
        for _ in 0..400 {
            check_bounds(&cluster.view, least, most);
            if !cluster.agent_step() {
                break;
            }
        }
        let status = cluster.status(&web());
        prop_assert!(status["updatedReplicas"] == replicas && status["availableReplicas"] == replicas, "{status}");
    }
}
