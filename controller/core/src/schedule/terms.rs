//! Requirements on interned labels: node selector terms, and the label selectors with which rules mean pods. Compiled
//! once a question, matched many times.

use serde_json::Value;

use super::symbols::{Symbol, Symbols};

/// Labels, ordered by key.
pub(super) type Labels = Box<[(Symbol, Symbol)]>;

/// The value of a label.
pub(super) fn label(labels: &[(Symbol, Symbol)], key: Symbol) -> Option<Symbol> {
    #[cfg(test)]
    super::work::note();
    let found = labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    Some(labels[found].1)
}

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
        label(self.labels, key)
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

    /// A `NodeSelector`; `None` when there is none.
    pub(super) fn compile_required(selector: &Value, symbols: &mut Symbols) -> Option<Vec<Self>> {
        let terms = || selector["nodeSelectorTerms"].as_array().into_iter().flatten();
        (!selector.is_null()).then(|| terms().map(|term| Self::compile(term, symbols)).collect())
    }

    /// A list of `PreferredSchedulingTerm`, without those that say nothing.
    pub(super) fn compile_preferred(found: &Value, symbols: &mut Symbols) -> Vec<(i64, Self)> {
        let terms = found.as_array().into_iter().flatten();
        terms
            .map(|found| (found["weight"].as_i64().unwrap_or_default(), Self::compile(&found["preference"], symbols)))
            .filter(|(weight, term)| *weight != 0 && !term.is_empty())
            .collect()
    }

    /// The names of the only nodes that it can match, when it says so (`matchFields` with `In`).
    pub(super) fn only(&self) -> Option<&[Symbol]> {
        self.fields.iter().find(|field| field.within).map(|field| &field.names[..])
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.fields.is_empty()
    }

    /// The labels that it reads.
    pub(super) fn keys(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.expressions.iter().map(|expression| expression.key)
    }

    /// Labels of which every node that matches has at least one; `None` when there are no such labels.
    pub(super) fn anchor(&self) -> Option<Vec<(Symbol, Symbol)>> {
        anchor(&self.expressions)
    }

    pub(super) fn matches(&self, node: Facts<'_>, symbols: &Symbols) -> bool {
        !self.is_empty()
            && self.fields.iter().all(|field| field.names.contains(&node.name) == field.within)
            && self.expressions.iter().all(|expression| expression.matches(node.labels, symbols))
    }
}

/// A `LabelSelector`: all its requirements hold. One that was not given matches nothing, an empty one everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Selector(Option<Vec<Requirement>>);

impl Selector {
    /// Compiles `labelSelector` or `namespaceSelector`.
    pub(super) fn compile(found: &Value, symbols: &mut Symbols) -> Self {
        if found.is_null() {
            return Self(None);
        }
        let mut requirements: Vec<_> = found["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|found| Requirement::compile(found, symbols))
            .collect();
        for (key, value) in found["matchLabels"].as_object().into_iter().flatten() {
            let value = symbols.intern(value.as_str().unwrap_or_default());
            requirements.push(Requirement { key: symbols.intern(key), operator: Operator::In(vec![value]) });
        }
        requirements.sort_unstable();
        Self(Some(requirements))
    }

    /// Adds what `matchLabelKeys` (or `mismatchLabelKeys`, where the last is false) says: the label has the same value as
    /// on the pod that asks, or another one.
    pub(super) fn and_labels(&mut self, labels: impl Iterator<Item = (Symbol, Symbol, bool)>) {
        let Some(requirements) = &mut self.0 else { return };
        requirements.extend(labels.map(|(key, value, same)| {
            let operator = if same { Operator::In(vec![value]) } else { Operator::NotIn(vec![value]) };
            Requirement { key, operator }
        }));
        requirements.sort_unstable();
    }

    pub(super) fn matches(&self, labels: &[(Symbol, Symbol)], symbols: &Symbols) -> bool {
        let requirements = self.0.as_ref();
        requirements.is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels, symbols)))
    }

    /// Pairs of which everything that matches has at least one; `None` when there are no such pairs.
    pub(super) fn anchor(&self) -> Option<Vec<(Symbol, Symbol)>> {
        anchor(self.0.as_ref()?)
    }
}

fn anchor(requirements: &[Requirement]) -> Option<Vec<(Symbol, Symbol)>> {
    requirements.iter().find_map(|requirement| match &requirement.operator {
        Operator::In(values) => Some(values.iter().map(|value| (requirement.key, *value)).collect()),
        _ => None,
    })
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

    fn matches(&self, labels: &[(Symbol, Symbol)], symbols: &Symbols) -> bool {
        let value = label(labels, self.key);
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
