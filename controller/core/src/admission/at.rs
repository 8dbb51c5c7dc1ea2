//! Where in an object one is: a path that costs nothing until something is wrong there.

use std::fmt;

use serde_json::Value;

use crate::error::{FieldError, FieldReason};

/// What is wrong with an object so far.
pub(super) type Causes = Vec<FieldError>;

/// A place in an object; shown as `spec.containers[0].name`.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
    Key(&'a Self, &'a str),
}

impl<'a> At<'a> {
    /// A field of the object here.
    pub(super) const fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    /// An item of the list here.
    pub(super) const fn item(&'a self, index: usize) -> Self {
        Self::Item(self, index)
    }

    /// An entry of the map here.
    pub(super) const fn key(&'a self, name: &'a str) -> Self {
        Self::Key(self, name)
    }

    pub(super) fn required(self, detail: &str) -> FieldError {
        FieldError::required(self, detail)
    }

    pub(super) fn invalid(self, found: &Value, detail: &str) -> FieldError {
        FieldError::invalid(self, found, detail)
    }

    pub(super) fn not_supported(self, found: &Value, supported: &[&str]) -> FieldError {
        FieldError::not_supported(self, found, supported)
    }

    pub(super) fn forbidden(self, detail: &str) -> FieldError {
        FieldError::forbidden(self, detail)
    }

    pub(super) fn duplicate(self, found: &Value) -> FieldError {
        FieldError::duplicate(self, found)
    }

    /// `path: Not found: found`
    pub(super) fn not_found(self, found: &Value) -> FieldError {
        FieldError { reason: FieldReason::NotFound, field: self.into(), message: format!("Not found: {found}") }
    }

    pub(super) fn too_long(self, bytes: usize) -> FieldError {
        FieldError::too_long(self, bytes)
    }

    /// `path: Too many: found: must have at most N items`
    pub(super) fn too_many(self, found: usize, most: usize) -> FieldError {
        let message = format!("Too many: {found}: must have at most {most} items");
        FieldError { reason: FieldReason::TooMany, field: self.into(), message }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, name) => write!(f, "{parent}[{name}]"),
        }
    }
}

impl From<At<'_>> for String {
    fn from(at: At<'_>) -> Self {
        at.to_string()
    }
}

/// The items of a list; none when there is no list.
pub(super) fn items(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

/// The items of a list field, to be changed; none when there is no list.
pub(super) fn items_mut<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The entries of a map; none when there is no map.
pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// A text field; empty when it is missing.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Whether a field is given with anything in it.
pub(super) fn given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// A number, if it is given, is at least `least`.
pub(super) fn at_least(value: &Value, field: &str, least: i64, at: &At<'_>, causes: &mut Causes) {
    if value[field].as_i64().is_some_and(|number| number < least) {
        let detail = match least {
            1 => "must be greater than 0".to_owned(),
            _ => format!("must be greater than or equal to {least}"),
        };
        causes.push(at.field(field).invalid(&value[field], &detail));
    }
}

/// A text, if it is given, is one of these.
pub(super) fn one_of(value: &Value, field: &str, supported: &[&str], at: &At<'_>, causes: &mut Causes) {
    if value[field].as_str().is_some_and(|found| !supported.contains(&found)) {
        causes.push(at.field(field).not_supported(&value[field], supported));
    }
}

/// Sets a field that is not given.
pub(super) fn default(value: &mut Value, field: &str, default: impl FnOnce() -> Value) {
    if let Some(fields) = value.as_object_mut()
        && fields.get(field).is_none_or(Value::is_null)
    {
        fields.insert(field.to_owned(), default());
    }
}

/// Makes a field what it was before; takes it out if it was not there.
pub(super) fn restore(old: &Value, new: &mut Value, field: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// A field that may not change.
pub(super) fn immutable(old: &Value, new: &Value, field: &str, at: &At<'_>, causes: &mut Causes) {
    if old[field] != new[field] {
        causes.push(at.field(field).invalid(&new[field], "field is immutable"));
    }
}
