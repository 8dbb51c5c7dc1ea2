//! An object as the store holds it: compact JSON, plus the few facts that indexes and reconcilers ask for all the time.
//!
//! *In:* JSON, as a value or as stored. *Out:* the same JSON, as a whole or in part, and the facts.
//! *Must never know:* what the JSON means beyond its metadata; that is for [`Row`].
//! *Tested:* here; with every test that writes an object.
//!
//! The JSON is the truth (DESIGN, decision 1). Everything beside it is derived here, once, when the object is made, and
//! shared by the staged and the committed view. In memory the JSON is [packed](body) against what it is like.

mod body;
mod sharing;
mod template;
#[cfg(test)]
mod tests;
mod typical;

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use coracle_model::PodUid;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clock;
use crate::kind::Kind;
use crate::rows::Row;
use crate::selector::Labels;

use body::{Body, HeadText};
use sharing::Sharing;
use template::Template;
pub use template::Templates;

/// Where an object lives. Shared, since every index of every view has it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Arc<Place>);

/// What a [`Key`] says.
#[derive(PartialEq, Eq, Hash)]
pub struct Place {
    /// The object's kind.
    pub kind: Kind,
    /// Its namespace; empty for a cluster-scoped kind.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// A key; `namespace` is empty for a cluster-scoped kind.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self::within(kind, namespace.into(), name)
    }

    fn within(kind: Kind, namespace: Arc<str>, name: &str) -> Self {
        Self(Arc::new(Place { kind, namespace, name: name.into() }))
    }
}

impl Deref for Key {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

/// By kind, namespace and name. What is the same text in memory need not be read.
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let namespaces = || match Arc::ptr_eq(&self.namespace, &other.namespace) {
            true => Ordering::Equal,
            false => self.namespace.cmp(&other.namespace),
        };
        match Arc::ptr_eq(&self.0, &other.0) {
            true => Ordering::Equal,
            false => self.kind.cmp(&other.kind).then_with(namespaces).then_with(|| self.name.cmp(&other.name)),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// `metadata.uid`, of any kind.
pub type Uid = PodUid;

/// One of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// `uid`
    pub uid: Uid,
    /// The owner's key, when its kind is one that is served; in the object's own namespace for namespaced kinds.
    pub key: Option<Key>,
    /// `controller: true`
    pub controller: bool,
    /// `blockOwnerDeletion: true`
    pub blocks: bool,
}

/// A stored object; immutable, shared.
#[derive(Debug)]
pub struct Object {
    /// Where it lives.
    pub key: Key,
    /// `metadata.uid`
    pub uid: Uid,
    /// The revision of its last write, which is also in the JSON as `metadata.resourceVersion`.
    pub revision: u64,
    /// `metadata.labels`
    pub labels: Arc<Labels>,
    /// `metadata.ownerReferences`
    pub owners: Arc<[Owner]>,
    /// `metadata.finalizers`, whether there are any.
    pub finalizers: bool,
    /// `metadata.deletionTimestamp`, in milliseconds since 1970.
    pub deletion_ms: Option<u64>,
    /// `metadata.creationTimestamp`, in milliseconds since 1970.
    pub created_ms: u64,
    /// What reconcilers, scheduler and dispatch read of this kind.
    pub row: Row,
    body: Body,
}

/// Stored bytes, or a value about to be stored, that are no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a stored object: {what}")]
pub struct ObjectError {
    what: String,
}

impl Object {
    /// Reads a stored object.
    ///
    /// # Errors
    /// When the bytes are not JSON of an object with a kind that is served, a name and a uid.
    pub fn from_json(kind: Kind, revision: u64, body: &str, templates: &mut Templates) -> Result<Self, ObjectError> {
        let value: Value = serde_json::from_str(body).map_err(|error| ObjectError { what: error.to_string() })?;
        Self::new(kind, revision, &value, templates)
    }

    /// Makes an object of a value that stands alone. Its `metadata.resourceVersion` is the revision, whatever it says.
    ///
    /// # Errors
    /// When name or uid are missing.
    pub fn from_value(kind: Kind, revision: u64, value: Value) -> Result<Self, ObjectError> {
        Self::new(kind, revision, &value, &mut Templates::default())
    }

    /// Makes an object of a value, which may share much with others of its controller.
    ///
    /// # Errors
    /// When name or uid are missing.
    pub fn new(kind: Kind, revision: u64, value: &Value, templates: &mut Templates) -> Result<Self, ObjectError> {
        let draft = Draft::of(kind, value, templates)?;
        let controller = draft.owners.iter().find(|owner| owner.controller).map(|owner| owner.uid);
        let template = controller.and_then(|controller| templates.of(controller, &draft.head.text));
        Ok(draft.object(revision, value, template))
    }

    /// The next state of this object.
    ///
    /// # Errors
    /// When name or uid are missing.
    pub fn next(&self, revision: u64, value: &Value) -> Result<Self, ObjectError> {
        let draft = Draft::of(self.key.kind, value, &mut &*self)?;
        Ok(draft.object(revision, value, self.body.template().cloned()))
    }

    /// The next state of this object, in which only the status is another one; `None` if it is not.
    #[must_use]
    pub fn with_status(&self, revision: u64, status: &Value) -> Option<Self> {
        let body = self.body.with_status(self.key.kind, status)?;
        let (labels, owners) = (Arc::clone(&self.labels), Arc::clone(&self.owners));
        let row = self.row.with_status(status);
        Some(Self { key: self.key.clone(), labels, owners, row, body, revision, ..*self })
    }

    /// The next state of a pod that has no node yet: bound to one, without its JSON being read. `None` if it has to be.
    #[must_use]
    pub fn bound(&self, revision: u64, node: Arc<str>, status: &Value) -> Option<Self> {
        let body = self.body.with_spec_field(self.key.kind, "nodeName", &node, status)?;
        let row = self.row.bound(node, status)?;
        let (labels, owners) = (Arc::clone(&self.labels), Arc::clone(&self.owners));
        Some(Self { key: self.key.clone(), labels, owners, row, body, revision, ..*self })
    }

    /// The compact JSON.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    /// Writes the compact JSON behind a text.
    pub fn write(&self, text: &mut String) {
        self.body.write(self.key.kind, self.revision, text);
    }

    /// About how many bytes the compact JSON has.
    #[must_use]
    pub fn json_bytes(&self) -> usize {
        self.body.text_bytes()
    }

    /// About how many bytes of memory the object has for itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of::<Place>()
            + self.key.name.len()
            + self.row.memory_bytes()
            + self.body.memory_bytes()
    }

    /// The JSON, read anew.
    #[must_use]
    pub fn value(&self) -> Value {
        // It was JSON when the object was made.
        serde_json::from_str(&self.body()).unwrap_or_default()
    }

    /// The JSON without status and `resourceVersion`: half the work of the whole.
    #[must_use]
    pub fn head(&self) -> Value {
        self.body.head_value(self.key.kind)
    }

    /// What is asked of `metadata`, which costs less than to read all of it. `None` if it is not there in that form.
    #[must_use]
    pub fn metadata<T: DeserializeOwned>(&self) -> Option<T> {
        self.body.metadata(self.key.kind)
    }

    /// The text of `spec`, for [`read_spec`]; empty if there is none. Pods of one template have it in common, also when
    /// they are bound: the `nodeName` that a binding has put in is left out.
    #[must_use]
    pub fn spec_text(&self) -> String {
        self.body.spec_text(self.key.kind)
    }

    /// `spec`; null if there is none.
    #[must_use]
    pub fn spec(&self) -> Value {
        self.body.spec_value(self.key.kind)
    }

    /// `status`; null if there is none.
    #[must_use]
    pub fn status(&self) -> Value {
        self.body.status_value(self.key.kind)
    }

    /// Whether nothing but the status can have changed between two states of an object. `false` may be wrong, and then
    /// costs a look at the JSON.
    #[must_use]
    pub fn differs_in_status_alone(&self, other: &Self) -> bool {
        self.body.shares_head(&other.body)
    }

    /// The object as one of Kubernetes' types; `None` if it does not fit, which admission has excluded.
    #[must_use]
    pub fn decode<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.body()).ok()
    }

    /// The owner that controls this object.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// Whether `metadata.deletionTimestamp` is set.
    #[must_use]
    pub const fn is_deleting(&self) -> bool {
        self.deletion_ms.is_some()
    }

    /// `metadata.name`
    #[must_use]
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// `metadata.namespace`
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.key.namespace
    }
}

/// What is read of a value to make an object of it.
struct Draft {
    key: Key,
    uid: Uid,
    labels: Arc<Labels>,
    owners: Arc<[Owner]>,
    row: Row,
    head: HeadText,
}

impl Draft {
    fn of(kind: Kind, value: &Value, sharing: &mut impl Sharing) -> Result<Self, ObjectError> {
        let metadata = &value["metadata"];
        let text = |field: &str| metadata[field].as_str();
        let missing = |field: &str| ObjectError { what: format!("metadata.{field} is missing") };
        let root = value.as_object().ok_or_else(|| missing("name"))?;
        let name = text("name").ok_or_else(|| missing("name"))?;
        let namespace = sharing.text(text("namespace").unwrap_or_default());
        Ok(Self {
            uid: text("uid").and_then(|uid| uid.parse().ok()).ok_or_else(|| missing("uid"))?,
            labels: sharing.labels(labels(&metadata["labels"])),
            owners: sharing.owners(owners(metadata, &namespace)),
            row: Row::of(kind, value, &mut |text| sharing.text(text)),
            head: HeadText::of(root),
            key: Key::within(kind, namespace, name),
        })
    }

    fn object(self, revision: u64, value: &Value, template: Option<Arc<Template>>) -> Object {
        let metadata = &value["metadata"];
        let stamp = |field: &str| metadata[field].as_str().and_then(clock::parse_stamp);
        let Self { key, uid, labels, owners, row, head } = self;
        let body = Body::pack(key.kind, &head, value.get("status"), template);
        Object {
            key,
            uid,
            revision,
            labels,
            owners,
            finalizers: metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty()),
            deletion_ms: stamp("deletionTimestamp"),
            created_ms: stamp("creationTimestamp").unwrap_or_default(),
            row,
            body,
        }
    }
}

/// What [`Object::spec_text`] says.
#[must_use]
pub fn read_spec(text: &str) -> Value {
    body::first(text).unwrap_or_default()
}

fn labels(value: &Value) -> Labels {
    let map = value.as_object().into_iter().flatten();
    map.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into()))).collect()
}

fn owners(metadata: &Value, namespace: &str) -> Vec<Owner> {
    let references = metadata["ownerReferences"].as_array().into_iter().flatten();
    references
        .filter_map(|reference| {
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let kind = Kind::of_manifest(text("apiVersion"), text("kind"));
            Some(Owner {
                uid: text("uid").parse().ok()?,
                key: kind.map(|kind| {
                    let namespace = if kind.info().namespaced { namespace } else { "" };
                    Key::new(kind, namespace, text("name"))
                }),
                controller: reference["controller"].as_bool().unwrap_or_default(),
                blocks: reference["blockOwnerDeletion"].as_bool().unwrap_or_default(),
            })
        })
        .collect()
}
