//! v1 `PersistentVolumeClaim` (VOL-02).

use serde_json::{Value, json};

use super::at::{At, Causes, default, given, one_of, text};
use super::volume::{access_modes, modes_and_classes, positive};
use super::{Rules, label_selector, nothing_to_keep, quantities, syntax};
use crate::error::ApiError;
use crate::kind::Kind;
use crate::view::View;
use crate::volumes::BETA_CLASS;

/// The rules for claims.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults,
    admit,
    keep: nothing_to_keep,
    validate,
    validate_update,
    validate_status: |_, new, causes| {
        one_of(&new["status"], "phase", &["Bound", "Lost", "Pending"], &At::Root.field("status"), causes);
    },
};

/// The annotation of the class of claims that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

fn defaults(claim: &mut Value) {
    default(claim, "spec", || json!({}));
    default(&mut claim["spec"], "volumeMode", || json!("Filesystem"));
}

fn admit(claim: &mut Value) -> Result<(), ApiError> {
    claim["status"] = json!({"phase": "Pending"});
    Ok(())
}

/// A claim that says nothing of a class gets the default class; of several, the newest.
pub(super) fn choose_class(view: &View, claim: &mut Value) {
    let has_class = !claim["spec"]["storageClassName"].is_null()
        || !claim["metadata"]["annotations"][BETA_CLASS].is_null()
        || !claim["spec"].is_object();
    if has_class {
        return;
    }
    let classes = view.list(Kind::STORAGE_CLASS, None);
    let default = classes.filter(|class| class.value()["metadata"]["annotations"][DEFAULT_CLASS] == "true");
    let newest = default.min_by_key(|class| (std::cmp::Reverse(class.created_ms), class.key.name.clone()));
    if let Some(class) = newest {
        claim["spec"]["storageClassName"] = json!(class.name());
    }
}

fn validate(claim: &Value, causes: &mut Causes) {
    let (at, spec) = (At::Root.field("spec"), &claim["spec"]);
    access_modes(spec, "at least 1 access mode is required", &at, causes);
    label_selector::validate(&spec["selector"], &at.field("selector"), causes);
    let size = &spec["resources"]["requests"]["storage"];
    let resources = at.field("resources");
    if size.is_null() {
        causes.push(resources.key("storage").required(""));
    } else {
        positive(size, &resources.key("storage"), causes);
    }
    modes_and_classes(spec, &at, causes);
    for field in ["dataSource", "dataSourceRef"] {
        if given(&spec[field]) {
            causes.push(at.field(field).forbidden("volumes that begin with other data are not in this build"));
        }
    }
}

/// A claim stays what it is; its volume and its class may be given later, once.
fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    let at = At::Root.field("spec");
    let (mut before, after) = (old["spec"].clone(), &new["spec"]);
    if text(&before, "volumeName").is_empty() {
        before["volumeName"] = after["volumeName"].clone();
    }
    if before["storageClassName"].is_null() {
        before["storageClassName"] = after["storageClassName"].clone();
    }
    let amount = |value: &Value| quantities::milli(&value["resources"]["requests"]["storage"]);
    let is_bound = old["status"]["phase"] == "Bound";
    if is_bound && amount(after) < amount(&before) {
        let (resources, floor) = (at.field("resources"), quantities::milli(&old["status"]["capacity"]["storage"]));
        if amount(after) <= floor {
            let detail = "field can not be less than status.capacity";
            causes.push(resources.field("requests").field("storage").forbidden(detail));
        }
    }
    if is_bound && amount(after).is_some() {
        before["resources"]["requests"]["storage"] = after["resources"]["requests"]["storage"].clone();
    }
    if without_nulls(before) != without_nulls(after.clone()) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
            bound claims";
        causes.push(at.forbidden(detail));
    }
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}
