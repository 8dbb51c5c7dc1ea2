//! Label selectors in specs: their shape, and that a workload's own template matches (RS-04, DEP-10).

use serde_json::{Value, json};

use super::at::{At, Causes, given, items, text};
use super::syntax;
use crate::selector::LabelSelector;

/// Checks a `metav1.LabelSelector`.
pub(super) fn validate(selector: &Value, at: &At<'_>, causes: &mut Causes) {
    syntax::check_labels(&selector["matchLabels"], &at.field("matchLabels"), causes);
    let at = at.field("matchExpressions");
    for (index, expression) in items(&selector["matchExpressions"]) {
        let at = at.item(index);
        syntax::check(text(expression, "key"), syntax::qualified_name, &at.field("key"), causes);
        let values = at.field("values");
        match text(expression, "operator") {
            "In" | "NotIn" if !given(&expression["values"]) => {
                causes.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if given(&expression["values"]) => {
                causes.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator, want In, NotIn, Exists or DoesNotExist";
                causes.push(at.field("operator").invalid(&json!(other), detail));
            }
        }
        for (index, value) in items(&expression["values"]) {
            syntax::check(value.as_str().unwrap_or_default(), syntax::label_value, &values.item(index), causes);
        }
    }
}

/// A workload's selector is there, says something, and matches its own template; `words` names the kind.
pub(super) fn validate_owned(spec: &Value, words: &str, at: &At<'_>, causes: &mut Causes) {
    let selector = &spec["selector"];
    let here = at.field("selector");
    if selector.is_null() {
        causes.push(here.required("the labels by which its pods are found"));
        return;
    }
    let before = causes.len();
    validate(selector, &here, causes);
    if !given(&selector["matchLabels"]) && !given(&selector["matchExpressions"]) {
        causes.push(here.invalid(selector, &format!("empty selector is invalid for {words}")));
    }
    if causes.len() > before {
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !matches(selector, labels) {
        let at = at.field("template");
        let at = at.field("metadata");
        causes.push(at.field("labels").invalid(labels, "`selector` does not match template `labels`"));
    }
}

fn matches(selector: &Value, labels: &Value) -> bool {
    let labels =
        super::at::entries(labels).filter_map(|(key, value)| Some((key.into(), value.as_str()?.into()))).collect();
    LabelSelector::of_json(selector).is_ok_and(|selector| selector.matches(&labels))
}
