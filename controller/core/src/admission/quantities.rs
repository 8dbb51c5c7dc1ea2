//! `resources` of a container: names, quantities, and that requests stay below limits.

use coracle_model::quantity;
use serde_json::Value;

use super::at::{At, Causes, entries, given};
use super::syntax;

const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The resources without a domain that a container may ask for.
fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Whether a limit may be higher than the request: true of what nodes can take back.
fn may_overcommit(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

/// In thousandths; `None` when it is no quantity.
pub(super) fn milli(found: &Value) -> Option<i64> {
    found.as_str().and_then(|text| quantity::milli_value(text).ok())
}

/// Checks one quantity: that it is one, and not negative.
pub(super) fn check(found: &Value, at: &At<'_>, causes: &mut Causes) -> Option<i64> {
    match milli(found) {
        None => causes.push(at.invalid(found, FORMAT)),
        Some(amount) if amount < 0 => causes.push(at.invalid(found, "must be greater than or equal to 0")),
        Some(amount) => return Some(amount),
    }
    None
}

/// Checks a container's `resources`.
pub(super) fn validate(resources: &Value, at: &At<'_>, causes: &mut Causes) {
    let (limits, requests) = (&resources["limits"], &resources["requests"]);
    for (list, field) in [(limits, "limits"), (requests, "requests")] {
        let at = at.field(field);
        for (name, found) in entries(list) {
            let at = at.key(name);
            check_name(name, &at, causes);
            if let Some(amount) = check(found, &at, causes)
                && !may_overcommit(name)
                && amount % 1000 != 0
            {
                causes.push(at.invalid(found, "must be an integer"));
            }
        }
    }
    let at_requests = at.field("requests");
    // An unknown name has been refused already.
    for (name, request) in entries(requests).filter(|(name, _)| is_standard(name) || name.contains('/')) {
        let at = at_requests.key(name);
        let limit = &limits[name];
        match (milli(request), milli(limit)) {
            (Some(asked), Some(most)) if !may_overcommit(name) && asked != most => {
                causes.push(at.invalid(request, &format!("must be equal to {name} limit of {}", shown(limit))));
            }
            (Some(asked), Some(most)) if asked > most => {
                let detail = format!("must be less than or equal to {name} limit of {}", shown(limit));
                causes.push(at.invalid(request, &detail));
            }
            (Some(_), None) if !may_overcommit(name) && limit.is_null() => {
                causes.push(at.required("Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
    }
    if given(&resources["claims"]) {
        causes.push(at.field("claims").forbidden("resource claims are not in this build"));
    }
}

fn check_name(name: &str, at: &At<'_>, causes: &mut Causes) {
    let before = causes.len();
    syntax::check(name, syntax::qualified_name, at, causes);
    if causes.len() == before && !name.contains('/') && !is_standard(name) {
        let detail = "must be a standard resource for containers (cpu, memory, ephemeral-storage) or fully qualified";
        causes.push(at.invalid(&Value::String(name.to_owned()), detail));
    }
}

fn shown(quantity: &Value) -> &str {
    quantity.as_str().unwrap_or_default()
}
