//! Claims and volumes through the whole controller: admission, binder and scheduler in one batch.

use serde_json::{Value, json};

use super::*;

impl Fixture {
    /// A user creates an object.
    fn put(&mut self, kind: Kind, value: Value) -> Answer {
        self.tickets += 1;
        let namespace = if kind.info().namespaced { "default" } else { "" }.to_owned();
        let (verb, field_validation) = (Verb::Create(value), FieldValidation::Strict);
        let request =
            Request { kind, namespace, name: String::new(), subresource: None, verb, dry_run: false, field_validation };
        self.controller.handle(self.now, Input::Request(self.tickets, Box::new(request)));
        let mut effects = self.settle().effects.into_iter();
        let answer = effects.find_map(|effect| match effect {
            Effect::Answer(_, answer) => Some(*answer),
            Effect::Send { .. } => None,
        });
        answer.expect("an answer").expect("created")
    }

    fn value(&self, kind: Kind, namespace: &str, name: &str) -> Value {
        let object = self.controller.view().get(&Key::new(kind, namespace, name));
        object.map(|object| Object::value(object)).unwrap_or_default()
    }
}

fn class(mode: &str) -> Value {
    json!({"metadata": {"name": "disk"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode})
}

fn volume(name: &str, size: &str) -> Value {
    let here = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["pi"]}]});
    json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}, "storageClassName": "disk",
    }})
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
        "resources": {"requests": {"storage": "1Gi"}}}})
}

fn pod(name: &str, claim: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "containers": [{"name": "main", "image": "app:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    }})
}

#[test]
fn a_claim_is_bound_with_its_pod_and_the_node_is_told_what_is_missing() {
    // VOL-02, SCH-01: a user's objects, as they come.
    for mode in ["WaitForFirstConsumer", "Immediate"] {
        let mut fixture = Fixture::new();
        fixture.hear(birth(1));
        fixture.put(Kind::STORAGE_CLASS, class(mode));
        fixture.put(Kind::PERSISTENT_VOLUME, volume("big", "8Gi"));
        fixture.put(Kind::PERSISTENT_VOLUME, volume("small", "1Gi"));
        fixture.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("c"));
        let before = fixture.value(Kind::PERSISTENT_VOLUME_CLAIM, "default", "c");
        let expected = if mode == "Immediate" { "Bound" } else { "Pending" };
        assert_eq!(before["status"]["phase"], expected);
        let answer = fixture.put(Kind::POD, pod("p", "c"));
        assert!(answer.warnings[0].contains("no node mounts persistent volumes"), "{:?}", answer.warnings);
        let bound = fixture.value(Kind::PERSISTENT_VOLUME_CLAIM, "default", "c");
        assert_eq!(
            (&bound["status"]["phase"], &bound["spec"]["volumeName"]),
            (&json!("Bound"), &json!("small")),
            "{mode}"
        );
        assert_eq!(bound["status"]["capacity"]["storage"], "1Gi");
        let taken = fixture.value(Kind::PERSISTENT_VOLUME, "", "small");
        assert_eq!(
            (&taken["status"]["phase"], &taken["spec"]["claimRef"]["name"]),
            (&json!("Bound"), &json!("c")),
            "{mode}"
        );
        assert_eq!(fixture.value(Kind::POD, "default", "p")["spec"]["nodeName"], "pi", "{mode}");
        assert_eq!(fixture.value(Kind::PERSISTENT_VOLUME, "", "big")["status"]["phase"], "Available");
    }
}

#[test]
fn a_pod_whose_claim_comes_late_is_placed_when_it_is_there() {
    // VOL-02, SCH-04
    let mut fixture = Fixture::new();
    fixture.hear(birth(1));
    fixture.put(Kind::STORAGE_CLASS, class("WaitForFirstConsumer"));
    fixture.put(Kind::POD, pod("p", "c"));
    let condition = |fixture: &Fixture| {
        let pod = fixture.value(Kind::POD, "default", "p");
        pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    assert!(condition(&fixture).starts_with("0/1 nodes are available: persistentvolumeclaim \"c\" not found."));
    fixture.put(Kind::PERSISTENT_VOLUME_CLAIM, claim("c"));
    fixture.pass(15_000);
    fixture.hear(lease(1));
    let words = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.";
    assert!(condition(&fixture).starts_with(words), "{}", condition(&fixture));
    fixture.put(Kind::PERSISTENT_VOLUME, volume("v", "1Gi"));
    fixture.pass(15_000);
    fixture.hear(lease(1));
    assert_eq!(fixture.value(Kind::POD, "default", "p")["spec"]["nodeName"], "pi");
    assert_eq!(fixture.value(Kind::PERSISTENT_VOLUME_CLAIM, "default", "c")["status"]["phase"], "Bound");
}

#[test]
fn images_that_somebody_states_of_a_node_are_still_there_after_its_next_birth() {
    // SCH-02
    let mut fixture = Fixture::new();
    fixture.hear(birth(1));
    let images = json!([{"names": ["app:1"], "sizeBytes": 5}]);
    let mut node = fixture.node();
    node["status"]["images"] = images.clone();
    fixture.tickets += 1;
    let request = Request {
        kind: Kind::NODE,
        namespace: String::new(),
        name: "pi".to_owned(),
        subresource: Some(crate::kind::Subresource::Status),
        verb: Verb::Replace(node),
        dry_run: false,
        field_validation: FieldValidation::Strict,
    };
    fixture.controller.handle(fixture.now, Input::Request(fixture.tickets, Box::new(request)));
    fixture.settle();
    assert_eq!(fixture.node()["status"]["images"], images);
    fixture.hear(birth(2));
    assert_eq!(fixture.node()["status"]["images"], images);
}
