//! The JSON of an object, packed. What it says again after others of its kind or template is kept once for all of them.
//!
//! The text is cut in two. The head is everything but the status; writes of the status share it, so that what most
//! writes cost is the status alone. The revision is in neither part: it is put in when the whole is read.

use std::sync::Arc;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::template::Template;
use super::typical;
use crate::kind::Kind;

/// Both parts of an object.
#[derive(Clone, Debug)]
pub(super) struct Body {
    head: Arc<Head>,
    status: Option<Packed>,
}

/// Everything but the status.
#[derive(Debug)]
struct Head {
    packed: Packed,
    /// Behind the brace that opens `metadata`: there `resourceVersion` belongs.
    version_at: u32,
    /// Behind the brace that opens `spec`; 0 if there is none.
    spec_at: u32,
    /// What [`Self::packed`] refers to.
    template: Option<Arc<Template>>,
}

/// A text as what it has that its dictionary has not.
#[derive(Clone, Debug)]
struct Packed {
    bytes: Box<[u8]>,
    /// Bytes of the text.
    length: u32,
}

/// The text of a head, before it is packed: an object without its last brace.
#[derive(Debug)]
pub(super) struct HeadText {
    pub(super) text: Box<str>,
    version_at: u32,
    spec_at: u32,
}

impl HeadText {
    /// Writes everything of an object but its status and its revision.
    pub(super) fn of(root: &Map<String, Value>) -> Self {
        let mut text = vec![b'{'];
        let (mut version_at, mut spec_at) = (0, 0);
        let inside = |text: &Vec<u8>| u32::try_from(text.len() + 1).unwrap_or_default();
        for (name, value) in root.iter().filter(|(name, _)| *name != "status") {
            if text.len() > 1 {
                text.push(b',');
            }
            push(&mut text, name);
            text.push(b':');
            if name == "spec" {
                spec_at = inside(&text);
            }
            if name == "metadata"
                && let Some(metadata) = value.as_object()
            {
                version_at = inside(&text);
                push_object(&mut text, metadata.iter().filter(|(field, _)| *field != "resourceVersion"));
            } else {
                push(&mut text, value);
            }
        }
        Self { text: written(text).into(), version_at, spec_at }
    }
}

impl Body {
    /// Packs an object.
    pub(super) fn pack(kind: Kind, head: &HeadText, status: Option<&Value>, template: Option<Arc<Template>>) -> Self {
        let packed = Packed::new(&head.text, dictionary(kind, template.as_deref()));
        let HeadText { version_at, spec_at, .. } = *head;
        let head = Arc::new(Head { packed, version_at, spec_at, template });
        Self { head, status: status.map(|status| pack_status(kind, &json(status))) }
    }

    /// The same head with another status; `None` if it is the same one.
    pub(super) fn with_status(&self, kind: Kind, status: &Value) -> Option<Self> {
        let text = json(status);
        let same = self.status(kind).map_or(status.is_null(), |known| known == text);
        (!same).then(|| Self { head: Arc::clone(&self.head), status: Some(pack_status(kind, &text)) })
    }

    /// The same object with one more field at the beginning of its spec, and another status. `None` if it has no spec,
    /// or one that has that field.
    pub(super) fn with_spec_field(&self, kind: Kind, field: &str, value: &str, status: &Value) -> Option<Self> {
        let Head { version_at, spec_at, ref template, .. } = *self.head;
        let mut text = self.head(kind);
        let at = usize::try_from(spec_at).ok().filter(|at| *at > 0)?;
        let behind = text.get(at..)?;
        let mut member = json(field) + ":";
        if behind.contains(&member) {
            return None;
        }
        member.push_str(&json(value));
        if !behind.starts_with('}') {
            member.push(',');
        }
        text.insert_str(at, &member);
        let head = HeadText { text: text.into(), version_at, spec_at };
        Some(Self::pack(kind, &head, Some(status), template.clone()))
    }

    /// The template that the head refers to.
    pub(super) fn template(&self) -> Option<&Arc<Template>> {
        self.head.template.as_ref()
    }

    /// Whether all but the status is known to be the same; `false` if that would have to be looked up.
    pub(super) fn shares_head(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.head, &other.head)
    }

    /// Bytes of the whole text, but for the revision.
    pub(super) fn text_bytes(&self) -> usize {
        let status = self.status.as_ref().map_or(0, |status| status.length);
        usize::try_from(self.head.packed.length.saturating_add(status)).unwrap_or(usize::MAX)
    }

    /// Bytes that are kept.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Head>() + self.head.packed.bytes.len() + self.status.as_ref().map_or(0, |status| status.bytes.len())
    }

    /// Writes the whole text.
    pub(super) fn write(&self, kind: Kind, revision: u64, text: &mut String) {
        let head = self.head(kind);
        let status = self.status(kind);
        let (before, behind) = head.split_at(usize::try_from(self.head.version_at).unwrap_or_default());
        text.reserve(self.text_bytes() + 64);
        text.push_str(before);
        text.push_str("\"resourceVersion\":\"");
        text.push_str(&revision.to_string());
        text.push_str("\",");
        text.push_str(behind);
        if let Some(status) = status {
            text.push_str(",\"status\":");
            text.push_str(&status);
        }
        text.push('}');
    }

    /// Everything but status and revision.
    pub(super) fn head_value(&self, kind: Kind) -> Value {
        let mut head = self.head(kind);
        head.push('}');
        // It was JSON when it was packed.
        serde_json::from_str(&head).unwrap_or_default()
    }

    /// The fields of the spec as text, but for a `nodeName` at their beginning; empty if there is no spec.
    pub(super) fn spec_text(&self, kind: Kind) -> String {
        let head = self.head(kind);
        let at = usize::try_from(self.head.spec_at).ok().filter(|at| *at > 0);
        let Some(fields) = at.and_then(|at| head.get(at..)) else { return String::new() };
        let named = fields.strip_prefix("\"nodeName\":\"").and_then(|named| named.split_once('"'));
        let rest = named.filter(|(name, _)| !name.contains('\\')).map(|(_, rest)| rest.trim_start_matches(','));
        format!("{{{}", rest.unwrap_or(fields))
    }

    /// What is asked of the metadata; `None` if it is not there in that form.
    pub(super) fn metadata<T: DeserializeOwned>(&self, kind: Kind) -> Option<T> {
        let head = self.head(kind);
        let inside = usize::try_from(self.head.version_at).unwrap_or_default();
        first(inside.checked_sub(1).and_then(|at| head.get(at..))?)
    }

    /// The spec; null if there is none.
    pub(super) fn spec_value(&self, kind: Kind) -> Value {
        let head = self.head(kind);
        let inside = usize::try_from(self.head.spec_at).unwrap_or_default();
        inside.checked_sub(1).and_then(|at| head.get(at..)).and_then(first).unwrap_or_default()
    }

    /// The status; null if there is none.
    pub(super) fn status_value(&self, kind: Kind) -> Value {
        self.status(kind).and_then(|status| serde_json::from_str(&status).ok()).unwrap_or_default()
    }

    fn head(&self, kind: Kind) -> String {
        self.head.packed.text(dictionary(kind, self.head.template.as_deref()))
    }

    fn status(&self, kind: Kind) -> Option<String> {
        self.status.as_ref().map(|status| status.text(typical::of(kind).status.as_bytes()))
    }
}

impl Packed {
    fn new(text: &str, dictionary: &[u8]) -> Self {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Self { bytes: compress_with_dict(text.as_bytes(), dictionary).into(), length }
    }

    fn text(&self, dictionary: &[u8]) -> String {
        let length = usize::try_from(self.length).unwrap_or_default();
        // It was text when it was packed, with this dictionary.
        let bytes = decompress_with_dict(&self.bytes, length, dictionary).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// The value at the beginning of a text. What follows it is none of it.
pub(super) fn first<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::Deserializer::from_str(text).into_iter().next()?.ok()
}

fn dictionary(kind: Kind, template: Option<&Template>) -> &[u8] {
    template.map_or(typical::of(kind).head.as_bytes(), |template| template.dictionary.as_bytes())
}

fn pack_status(kind: Kind, text: &str) -> Packed {
    Packed::new(text, typical::of(kind).status.as_bytes())
}

fn push_object<'a>(text: &mut Vec<u8>, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
    text.push(b'{');
    for (index, (name, value)) in fields.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        push(text, name);
        text.push(b':');
        push(text, value);
    }
    text.push(b'}');
}

fn push<T: Serialize + ?Sized>(text: &mut Vec<u8>, value: &T) {
    // Values and texts are always JSON, and writing to memory does not fail.
    let _: serde_json::Result<()> = serde_json::to_writer(text, value);
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = Vec::new();
    push(&mut text, value);
    written(text)
}

/// What [`push`] has written is UTF-8.
fn written(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_default()
}
