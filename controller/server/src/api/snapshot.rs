//! Objects as they were at one revision, and which of them a request means.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_controller_core::object::{Key, Object};
use coracle_controller_core::selector::{FieldSelector, LabelSelector};
use coracle_controller_core::store::Action;
use coracle_controller_core::{ApiError, Kind};
use futures_util::FutureExt;

use super::query::Query;
use super::route::Target;
use super::{App, lease};

/// Which objects of a kind are meant.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// The kind.
    pub(super) kind: Kind,
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Reads path, `labelSelector` and `fieldSelector`.
    pub(super) fn of(target: &Target, query: &Query) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(query.text("labelSelector").unwrap_or_default())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(target.kind, query.text("fieldSelector").unwrap_or_default())?;
        Ok(Self { kind: target.kind, namespace: target.namespace.clone(), labels, fields })
    }

    /// Whether there are no selectors: every object of the namespace is meant.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether this object is meant.
    pub(super) fn matches(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && self.labels.matches(&object.labels)
            && self.fields.matches(object)
    }
}

/// The revision of the committed view, and what is meant of it, by namespace and name.
pub(super) fn now(app: &App, selection: &Selection) -> (u64, Vec<Arc<Object>>) {
    let (revision, mut objects) = candidates(app, selection);
    // Outside the lock: a field selector may have to read JSON.
    objects.retain(|object| selection.matches(object));
    (revision, objects)
}

fn candidates(app: &App, selection: &Selection) -> (u64, Vec<Arc<Object>>) {
    let renewed = if selection.kind.info().stored { Vec::new() } else { app.cluster.leases() };
    let namespace = selection.namespace.as_deref();
    app.cluster.read(|view| {
        let objects = if !selection.kind.info().stored {
            lease::all(view, &renewed)
        } else if let Some(node) = selection.fields.node().filter(|_| selection.kind == Kind::POD) {
            view.pods_on(node).cloned().collect()
        } else if let (Some(namespace), Some(name)) =
            (one_namespace(selection.kind, namespace), selection.fields.name())
        {
            view.get(&Key::new(selection.kind, namespace, name)).into_iter().cloned().collect()
        } else {
            view.list(selection.kind, namespace).cloned().collect()
        };
        (view.revision(), objects)
    })
}

/// The namespace that a name is unique in; `None` when all namespaces are meant.
fn one_namespace(kind: Kind, namespace: Option<&str>) -> Option<&str> {
    if kind.info().namespaced { namespace } else { Some("") }
}

/// One object, also one that is not stored.
pub(super) fn one(app: &App, kind: Kind, namespace: &str, name: &str) -> Result<Arc<Object>, ApiError> {
    let missing = || ApiError::not_found(kind, name);
    let key = Key::new(kind, namespace, name);
    if kind.info().stored {
        return app.cluster.read(|view| view.get(&key).cloned()).ok_or_else(missing);
    }
    let renewed = app.cluster.leases();
    let leases = app.cluster.read(|view| lease::all(view, &renewed));
    leases.into_iter().find(|lease| lease.key == key).ok_or_else(missing)
}

/// What was meant at an earlier revision: the committed view, with the changes since then undone.
///
/// # Errors
/// 410 when they are no longer known.
pub(super) fn at(app: &App, selection: &Selection, revision: u64) -> Result<Vec<Arc<Object>>, ApiError> {
    let everything =
        Selection { labels: LabelSelector::everything(), fields: FieldSelector::default(), ..selection.clone() };
    let (current, objects) = now(app, &everything);
    let mut then: BTreeMap<Key, Arc<Object>> = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
    if revision < current && selection.kind.info().stored {
        let mut seen = std::collections::BTreeSet::new();
        let mut changes = app.cluster.watch(selection.kind, revision)?;
        while changes.revision() < current {
            // Everything up to `current` is committed, so there is nothing to wait for.
            let Some(batch) = changes.next().now_or_never() else { break };
            for change in batch?.iter().filter(|change| change.revision <= current) {
                if !seen.insert(change.object.key.clone()) {
                    continue;
                }
                match (&change.previous, change.action) {
                    (Some(previous), _) => then.insert(previous.key.clone(), Arc::clone(previous)),
                    (None, Action::Added) => then.remove(&change.object.key),
                    // Its state before is not known: the log does not keep it.
                    (None, Action::Modified | Action::Deleted) => {
                        return Err(ApiError::expired("the state at that revision is no longer known"));
                    }
                };
            }
        }
    }
    Ok(then.into_values().filter(|object| selection.matches(object)).collect())
}
