use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Key;
use crate::plan::Propagation;
use crate::reconcile::harness::Cluster;

fn volume(name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem", "hostPath": {"path": "/data"},
        },
        "status": {"phase": "Pending"},
    })
}

fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": "Pending"},
    })
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete",
    })
}

fn claim_key(name: &str) -> Key {
    Key::new(Kind::PERSISTENT_VOLUME_CLAIM, "default", name)
}

fn volume_key(name: &str) -> Key {
    Key::new(Kind::PERSISTENT_VOLUME, "", name)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Phase, and volume.
fn of_claim(cluster: &Cluster, name: &str) -> (String, String) {
    let value = cluster.object(&claim_key(name)).value();
    (text(&value["status"]["phase"]), text(&value["spec"]["volumeName"]))
}

/// Phase, and claim.
fn of_volume(cluster: &Cluster, name: &str) -> (String, String) {
    let value = cluster.object(&volume_key(name)).value();
    (text(&value["status"]["phase"]), text(&value["spec"]["claimRef"]["name"]))
}

fn pair(one: &str, two: &str) -> (String, String) {
    (one.to_owned(), two.to_owned())
}

// VOL-02
#[test]
fn a_claim_gets_the_smallest_free_volume_that_fits_and_both_say_so() {
    let mut cluster = Cluster::new(&[]);
    for (name, class, size) in [("big", "", "9Gi"), ("tiny", "", "1Gi"), ("fit", "", "3Gi"), ("foreign", "x", "2Gi")] {
        cluster.create(volume(name, class, size));
        assert_eq!(of_volume(&cluster, name), pair("Available", ""));
    }
    cluster.create(claim("c", "", "2Gi"));
    assert_eq!(of_claim(&cluster, "c"), pair("Bound", "fit"));
    assert_eq!(of_volume(&cluster, "fit"), pair("Bound", "c"));
    let (claim_value, volume_value) =
        (cluster.object(&claim_key("c")).value(), cluster.object(&volume_key("fit")).value());
    assert_eq!(claim_value["status"]["capacity"], json!({"storage": "3Gi"}));
    assert_eq!(claim_value["status"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(claim_value["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(volume_value["spec"]["claimRef"]["uid"], claim_value["metadata"]["uid"]);
    assert_eq!(volume_value["spec"]["claimRef"]["namespace"], "default");
    // The next takes the next.
    cluster.create(claim("d", "", "2Gi"));
    assert_eq!(of_claim(&cluster, "d"), pair("Bound", "big"));
    cluster.create(claim("e", "", "2Gi"));
    assert_eq!(of_claim(&cluster, "e"), pair("Pending", ""));
    assert_eq!(
        cluster.take_events("FailedBinding"),
        ["no persistent volumes available for this claim and no storage class is set"]
    );
    // And a volume that comes later is found by whoever waits.
    cluster.create(volume("late", "", "2Gi"));
    assert_eq!(of_claim(&cluster, "e"), pair("Bound", "late"));
}

// VOL-02
#[test]
fn what_does_not_fit_is_not_bound() {
    let with = |edit: fn(&mut Value)| {
        let mut value = volume("v", "", "2Gi");
        edit(&mut value);
        value
    };
    for value in [
        with(|value| value["spec"]["capacity"]["storage"] = json!("1Gi")),
        with(|value| value["spec"]["accessModes"] = json!(["ReadOnlyMany"])),
        with(|value| value["spec"]["volumeMode"] = json!("Block")),
        with(|value| value["spec"]["storageClassName"] = json!("x")),
        with(|value| value["spec"]["claimRef"] = json!({"namespace": "default", "name": "another"})),
        with(|value| value["spec"]["claimRef"] = json!({"namespace": "elsewhere", "name": "c"})),
    ] {
        let mut cluster = Cluster::new(&[]);
        cluster.create(value.clone());
        cluster.create(claim("c", "", "2Gi"));
        assert_eq!(of_claim(&cluster, "c"), pair("Pending", ""), "{value}");
    }
    let mut cluster = Cluster::new(&[]);
    cluster.create(volume("plain", "", "1Gi"));
    let mut labelled = volume("labelled", "", "5Gi");
    labelled["metadata"]["labels"] = json!({"disk": "ssd"});
    cluster.create(labelled);
    let mut selecting = claim("c", "", "1Gi");
    selecting["spec"]["selector"] = json!({"matchLabels": {"disk": "ssd"}});
    cluster.create(selecting);
    assert_eq!(of_claim(&cluster, "c"), pair("Bound", "labelled"));
}

// VOL-02
#[test]
fn a_claim_that_waits_for_its_pod_waits_until_a_volume_is_set_aside_for_it() {
    let mut cluster = Cluster::new(&[]);
    cluster.create(class("later", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"));
    cluster.create(volume("v", "later", "2Gi"));
    cluster.create(claim("c", "later", "1Gi"));
    assert_eq!(of_claim(&cluster, "c"), pair("Pending", ""));
    let told = cluster.take_events("WaitForFirstConsumer");
    assert_eq!(told.last().map(String::as_str), Some("waiting for first consumer to be created before binding"));
    // What the scheduler writes.
    let uid = cluster.object(&claim_key("c")).uid.to_string();
    let reference = json!({"namespace": "default", "name": "c", "uid": uid});
    cluster.edit(&volume_key("v"), |volume| volume["spec"]["claimRef"] = reference);
    assert_eq!(of_claim(&cluster, "c"), pair("Bound", "v"));
    assert_eq!(of_volume(&cluster, "v"), pair("Bound", "c"));
}

// VOL-02
#[test]
fn nothing_is_provisioned_and_the_claim_says_so() {
    let waiting = "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually by \
                   the system administrator. If volume creation is delayed, please verify that the provisioner is running \
                   and correctly registered.";
    for (provisioner, reason, words) in [
        (None, "ProvisioningFailed", "storageclass.storage.k8s.io \"fast\" not found"),
        (
            Some("kubernetes.io/no-provisioner"),
            "ProvisioningFailed",
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        (Some("example.com/disks"), "ExternalProvisioning", waiting),
    ] {
        let mut cluster = Cluster::new(&[]);
        if let Some(provisioner) = provisioner {
            cluster.create(class("fast", provisioner, "Immediate"));
        }
        cluster.create(claim("c", "fast", "1Gi"));
        assert_eq!(cluster.take_events(reason).last().map(String::as_str), Some(words));
        assert_eq!(of_claim(&cluster, "c"), pair("Pending", ""));
    }
}

// VOL-02
#[test]
fn a_volume_whose_claim_is_gone_is_released_and_nobody_else_gets_it() {
    for (policy, phase, event) in [
        ("Retain", "Released", None),
        (
            "Delete",
            "Failed",
            Some((
                "VolumeFailedDelete",
                "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched",
            )),
        ),
        ("Recycle", "Failed", Some(("VolumeFailedRecycle", "no recyclable volume plugin matched"))),
    ] {
        let mut cluster = Cluster::new(&[]);
        let mut value = volume("v", "", "1Gi");
        value["spec"]["persistentVolumeReclaimPolicy"] = json!(policy);
        cluster.create(value);
        cluster.create(claim("c", "", "1Gi"));
        cluster.delete(&claim_key("c"), Propagation::Background);
        assert_eq!(of_volume(&cluster, "v"), pair(phase, "c"), "{policy}");
        if let Some((reason, words)) = event {
            assert_eq!(cluster.take_events(reason), [words]);
        }
        // Not even a claim of the same name: it is another one.
        cluster.create(claim("c", "", "1Gi"));
        assert_eq!(of_claim(&cluster, "c"), pair("Pending", ""), "{policy}");
        // A person has looked at what is on it, and gives it free.
        cluster.edit(&volume_key("v"), |volume| {
            volume["spec"].as_object_mut().expect("a spec").remove("claimRef");
        });
        assert_eq!(of_claim(&cluster, "c"), pair("Bound", "v"), "{policy}");
    }
}

// VOL-02
#[test]
fn a_claim_whose_volume_is_gone_is_lost() {
    let mut cluster = Cluster::new(&[]);
    cluster.create(volume("v", "", "1Gi"));
    cluster.create(claim("c", "", "1Gi"));
    cluster.delete(&volume_key("v"), Propagation::Background);
    assert_eq!(of_claim(&cluster, "c"), pair("Lost", "v"));
    let words = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_eq!(cluster.take_events("ClaimLost"), [words]);
    // It is another one that has the same name now; as in Kubernetes the claim takes it.
    cluster.create(volume("v", "", "1Gi"));
    assert_eq!(of_claim(&cluster, "c"), pair("Bound", "v"));
}

// VOL-02
#[test]
fn users_may_say_which_volume_and_which_claim_belong_together() {
    // The claim names the volume; also one of a class that waits for pods.
    let mut cluster = Cluster::new(&[]);
    cluster.create(class("later", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"));
    let mut stating = claim("c", "later", "1Gi");
    stating["spec"]["volumeName"] = json!("v");
    cluster.create(stating);
    assert_eq!(of_claim(&cluster, "c"), pair("Pending", "v"));
    cluster.create(volume("v", "later", "5Gi"));
    assert_eq!(of_claim(&cluster, "c"), pair("Bound", "v"));

    // The volume names the claim, and nobody else gets it meanwhile.
    let mut stating = volume("w", "", "1Gi");
    stating["spec"]["claimRef"] = json!({"namespace": "default", "name": "d"});
    cluster.create(stating);
    assert_eq!(of_volume(&cluster, "w"), pair("Available", "d"));
    cluster.create(claim("thief", "", "1Gi"));
    assert_eq!(of_claim(&cluster, "thief"), pair("Pending", ""));
    cluster.create(claim("d", "", "1Gi"));
    assert_eq!(of_claim(&cluster, "d"), pair("Bound", "w"));

    // One that is too small, and one that another claim has.
    cluster.take_events("");
    let mut greedy = claim("greedy", "", "9Gi");
    greedy["spec"]["volumeName"] = json!("free");
    cluster.create(volume("free", "x", "1Gi"));
    cluster.create(greedy);
    let told = "Cannot bind to requested volume \"free\": requested PV is too small";
    assert_eq!(cluster.take_events("VolumeMismatch").last().map(String::as_str), Some(told));
    let mut late = claim("late", "", "1Gi");
    late["spec"]["volumeName"] = json!("w");
    cluster.create(late);
    let told = "volume \"w\" already bound to a different claim.";
    assert_eq!(cluster.take_events("FailedBinding").last().map(String::as_str), Some(told));
    assert_eq!(of_claim(&cluster, "late"), pair("Pending", "w"));
}

// VOL-02
#[test]
fn no_volume_is_ever_bound_to_two_claims() {
    let mut cluster = Cluster::new(&[]);
    cluster.check = Some(|view| {
        for volume in view.list(Kind::PERSISTENT_VOLUME, None) {
            let claims = view.list(Kind::PERSISTENT_VOLUME_CLAIM, None);
            let bound = claims.filter(|claim| {
                let value = claim.value();
                value["status"]["phase"] == "Bound" && value["spec"]["volumeName"] == volume.name()
            });
            assert!(bound.count() <= 1, "{}", volume.name());
        }
    });
    for round in 0..6 {
        for index in 0..4 {
            cluster.create(claim(&format!("c{round}-{index}"), "", &format!("{}Gi", 1 + (index * 7 + round) % 5)));
        }
        for index in 0..3 {
            cluster.create(volume(&format!("v{round}-{index}"), "", &format!("{}Gi", 1 + (index * 3 + round) % 5)));
        }
        if let Some(claim) = cluster.all(Kind::PERSISTENT_VOLUME_CLAIM).first() {
            let key = claim.key.clone();
            cluster.delete(&key, Propagation::Background);
        }
    }
    let phase = |object: &crate::object::Object| object.value()["status"]["phase"].take();
    let claims = cluster.all(Kind::PERSISTENT_VOLUME_CLAIM);
    assert!(claims.iter().any(|claim| phase(claim) == "Bound"));
    // Nobody waits while something would fit.
    for claim in claims.iter().filter(|claim| phase(claim) == "Pending") {
        for volume in cluster.all(Kind::PERSISTENT_VOLUME) {
            let fits = volume.row.volume().unwrap().fits(claim.row.claim().unwrap());
            assert!(!fits || !volume.row.volume().unwrap().is_free(), "{} for {}", volume.name(), claim.name());
        }
    }
}
