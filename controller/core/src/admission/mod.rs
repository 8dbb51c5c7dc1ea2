//! What a manifest must be: decoding, defaults and validation.
//!
//! *In:* an object as JSON, the old one for an update, and the view. *Out:* the object with its defaults, or every
//! field that is wrong, with what would be right (POD-05).
//! *Must never know:* who asked, over which transport; the store.
//! *Tested:* tables beside each rule; lists of bad manifests in `tests/`.
//!
//! One file a kind, listed in [`rules`]. What this build cannot do yet is refused with its path in
//! `not_in_this_build`, never ignored in silence (POD-14). The way of an object: [`decode()`] when it comes from a user,
//! then [`create`] or [`update`].

mod decode;

mod at;
mod syntax;

mod metadata;

mod pod_defaults;

mod container;
mod downward;
mod label_keys;
mod label_selector;
mod not_in_this_build;
mod pod_affinity;
mod pod_spec;
mod quantities;
mod scheduling;
mod spread;
mod volumes;
mod workload;

mod part;

mod config_map;
mod daemon_set;
mod deployment;
mod event;
mod namespace;
mod node;
mod pod;
mod pod_disruption_budget;
mod priority;
mod priority_class;
mod replica_set;
mod secret;
mod service;
mod storage_class;
mod volume;
mod volume_claim;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::kind::Kind;
use crate::object::Key;
use crate::request::FieldValidation;
use crate::view::View;

use at::Causes;
use syntax::Rule;

pub(crate) use part::{check_node_affinity, check_spread};
pub use priority_class::SYSTEM_CLASSES;

/// What there is to know of one kind.
struct Rules {
    /// How `metadata.name` is spelled.
    name: Rule,
    /// Fills in what is not given; for a new object and for a changed one.
    defaults: fn(&mut Value),
    /// What the server adds to a new object, or why it refuses it.
    admit: fn(&mut Value) -> Result<(), ApiError>,
    /// Takes from the old object what an update may leave out: (old, new).
    keep: fn(&Value, &mut Value),
    /// Checks the object without its metadata.
    validate: fn(&Value, &mut Causes),
    /// Checks what has changed: (old, new).
    validate_update: fn(&Value, &Value, &mut Causes),
    /// Checks a new status: (old, new).
    validate_status: fn(&Value, &Value, &mut Causes),
}

/// The rules of every kind that can be written.
fn rules(kind: Kind) -> Option<&'static Rules> {
    Some(match kind {
        Kind::NAMESPACE => &namespace::RULES,
        Kind::NODE => &node::RULES,
        Kind::POD => &pod::RULES,
        Kind::CONFIG_MAP => &config_map::RULES,
        Kind::SECRET => &secret::RULES,
        Kind::EVENT => &event::RULES,
        Kind::REPLICA_SET => &replica_set::RULES,
        Kind::DEPLOYMENT => &deployment::RULES,
        Kind::DAEMON_SET => &daemon_set::RULES,
        Kind::PRIORITY_CLASS => &priority_class::RULES,
        Kind::POD_DISRUPTION_BUDGET => &pod_disruption_budget::RULES,
        Kind::SERVICE => &service::RULES,
        Kind::PERSISTENT_VOLUME => &volume::RULES,
        Kind::PERSISTENT_VOLUME_CLAIM => &volume_claim::RULES,
        Kind::STORAGE_CLASS => &storage_class::RULES,
        _ => return None,
    })
}

fn no_defaults(_: &mut Value) {}

const fn nothing_to_admit(_: &mut Value) -> Result<(), ApiError> {
    Ok(())
}

fn nothing_to_keep(_: &Value, _: &mut Value) {}

/// Reads what a user sent as its Kubernetes type. Unknown fields are refused (`Strict`), or taken out and named in
/// warnings (`Warn`), or taken out (`Ignore`); fields that are `null` go, a whole float becomes an integer where one is
/// wanted, and a bare number becomes a text where a quantity is.
///
/// # Errors
/// `BadRequest` with the path of a value of another type, or with every unknown field.
pub fn decode(kind: Kind, value: &mut Value, validation: FieldValidation) -> Result<Vec<String>, ApiError> {
    decode::decode(kind, value, validation)
}

/// Fills in the defaults of a new object and checks it. Its name and namespace are in its metadata already.
///
/// # Errors
/// `NotFound` or `Forbidden` for its namespace, `Forbidden` for its priority class, `Invalid` with every wrong field.
pub fn create(view: &View, kind: Kind, value: &mut Value) -> Result<(), ApiError> {
    let rules = rules(kind).ok_or_else(ApiError::method_not_allowed)?;
    let name = at::text(&value["metadata"], "name").to_owned();
    if kind.info().namespaced {
        check_namespace(view, kind, &value["metadata"], &name)?;
    }
    (rules.defaults)(value);
    consult(view, kind, None, value)?;
    (rules.admit)(value)?;
    let mut causes = Causes::new();
    metadata::validate(value, rules.name, kind.info().namespaced, &mut causes);
    (rules.validate)(value, &mut causes);
    refuse(kind, &name, causes)
}

/// Fills in the defaults of a changed object and checks it, and that nothing has changed that may not.
///
/// # Errors
/// `Forbidden` for a second default priority class, `Invalid` with every wrong field.
pub fn update(view: &View, kind: Kind, old: &Value, new: &mut Value) -> Result<(), ApiError> {
    let rules = rules(kind).ok_or_else(ApiError::method_not_allowed)?;
    (rules.keep)(old, new);
    (rules.defaults)(new);
    consult(view, kind, Some(old), new)?;
    let mut causes = Causes::new();
    metadata::validate(new, rules.name, kind.info().namespaced, &mut causes);
    metadata::validate_update(old, new, &mut causes);
    (rules.validate_update)(old, new, &mut causes);
    // What was stored was right; the same again need not be looked at again.
    if causes.is_empty() && !same_content(old, new) {
        (rules.validate)(new, &mut causes);
    }
    refuse(kind, at::text(&new["metadata"], "name"), causes)
}

/// Checks a new status; everything but the status is as in `old`.
///
/// # Errors
/// `Invalid` with every wrong field.
pub fn status(_view: &View, kind: Kind, old: &Value, new: &Value) -> Result<(), ApiError> {
    let rules = rules(kind).ok_or_else(ApiError::method_not_allowed)?;
    let mut causes = Causes::new();
    (rules.validate_status)(old, new, &mut causes);
    refuse(kind, at::text(&new["metadata"], "name"), causes)
}

/// What an object that is accepted does not do yet, in sentences for the header `Warning`.
#[must_use]
pub fn warnings(kind: Kind, value: &Value) -> Vec<String> {
    match kind {
        Kind::SERVICE => service::warnings(value),
        Kind::POD => volumes::warnings(&value["spec"]),
        _ => Vec::new(),
    }
}

/// What other objects mean for a new object (without an old one) or a changed one.
fn consult(view: &View, kind: Kind, old: Option<&Value>, new: &mut Value) -> Result<(), ApiError> {
    match (kind, old) {
        (Kind::POD, None) => priority::resolve(view, new)?,
        (Kind::PRIORITY_CLASS, _) => priority_class::only_one_default(view, new)?,
        (Kind::PERSISTENT_VOLUME_CLAIM, None) => volume_claim::choose_class(view, new),
        _ => {}
    }
    Ok(())
}

fn refuse(kind: Kind, name: &str, causes: Causes) -> Result<(), ApiError> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(kind, name, causes)) }
}

/// Whether two objects are the same but for metadata and status.
fn same_content(old: &Value, new: &Value) -> bool {
    let content = |name: &str| !matches!(name, "apiVersion" | "kind" | "metadata" | "status");
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    let within = |one: &Map<String, Value>, two: &Map<String, Value>| {
        one.iter().all(|(name, field)| !content(name) || two.get(name) == Some(field))
    };
    within(old, new) && within(new, old)
}

/// A new object's namespace is there and stays.
fn check_namespace(view: &View, kind: Kind, metadata: &Value, name: &str) -> Result<(), ApiError> {
    let namespace = at::text(metadata, "namespace");
    let object = view
        .get(&Key::new(Kind::NAMESPACE, "", namespace))
        .ok_or_else(|| ApiError::not_found(Kind::NAMESPACE, namespace))?;
    if object.is_deleting() {
        let detail = format!("unable to create new content in namespace {namespace} because it is being terminated");
        return Err(ApiError::forbidden(kind, name, &detail));
    }
    Ok(())
}
