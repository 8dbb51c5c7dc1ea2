//! The patch between a manifest, the one that was applied before it, and what is there.

use serde_json::{Map, Value, json};

use super::shape::{Field, Shape};
use super::strategic::{DELETE_FROM_LIST, ELEMENT_ORDER, PATCH, RETAIN_KEYS};

/// The patch of one object.
pub(super) fn between(
    original: Option<&Map<String, Value>>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
    shape: &Shape,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, wanted) in modified {
        let before = original.and_then(|original| original.get(name));
        match (wanted, current.get(name)) {
            (Value::Null, Some(_)) => {
                patch.insert(name.clone(), Value::Null);
            }
            (Value::Null, None) => {}
            (wanted, None) => {
                patch.insert(name.clone(), wanted.clone());
            }
            (Value::Object(wanted), Some(Value::Object(found))) if !matches!(shape.field(name), Some(Field::Whole)) => {
                let change = between(before.and_then(Value::as_object), wanted, found, shape.below(name));
                if !change.is_empty() {
                    patch.insert(name.clone(), Value::Object(change));
                }
            }
            (Value::Array(wanted), Some(Value::Array(found))) => {
                let before = before.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                list(&mut patch, name, (before, wanted, found), shape.field(name));
            }
            (wanted, Some(found)) if wanted != found => {
                patch.insert(name.clone(), wanted.clone());
            }
            _ => {}
        }
    }
    for name in original.into_iter().flatten().map(|(name, _)| name) {
        if !modified.contains_key(name) && current.contains_key(name) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    if shape.retain_keys && !patch.is_empty() {
        let keys: Vec<&String> = modified.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name).collect();
        patch.insert(RETAIN_KEYS.to_owned(), json!(keys));
    }
    patch
}

fn list(
    patch: &mut Map<String, Value>,
    name: &str,
    (before, wanted, found): (&[Value], &Vec<Value>, &Vec<Value>),
    how: Option<Field>,
) {
    match how {
        Some(Field::List(key, shape)) => merged(patch, name, (before, wanted, found), (key, shape)),
        Some(Field::Set) => set(patch, name, (before, wanted, found)),
        Some(Field::Object(_) | Field::Whole) | None => {
            if wanted != found {
                patch.insert(name.to_owned(), json!(wanted));
            }
        }
    }
}

/// A list that is merged by key.
fn merged(
    patch: &mut Map<String, Value>,
    name: &str,
    (before, wanted, found): (&[Value], &[Value], &[Value]),
    (key, shape): (&str, &Shape),
) {
    let at = |list: &[Value], item: &Value| list.iter().position(|other| other[key] == item[key]);
    let mut changes = Vec::new();
    for item in wanted {
        let old = at(before, item).and_then(|place| before[place].as_object());
        let present = at(found, item).and_then(|place| found[place].as_object());
        match (item.as_object(), present) {
            (Some(fields), Some(present)) => {
                let mut change = between(old, fields, present, shape);
                if !change.is_empty() {
                    change.insert(key.to_owned(), item[key].clone());
                    changes.push(Value::Object(change));
                }
            }
            _ => changes.push(item.clone()),
        }
    }
    for item in before {
        if at(wanted, item).is_none() && at(found, item).is_some() {
            changes.push(json!({PATCH: "delete", key: item[key]}));
        }
    }
    let order: Vec<usize> = wanted.iter().filter_map(|item| at(found, item)).collect();
    if changes.is_empty() && order.is_sorted() {
        return;
    }
    let order: Vec<Value> = wanted.iter().map(|item| json!({key: item[key]})).collect();
    patch.insert(format!("{ELEMENT_ORDER}{name}"), Value::Array(order));
    if !changes.is_empty() {
        patch.insert(name.to_owned(), Value::Array(changes));
    }
}

/// A list of scalars.
fn set(patch: &mut Map<String, Value>, name: &str, (before, wanted, found): (&[Value], &[Value], &[Value])) {
    let added: Vec<&Value> = wanted.iter().filter(|item| !found.contains(item)).collect();
    let gone: Vec<&Value> = before.iter().filter(|item| !wanted.contains(item) && found.contains(item)).collect();
    if !gone.is_empty() {
        patch.insert(format!("{DELETE_FROM_LIST}{name}"), json!(gone));
    }
    if !added.is_empty() {
        patch.insert(name.to_owned(), json!(added));
    }
    if !added.is_empty() || !gone.is_empty() {
        patch.insert(format!("{ELEMENT_ORDER}{name}"), json!(wanted));
    }
}
