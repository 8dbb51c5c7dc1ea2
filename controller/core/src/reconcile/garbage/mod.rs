//! What nobody owns any more (GC-03): what lost its owners goes; an owner that is deleted in the foreground waits for
//! what blocks it; an owner that orphans lets go first.
//!
//! An owner is gone when its key holds nothing, or something with another uid. An owner of a kind that is not served is
//! never gone, since nobody can tell.

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::names::Names;
use crate::object::{Key, Object, Owner};
use crate::plan::{Plan, Propagation, Write};
use crate::store::{Action, Change};
use crate::view::View;
use crate::write::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};

use super::{Context, claim};

/// What an owner means for what it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    /// It keeps it.
    Solid,
    /// It is gone.
    Gone,
    /// It is being deleted in the foreground and waits for it.
    Waiting,
}

/// An object is woken when its owners change or go, an owner when what it waits for goes.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    let object = &change.object;
    match change.action {
        Action::Deleted => view.owned_by(object.uid).for_each(|owned| wake(owned.key.clone())),
        Action::Added | Action::Modified => {
            if object.is_deleting() && object.finalizers {
                wake(object.key.clone());
                let before = change.previous.as_ref();
                if before.is_none_or(|before| !before.is_deleting() || !before.finalizers) {
                    view.owned_by(object.uid).for_each(|owned| wake(owned.key.clone()));
                }
            }
            let owners_before = change.previous.as_ref().map(|before| &before.owners);
            if !object.owners.is_empty() && owners_before != Some(&object.owners) {
                wake(object.key.clone());
            }
        }
    }
    for owner in change.previous.iter().flat_map(|before| before.owners.iter()) {
        let let_go = change.action == Action::Deleted || !object.owners.contains(owner);
        let waits = |found: &&std::sync::Arc<Object>| found.is_deleting() && found.finalizers;
        if let_go && let Some(waiting) = view.by_uid(owner.uid).filter(waits) {
            // Only the last one matters; looking for another one costs little.
            if !view.owned_by(owner.uid).any(|owned| blocks(owned, waiting)) {
                wake(waiting.key.clone());
            }
        }
    }
}

/// What is to be done about one object, as an owner and as something owned.
pub(super) fn plan(context: &Context<'_>, key: &Key, _names: &mut Names) -> Plan {
    let Some(object) = context.view.get(key) else { return Plan::default() };
    let writes = if object.is_deleting() {
        if object.finalizers { let_go(context.view, object) } else { Vec::new() }
    } else {
        keep_or_delete(context.view, object).into_iter().collect()
    };
    Plan { writes, ..Plan::default() }
}

/// An owner on its way out: orphans what it owns, or waits for it.
fn let_go(view: &View, owner: &Object) -> Vec<Write> {
    let value = owner.value();
    if has_finalizer(&value, ORPHAN_FINALIZER) {
        let freed: Vec<Write> = view.owned_by(owner.uid).map(|owned| freed(owned, &[owner.uid.to_string()])).collect();
        return if freed.is_empty() { vec![without_finalizer(owner, value, ORPHAN_FINALIZER)] } else { freed };
    }
    if has_finalizer(&value, FOREGROUND_FINALIZER) && !view.owned_by(owner.uid).any(|owned| blocks(owned, owner)) {
        return vec![without_finalizer(owner, value, FOREGROUND_FINALIZER)];
    }
    Vec::new()
}

/// Whether the deletion of `owner` waits for `owned`.
fn blocks(owned: &Object, owner: &Object) -> bool {
    owned.owners.iter().any(|reference| reference.uid == owner.uid && reference.blocks)
}

/// Something owned: it stays while one owner keeps it, and then lets the others go; else it goes.
fn keep_or_delete(view: &View, object: &Object) -> Option<Write> {
    let ties: Vec<(&Owner, Tie)> = object.owners.iter().map(|owner| (owner, tie(view, object, owner))).collect();
    let loose: Vec<String> =
        ties.iter().filter(|(_, tie)| *tie != Tie::Solid).map(|(owner, _)| owner.uid.to_string()).collect();
    if loose.is_empty() {
        return None;
    }
    if loose.len() < ties.len() {
        return Some(freed(object, &loose));
    }
    let waiting = ties.iter().any(|(_, tie)| *tie == Tie::Waiting);
    let propagation = if waiting && view.owned_by(object.uid).next().is_some() {
        Propagation::Foreground
    } else {
        own_propagation(object)
    };
    let (key, uid) = (object.key.clone(), object.uid);
    Some(Write::Delete { key, uid, grace_seconds: None, propagation: Some(propagation) })
}

fn tie(view: &View, object: &Object, owner: &Owner) -> Tie {
    let Some(key) = &owner.key else { return Tie::Solid };
    // Something outside namespaces cannot name an owner inside one.
    if key.kind.info().namespaced && object.namespace().is_empty() {
        return Tie::Solid;
    }
    match view.get_same(key, owner.uid) {
        None => Tie::Gone,
        Some(found)
            if found.is_deleting() && found.finalizers && has_finalizer(&found.value(), FOREGROUND_FINALIZER) =>
        {
            Tie::Waiting
        }
        Some(_) => Tie::Solid,
    }
}

/// What an object's finalizers already say about what it owns.
fn own_propagation(object: &Object) -> Propagation {
    let value = if object.finalizers { object.value() } else { Value::Null };
    if has_finalizer(&value, ORPHAN_FINALIZER) {
        Propagation::Orphan
    } else if has_finalizer(&value, FOREGROUND_FINALIZER) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

fn has_finalizer(value: &Value, name: &str) -> bool {
    value["metadata"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|finalizer| finalizer == name))
}

fn without_finalizer(object: &Object, mut value: Value, name: &str) -> Write {
    if let Some(metadata) = value["metadata"].as_object_mut()
        && let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut)
    {
        list.retain(|finalizer| finalizer != name);
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    }
    Write::Update { key: object.key.clone(), expected: object.revision, value }
}

fn freed(object: &Object, owners: &[String]) -> Write {
    let mut value = object.value();
    claim::drop_references(&mut value, |uid| owners.iter().any(|owner| owner == uid));
    Write::Update { key: object.key.clone(), expected: object.revision, value }
}
