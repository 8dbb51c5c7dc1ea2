//! scheduling.k8s.io/v1 `PriorityClass` (PRI-01), and how pods find theirs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::at::{At, Causes, default, immutable, one_of, text};
use super::{Rules, nothing_to_admit, nothing_to_keep, syntax};
use crate::error::ApiError;
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::rows::Row;
use crate::view::View;

/// The rules for priority classes.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults: |class| default(class, "preemptionPolicy", || json!(PREEMPT)),
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update,
    validate_status: |_, _, _| {},
};

/// The classes that every cluster has: name, value, description.
pub const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// What a pod preempts when nothing else is said.
const PREEMPT: &str = "PreemptLowerPriority";
/// The names that no user may give.
const SYSTEM_PREFIX: &str = "system-";
/// The highest value that a user may give.
const HIGHEST: i64 = 1_000_000_000;

/// What a pod has of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// Empty for none.
    pub(super) name: String,
    /// `value`
    pub(super) value: i64,
    /// `preemptionPolicy`
    pub(super) preemption_policy: String,
}

impl Class {
    /// What pods have that have no class.
    pub(super) fn none() -> Self {
        Self { name: String::new(), value: 0, preemption_policy: PREEMPT.to_owned() }
    }

    fn of(object: &Object) -> Self {
        let value = object.value();
        let policy = Some(text(&value, "preemptionPolicy")).filter(|policy| !policy.is_empty());
        Self {
            name: object.name().to_owned(),
            value: value["value"].as_i64().unwrap_or_default(),
            preemption_policy: policy.unwrap_or(PREEMPT).to_owned(),
        }
    }
}

/// The class of this name. The system's own are known even while their objects are not there.
pub(super) fn find(view: &View, name: &str) -> Option<Class> {
    let stored = view.get(&Key::new(Kind::PRIORITY_CLASS, "", name)).map(|object| Class::of(object));
    stored.or_else(|| {
        let (name, value, _) = SYSTEM_CLASSES.iter().find(|(known, ..)| *known == name)?;
        Some(Class { name: (*name).to_owned(), value: *value, preemption_policy: PREEMPT.to_owned() })
    })
}

/// The class of pods that name none; of several, the one with the lowest value.
pub(super) fn default_of(view: &View) -> Option<Class> {
    let is_default = |object: &&Arc<Object>| matches!(object.row, Row::PriorityClass { is_default: true });
    let all = view.list(Kind::PRIORITY_CLASS, None).filter(is_default);
    all.map(|object| Class::of(object)).min_by_key(|class| class.value)
}

/// Refuses a second default.
pub(super) fn only_one_default(view: &View, class: &Value) -> Result<(), ApiError> {
    let name = text(&class["metadata"], "name");
    match default_of(view).filter(|known| class["globalDefault"] == true && known.name != name) {
        None => Ok(()),
        Some(known) => {
            let detail =
                format!("PriorityClass {} is already marked as default. Only one default can exist", known.name);
            Err(ApiError::forbidden(Kind::PRIORITY_CLASS, name, &detail))
        }
    }
}

fn validate(class: &Value, causes: &mut Causes) {
    let name = text(&class["metadata"], "name");
    let value = class["value"].as_i64();
    if value.is_none() {
        causes.push(At::Root.field("value").required("the priority that pods of this class have"));
    } else if name.starts_with(SYSTEM_PREFIX) {
        if let Err(detail) = is_system_class(name, value, class["globalDefault"] == true) {
            let at = At::Root.field("metadata");
            causes.push(at.field("name").forbidden(&format!(
                "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {detail}"
            )));
        }
    } else if value > Some(HIGHEST) {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        causes.push(At::Root.field("value").forbidden(&detail));
    }
    one_of(class, "preemptionPolicy", &[PREEMPT, "Never"], &At::Root, causes);
}

fn is_system_class(name: &str, value: Option<i64>, is_default: bool) -> Result<(), String> {
    let known = SYSTEM_CLASSES.iter().find(|(known, ..)| *known == name);
    let (_, wanted, _) = known.ok_or_else(|| format!("{name} is not a known system priority class"))?;
    if value != Some(*wanted) {
        return Err(format!("value of {name} PriorityClass must be {wanted}"));
    }
    if is_default {
        return Err(format!("globalDefault of {name} PriorityClass must be false"));
    }
    Ok(())
}

fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    if old["value"] != new["value"] {
        causes.push(At::Root.field("value").forbidden("may not be changed in an update."));
    }
    immutable(old, new, "preemptionPolicy", &At::Root, causes);
}
