//! Namespaces that are on their way out take their content with them, and wait for it (SAF-10); those that every
//! cluster has are made at the start.

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::names::Names;
use crate::object::{Key, Object};
use crate::plan::{Plan, Propagation, Write};
use crate::store::{Action, Change};
use crate::view::View;

use super::{Context, MAX_BURST};

/// The namespaces of every cluster.
const ALWAYS: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// In `spec.finalizers`: this reconciler's word that the content is gone.
const FINALIZER: &str = "kubernetes";

/// The namespaces that every cluster has, as far as they are missing.
pub(super) fn initial_writes(view: &View) -> Plan {
    let missing = ALWAYS.into_iter().filter(|name| !view.has_namespace(name));
    let writes = missing.map(|name| Write::Create {
        kind: Kind::NAMESPACE,
        namespace: String::new(),
        value: json!({"metadata": {"name": name}, "spec": {"finalizers": [FINALIZER]}}),
    });
    Plan { writes: writes.collect(), ..Plan::default() }
}

/// A namespace is woken by itself; one on its way out by what appears in it, and by the last of a kind that goes.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    let object = &change.object;
    if object.key.kind == Kind::NAMESPACE {
        if change.action != Action::Deleted && object.is_deleting() {
            wake(object.key.clone());
        }
        return;
    }
    if object.namespace().is_empty() {
        return;
    }
    let key = Key::new(Kind::NAMESPACE, "", object.namespace());
    if view.get(&key).is_some_and(|namespace| namespace.is_deleting()) {
        let concerns = match change.action {
            Action::Added => true,
            Action::Modified => false,
            Action::Deleted => view.list(object.key.kind, Some(object.namespace())).next().is_none(),
        };
        if concerns {
            wake(key);
        }
    }
}

/// Deletes what is in it; says when it is empty; goes.
pub(super) fn plan(context: &Context<'_>, key: &Key, _names: &mut Names) -> Plan {
    let mut plan = Plan::default();
    let Some(namespace) = context.view.get(key).filter(|namespace| namespace.is_deleting()) else { return plan };
    let content = || kinds().flat_map(|kind| context.view.list(kind, Some(namespace.name())));
    for object in content().filter(|object| !object.is_deleting()) {
        if plan.writes.len() >= MAX_BURST {
            plan.wake(context.now.mono);
            return plan;
        }
        plan.writes.push(Write::Delete {
            key: object.key.clone(),
            uid: object.uid,
            grace_seconds: None,
            propagation: Some(Propagation::Background),
        });
    }
    if plan.writes.is_empty() && content().next().is_none() {
        plan.writes.extend(finish(namespace));
    }
    plan
}

/// The kinds of a namespace's content that are stored.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::all().filter(|kind| kind.info().namespaced && kind.info().stored)
}

fn finish(namespace: &Object) -> Option<Write> {
    let mut value = namespace.value();
    let finalizers = value["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    let others: Vec<Value> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
    if others.len() < finalizers.len() {
        value["spec"]["finalizers"] = Value::Array(others);
        return Some(Write::Update { key: namespace.key.clone(), expected: namespace.revision, value });
    }
    let free = others.is_empty() && !namespace.finalizers;
    free.then(|| Write::Remove { key: namespace.key.clone(), uid: namespace.uid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::fixtures::{pod, replica_set};
    use crate::reconcile::harness::Cluster;

    // SAF-10
    #[test]
    fn a_namespace_goes_when_its_last_pod_has_ended() {
        let mut cluster = Cluster::new(&["n1"]);
        let edge = Key::new(Kind::NAMESPACE, "", "edge");
        cluster.create(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}, "spec": {"finalizers": ["kubernetes"]},
        }));
        let mut set = replica_set("web", 2);
        set["metadata"]["namespace"] = json!("edge");
        cluster.create(set);
        let mut alone = pod("alone").build();
        alone["metadata"]["namespace"] = json!("edge");
        cluster.create(alone);
        cluster.run();
        cluster.silent.insert("n1".to_owned());
        cluster.delete(&edge, Propagation::Background);
        let pods = cluster.all(Kind::POD);
        assert!(pods.len() == 3 && pods.iter().all(|pod| pod.is_deleting()));
        assert_eq!(cluster.all(Kind::REPLICA_SET).len(), 0);
        assert!(cluster.has(&edge));
        cluster.silent.clear();
        cluster.run();
        assert!(!cluster.has(&edge));
        assert!(cluster.has(&Key::new(Kind::NAMESPACE, "", "default")));
    }

    #[test]
    fn the_first_namespaces_are_made_once() {
        let cluster = Cluster::new(&[]);
        assert_eq!(cluster.all(Kind::NAMESPACE).len(), 4);
        assert_eq!(initial_writes(&cluster.view), Plan::default());
    }
}
