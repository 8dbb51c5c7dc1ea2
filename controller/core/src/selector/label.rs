//! Label selectors. All requirements of one are ANDed (API-05).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::parse;

/// `metadata.labels`, as an object carries them.
pub type Labels = BTreeMap<Box<str>, Box<str>>;

/// A label selector (`metav1.LabelSelector`, or `labelSelector` in a query).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// `None` matches nothing: what a missing selector means in an object.
    requirements: Option<Vec<Requirement>>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) key: Box<str>,
    pub(super) test: Test,
}

/// What a label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// `key=value`
    Equals(Box<str>),
    /// `key!=value`; a missing label matches.
    NotEquals(Box<str>),
    /// `key in (a,b)`
    In(BTreeSet<Box<str>>),
    /// `key notin (a,b)`; a missing label matches.
    NotIn(BTreeSet<Box<str>>),
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`, of whole numbers.
    GreaterThan(i64),
    /// `key<1`
    LessThan(i64),
}

/// Text or JSON that is no selector. The words name what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(super) String);

impl LabelSelector {
    /// A selector that matches every object.
    #[must_use]
    pub const fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// A selector that matches no object.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Reads `labelSelector` of a query: `a=b,c!=d,e in (x,y),!f`. Empty text matches everything.
    ///
    /// # Errors
    /// When the text is no selector.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::requirements(text).map(|requirements| Self { requirements: Some(requirements) })
    }

    /// Reads a `metav1.LabelSelector`: `matchLabels` and `matchExpressions`. `null` matches nothing, `{}` everything.
    ///
    /// # Errors
    /// When the value is of another shape.
    pub fn of_json(value: &Value) -> Result<Self, SelectorError> {
        let fields = match value {
            Value::Null => return Ok(Self { requirements: None }),
            Value::Object(fields) => fields,
            other => return Err(SelectorError(format!("a label selector is an object, found {other}"))),
        };
        let mut requirements = Vec::new();
        if let Some(labels) = fields.get("matchLabels").filter(|labels| !labels.is_null()) {
            let labels = labels.as_object();
            for (key, value) in labels.ok_or_else(|| SelectorError("matchLabels is not an object".to_owned()))? {
                let value = value.as_str();
                let value = value.ok_or_else(|| SelectorError(format!("matchLabels[{key}] is not a string")))?;
                parse::check_key(key)?;
                parse::check_value(value)?;
                requirements.push(Requirement { key: key.as_str().into(), test: Test::Equals(value.into()) });
            }
        }
        if let Some(list) = fields.get("matchExpressions").filter(|list| !list.is_null()) {
            let list = list.as_array();
            for expression in list.ok_or_else(|| SelectorError("matchExpressions is not a list".to_owned()))? {
                requirements.push(expression_of_json(expression)?);
            }
        }
        requirements.sort_by(|one, two| one.key.cmp(&two.key));
        Ok(Self { requirements: Some(requirements) })
    }

    /// Whether an object with these labels is meant.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }

    /// Whether every object is meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether no object can be meant: the selector is missing.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }
}

fn expression_of_json(expression: &Value) -> Result<Requirement, SelectorError> {
    let key = expression["key"].as_str().unwrap_or_default();
    parse::check_key(key)?;
    let values = || -> Result<BTreeSet<Box<str>>, SelectorError> {
        let values = expression["values"].as_array().filter(|values| !values.is_empty());
        let values = values.ok_or_else(|| {
            SelectorError(format!("values: for 'in', 'notin' operators, values set can't be empty ({key})"))
        })?;
        values
            .iter()
            .map(|value| {
                let value = value.as_str().ok_or_else(|| SelectorError(format!("values of {key} are not strings")))?;
                parse::check_value(value)?;
                Ok(value.into())
            })
            .collect()
    };
    let none = |test: Test| {
        let given = expression["values"].as_array().is_some_and(|values| !values.is_empty());
        if given {
            return Err(SelectorError(format!(
                "values: values set must be empty for exists and does not exist ({key})"
            )));
        }
        Ok(test)
    };
    let test = match expression["operator"].as_str().unwrap_or_default() {
        "In" => Test::In(values()?),
        "NotIn" => Test::NotIn(values()?),
        "Exists" => none(Test::Exists)?,
        "DoesNotExist" => none(Test::DoesNotExist)?,
        other => return Err(SelectorError(format!("\"{other}\" is not a valid label selector operator"))),
    };
    Ok(Requirement { key: key.into(), test })
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        let found = labels.get(&*self.key);
        let number = || found.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Equals(wanted) => found == Some(wanted),
            Test::NotEquals(unwanted) => found != Some(unwanted),
            Test::In(wanted) => found.is_some_and(|value| wanted.contains(value)),
            Test::NotIn(unwanted) => found.is_none_or(|value| !unwanted.contains(value)),
            Test::Exists => found.is_some(),
            Test::DoesNotExist => found.is_none(),
            Test::GreaterThan(bound) => number().is_some_and(|value| value > *bound),
            Test::LessThan(bound) => number().is_some_and(|value| value < *bound),
        }
    }
}

/// The query form, as `status.selector` of a Scale carries it.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().flatten().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let joined = |values: &BTreeSet<Box<str>>| values.iter().map(|value| &**value).collect::<Vec<_>>().join(",");
        match &self.test {
            Test::Equals(value) => write!(f, "{key}={value}"),
            Test::NotEquals(value) => write!(f, "{key}!={value}"),
            Test::In(values) => write!(f, "{key} in ({})", joined(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", joined(values)),
            Test::Exists => write!(f, "{key}"),
            Test::DoesNotExist => write!(f, "!{key}"),
            Test::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Test::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    // API-05
    #[test]
    fn requirements_of_a_query_are_anded() {
        let web = labels(&[("app", "web"), ("tier", "front"), ("weight", "7")]);
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            (" app = web , tier = front ", true),
            ("app=web,tier=back", false),
            ("app!=web", false),
            ("zone!=a", true),
            ("app in (web,api)", true),
            ("app in (api)", false),
            ("app notin (api),tier", true),
            ("zone notin (a,b)", true),
            ("app notin (web)", false),
            ("tier", true),
            ("!tier", false),
            ("!zone", true),
            ("weight>6", true),
            ("weight<7", false),
            ("app>1", false),
            ("app=", false),
            ("app in (web,),tier", true),
        ] {
            let selector = LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches(&web), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_what_was_found() {
        for (text, word) in [
            ("app=web,", "expected"),
            ("app in web", "'('"),
            ("app in (web", "')'"),
            ("app !", "operator"),
            ("!", "key"),
            ("=b", "key"),
            ("a b", "operator"),
            ("a=b=c", "','"),
            ("-a=b", "key"),
            ("a/b/c=d", "key"),
            ("a=b@", "value"),
            ("a>b", "number"),
        ] {
            let error = LabelSelector::parse(text).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    // API-05
    #[test]
    fn match_labels_and_match_expressions_are_anded() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["front", "edge"]},
                {"key": "zone", "operator": "NotIn", "values": ["b"]},
                {"key": "track", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        let selector = LabelSelector::of_json(&selector).expect("a selector");
        assert!(selector.matches(&labels(&[("app", "web"), ("tier", "edge"), ("track", "")])));
        assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "edge")])));
        assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "edge"), ("track", ""), ("old", "1")])));
        assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "edge"), ("track", ""), ("zone", "b")])));
        assert_eq!(selector.to_string(), "app=web,!old,tier in (edge,front),track,zone notin (b)");
        assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_missing_selector_matches_nothing_and_an_empty_one_everything() {
        let nothing = LabelSelector::of_json(&Value::Null).expect("a selector");
        assert!(!nothing.matches(&Labels::new()) && nothing.is_nothing() && !nothing.is_empty());
        let everything = LabelSelector::of_json(&json!({})).expect("a selector");
        assert!(everything.matches(&Labels::new()) && everything.is_empty());
        assert_eq!(everything, LabelSelector::everything());
    }

    #[test]
    fn wrong_shapes_are_refused() {
        for value in [
            json!([]),
            json!({"matchLabels": []}),
            json!({"matchLabels": {"a": 1}}),
            json!({"matchExpressions": {}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}),
            json!({"matchExpressions": [{"operator": "Exists"}]}),
        ] {
            assert!(LabelSelector::of_json(&value).is_err(), "{value}");
        }
    }
}
