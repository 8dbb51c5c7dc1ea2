//! v1 Node: taints and amounts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::at::{At, Causes, entries, given, items, text};
use super::{Rules, no_defaults, nothing_to_admit, nothing_to_keep, quantities, syntax};

/// The rules for nodes.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults: no_defaults,
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update,
    validate_status: |_, new, causes| amounts(new, causes),
};

fn validate(node: &Value, causes: &mut Causes) {
    let at = At::Root.field("spec");
    let at = at.field("taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in items(&node["spec"]["taints"]) {
        let at = at.item(index);
        syntax::check(text(taint, "key"), syntax::qualified_name, &at.field("key"), causes);
        syntax::check(text(taint, "value"), syntax::label_value, &at.field("value"), causes);
        let effect = text(taint, "effect");
        if effect.is_empty() {
            causes.push(at.field("effect").required("NoSchedule, PreferNoSchedule or NoExecute"));
        } else if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            causes.push(at.field("effect").not_supported(&taint["effect"], &supported));
        }
        if !seen.insert((text(taint, "key"), effect)) {
            let mut error = at.duplicate(taint);
            error.message.push_str(": taints must be unique by key and effect pair");
            causes.push(error);
        }
    }
    amounts(node, causes);
}

fn amounts(node: &Value, causes: &mut Causes) {
    let at = At::Root.field("status");
    for field in ["capacity", "allocatable"] {
        let at = at.field(field);
        for (name, found) in entries(&node["status"][field]) {
            let at = at.key(name);
            syntax::check(name, syntax::qualified_name, &at, causes);
            quantities::check(found, &at, causes);
        }
    }
    let conditions = at.field("conditions");
    for (index, condition) in items(&node["status"]["conditions"]) {
        if text(condition, "type").is_empty() {
            causes.push(conditions.item(index).field("type").required(""));
        }
    }
}

/// A provider id is given once.
fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    let at = At::Root.field("spec");
    let (before, after) = (&old["spec"]["providerID"], &new["spec"]["providerID"]);
    if given(before) && before != after {
        causes
            .push(at.field("providerID").forbidden("node updates may not change providerID except from \"\" to valid"));
    }
}
