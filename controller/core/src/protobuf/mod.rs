//! Request bodies in Kubernetes' protobuf, which a current `kubectl` sends for `create namespace`, `auth can-i` and others,
//! as the JSON that an older one would have sent.
//!
//! *In:* a body as it came, hostile or not. *Out:* one JSON object, or what is wrong with the body.
//! *Must never know:* what the object means; admission sees JSON only.
//! *Tested:* tables here, against the schemas of Kubernetes' types, by mutated bodies, and with real `kubectl` end to end.
//!
//! The way of a body: [`to_json`] takes the envelope off (`runtime.Unknown`), [`wire`] reads fields, [`table`] knows their
//! names. There is no library that does this: the generated types lack JSON, and those with JSON lack Kubernetes' rules.
//! Fields that the table does not have are dropped, as by a Kubernetes of another age. JSON does not grow without bound:
//! the messages of the table hold no cycle, and a body makes at most [`MAX_VALUES`] values.

mod table;
mod wire;

mod lift;

use serde_json::{Map, Value};

use self::lift::Lifting;
use self::wire::{Found, Reader, WireError};

/// The media type of such bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// JSON values that one body may make: a mebibyte of tiny list items is somebody who means harm.
pub const MAX_VALUES: usize = 262_144;

/// The first bytes of every body.
const MAGIC: &[u8] = b"k8s\0";

/// What is wrong with a body. Texts fit after "the body is no Kubernetes protobuf: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It does not begin as it must.
    #[error("want the prefix \"k8s\\0\", found {0:02x?}")]
    Prefix(Vec<u8>),
    /// The envelope names nothing that is known here.
    #[error("no message is known for kind \"{kind}\" in apiVersion \"{api_version}\"; send JSON or YAML")]
    Kind {
        /// `apiVersion`
        api_version: String,
        /// `kind`
        kind: String,
    },
    /// The envelope says that the object is compressed, or of another type.
    #[error("the envelope has the content {what} \"{found}\", which is not served")]
    Content {
        /// `encoding` or `type`.
        what: &'static str,
        /// As it was found.
        found: String,
    },
    /// A field is not what it should be.
    #[error("{}{source}", at(.field))]
    Field {
        /// Its path; empty for the envelope itself.
        field: String,
        /// What is wrong.
        source: FieldFault,
    },
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldFault {
    /// The bytes.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A string that is none.
    #[error("the string is not UTF-8")]
    Utf8,
    /// A number where bytes should be, or the other way round.
    #[error("want {want}, found {found}")]
    Type {
        /// What would be right.
        want: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A time that no calendar has.
    #[error("{0} seconds since 1970 are no time")]
    Time(i64),
    /// Embedded JSON that is none.
    #[error("the embedded JSON cannot be read: {0}")]
    Json(String),
    /// Too much of everything.
    #[error("more than {MAX_VALUES} values in one body")]
    TooMany,
}

fn at(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

impl FieldFault {
    fn at(self, field: &str) -> ProtobufError {
        ProtobufError::Field { field: field.to_owned(), source: self }
    }
}

/// What the envelope holds.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
    encoding: &'a str,
    media_type: &'a str,
}

/// The object of a body, with `apiVersion` and `kind` as its envelope names them.
///
/// # Errors
/// When the body is not what it should be; nothing of it counts then.
pub fn to_json(body: &[u8]) -> Result<Value, ProtobufError> {
    let prefix = || ProtobufError::Prefix(body[..body.len().min(MAGIC.len())].to_vec());
    let envelope = envelope(body.strip_prefix(MAGIC).ok_or_else(prefix)?).map_err(|fault| fault.at(""))?;
    let Envelope { api_version, kind, raw, encoding, media_type } = envelope;
    if !encoding.is_empty() {
        return Err(ProtobufError::Content { what: "encoding", found: encoding.to_owned() });
    }
    let message = table::table().root(api_version, kind);
    let message =
        message.ok_or_else(|| ProtobufError::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
    if !matches!(media_type, "" | MEDIA_TYPE) {
        return Err(ProtobufError::Content { what: "type", found: media_type.to_owned() });
    }
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Lifting::new(table::table()).message(message, raw, &mut object)?;
    Ok(Value::Object(object))
}

/// Reads `runtime.Unknown`.
fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, FieldFault> {
    let mut envelope = Envelope::default();
    let mut fields = Reader::new(bytes);
    while let Some((number, found)) = fields.next()? {
        match (number, found) {
            (1, Found::Bytes(bytes)) => {
                let mut fields = Reader::new(bytes);
                while let Some((number, found)) = fields.next()? {
                    match number {
                        1 => envelope.api_version = wire::text(found)?,
                        2 => envelope.kind = wire::text(found)?,
                        _ => {}
                    }
                }
            }
            (2, found) => envelope.raw = wire::bytes(found)?,
            (3, found) => envelope.encoding = wire::text(found)?,
            (4, found) => envelope.media_type = wire::text(found)?,
            _ => {}
        }
    }
    Ok(envelope)
}

#[cfg(test)]
mod tests;
