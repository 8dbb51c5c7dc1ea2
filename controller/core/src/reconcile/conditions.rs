//! `status.conditions`: found, put and taken out.

use serde_json::{Value, json};

use crate::clock;

/// The condition of this type.
pub(super) fn get<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// `reason` of the condition of this type; empty without one.
pub(super) fn reason<'a>(status: &'a Value, kind: &str) -> &'a str {
    get(status, kind).and_then(|condition| condition["reason"].as_str()).unwrap_or_default()
}

/// A stamp in a condition, in milliseconds since 1970.
pub(super) fn stamp_ms(condition: &Value, field: &str) -> Option<u64> {
    condition[field].as_str().and_then(clock::parse_stamp)
}

/// Puts a condition in the place of the one of its type, or behind the others.
pub(super) fn put(status: &mut Value, condition: Value) {
    if !status.is_object() {
        *status = json!({});
    }
    let list = &mut status["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    match list.iter_mut().find(|existing| existing["type"] == condition["type"]) {
        Some(existing) => *existing = condition,
        None => list.push(condition),
    }
}

/// Takes the condition of this type out; the last one takes the list with it.
pub(super) fn remove(status: &mut Value, kind: &str) {
    let Some(fields) = status.as_object_mut() else { return };
    let Some(list) = fields.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    list.retain(|condition| condition["type"] != kind);
    if list.is_empty() {
        fields.remove("conditions");
    }
}
