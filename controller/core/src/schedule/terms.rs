//! Node selector terms: compiled once a pod, matched against a node's interned labels.

use serde_json::Value;

use super::symbols::{Symbol, Symbols};

/// A `NodeSelectorTerm`: all its requirements hold. One without any matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    expressions: Vec<Requirement>,
    fields: Vec<NameRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: Symbol,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    In(Vec<Symbol>),
    NotIn(Vec<Symbol>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
    /// Admission refuses what this stands for; it matches nothing.
    Never,
}

/// A requirement on `metadata.name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NameRequirement {
    names: Vec<Symbol>,
    within: bool,
}

/// The labels of a node, ordered by key, and its name.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) labels: &'a [(Symbol, Symbol)],
    pub(super) name: Symbol,
}

impl Facts<'_> {
    /// The value of a label.
    pub(super) fn label(&self, key: Symbol) -> Option<Symbol> {
        let found = self.labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(self.labels[found].1)
    }
}

impl Term {
    pub(super) fn compile(term: &Value, symbols: &mut Symbols) -> Self {
        let list = |field: &str| term[field].as_array().into_iter().flatten();
        Self {
            expressions: list("matchExpressions").map(|found| Requirement::compile(found, symbols)).collect(),
            fields: list("matchFields")
                .map(|found| NameRequirement {
                    names: values(found, symbols),
                    within: found["operator"].as_str() != Some("NotIn"),
                })
                .collect(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, node: Facts<'_>, symbols: &Symbols) -> bool {
        !self.is_empty()
            && self.fields.iter().all(|field| field.names.contains(&node.name) == field.within)
            && self.expressions.iter().all(|expression| expression.matches(node, symbols))
    }
}

fn values(requirement: &Value, symbols: &mut Symbols) -> Vec<Symbol> {
    let values = requirement["values"].as_array().into_iter().flatten();
    values.filter_map(Value::as_str).map(|value| symbols.intern(value)).collect()
}

impl Requirement {
    fn compile(found: &Value, symbols: &mut Symbols) -> Self {
        let number = || found["values"][0].as_str().and_then(|text| text.parse().ok());
        let operator = match found["operator"].as_str().unwrap_or_default() {
            "In" => Operator::In(values(found, symbols)),
            "NotIn" => Operator::NotIn(values(found, symbols)),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => number().map_or(Operator::Never, Operator::Gt),
            "Lt" => number().map_or(Operator::Never, Operator::Lt),
            _ => Operator::Never,
        };
        Self { key: symbols.intern(found["key"].as_str().unwrap_or_default()), operator }
    }

    fn matches(&self, node: Facts<'_>, symbols: &Symbols) -> bool {
        let value = node.label(self.key);
        let number = || value.and_then(|value| symbols.number(value));
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(&value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(&value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt(least) => number().is_some_and(|number| number > *least),
            Operator::Lt(most) => number().is_some_and(|number| number < *most),
            Operator::Never => false,
        }
    }
}
