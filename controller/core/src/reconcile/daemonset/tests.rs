use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Key;
use crate::reconcile::fixtures::{daemon_set, node};
use crate::reconcile::harness::Cluster;
use crate::reconcile::pods;

fn logs() -> Key {
    Key::new(Kind::DAEMON_SET, "default", "logs")
}

fn node_key(name: &str) -> Key {
    Key::new(Kind::NODE, "", name)
}

/// A daemon set `logs` that has come to rest.
fn running(nodes: &[&str], adjust: impl FnOnce(&mut Value)) -> Cluster {
    let mut cluster = Cluster::new(nodes);
    let mut value = daemon_set("logs");
    adjust(&mut value);
    cluster.create(value);
    cluster.run();
    cluster
}

/// The image of the pod on each node.
fn images(cluster: &Cluster) -> Vec<(String, String)> {
    let mut images: Vec<(String, String)> = cluster
        .all(Kind::POD)
        .iter()
        .filter(|pod| !pod.is_deleting())
        .map(|pod| {
            let value = pod.value();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&value["spec"]["nodeName"]), text(&value["spec"]["containers"][0]["image"]))
        })
        .collect();
    images.sort();
    images
}

fn nodes(cluster: &Cluster) -> Vec<String> {
    images(cluster).into_iter().map(|(node, _)| node).collect()
}

fn set_image(cluster: &mut Cluster, image: &str) {
    cluster.edit(&logs(), |value| value["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image));
}

fn taint(cluster: &mut Cluster, name: &str, effect: &str) {
    cluster.edit(&node_key(name), |value| value["spec"]["taints"] = json!([{"key": "maker", "effect": effect}]));
}

// DS-01, DS-02
#[test]
fn every_node_has_one_also_one_that_joins_later() {
    let mut cluster = running(&["n1", "n2"], |_| {});
    assert_eq!(nodes(&cluster), ["n1", "n2"]);
    cluster.create(node("n3"));
    cluster.run();
    assert_eq!(nodes(&cluster), ["n1", "n2", "n3"]);
    let expected = json!({
        "currentNumberScheduled": 3, "desiredNumberScheduled": 3, "numberMisscheduled": 0, "numberReady": 3,
        "updatedNumberScheduled": 3, "numberAvailable": 3, "observedGeneration": 1,
    });
    assert_eq!(cluster.status(&logs()), expected);
    let pod = cluster.all(Kind::POD)[0].value();
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
    assert!(pod["metadata"]["labels"]["controller-revision-hash"].is_string());
    assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(6));
    let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    assert!(cluster.take_events("SuccessfulCreate").contains(&format!("Created pod: {name}")));
}

// DS-01
#[test]
fn a_node_that_is_no_longer_eligible_loses_its_pod() {
    let mut cluster = running(&["n1", "n2", "n3"], |value| {
        value["spec"]["template"]["spec"]["affinity"]["nodeAffinity"] = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["spare"]}]},
            ]},
        });
    });
    taint(&mut cluster, "n1", "NoSchedule");
    taint(&mut cluster, "n2", "NoExecute");
    cluster.run();
    // The first keeps what it has; it would not be given another one.
    assert_eq!(nodes(&cluster), ["n1", "n3"]);
    assert_eq!(cluster.status(&logs())["numberMisscheduled"], 1);
    cluster.edit(&node_key("n3"), |value| value["metadata"]["labels"]["role"] = json!("spare"));
    cluster.run();
    assert_eq!(nodes(&cluster), ["n1"]);
}

// DS-02
#[test]
fn a_rolling_update_leaves_one_node_without_at_a_time() {
    let mut cluster = running(&["n1", "n2", "n3"], |_| {});
    cluster.check = Some(|view| {
        let available = view.list(Kind::POD, None).filter(|pod| pods::is_active(pod) && pods::is_ready(pod)).count();
        assert!(available >= 2, "{available} available");
    });
    set_image(&mut cluster, "app:2");
    cluster.run();
    assert!(images(&cluster).iter().all(|(_, image)| image == "app:2"), "{:?}", images(&cluster));
    assert_eq!(nodes(&cluster), ["n1", "n2", "n3"]);
    assert_eq!(cluster.status(&logs())["updatedNumberScheduled"], 3);
    // One that does not become ready stops it.
    set_image(&mut cluster, "broken");
    cluster.run();
    assert_eq!(cluster.status(&logs())["numberUnavailable"], 1);
    assert_eq!(images(&cluster).iter().filter(|(_, image)| image == "broken").count(), 1);
}

// DS-02
#[test]
fn a_surging_update_makes_the_new_pod_first() {
    let mut cluster = running(&["n1", "n2"], |value| {
        value["spec"]["updateStrategy"]["rollingUpdate"] = json!({"maxSurge": 1, "maxUnavailable": 0});
    });
    cluster.check = Some(|view| {
        let ready = |node: &str| view.pods_on(node).any(|pod| pods::is_active(pod) && pods::is_ready(pod));
        assert!(ready("n1") && ready("n2"), "a node without");
    });
    set_image(&mut cluster, "app:2");
    cluster.run();
    assert!(images(&cluster).iter().all(|(_, image)| image == "app:2"), "{:?}", images(&cluster));
    assert_eq!(cluster.all(Kind::POD).len(), 2);
}

// DS-02
#[test]
fn on_delete_waits_for_somebody_to_delete() {
    let mut cluster = running(&["n1", "n2"], |value| value["spec"]["updateStrategy"] = json!({"type": "OnDelete"}));
    set_image(&mut cluster, "app:2");
    cluster.run();
    assert!(images(&cluster).iter().all(|(_, image)| image == "app:1"));
    let one = cluster.all(Kind::POD)[0].clone();
    cluster.delete(&one.key, crate::plan::Propagation::Background);
    cluster.run();
    let updated = images(&cluster).iter().filter(|(_, image)| image == "app:2").count();
    assert_eq!((updated, cluster.all(Kind::POD).len()), (1, 2));
}

// DS-01
#[test]
fn a_failed_daemon_pod_is_replaced_after_a_pause() {
    let mut cluster = running(&["n1"], |_| {});
    let before = cluster.all(Kind::POD)[0].clone();
    cluster.fail(&before);
    cluster.run();
    assert!(cluster.has(&before.key));
    cluster.pass(11);
    cluster.run();
    assert!(!cluster.has(&before.key));
    assert_eq!(cluster.all(Kind::POD).len(), 1);
    let expected = format!("Found failed daemon pod default/{} on node n1, will try to kill it", before.name());
    assert_eq!(cluster.take_events("FailedDaemonPod"), [expected]);
}

// DS-03
#[test]
fn daemon_pods_stay_on_a_silent_node() {
    let mut cluster = running(&["n1", "n2"], |_| {});
    cluster.silent.insert("n2".to_owned());
    cluster.pass(1000);
    cluster.run();
    assert_eq!(nodes(&cluster), ["n1", "n2"]);
    // As in Kubernetes: the taint NoSchedule of the silent node makes its pod one that would not be made now.
    assert_eq!(cluster.status(&logs())["desiredNumberScheduled"], 1);
    assert_eq!(cluster.status(&logs())["numberMisscheduled"], 1);
}
