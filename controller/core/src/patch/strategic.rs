//! The strategic merge patch: lists are merged by key, and directives say what a plain merge cannot.
//!
//! `$patch: delete | replace | merge` in an object, `$retainKeys`, and beside a list `$setElementOrder/<list>` and
//! `$deleteFromPrimitiveList/<list>`.

use serde_json::{Map, Value};

use super::shape::{Field, Shape};
use crate::error::ApiError;

pub(super) const PATCH: &str = "$patch";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const ELEMENT_ORDER: &str = "$setElementOrder/";
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// What `$patch` says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Map<String, Value>) -> Result<Directive, ApiError> {
    match patch.get(PATCH) {
        None => Ok(Directive::Merge),
        Some(Value::String(word)) if word == "merge" => Ok(Directive::Merge),
        Some(Value::String(word)) if word == "replace" => Ok(Directive::Replace),
        Some(Value::String(word)) if word == "delete" => Ok(Directive::Delete),
        Some(other) => {
            Err(ApiError::bad_request(format!("{PATCH} is one of \"delete\", \"replace\", \"merge\", found {other}")))
        }
    }
}

/// Merges a patch into an object.
pub(super) fn merge(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    shape: &Shape,
) -> Result<(), ApiError> {
    match directive(patch)? {
        Directive::Merge => {}
        Directive::Replace => target.clear(),
        Directive::Delete => {
            target.clear();
            return Ok(());
        }
    }
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        retain(target, patch, keys)?;
    }
    for (name, list) in patch {
        if let Some(field) = name.strip_prefix(DELETE_FROM_LIST) {
            let unwanted = array(name, list)?;
            if let Some(Value::Array(items)) = target.get_mut(field) {
                items.retain(|item| !unwanted.contains(item));
            }
        }
    }
    for (name, order) in patch {
        if let Some(field) = name.strip_prefix(ELEMENT_ORDER) {
            let order = array(name, order)?;
            let before = target.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
            if let Some(change) = patch.get(field) {
                set(target, field, change, shape)?;
            }
            if let Some(Value::Array(items)) = target.get_mut(field) {
                reorder(items, order, &before, shape.field(field));
            }
        }
    }
    for (name, change) in patch.iter().filter(|(name, _)| !is_directive(name)) {
        if !patch.contains_key(&format!("{ELEMENT_ORDER}{name}")) {
            set(target, name, change, shape)?;
        }
    }
    Ok(())
}

fn is_directive(name: &str) -> bool {
    name == PATCH || name == RETAIN_KEYS || name.starts_with(ELEMENT_ORDER) || name.starts_with(DELETE_FROM_LIST)
}

fn array<'a>(name: &str, value: &'a Value) -> Result<&'a Vec<Value>, ApiError> {
    value.as_array().ok_or_else(|| ApiError::bad_request(format!("{name} is a list, found {value}")))
}

/// Keeps only the keys that `$retainKeys` names; the patch must not set another one.
fn retain(target: &mut Map<String, Value>, patch: &Map<String, Value>, keys: &Value) -> Result<(), ApiError> {
    let keys = array(RETAIN_KEYS, keys)?;
    let named = |name: &str| keys.iter().any(|key| key == name);
    for (name, change) in patch.iter().filter(|(name, _)| !is_directive(name)) {
        if !change.is_null() && !named(name) {
            return Err(ApiError::bad_request(format!("{RETAIN_KEYS} does not name {name}, which the patch sets")));
        }
    }
    target.retain(|name, _| named(name));
    Ok(())
}

/// Merges one field.
fn set(target: &mut Map<String, Value>, name: &str, change: &Value, shape: &Shape) -> Result<(), ApiError> {
    match (change, shape.field(name)) {
        (Value::Null, _) => {
            target.remove(name);
        }
        (Value::Object(_), Some(Field::Whole)) => {
            target.insert(name.to_owned(), without_directives(change));
        }
        (Value::Object(change), _) => {
            let found = target.get(name).is_some_and(Value::is_object);
            if !found && directive(change)? == Directive::Delete {
                return Ok(());
            }
            merge(object_at(target, name), change, shape.below(name))?;
        }
        (Value::Array(changes), Some(Field::List(key, item))) => merge_list(list_at(target, name), changes, key, item)?,
        (Value::Array(changes), Some(Field::Set)) => {
            let items = list_at(target, name);
            for change in changes {
                if !items.contains(change) {
                    items.push(change.clone());
                }
            }
        }
        (other, _) => {
            target.insert(name.to_owned(), other.clone());
        }
    }
    Ok(())
}

/// An object that takes the place of another one, as `kubectl` sends it: with `$patch: replace` in it.
fn without_directives(change: &Value) -> Value {
    let fields = change.as_object().into_iter().flatten().filter(|(name, _)| !is_directive(name));
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn object_at<'a>(target: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let found = target.entry(name).or_insert(Value::Null);
    if !found.is_object() {
        *found = Value::Object(Map::new());
    }
    match found {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made an object"),
    }
}

fn list_at<'a>(target: &'a mut Map<String, Value>, name: &str) -> &'a mut Vec<Value> {
    let found = target.entry(name).or_insert(Value::Null);
    if !found.is_array() {
        *found = Value::Array(Vec::new());
    }
    match found {
        Value::Array(items) => items,
        _ => unreachable!("it was made a list"),
    }
}

/// Merges a list of objects by key; `{"$patch": "replace"}` among the changes empties it first.
fn merge_list(items: &mut Vec<Value>, changes: &[Value], key: &str, shape: &Shape) -> Result<(), ApiError> {
    if changes.iter().any(|change| change[PATCH] == "replace") {
        items.clear();
    }
    for change in changes {
        let Some(change) = change.as_object() else {
            return Err(ApiError::bad_request(format!(
                "an item of a list that is merged by {key} is an object, found {change}"
            )));
        };
        let found = directive(change)?;
        let Some(wanted) = change.get(key) else {
            if found == Directive::Replace {
                continue;
            }
            let shown = Value::Object(change.clone());
            return Err(ApiError::bad_request(format!("map: {shown} does not contain declared merge key: {key}")));
        };
        if found == Directive::Delete {
            items.retain(|item| item[key] != *wanted);
            continue;
        }
        let place = position(items, key, wanted, change).unwrap_or_else(|| {
            items.push(Value::Object(Map::new()));
            items.len() - 1
        });
        if let Some(Value::Object(item)) = items.get_mut(place) {
            merge(item, change, shape)?;
        }
    }
    Ok(())
}

/// The item that a change means: the one with its key; of two ports with one number, the one with its protocol.
fn position(items: &[Value], key: &str, wanted: &Value, change: &Map<String, Value>) -> Option<usize> {
    let first = items.iter().position(|item| item[key] == *wanted)?;
    let protocol = |item: &Value| item["protocol"].as_str().unwrap_or("TCP").to_owned();
    let exact =
        change.get("protocol").filter(|_| key == "containerPort").and_then(Value::as_str).and_then(|wanted_protocol| {
            items.iter().position(|item| item[key] == *wanted && protocol(item) == wanted_protocol)
        });
    Some(exact.unwrap_or(first))
}

/// What an item is known by.
fn identity(item: &Value, how: Option<Field>) -> &Value {
    match how {
        Some(Field::List(key, _)) => &item[key],
        Some(Field::Set | Field::Object(_) | Field::Whole) | None => item,
    }
}

/// Puts the items that `order` names into its order. The others keep their order among themselves, and stand before
/// a named one where they stood before it in the old list.
fn reorder(items: &mut Vec<Value>, order: &[Value], before: &[Value], how: Option<Field>) {
    let place =
        |list: &[Value], item: &Value| list.iter().position(|other| identity(other, how) == identity(item, how));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        items.drain(..).partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(before, item).unwrap_or(usize::MAX));
    let mut others = others.into_iter().peekable();
    for item in named {
        let bound = place(before, &item);
        while let Some(other) =
            others.next_if(|other| bound.is_some_and(|bound| place(before, other).is_some_and(|at| at < bound)))
        {
            items.push(other);
        }
        items.push(item);
    }
    items.extend(others);
}
