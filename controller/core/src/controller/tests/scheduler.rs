//! What the scheduler's configuration does to a whole controller.

use serde_json::{Value, json};

use super::*;
use crate::kind::Subresource;

/// A user wants something of the pod `p`.
fn ask_of_pod(
    fixture: &mut Fixture,
    name: &str,
    subresource: Option<Subresource>,
    value: Value,
) -> Result<Answer, ApiError> {
    fixture.tickets += 1;
    let request = Request {
        kind: Kind::POD,
        namespace: "default".to_owned(),
        name: name.to_owned(),
        subresource,
        verb: Verb::Create(value),
        dry_run: false,
        field_validation: FieldValidation::Strict,
    };
    fixture.controller.handle(fixture.now, Input::Request(fixture.tickets, Box::new(request)));
    let answers = fixture.settle().effects.into_iter().find_map(|effect| match effect {
        Effect::Answer(_, answer) => Some(*answer),
        Effect::Send { .. } => None,
    });
    answers.expect("an answer")
}

fn pod(fixture: &Fixture) -> Value {
    let pod = fixture.controller.view().get(&Key::new(Kind::POD, "default", "p"));
    pod.map(|pod| Object::value(pod)).unwrap_or_default()
}

fn events(fixture: &Fixture) -> Vec<Value> {
    let events = fixture.controller.view().list(Kind::EVENT, None).map(|event| Object::value(event));
    events.filter(|event| event["involvedObject"]["name"] == "p").collect()
}

// SCH-03
#[test]
fn a_pod_of_an_unknown_scheduler_gets_one_event_and_a_foreign_scheduler_binds_it() {
    let mut fixture = Fixture::new();
    let _ = fixture.hear(birth(1));
    let value = json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "mine",
        "containers": [{"name": "c", "image": "samples/sensor:1"}]}});
    assert!(ask_of_pod(&mut fixture, "", None, value).is_ok());
    for _ in 0..3 {
        fixture.pass(20_000);
        let _ = fixture.hear(lease(1));
    }
    let said = events(&fixture);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        (&said[0]["type"], &said[0]["reason"], &said[0]["count"]),
        (&json!("Warning"), &json!("FailedScheduling"), &json!(1))
    );
    assert_eq!(said[0]["message"], "no profile of this scheduler is named \"mine\", want one of \"default-scheduler\"");
    let conditions = pod(&fixture)["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(conditions.iter().all(|condition| condition["type"] != "PodScheduled"), "{conditions:?}");
    // A controller that starts anew on the same state does not say it again.
    let identity = Identity { cluster: ClusterId(1), artifact_key: [7; 32], entropy: 6 };
    fixture.controller = Controller::new(fixture.controller.view().clone(), identity, fixture.now);
    fixture.settle();
    assert_eq!(events(&fixture)[0]["count"], json!(1));
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "pi"}});
    assert!(ask_of_pod(&mut fixture, "p", Some(Subresource::Binding), binding).is_ok());
    assert_eq!(pod(&fixture)["spec"]["nodeName"], "pi");
}

#[test]
fn a_controller_places_pods_by_its_configuration() {
    let file = b"{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, \
                 profiles: [{schedulerName: mine}]}";
    let configuration = crate::schedule::config::parse(file).unwrap();
    let mut fixture = Fixture::new();
    let identity = Identity { cluster: ClusterId(1), artifact_key: [7; 32], entropy: 6 };
    let view = fixture.controller.view().clone();
    fixture.controller = Controller::configured(view, identity, &configuration, fixture.now);
    let _ = fixture.hear(birth(1));
    let value = json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "mine",
        "containers": [{"name": "c", "image": "samples/sensor:1"}]}});
    assert!(ask_of_pod(&mut fixture, "", None, value).is_ok());
    assert_eq!(pod(&fixture)["spec"]["nodeName"], "pi");
    assert_eq!(events(&fixture)[0]["source"]["component"], "mine");
}
