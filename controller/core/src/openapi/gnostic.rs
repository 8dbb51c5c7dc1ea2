//! The version 2 document as protobuf, in the form that `kubectl` older than 1.27 insists on.
//!
//! It says only what such a client looks for: that there is a document, and which kinds can be patched with which query
//! parameters. It has no definitions, so that the client leaves validation to the server. The field numbers are those of
//! gnostic's `openapiv2.Document`.

use super::paths::{WRITE_PARAMETERS, templates};
use crate::discovery::GIT_VERSION;
use crate::kind::Kind;

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Adds a field of bytes: a string or a message.
    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push((number & 0x7f) as u8);
    }
}

/// The document.
#[must_use]
pub fn document() -> Vec<u8> {
    let info = Message::default().text(1, "Kubernetes").text(2, GIT_VERSION);
    let mut paths = Message::default();
    for kind in Kind::all().filter(|kind| kind.info().stored) {
        // PathItem.patch is field 8, Paths.path field 2.
        let item = Message::default().message(8, &patch(kind));
        let named = Message::default().text(1, &templates(kind).1).message(2, &item);
        paths = paths.message(2, &named);
    }
    Message::default().text(1, "2.0").message(2, &info).message(8, &paths).0
}

/// An Operation: parameters are field 8, responses 9, extensions 13.
fn patch(kind: Kind) -> Message {
    let info = kind.info();
    let mut operation = Message::default();
    for (name, description) in WRITE_PARAMETERS {
        let query = Message::default().text(2, "query").text(3, description).text(4, name).text(6, "string");
        // QueryParameterSubSchema in NonBodyParameter (3) in Parameter (2) in ParametersItem (1).
        let parameter = Message::default().message(3, &query);
        let parameter = Message::default().message(2, &parameter);
        operation = operation.message(8, &Message::default().message(1, &parameter));
    }
    let named = format!("group: \"{}\"\nkind: {}\nversion: {}\n", info.group, info.kind, info.version);
    // NamedAny: name is field 1, value 2; Any: YAML is field 2.
    let value = Message::default().text(2, &named);
    let extension = Message::default().text(1, "x-kubernetes-group-version-kind").message(2, &value);
    operation.message(9, &Message::default()).message(13, &extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lengths_are_protobufs() {
        let long = "x".repeat(300);
        let message = Message::default().text(1, "2.0").text(13, &long);
        assert_eq!(message.0[..8], [0x0a, 3, b'2', b'.', b'0', 0x6a, 0xac, 0x02]);
        assert_eq!(message.0.len(), 5 + 3 + 300);
    }

    #[test]
    fn the_document_starts_with_its_version() {
        assert_eq!(document()[..5], [0x0a, 3, b'2', b'.', b'0']);
    }
}
