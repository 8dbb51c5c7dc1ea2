//! From fields to JSON, by Kubernetes' rules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::table::{Count, Field, Message, Shape, Table};
use super::wire::{self, Found, Reader};
use super::{FieldFault, MAX_VALUES, ProtobufError};

/// One body on its way.
pub(super) struct Lifting<'a> {
    table: &'a Table,
    /// Values that may still be made.
    left: usize,
}

/// What is wrong, and the names on the way to it, the innermost first.
struct Wrong {
    fault: FieldFault,
    path: Vec<&'static str>,
}

impl From<FieldFault> for Wrong {
    fn from(fault: FieldFault) -> Self {
        Self { fault, path: Vec::new() }
    }
}

impl From<wire::WireError> for Wrong {
    fn from(error: wire::WireError) -> Self {
        FieldFault::from(error).into()
    }
}

impl<'a> Lifting<'a> {
    pub(super) const fn new(table: &'a Table) -> Self {
        Self { table, left: MAX_VALUES }
    }

    /// Adds the fields of a message to an object.
    ///
    /// # Errors
    /// With the path of the field that is wrong.
    pub(super) fn message(
        &mut self,
        message: &'a Message,
        bytes: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<(), ProtobufError> {
        self.fields(message, bytes, object).map_err(|mut wrong| {
            wrong.path.reverse();
            wrong.fault.at(&wrong.path.join("."))
        })
    }

    fn fields(&mut self, message: &'a Message, bytes: &[u8], object: &mut Map<String, Value>) -> Result<(), Wrong> {
        let mut reader = Reader::new(bytes);
        while let Some((number, found)) = reader.next()? {
            if let Some(field) = message.field(number) {
                self.field(field, found, object).map_err(|mut wrong| {
                    if field.count != Count::Inline {
                        wrong.path.push(field.name);
                    }
                    wrong
                })?;
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, found: Found<'_>, object: &mut Map<String, Value>) -> Result<(), Wrong> {
        match (field.count, field.shape) {
            (Count::Inline, Shape::Message(place)) => self.embedded(place, found, object),
            // A message that comes in pieces is one.
            (Count::One, Shape::Message(place)) => {
                self.count()?;
                let value = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                match value {
                    Value::Object(inner) => self.embedded(place, found, inner),
                    _ => Ok(()),
                }
            }
            (Count::One | Count::Inline, shape) => {
                match self.value(shape, found)?.filter(|value| field.keeps_zero || !is_zero(shape, value)) {
                    Some(value) => object.insert(field.name.to_owned(), value),
                    // The last one counts.
                    None => object.remove(field.name),
                };
                Ok(())
            }
            (Count::List, shape) => {
                let value = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                match value {
                    Value::Array(items) => self.items(shape, found, items),
                    _ => Ok(()),
                }
            }
            (Count::Map, shape) => {
                let value = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                match value {
                    Value::Object(entries) => self.entry(shape, found, entries),
                    _ => Ok(()),
                }
            }
        }
    }

    fn embedded(&mut self, place: usize, found: Found<'_>, object: &mut Map<String, Value>) -> Result<(), Wrong> {
        let bytes = wire::bytes(found)?;
        match self.table.message(place) {
            Some(message) => self.fields(message, bytes, object),
            None => Ok(()),
        }
    }

    /// One item of a list, or several when numbers are packed.
    fn items(&mut self, shape: Shape, found: Found<'_>, items: &mut Vec<Value>) -> Result<(), Wrong> {
        if let (Shape::Number | Shape::Switch, Found::Bytes(packed)) = (shape, found) {
            let mut reader = Reader::new(packed);
            while let Some(number) = reader.packed()? {
                items.extend(self.value(shape, Found::Number(number))?);
            }
            return Ok(());
        }
        items.push(self.value(shape, found)?.unwrap_or_default());
        Ok(())
    }

    /// One entry of a map: key 1, value 2. A missing one is empty.
    fn entry(&mut self, shape: Shape, found: Found<'_>, entries: &mut Map<String, Value>) -> Result<(), Wrong> {
        let (mut key, mut value) = ("", Found::Bytes(&[]));
        let mut reader = Reader::new(wire::bytes(found)?);
        while let Some((number, found)) = reader.next()? {
            match number {
                1 => key = wire::text(found)?,
                2 => value = found,
                _ => {}
            }
        }
        let value = self.value(shape, value)?.unwrap_or_default();
        entries.insert(key.to_owned(), value);
        Ok(())
    }

    /// One value; `None` for one that JSON leaves out or shows as `null`.
    fn value(&mut self, shape: Shape, found: Found<'_>) -> Result<Option<Value>, Wrong> {
        self.count()?;
        let value = match shape {
            Shape::Text => wire::text(found)?.into(),
            Shape::Number => wire::number(found)?.into(),
            Shape::Switch => (wire::number(found)? != 0).into(),
            Shape::Bytes => STANDARD.encode(wire::bytes(found)?).into(),
            Shape::Time => return Ok(timestamp(found)?.map(|at| format!("{at:.0}").into())),
            Shape::MicroTime => return Ok(timestamp(found)?.map(|at| format!("{at:.6}").into())),
            Shape::Quantity => {
                let text = first(found)?.map_or(Ok(""), wire::text)?;
                if text.is_empty() { "0".into() } else { text.into() }
            }
            Shape::IntOrString => int_or_string(found)?,
            Shape::Raw => return self.raw(found),
            Shape::Strings => {
                let mut items = Vec::new();
                let mut reader = Reader::new(wire::bytes(found)?);
                while let Some((number, found)) = reader.next()? {
                    if number == 1 {
                        items.extend(self.value(Shape::Text, found)?);
                    }
                }
                items.into()
            }
            Shape::Message(place) => {
                let mut inner = Map::new();
                self.embedded(place, found, &mut inner)?;
                Value::Object(inner)
            }
        };
        Ok(Some(value))
    }

    /// JSON as it is.
    fn raw(&mut self, found: Found<'_>) -> Result<Option<Value>, Wrong> {
        let Some(bytes) = first(found)?.map(wire::bytes).transpose()?.filter(|bytes| !bytes.is_empty()) else {
            return Ok(None);
        };
        // Each value of JSON but the last needs two bytes at least.
        self.left = self.left.checked_sub(bytes.len() / 2).ok_or(FieldFault::TooMany)?;
        let value: Value = serde_json::from_slice(bytes).map_err(|error| FieldFault::Json(error.to_string()))?;
        Ok(Some(value))
    }

    fn count(&mut self) -> Result<(), FieldFault> {
        self.left = self.left.checked_sub(1).ok_or(FieldFault::TooMany)?;
        Ok(())
    }
}

/// Field 1 of a message, if it is there; the last one counts.
fn first(found: Found<'_>) -> Result<Option<Found<'_>>, FieldFault> {
    let mut reader = Reader::new(wire::bytes(found)?);
    let mut first = None;
    while let Some((number, found)) = reader.next()? {
        if number == 1 {
            first = Some(found);
        }
    }
    Ok(first)
}

/// Seconds and nanoseconds. A time that nobody has set travels as an empty message.
fn timestamp(found: Found<'_>) -> Result<Option<Timestamp>, FieldFault> {
    let bytes = wire::bytes(found)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, found)) = reader.next()? {
        match number {
            1 => seconds = wire::number(found)?,
            2 => nanos = wire::number(found)?,
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).ok().filter(|nanos| (0..1_000_000_000).contains(nanos));
    let at = nanos.and_then(|nanos| Timestamp::new(seconds, nanos).ok());
    at.map(Some).ok_or(FieldFault::Time(seconds))
}

/// Type 1 is the string, any other the number.
fn int_or_string(found: Found<'_>) -> Result<Value, FieldFault> {
    let (mut kind, mut number, mut text) = (0, 0, "");
    let mut reader = Reader::new(wire::bytes(found)?);
    while let Some((field, found)) = reader.next()? {
        match field {
            1 => kind = wire::number(found)?,
            2 => number = wire::number(found)?,
            3 => text = wire::text(found)?,
            _ => {}
        }
    }
    Ok(if kind == 1 { text.into() } else { number.into() })
}

/// What Go's `omitempty` leaves out; quantities and int-or-strings it does not.
fn is_zero(shape: Shape, value: &Value) -> bool {
    match shape {
        Shape::Text => value == "",
        Shape::Number => value == 0,
        Shape::Switch => value == false,
        _ => false,
    }
}
