//! What is packed is read as it was, and what is alike is kept once.

use serde_json::{Value, json};

use super::sharing::Known;
use super::*;

const UID: &str = "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11";

fn pod(number: u64) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": UID, "controller": true});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-1-{number}"), "namespace": "default", "labels": {"app": "web", "resourceVersion": ""},
            "ownerReferences": [owner], "uid": PodUid(u128::from(number)).to_string(), "resourceVersion": "1",
        },
        "spec": {"containers": [{"name": "main", "image": "a:1", "args": ["\"resourceVersion\":\"\"", "ä"]}]},
        "status": {"phase": "Pending"},
    })
}

fn at(revision: u64, mut value: Value) -> Value {
    value["metadata"]["resourceVersion"] = json!(revision.to_string());
    value
}

#[test]
fn an_object_is_read_as_it_was_made_with_its_own_revision() {
    let mut templates = Templates::default();
    for number in 0..5 {
        let object = Object::new(Kind::POD, 70 + number, &pod(number), &mut templates).expect("an object");
        assert_eq!(object.value(), at(70 + number, pod(number)));
        assert_eq!(object.status(), json!({"phase": "Pending"}));
        assert_eq!(object.head()["spec"], pod(number)["spec"]);
        assert_eq!(object.spec(), pod(number)["spec"]);
        let again = Object::from_json(Kind::POD, 70 + number, &object.body(), &mut templates).expect("an object");
        assert_eq!((again.body(), &again.row), (object.body(), &object.row));
        assert!(object.body().len().abs_diff(object.json_bytes()) < 64);
    }
    let bare = json!({"metadata": {"name": "c", "uid": UID}, "data": {"a": "1"}});
    let bare = Object::from_value(Kind::CONFIG_MAP, 7, bare).expect("an object");
    assert_eq!(
        bare.body(),
        format!(r#"{{"data":{{"a":"1"}},"metadata":{{"resourceVersion":"7","name":"c","uid":"{UID}"}}}}"#)
    );
    assert_eq!(bare.status(), Value::Null);
}

#[test]
fn another_status_leaves_everything_else_as_it_was() {
    let one = Object::from_value(Kind::POD, 5, pod(1)).expect("an object");
    let status = json!({"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 3}]});
    let two = one.with_status(9, &status).expect("another status");
    let mut want = at(9, pod(1));
    want["status"] = status;
    assert_eq!(two.value(), want);
    assert!(two.differs_in_status_alone(&one));
    assert_eq!(two.row, Object::from_value(Kind::POD, 9, want.clone()).expect("an object").row);
    want["spec"]["nodeName"] = json!("pi");
    let three = two.next(10, &want).expect("an object");
    assert!(!three.differs_in_status_alone(&two));
    assert_eq!(three.row.pod().and_then(|row| row.node.as_deref()), Some("pi"));
}

#[test]
fn a_binding_puts_the_node_into_the_spec() {
    let one = Object::from_value(Kind::POD, 5, pod(1)).expect("an object");
    let status = json!({"phase": "Pending", "conditions": []});
    let two = one.bound(6, "pi".into(), &status).expect("a pod without a node");
    let mut want = at(6, pod(1));
    want["spec"]["nodeName"] = json!("pi");
    want["status"] = status.clone();
    assert_eq!(two.value(), want);
    assert_eq!(two.row, Object::from_value(Kind::POD, 6, want).expect("an object").row);
    assert!(two.bound(7, "other".into(), &status).is_none(), "once");
    let mut unsaid = pod(2);
    unsaid["spec"]["nodeName"] = json!("");
    let unsaid = Object::from_value(Kind::POD, 5, unsaid).expect("an object");
    assert!(unsaid.bound(6, "pi".into(), &status).is_none(), "it has the field");
    let empty = json!({"metadata": {"name": "p", "uid": UID}, "spec": {}});
    let empty = Object::from_value(Kind::POD, 5, empty).expect("an object");
    assert_eq!(empty.bound(6, "p\"i".into(), &status).expect("a pod").value()["spec"], json!({"nodeName": "p\"i"}));
}

#[test]
fn a_binding_leaves_the_text_of_the_spec_as_it_was() {
    let status = json!({"phase": "Pending"});
    for (spec, node) in [(pod(1)["spec"].clone(), "pi"), (json!({}), "pi"), (pod(1)["spec"].clone(), "p\"i")] {
        let mut value = pod(1);
        value["spec"] = spec.clone();
        let free = Object::from_value(Kind::POD, 5, value).expect("an object");
        let bound = free.bound(6, node.into(), &status).expect("a pod without a node");
        assert_eq!(read_spec(&free.spec_text()), spec);
        match node {
            "pi" => assert_eq!(bound.spec_text(), free.spec_text()),
            // A name that has to be quoted is no node's; nothing is lost of it.
            _ => assert_eq!(read_spec(&bound.spec_text())["nodeName"], json!(node)),
        }
    }
    let none = Object::from_value(Kind::POD, 5, json!({"metadata": {"name": "p", "uid": UID}})).expect("an object");
    assert_eq!((none.spec_text().as_str(), read_spec("")), ("", Value::Null));
}

#[test]
fn pods_of_one_template_share_what_it_said() {
    let mut templates = Templates::default();
    let pods: Vec<Object> =
        (0..4).map(|number| Object::new(Kind::POD, number, &pod(number), &mut templates).expect("an object")).collect();
    assert!(pods[0].body.template().is_none(), "it may stay alone");
    assert!(Arc::ptr_eq(&pods[1].labels, &pods[3].labels));
    assert!(Arc::ptr_eq(&pods[1].owners, &pods[3].owners));
    assert!(Arc::ptr_eq(&pods[1].key.namespace, &pods[3].key.namespace));
    let mut other = pod(3);
    other["metadata"]["labels"]["app"] = json!("api");
    let other = pods[3].next(9, &other).expect("an object");
    assert_eq!(other.labels.get("app").map(|label| &**label), Some("api"));
    assert_eq!(other.owners, pods[3].owners);
}

#[test]
fn objects_that_nobody_controls_share_what_is_alike_as_well() {
    let mut templates = Templates::default();
    let mut bare = |number| {
        let mut value = pod(number);
        value["metadata"]["ownerReferences"] = json!([]);
        value["spec"]["nodeName"] = json!("pi");
        Object::new(Kind::POD, number, &value, &mut templates).expect("an object")
    };
    let (one, two) = (bare(1), bare(2));
    let node = |pod: &Object| pod.row.pod().and_then(|row| row.node.clone()).expect("a node");
    assert!(Arc::ptr_eq(&one.labels, &two.labels) && Arc::ptr_eq(&one.owners, &two.owners));
    assert!(Arc::ptr_eq(&one.key.namespace, &two.key.namespace) && Arc::ptr_eq(&node(&one), &node(&two)));
    let next = two.next(9, &two.value()).expect("an object");
    assert!(Arc::ptr_eq(&next.labels, &two.labels) && Arc::ptr_eq(&node(&next), &node(&two)));
}

#[test]
fn what_nobody_has_any_more_is_forgotten() {
    let mut known: Known<u64, str> = Known::default();
    let held: Vec<Arc<str>> = (0..10).map(|number| known.share(format!("held {number}").as_str())).collect();
    for number in 0..10_000 {
        known.share(format!("dropped {number}").as_str());
    }
    assert!(known.len() <= 100, "{}", known.len());
    assert!(held.iter().all(|text| Arc::ptr_eq(text, &known.share(&**text))));
}

#[test]
fn a_status_that_is_the_same_makes_no_other_object() {
    let one = Object::from_value(Kind::POD, 5, pod(1)).expect("an object");
    assert!(one.with_status(6, &one.status()).is_none());
    assert!(one.with_status(6, &json!({"phase": "Running"})).is_some());
    let without = json!({"metadata": {"name": "p", "uid": UID}, "spec": {}});
    let without = Object::from_value(Kind::POD, 5, without).expect("an object");
    assert!(without.with_status(6, &Value::Null).is_none());
}

#[test]
fn keys_are_in_the_order_of_kind_namespace_and_name_whatever_they_share() {
    let namespace: Arc<str> = "b".into();
    let shared = |name| Key::within(Kind::POD, Arc::clone(&namespace), name);
    let mut keys =
        [shared("y"), Key::new(Kind::POD, "b", "x"), shared("z"), Key::new(Kind::POD, "a", "z"), shared("x")];
    keys.sort();
    let names: Vec<String> = keys.iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect();
    assert_eq!(names, ["a/z", "b/x", "b/x", "b/y", "b/z"]);
    assert!(keys[1] == keys[2] && keys[1].cmp(&keys[2]).is_eq());
    assert!(Key::new(Kind::NAMESPACE, "z", "z").cmp(&keys[0]) == Kind::NAMESPACE.cmp(&Kind::POD));
}
