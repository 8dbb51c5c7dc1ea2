//! Whose is it? A controller adopts what matches its selector and has no controller, and releases what it controls and
//! no longer matches (RS-02, DEP-01). The last word has the owner reference, so two with one selector never take each
//! other's.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::plan::Write;
use crate::selector::LabelSelector;
use crate::store::{Action, Change};
use crate::view::View;

use super::{Context, controller_reference};

/// What an owner controls, and what must be written before it can go on.
pub(super) struct Claimed {
    /// Controlled and matching.
    pub(super) objects: Vec<Arc<Object>>,
    /// Adoptions and releases. While there are any, a plan is these alone.
    pub(super) writes: Vec<Write>,
}

/// Goes through what `owner` controls or may adopt. An owner on its way out neither adopts nor releases.
pub(super) fn claim(context: &Context<'_>, owner: &Object, selector: &LabelSelector, kind: Kind) -> Claimed {
    let view = context.view;
    let mut claimed = Claimed { objects: Vec::new(), writes: Vec::new() };
    for object in view.owned_by(owner.uid).filter(|object| object.key.kind == kind && controls(owner, object)) {
        if selector.matches(&object.labels) {
            claimed.objects.push(Arc::clone(object));
        } else if !owner.is_deleting() && !is_over(object) {
            claimed.writes.push(release(object, owner));
        }
    }
    if owner.is_deleting() {
        return claimed;
    }
    for orphan in view.orphans(kind, owner.namespace()) {
        if selector.matches(&orphan.labels) && !orphan.is_deleting() && !is_over(orphan) {
            claimed.writes.push(adopt(orphan, owner));
        }
    }
    claimed
}

/// Whether `owner` is the controller of `object`.
pub(super) fn controls(owner: &Object, object: &Object) -> bool {
    object.controller().is_some_and(|reference| reference.uid == owner.uid)
}

/// A pod that has come to its end is left as it is.
fn is_over(object: &Object) -> bool {
    object.row.pod().is_some_and(|row| row.phase.is_terminal())
}

fn adopt(object: &Object, owner: &Object) -> Write {
    let mut value = object.value();
    drop_reference(&mut value, owner);
    let references = &mut value["metadata"]["ownerReferences"];
    if !references.is_array() {
        *references = json!([]);
    }
    if let Some(list) = references.as_array_mut() {
        list.push(controller_reference(owner));
    }
    Write::Update { key: object.key.clone(), expected: object.revision, value }
}

fn release(object: &Object, owner: &Object) -> Write {
    let mut value = object.value();
    drop_reference(&mut value, owner);
    Write::Update { key: object.key.clone(), expected: object.revision, value }
}

fn drop_reference(value: &mut Value, owner: &Object) {
    drop_references(value, |uid| uid == owner.uid.to_string());
}

/// Takes the owner references out whose uid is meant.
pub(super) fn drop_references(value: &mut Value, meant: impl Fn(&str) -> bool) {
    let Some(metadata) = value["metadata"].as_object_mut() else { return };
    let Some(list) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    list.retain(|reference| !reference["uid"].as_str().is_some_and(&meant));
    if list.is_empty() {
        metadata.remove("ownerReferences");
    }
}

/// Wakes the owners of a kind that a change of something ownable concerns: its controller now and before, and, if it
/// has none, everyone who may adopt it.
pub(super) fn wake_owners(view: &View, change: &Change, owner_kind: Kind, wake: &mut dyn FnMut(Key)) {
    let controller = |object: &Object| {
        let key = object.controller().and_then(|owner| owner.key.clone());
        key.filter(|key| key.kind == owner_kind)
    };
    let object = &change.object;
    if let Some(key) = controller(object) {
        wake(key);
    }
    if let Some(key) = change.previous.as_deref().and_then(controller) {
        wake(key);
    }
    let became_orphan = change.action != Action::Deleted
        && object.controller().is_none()
        && change.previous.as_ref().is_none_or(|old| old.labels != object.labels || old.controller().is_some());
    if became_orphan && !object.labels.is_empty() {
        for owner in view.list(owner_kind, Some(object.namespace())) {
            if selector_of(owner).is_some_and(|selector| selector.matches(&object.labels)) {
                wake(owner.key.clone());
            }
        }
    }
}

/// `spec.selector`, and nothing else of the object.
fn selector_of(owner: &Object) -> Option<LabelSelector> {
    #[derive(Deserialize)]
    struct Owner {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        selector: Value,
    }
    let owner: Owner = owner.decode()?;
    LabelSelector::of_json(&owner.spec.selector).ok()
}
