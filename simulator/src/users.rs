//! People who ask for things: deployments that come, grow, change and go, daemon sets, and pods that end by themselves.

use coracle_controller_core::Kind;
use coracle_controller_core::request::{DeleteOptions, FieldValidation, PatchType, Request, Verb};
use serde_json::{Value, json};

use crate::chance::Chance;

const NAMES: u64 = 4;

/// The next wish.
pub(crate) fn wish(chance: &mut Chance) -> Request {
    let number = chance.below(NAMES);
    let deployment = format!("web-{number}");
    match chance.below(10) {
        0..=3 => apply(Kind::DEPLOYMENT, &deployment, deployment_of(&deployment, chance)),
        4 | 5 => {
            let scale = json!({"spec": {"replicas": chance.below(7)}});
            request(Kind::DEPLOYMENT, &deployment, Verb::Patch(PatchType::Merge, scale))
        }
        6 => request(Kind::DEPLOYMENT, &deployment, Verb::Delete(DeleteOptions::default())),
        7 => {
            let name = format!("job-{}", chance.below(20));
            apply(Kind::POD, &name, job(&name, chance))
        }
        8 => {
            let name = format!("job-{}", chance.below(20));
            let grace_seconds = if chance.per_mille(200) { Some(0) } else { None };
            request(Kind::POD, &name, Verb::Delete(DeleteOptions { grace_seconds, ..DeleteOptions::default() }))
        }
        _ => apply(Kind::DAEMON_SET, "sensor", daemon_set(chance)),
    }
}

/// Somebody deletes the Node of an agent that may well be alive.
pub(crate) fn forget_node(name: &str) -> Request {
    Request { namespace: String::new(), ..request(Kind::NODE, name, Verb::Delete(DeleteOptions::default())) }
}

fn request(kind: Kind, name: &str, verb: Verb) -> Request {
    Request {
        kind,
        namespace: "default".to_owned(),
        name: name.to_owned(),
        subresource: None,
        verb,
        dry_run: false,
        field_validation: FieldValidation::Strict,
    }
}

fn apply(kind: Kind, name: &str, value: Value) -> Request {
    request(kind, name, Verb::Apply(value))
}

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "100m"}}}],
        },
    })
}

fn deployment_of(name: &str, chance: &mut Chance) -> Value {
    let image = ["web:1", "web:2", "stubborn:1"][usize::try_from(chance.below(3)).unwrap_or(0)];
    let strategy = if chance.per_mille(250) { "Recreate" } else { "RollingUpdate" };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": chance.below(7), "strategy": {"type": strategy},
            "selector": {"matchLabels": {"app": name}}, "template": template(name, image),
        },
    })
}

fn daemon_set(chance: &mut Chance) -> Value {
    let image = ["sensor:1", "sensor:2"][usize::try_from(chance.below(2)).unwrap_or(0)];
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "sensor", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "sensor"}}, "template": template("sensor", image)},
    })
}

fn job(name: &str, chance: &mut Chance) -> Value {
    let image = ["job:1", "crasher:1"][usize::try_from(chance.below(2)).unwrap_or(0)];
    let policy = ["Never", "OnFailure"][usize::try_from(chance.below(2)).unwrap_or(0)];
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "restartPolicy": policy, "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "50m"}}}],
        },
    })
}
