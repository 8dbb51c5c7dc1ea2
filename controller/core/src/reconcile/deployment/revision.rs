//! The new set and the numbers of rollouts (DEP-01, DEP-05).

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Key;
use crate::plan::{Plan, Write};
use crate::reconcile::{Context, controller_reference, note, template};

use super::sets::{REVISION, Set, Sets, annotate, put_annotation};
use super::spec::Deployment;
use super::{COMPONENT, rolling, status, write_status};

/// On a set: the numbers that it had before it came back.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Characters of history that are kept.
const MAX_HISTORY_CHARS: usize = 2_000;

/// Annotations of a deployment that say nothing about its sets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.deployment.rollback.to",
];

/// Brings the new set, if there is one, and the deployment's own number up to date; `None` when they are.
pub(super) fn sync(context: &Context<'_>, deployment: &Deployment, sets: &Sets) -> Option<Plan> {
    let new = sets.new.as_ref()?;
    if let Some(write) = annotated(deployment, new, next_revision(sets)) {
        return Some(Plan { writes: vec![write], ..Plan::default() });
    }
    let object = &deployment.object;
    let number = new.value["metadata"]["annotations"][REVISION].as_str().unwrap_or_default();
    if deployment.value["metadata"]["annotations"][REVISION] != number {
        let mut value = deployment.value.clone();
        put_annotation(&mut value, REVISION, number);
        let write = Write::Update { key: object.key.clone(), expected: object.revision, value };
        return Some(Plan { writes: vec![write], ..Plan::default() });
    }
    status::note_found(context, deployment, new)
}

/// Makes the new set, as large as one step allows. A set of that name with another template is a collision of hashes.
pub(super) fn create(context: &Context<'_>, deployment: &Deployment, sets: &Sets) -> Plan {
    let object = &deployment.object;
    let mut plan = Plan::default();
    if !context.is_open(object.namespace()) {
        return status::report(context, deployment, sets);
    }
    if let Some(at) = status::retry_at(context, deployment) {
        plan.wake(at);
        return plan;
    }
    let name = set_name(deployment);
    if context.view.get(&Key::new(Kind::REPLICA_SET, object.namespace(), &name)).is_some() {
        let mut status = deployment.value["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        status["collisionCount"] = json!(deployment.collision_count.unwrap_or_default() + 1);
        write_status(deployment, status, &mut plan);
        return plan;
    }
    let size = rolling::grown(deployment, 0, sets.total_size());
    let value = new_set(deployment, &name, size, next_revision(sets));
    plan.writes.push(Write::Create { kind: Kind::REPLICA_SET, namespace: object.namespace().to_owned(), value });
    if size > 0 {
        let message = format!("Scaled up replica set {name} from 0 to {size}");
        plan.notes.push(note(object, COMPONENT, false, "ScalingReplicaSet", message));
    }
    // Refused creates end a plan, so this is written only if the set was made.
    write_status(deployment, status::with_created(context, deployment, &name), &mut plan);
    plan
}

/// The name of the new set: the deployment's and the hash of its template.
pub(super) fn set_name(deployment: &Deployment) -> String {
    format!("{}-{}", deployment.object.name(), hash(deployment))
}

fn hash(deployment: &Deployment) -> String {
    template::hash(&deployment.value["spec"]["template"], deployment.collision_count)
}

fn next_revision(sets: &Sets) -> i64 {
    sets.old.iter().map(Set::revision).max().unwrap_or_default() + 1
}

fn new_set(deployment: &Deployment, name: &str, size: i64, revision: i64) -> Value {
    let (object, spec) = (&deployment.object, &deployment.value["spec"]);
    let hash = hash(deployment);
    let mut template = spec["template"].clone();
    template["metadata"]["labels"][template::HASH_LABEL] = json!(hash);
    let mut selector = spec["selector"].clone();
    selector["matchLabels"][template::HASH_LABEL] = json!(hash);
    let labels = template["metadata"]["labels"].clone();
    let mut set = json!({
        "metadata": {
            "name": name, "namespace": object.namespace(), "labels": labels,
            "ownerReferences": [controller_reference(object)],
        },
        "spec": {"replicas": size, "selector": selector, "template": template},
    });
    if let Some(seconds) = spec["minReadySeconds"].as_u64().filter(|seconds| *seconds > 0) {
        set["spec"]["minReadySeconds"] = json!(seconds);
    }
    copy_annotations(&mut set, &deployment.value);
    put_annotation(&mut set, REVISION, &revision.to_string());
    annotate(&mut set, deployment);
    set
}

/// The new set with the deployment's annotations, the highest revision and its `minReadySeconds`.
fn annotated(deployment: &Deployment, new: &Set, next: i64) -> Option<Write> {
    let mut value = new.value.clone();
    copy_annotations(&mut value, &deployment.value);
    let before = new.revision();
    if before < next {
        if before > 0 {
            let annotations = &value["metadata"]["annotations"];
            let history = annotations[REVISION_HISTORY].as_str().unwrap_or_default();
            let history = longer_history(history, before);
            put_annotation(&mut value, REVISION_HISTORY, &history);
        }
        put_annotation(&mut value, REVISION, &next.to_string());
    }
    let seconds = |value: &Value| value["spec"]["minReadySeconds"].as_u64().unwrap_or_default();
    let wanted = seconds(&deployment.value);
    if seconds(&value) != wanted {
        value["spec"]["minReadySeconds"] = json!(wanted);
    }
    let object = &new.object;
    (value != new.value).then(|| Write::Update { key: object.key.clone(), expected: object.revision, value })
}

/// Old numbers, comma-separated; the oldest go when there are too many.
fn longer_history(history: &str, revision: i64) -> String {
    let mut longer = if history.is_empty() { revision.to_string() } else { format!("{history},{revision}") };
    while longer.len() > MAX_HISTORY_CHARS
        && let Some((_, newer)) = longer.split_once(',')
    {
        longer = newer.to_owned();
    }
    longer
}

fn copy_annotations(set: &mut Value, deployment: &Value) {
    for (name, text) in deployment["metadata"]["annotations"].as_object().into_iter().flatten() {
        if let Some(text) = text.as_str().filter(|_| !NOT_COPIED.contains(&name.as_str())) {
            put_annotation(set, name, text);
        }
    }
}
