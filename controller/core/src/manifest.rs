//! Manifests as people write them: YAML or JSON, several documents in one text, lists taken apart.
//!
//! *In:* bytes of at most [`MAX_MANIFEST_BYTES`]. *Out:* one JSON object a document, or where the text is wrong.
//! *Must never know:* what the objects mean; that is for [`crate::admission`].
//! *Tested:* lists of good and malformed texts in `manifest/tests.rs`.

use std::fmt;

use coracle_model::limits::MAX_MANIFEST_BYTES;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{ApiError, FieldError};
use crate::kind::Kind;

/// One object of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The YAML document that it stands in, from 0, empty ones counted; the items of a list share it.
    pub index: usize,
    /// The object.
    pub value: Value,
}

/// Where a manifest cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("document {}, line {line}, column {column}: {message}", index + 1)]
pub struct ManifestError {
    /// The YAML document, from 0.
    pub index: usize,
    /// The line of the whole text, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// How deep values may nest; as deep as `serde_json` reads.
const MAX_DEPTH: usize = 120;

/// Reads every object of a manifest. Empty documents are skipped, `List`s are taken apart.
///
/// # Errors
/// When the text is too long, not UTF-8, malformed, has one key twice in one mapping, or holds something else than
/// objects.
pub fn parse(bytes: &[u8]) -> Result<Vec<Document>, ManifestError> {
    let at_start = |message: String| ManifestError { index: 0, line: 1, column: 1, message };
    if bytes.len() > MAX_MANIFEST_BYTES {
        let found = bytes.len();
        return Err(at_start(format!("the manifest has {found} bytes, at most {MAX_MANIFEST_BYTES} are read")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        ManifestError { index: 0, line, column, message: "the text is not UTF-8".to_owned() }
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    for chunk in chunks(text) {
        if let Some(value) = chunk.read()? {
            flatten(chunk.index, chunk.line, value, &mut documents)?;
        }
    }
    Ok(documents)
}

/// One document of a stream, with the place of its first line.
struct Chunk<'a> {
    index: usize,
    line: usize,
    text: &'a str,
}

/// Takes a stream apart at its `---` lines: YAML forbids such a line inside a document, in block scalars too.
fn chunks(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let marks =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marks && offset > start {
            let before = &text[start..offset];
            // Comments and directives before the first marker belong to the document behind it.
            if !chunks.is_empty() || !is_preamble(before) {
                chunks.push(Chunk { index: chunks.len(), line: start_line, text: before });
                (start, start_line) = (offset, number + 1);
            }
        }
        offset += line.len();
    }
    chunks.push(Chunk { index: chunks.len(), line: start_line, text: &text[start..] });
    chunks
}

fn is_preamble(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.starts_with(['#', '%']))
}

impl Chunk<'_> {
    fn error(&self, line: usize, column: usize, message: String) -> ManifestError {
        ManifestError { index: self.index, line: self.line + line.max(1) - 1, column: column.max(1), message }
    }

    /// The document's value; `None` for an empty one.
    fn read(&self) -> Result<Option<Value>, ManifestError> {
        if self.text.trim_start().starts_with('{')
            && let Ok(Unique(value)) = serde_json::from_str(self.text)
        {
            return Ok(Some(value));
        }
        let unmarked = self.text.strip_prefix("---").unwrap_or(self.text);
        if unmarked.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(None);
        }
        let budget = serde_saphyr::budget! { max_depth: MAX_DEPTH };
        let options = serde_saphyr::options! {
            budget: budget,
            legacy_octal_numbers: true,
            with_snippet: false,
        };
        match serde_saphyr::from_str_with_options::<Unique>(self.text, options) {
            Ok(Unique(Value::Null)) => Ok(None),
            Ok(Unique(value)) => Ok(Some(value)),
            Err(error) => {
                let place = error.location();
                let number = |part: u64| usize::try_from(part).unwrap_or(usize::MAX);
                let (line, column) = place.map_or((1, 1), |place| (number(place.line()), number(place.column())));
                Err(self.error(line, column, first_line(&error.without_snippet().to_string())))
            }
        }
    }
}

/// The message without the place, which stands in front of it anyway.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    line.split(" at line ").next().unwrap_or(line).to_owned()
}

/// Objects as they are, lists as their items; anything else is refused.
fn flatten(index: usize, line: usize, value: Value, documents: &mut Vec<Document>) -> Result<(), ManifestError> {
    let refuse = |message: &str| Err(ManifestError { index, line, column: 1, message: message.to_owned() });
    let Value::Object(mut fields) = value else {
        let found = type_name(&value);
        return refuse(&format!("the document is {found}, want an object with apiVersion, kind and metadata"));
    };
    let is_list = fields.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    if !is_list || !fields.contains_key("items") {
        documents.push(Document { index, value: Value::Object(fields) });
        return Ok(());
    }
    match fields.remove("items") {
        Some(Value::Array(items)) => items.into_iter().try_for_each(|item| flatten(index, line, item, documents)),
        Some(Value::Null) | None => Ok(()),
        Some(other) => refuse(&format!("items is {}, want an array of objects", type_name(&other))),
    }
}

/// A value's type in words.
#[must_use]
pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// What a manifest says it is: kind, namespace (`default` for a namespaced kind that names none, empty for a
/// cluster-scoped one) and name (empty when it has a `generateName` only).
///
/// # Errors
/// When apiVersion, kind or both names are missing, or no such kind is served.
pub fn identify(value: &Value) -> Result<(Kind, String, String), ApiError> {
    let text = |field: &str| value[field].as_str().filter(|text| !text.is_empty());
    let missing =
        |field: &str| ApiError::bad_request(format!("{field}: Required value: every manifest names its {field}"));
    let api_version = text("apiVersion").ok_or_else(|| missing("apiVersion"))?;
    let name_of_kind = text("kind").ok_or_else(|| missing("kind"))?;
    let kind = Kind::of_manifest(api_version, name_of_kind).ok_or_else(|| {
        ApiError::bad_request(format!("no matches for kind \"{name_of_kind}\" in version \"{api_version}\""))
    })?;
    let metadata = &value["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() && metadata["generateName"].as_str().unwrap_or_default().is_empty() {
        let cause = FieldError::required("metadata.name", "name or generateName is required");
        return Err(ApiError::invalid(kind, "", vec![cause]));
    }
    let stated = metadata["namespace"].as_str().unwrap_or_default();
    let namespace = match (kind.info().namespaced, stated) {
        (false, _) => "",
        (true, "") => "default",
        (true, stated) => stated,
    };
    Ok((kind, namespace.to_owned(), name.to_owned()))
}

/// A JSON value in whose text no object has one key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_bool<E>(self, found: bool) -> Result<Value, E> {
        Ok(Value::Bool(found))
    }

    fn visit_i64<E>(self, found: i64) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_u64<E>(self, found: u64) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_f64<E: serde::de::Error>(self, found: f64) -> Result<Value, E> {
        Number::from_f64(found)
            .map(Value::Number)
            .ok_or_else(|| E::custom("infinite and not-a-number have no place in JSON"))
    }

    fn visit_str<E>(self, found: &str) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_string<E>(self, found: String) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let Unique(value) = entries.next_value()?;
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("duplicate field \"{name}\"")));
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests;
