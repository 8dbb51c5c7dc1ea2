//! The messages and their fields, read from `messages.txt` at the first body.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The sections in which a type is looked for that its own section does not have.
const SHARED: [&str; 2] = ["v1", "meta.k8s.io/v1"];
/// What any group's clients send under their own group's name.
const OF_EVERY_GROUP: [&str; 2] = ["DeleteOptions", "Status"];

/// What one value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A string.
    Text,
    /// A whole number.
    Number,
    /// True or false.
    Switch,
    /// Bytes; base64 in JSON.
    Bytes,
    /// `metav1.Time`: whole seconds.
    Time,
    /// `metav1.MicroTime`
    MicroTime,
    /// `resource.Quantity`
    Quantity,
    /// `intstr.IntOrString`
    IntOrString,
    /// `runtime.RawExtension` and `metav1.FieldsV1`: JSON.
    Raw,
    /// A message that only holds a list of strings.
    Strings,
    /// A message, by its place in the table.
    Message(usize),
}

/// How many of it there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// One, or none.
    One,
    /// One, whose own fields stand in its place.
    Inline,
    /// A list.
    List,
    /// A map from strings.
    Map,
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// In protobuf.
    pub(super) number: u32,
    /// In JSON.
    pub(super) name: &'static str,
    /// What it is.
    pub(super) shape: Shape,
    /// How many of it there are.
    pub(super) count: Count,
    /// Whether a zero that travels means zero; otherwise it means that nobody has set it.
    pub(super) keeps_zero: bool,
}

/// One message: its fields, by number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// `v1`, `apps/v1`, …
    pub(super) section: &'static str,
    /// Its Go type.
    pub(super) name: &'static str,
    /// In the order of their numbers.
    pub(super) fields: Vec<Field>,
}

impl Message {
    /// The field of this number.
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        let place = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(place)
    }
}

/// All messages.
#[derive(Debug, Default)]
pub(super) struct Table {
    messages: Vec<Message>,
    places: BTreeMap<(&'static str, &'static str), usize>,
}

/// The one table. A mistake in it is found by the tests; it would make every body one of an unknown kind.
pub(super) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::parse(include_str!("messages.txt")).unwrap_or_default())
}

impl Table {
    /// The message that a body of this kind is.
    pub(super) fn root(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let own = self.places.iter().find(|((section, name), _)| *section == api_version && *name == kind);
        let own = own.map(|(_, place)| *place);
        let shared = || OF_EVERY_GROUP.contains(&kind).then(|| self.place(SHARED[1], kind)).flatten();
        own.or_else(shared).and_then(|place| self.messages.get(place))
    }

    /// The message at a place.
    pub(super) fn message(&self, place: usize) -> Option<&Message> {
        self.messages.get(place)
    }

    fn place(&self, section: &str, name: &str) -> Option<usize> {
        let sections = [section, SHARED[0], SHARED[1]];
        sections.into_iter().find_map(|section| self.places.get(&(section, name)).copied())
    }

    /// Reads the table.
    ///
    /// # Errors
    /// The line that makes no sense.
    fn parse(text: &'static str) -> Result<Self, String> {
        let entries = entries(text)?;
        let mut table = Self::default();
        for (place, Entry { section, name, .. }) in entries.iter().enumerate() {
            if table.places.insert((section, name), place).is_some() {
                return Err(format!("{section} {name} is there twice"));
            }
        }
        for Entry { section, name, cells } in entries {
            let mut fields: Vec<Field> = Vec::with_capacity(cells.len());
            for cell in cells {
                let before = fields.last().map_or(0, |field| field.number);
                let field = table.field(section, before, cell);
                fields.push(field.ok_or_else(|| format!("{section} {name}: {cell}"))?);
            }
            table.messages.push(Message { section, name, fields });
        }
        Ok(table)
    }

    fn field(&self, section: &str, before: u32, cell: &'static str) -> Option<Field> {
        let (number, cell) = match cell.split_once('=') {
            Some((number, cell)) => (number.parse().ok().filter(|number| *number > before)?, cell),
            None => (before + 1, cell),
        };
        let (cell, keeps_zero) = cell.strip_suffix('!').map_or((cell, false), |cell| (cell, true));
        let (cell, inline) = cell.strip_prefix('^').map_or((cell, false), |cell| (cell, true));
        let (name, kind) = cell.split_once(':').unwrap_or((cell, "s"));
        let inner = |open, close| kind.strip_prefix(open).and_then(|kind| kind.strip_suffix(close));
        let (count, kind) = match (inner('[', ']'), inner('{', '}')) {
            (Some(kind), _) => (Count::List, kind),
            (_, Some(kind)) => (Count::Map, kind),
            _ => (if inline { Count::Inline } else { Count::One }, kind),
        };
        Some(Field { number, name, shape: self.shape(section, kind)?, count, keeps_zero })
    }

    fn shape(&self, section: &str, kind: &str) -> Option<Shape> {
        Some(match kind {
            "s" => Shape::Text,
            "i" => Shape::Number,
            "b" => Shape::Switch,
            "y" => Shape::Bytes,
            "time" => Shape::Time,
            "micro" => Shape::MicroTime,
            "quantity" => Shape::Quantity,
            "intorstring" => Shape::IntOrString,
            "raw" => Shape::Raw,
            "strings" => Shape::Strings,
            name => Shape::Message(self.place(section, name)?),
        })
    }
}

/// A message as the text has it.
struct Entry {
    section: &'static str,
    name: &'static str,
    cells: Vec<&'static str>,
}

/// Every message, in the order of the text.
fn entries(text: &'static str) -> Result<Vec<Entry>, String> {
    let mut section = "";
    let mut found: Vec<Entry> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if line.starts_with("  ") {
            let before = found.last_mut().ok_or_else(|| format!("nothing goes on with {line}"))?;
            before.cells.extend(words);
        } else if let Some(name) = words.next() {
            found.push(Entry { section, name, cells: words.collect() });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
