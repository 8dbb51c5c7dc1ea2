use serde_json::json;

use crate::kind::Kind;
use crate::object::Key;
use crate::plan::Propagation;
use crate::reconcile::fixtures::{pod, replica_set};
use crate::reconcile::harness::Cluster;

fn set(name: &str) -> Key {
    Key::new(Kind::REPLICA_SET, "default", name)
}

fn pod_key(name: &str) -> Key {
    Key::new(Kind::POD, "default", name)
}

/// Names of pods that are not on their way out.
fn pods(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.all(Kind::POD);
    pods.iter().filter(|pod| !pod.is_deleting()).map(|pod| pod.name().to_owned()).collect()
}

// RS-01, RS-02, RS-05, RS-06
#[test]
fn a_set_makes_its_pods_and_says_so() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(replica_set("frontend", 3));
    cluster.run();
    let made = cluster.all(Kind::POD);
    assert_eq!(made.len(), 3);
    let value = made[0].value();
    assert_eq!(value["metadata"]["generateName"], "frontend-");
    assert_eq!(made[0].name().len(), "frontend-".len() + 5);
    let owner = &value["metadata"]["ownerReferences"][0];
    assert_eq!(owner["controller"], true);
    assert_eq!(owner["blockOwnerDeletion"], true);
    assert_eq!(owner["kind"], "ReplicaSet");
    assert_eq!(owner["apiVersion"], "apps/v1");
    let status = cluster.status(&set("frontend"));
    let expected = json!({
        "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "terminatingReplicas": 0, "observedGeneration": 1,
    });
    assert_eq!(status, expected);
    let created = cluster.take_events("SuccessfulCreate");
    assert!(made.iter().all(|pod| created.contains(&format!("Created pod: {}", pod.name()))), "{created:?}");
}

// RS-03, the first example
#[test]
fn pods_that_match_and_come_later_are_adopted_and_ended() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(replica_set("frontend", 3));
    cluster.run();
    let before = pods(&cluster);
    cluster.create(pod("pod1").label("app", "frontend").build());
    cluster.create(pod("pod2").label("app", "frontend").build());
    assert_eq!(pods(&cluster), before);
    assert_eq!(
        cluster.take_events("SuccessfulDelete"),
        ["Deleted pod: pod1".to_owned(), "Deleted pod: pod2".to_owned()]
    );
}

// RS-03, the second example
#[test]
fn pods_that_match_and_were_there_first_are_adopted_and_kept() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(pod("pod1").label("app", "frontend").build());
    cluster.create(pod("pod2").label("app", "frontend").build());
    cluster.run();
    cluster.create(replica_set("frontend", 3));
    cluster.run();
    let names = pods(&cluster);
    assert_eq!(names.len(), 3);
    assert!(names.contains(&"pod1".to_owned()) && names.contains(&"pod2".to_owned()), "{names:?}");
    let owner = cluster.object(&pod_key("pod1")).controller().map(|owner| owner.uid);
    assert_eq!(owner, Some(cluster.object(&set("frontend")).uid));
}

// RS-02
#[test]
fn a_pod_whose_labels_stop_matching_is_released_and_replaced() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(replica_set("frontend", 2));
    cluster.run();
    let one = cluster.all(Kind::POD)[0].clone();
    cluster.edit(&one.key, |value| value["metadata"]["labels"]["app"] = json!("debug"));
    cluster.run();
    assert_eq!(cluster.all(Kind::POD).len(), 3);
    assert!(cluster.object(&one.key).owners.is_empty());
    // It comes back, and is one too many.
    cluster.edit(&one.key, |value| value["metadata"]["labels"]["app"] = json!("frontend"));
    cluster.run();
    assert_eq!(cluster.all(Kind::POD).len(), 2);
}

// RS-02
#[test]
fn two_sets_with_one_selector_leave_each_others_pods_alone() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(replica_set("one", 2));
    let mut other = replica_set("two", 3);
    other["spec"]["selector"] = json!({"matchLabels": {"app": "one"}});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "one"});
    cluster.create(other);
    cluster.run();
    assert_eq!(cluster.all(Kind::POD).len(), 5);
    assert_eq!(cluster.status(&set("one"))["replicas"], 2);
    assert_eq!(cluster.status(&set("two"))["replicas"], 3);
}

// RS-01
#[test]
fn surplus_goes_in_the_order_of_kubernetes() {
    let mut cluster = Cluster::new(&["n1", "n2"]);
    let named = |name: &str| pod(name).label("app", "web");
    // Two on n1 and one on n2, all ready; one of the two is dear.
    cluster.create(named("dear").annotation("controller.kubernetes.io/pod-deletion-cost", "5").on("n1").build());
    cluster.create(named("crowded").on("n1").build());
    cluster.create(named("alone").on("n2").build());
    cluster.run();
    // One that is not ready, and one that has no node.
    cluster.create(
        pod("broken")
            .label("app", "web")
            .on("n2")
            .build()
            .as_object()
            .map(|fields| {
                let mut value = json!(fields);
                value["spec"]["containers"][0]["image"] = json!("broken");
                value
            })
            .expect("a pod"),
    );
    cluster.create(named("waiting").build());
    let mut order = Vec::new();
    for replicas in (0..5).rev() {
        if replicas == 4 {
            cluster.create(replica_set("web", 4));
        } else {
            cluster.edit(&set("web"), |value| value["spec"]["replicas"] = json!(replicas));
        }
        order.extend(cluster.take_events("SuccessfulDelete"));
    }
    assert_eq!(
        order,
        [
            "Deleted pod: waiting",
            "Deleted pod: broken",
            "Deleted pod: crowded",
            "Deleted pod: alone",
            "Deleted pod: dear",
        ]
    );
}

// RS-05, RS-06
#[test]
fn a_refused_pod_is_a_condition_an_event_and_a_pause_that_doubles() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.refuse = Some((Kind::POD, "no pods today"));
    cluster.create(replica_set("web", 1));
    let condition = cluster.status(&set("web"))["conditions"][0].take();
    assert_eq!(condition["type"], "ReplicaFailure");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "FailedCreate");
    assert_eq!(condition["message"], "no pods today");
    cluster.pass(600);
    let tries = cluster.take_events("FailedCreate");
    assert_eq!(tries[0], "Error creating: no pods today");
    assert!((4..20).contains(&tries.len()), "{}", tries.len());
    cluster.refuse = None;
    cluster.pass(600);
    cluster.run();
    let status = cluster.status(&set("web"));
    assert_eq!(status["availableReplicas"], 1);
    assert!(status["conditions"].is_null(), "{status}");
}

// RS-05: found by the simulator. Nothing was made until the clock had come to the time of the refusal again.
#[test]
fn a_clock_that_is_set_back_after_a_refusal_holds_nothing_up() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.refuse = Some((Kind::POD, "no pods today"));
    cluster.create(replica_set("web", 1));
    cluster.refuse = None;
    cluster.now.wall_ms -= 7_200_000;
    cluster.pass(900);
    cluster.run();
    assert_eq!(cluster.status(&set("web"))["availableReplicas"], 1);
}

#[test]
fn a_failed_pod_stays_and_is_replaced_slower_and_slower() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(replica_set("web", 1));
    for _ in 0..200 {
        let living = cluster.all(Kind::POD).into_iter().find(|pod| !super::pods::is_terminal(pod));
        match living {
            Some(pod) => cluster.fail(&pod),
            None => cluster.pass(1),
        }
    }
    let pods = cluster.all(Kind::POD).len();
    assert!((4..12).contains(&pods), "{pods}");
}

// RS-05
#[test]
fn a_pod_is_available_after_min_ready_seconds() {
    let mut cluster = Cluster::new(&["n1"]);
    let mut value = replica_set("web", 1);
    value["spec"]["minReadySeconds"] = json!(30);
    cluster.create(value);
    cluster.run();
    assert!(cluster.status(&set("web"))["availableReplicas"].is_null());
    cluster.pass(31);
    assert_eq!(cluster.status(&set("web"))["availableReplicas"], 1);
}

// RS-02, GC-03
#[test]
fn a_set_deleted_without_its_pods_leaves_them_to_the_next_one() {
    let mut cluster = Cluster::new(&["n1"]);
    cluster.create(replica_set("web", 2));
    cluster.run();
    let before = pods(&cluster);
    cluster.delete(&set("web"), Propagation::Orphan);
    assert!(!cluster.has(&set("web")));
    assert!(cluster.all(Kind::POD).iter().all(|pod| pod.owners.is_empty()));
    cluster.create(replica_set("web", 2));
    cluster.run();
    assert_eq!(pods(&cluster), before);
}
