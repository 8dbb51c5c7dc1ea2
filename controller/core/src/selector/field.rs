//! Field selectors: `fieldSelector` in a query. Each kind has its own few fields, as in Kubernetes.

use serde_json::Value;

use crate::error::ApiError;
use crate::kind::Kind;
use crate::object::Object;

/// A field selector; all its requirements are ANDed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    field: &'static str,
    wanted: String,
    equal: bool,
}

/// What every kind can be selected by.
const COMMON: &[&str] = &["metadata.name", "metadata.namespace"];

/// What some kinds can be selected by.
const BY_KIND: &[(Kind, &[&str])] = &[
    (
        Kind::POD,
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    (
        Kind::EVENT,
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (Kind::NODE, &["spec.unschedulable"]),
    (Kind::NAMESPACE, &["status.phase"]),
    (Kind::SECRET, &["type"]),
    (Kind::REPLICA_SET, &["status.replicas"]),
];

impl FieldSelector {
    /// Reads `fieldSelector` of a query: `a=b,c==d,e!=f`; a backslash takes away the meaning of `,`, `=` and itself.
    ///
    /// # Errors
    /// 400 when the text is no selector, or names a field by which this kind cannot be selected.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for term in split(text, ',').into_iter().filter(|term| !term.is_empty()) {
            let (name, wanted, equal) = operator(&term).ok_or_else(|| {
                ApiError::bad_request(format!("invalid field selector: '{term}'; can't understand '{text}'"))
            })?;
            let field = field_of(kind, name.trim()).ok_or_else(|| {
                let info = kind.info();
                ApiError::bad_request(format!(
                    "Unable to find \"{}/{}, Resource={}\" that match label selector \"\", field selector \"{text}\": \
                     field label not supported: {}",
                    info.group,
                    info.version,
                    info.plural,
                    name.trim()
                ))
            })?;
            requirements.push(Requirement { field, wanted: unescape(wanted), equal });
        }
        Ok(Self { requirements })
    }

    /// Whether every object is meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The one name that is meant (`metadata.name=x`), if that is asked for.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let by_name = self.requirements.iter().find(|one| one.equal && one.field == "metadata.name");
        by_name.map(|one| one.wanted.as_str())
    }

    /// The one node whose pods are meant (`spec.nodeName=x`), if that is asked for.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        let by_node = self.requirements.iter().find(|one| one.equal && one.field == "spec.nodeName");
        by_node.map(|one| one.wanted.as_str()).filter(|node| !node.is_empty())
    }

    /// Whether this object is meant.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        let mut value = None;
        self.requirements.iter().all(|one| {
            let same = match cheap(object, one.field) {
                Some(found) => found == one.wanted,
                None => read(value.get_or_insert_with(|| object.value()), one.field) == one.wanted,
            };
            same == one.equal
        })
    }
}

/// What is known without reading the JSON.
fn cheap<'a>(object: &'a Object, field: &str) -> Option<&'a str> {
    match field {
        "metadata.name" => Some(object.name()),
        "metadata.namespace" => Some(object.namespace()),
        "spec.nodeName" => object.row.pod().map(|row| row.node.as_deref().unwrap_or_default()),
        "spec.schedulerName" => object.row.pod().map(|row| row.scheduler()),
        _ => None,
    }
}

/// A field as text; a missing one is empty, or its type's zero where Kubernetes says so.
fn read(value: &Value, field: &str) -> String {
    if field == "source" {
        let component = read(value, "source.component");
        return if component.is_empty() { read(value, "reportingComponent") } else { component };
    }
    let found = field.split('.').fold(value, |value, name| &value[name]);
    match found {
        Value::String(text) => text.clone(),
        Value::Null => match field {
            "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
            "status.replicas" => "0".to_owned(),
            _ => String::new(),
        },
        other => other.to_string(),
    }
}

fn field_of(kind: Kind, name: &str) -> Option<&'static str> {
    let own = BY_KIND.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, fields)| fields);
    COMMON.iter().chain(own).find(|field| **field == name).copied()
}

/// Splits at a sign that no backslash stands before; the backslashes stay.
fn split(text: &str, sign: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for letter in text.chars() {
        if letter == sign && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = letter == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(letter);
        }
    }
    parts
}

/// Name, value and whether they shall be equal.
fn operator(term: &str) -> Option<(&str, &str, bool)> {
    let mut escaped = false;
    for (at, letter) in term.char_indices() {
        let rest = &term[at..];
        if !escaped {
            for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
                if let Some(value) = rest.strip_prefix(sign) {
                    return Some((&term[..at], value, equal));
                }
            }
        }
        escaped = letter == '\\' && !escaped;
    }
    None
}

fn unescape(text: &str) -> String {
    let mut letters = text.chars();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        plain.push(if letter == '\\' { letters.next().unwrap_or(letter) } else { letter });
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: Kind, mut value: Value) -> Object {
        value["metadata"] = json!({
            "name": "web", "namespace": "default", "uid": "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11",
        });
        Object::from_value(kind, 1, value).expect("an object")
    }

    #[test]
    fn pods_are_selected_by_their_fields() {
        let pod = json!({"spec": {"nodeName": "edge-1", "restartPolicy": "Never"}, "status": {"phase": "Running"}});
        let pod = object(Kind::POD, pod);
        for (text, expected) in [
            ("", true),
            ("metadata.name=web", true),
            ("metadata.name==web,metadata.namespace=default", true),
            ("metadata.namespace!=default", false),
            ("spec.nodeName=edge-1,status.phase!=Succeeded,status.phase!=Failed", true),
            ("spec.nodeName=", false),
            ("status.phase=Pending", false),
            ("spec.restartPolicy=Never", true),
            ("spec.schedulerName=default-scheduler", true),
            ("spec.hostNetwork=false", true),
            ("status.podIP=", true),
        ] {
            assert_eq!(FieldSelector::parse(Kind::POD, text).expect(text).matches(&pod), expected, "{text}");
        }
    }

    #[test]
    fn events_and_nodes_have_fields_of_their_own() {
        let event = json!({
            "involvedObject": {"kind": "Pod", "name": "a,b"}, "type": "Warning", "source": {"component": "kubelet"},
        });
        let event = object(Kind::EVENT, event);
        for (text, expected) in [
            ("involvedObject.kind=Pod,type=Warning", true),
            (r"involvedObject.name=a\,b", true),
            ("source=kubelet", true),
            ("reason!=", false),
        ] {
            assert_eq!(FieldSelector::parse(Kind::EVENT, text).expect(text).matches(&event), expected, "{text}");
        }
        let node = object(Kind::NODE, json!({"spec": {}}));
        let selector = FieldSelector::parse(Kind::NODE, "spec.unschedulable=false").expect("a selector");
        assert!(selector.matches(&node));
    }

    #[test]
    fn an_unknown_field_is_refused_by_its_name() {
        let error = FieldSelector::parse(Kind::POD, "spec.color=red").expect_err("refused");
        assert_eq!(error.code, 400);
        assert!(error.message.ends_with("field label not supported: spec.color"), "{}", error.message);
        assert_eq!(FieldSelector::parse(Kind::NODE, "metadata.name").map_err(|error| error.code), Err(400));
    }

    #[test]
    fn names_and_nodes_can_be_asked_for() {
        let selector = FieldSelector::parse(Kind::POD, "metadata.name=web,spec.nodeName=n1").expect("a selector");
        assert_eq!((selector.name(), selector.node()), (Some("web"), Some("n1")));
    }
}
