//! Objects as rows: `meta.k8s.io/v1` Table with Kubernetes' own columns (API-04), which is what `kubectl get` prints.
//!
//! *In:* objects and the time. *Out:* a Table as JSON.
//! *Must never know:* how objects were selected.
//! *Tested:* tables of objects and their cells.

mod age;
mod cells;
mod columns;
mod placement;
mod pod;
mod storage;

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Object;

pub use age::human_duration;
pub use columns::Column;

/// How a Table is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Which Table: `meta.k8s.io/v1`, or the older `v1beta1`.
    pub version: Version,
    /// `includeObject`
    pub include: Include,
}

/// The version of the Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

/// `includeObject`: what of the object stands beside its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// `PartialObjectMetadata`; the default.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl Version {
    /// `apiVersion`
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The columns of a kind.
#[must_use]
pub fn columns(kind: Kind) -> &'static [Column] {
    columns::of(kind)
}

/// The cells of an object, in the order of its kind's columns.
#[must_use]
pub fn cells(object: &Object, now_wall_ms: u64) -> Vec<Value> {
    cells::of(object, &object.value(), now_wall_ms)
}

/// A Table of objects of one kind. `metadata` is the list's; `definitions` is `false` in all events of a watch but the
/// first.
#[must_use]
pub fn table<'a>(
    kind: Kind,
    objects: impl IntoIterator<Item = &'a Object>,
    metadata: Value,
    now_wall_ms: u64,
    form: Form,
    definitions: bool,
) -> Value {
    let rows: Vec<Value> = objects.into_iter().map(|object| row(object, now_wall_ms, form)).collect();
    let definitions: Vec<Value> =
        if definitions { columns(kind).iter().map(|column| column.to_json()).collect() } else { Vec::new() };
    json!({
        "kind": "Table", "apiVersion": form.version.as_str(), "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn row(object: &Object, now_wall_ms: u64, form: Form) -> Value {
    let mut value = object.value();
    let cells = cells::of(object, &value, now_wall_ms);
    let shown = match form.include {
        Include::None => Value::Null,
        Include::Metadata => partial(form.version.as_str(), value["metadata"].take()),
        Include::Object => value,
    };
    if shown.is_null() { json!({"cells": cells}) } else { json!({"cells": cells, "object": shown}) }
}

/// `PartialObjectMetadata`
#[must_use]
pub fn partial(api_version: &str, metadata: Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata})
}

#[cfg(test)]
mod tests;
