//! What `ReplicaSet`, Deployment and `DaemonSet` share: the pod template and the numbers of a spec.

use serde_json::{Value, json};

use super::at::{At, Causes, at_least, default, text};
use super::{label_selector, metadata, pod_defaults, pod_spec};

/// The defaults of `spec.template`.
pub(super) fn default_template(workload: &mut Value) {
    default(workload, "spec", || json!({}));
    default(&mut workload["spec"], "template", || json!({}));
    let template = &mut workload["spec"]["template"];
    default(template, "metadata", || json!({}));
    default(template, "spec", || json!({}));
    pod_defaults::spec(&mut template["spec"]);
}

/// Selector and template of a workload whose pods run for good; `kind` and `words` name it in sentences.
pub(super) fn validate_template(spec: &Value, kind: &str, words: &str, causes: &mut Causes) {
    let at = At::Root.field("spec");
    label_selector::validate_owned(spec, words, &at, causes);
    let template = &spec["template"];
    let at = at.field("template");
    metadata::validate_maps(&template["metadata"], &at.field("metadata"), causes);
    let at = at.field("spec");
    let before = causes.len();
    pod_spec::validate(&template["spec"], &at, causes);
    let policy_refused = causes[before..].iter().any(|cause| cause.field.ends_with(".restartPolicy"));
    if text(&template["spec"], "restartPolicy") != "Always" && !policy_refused {
        causes.push(at.field("restartPolicy").not_supported(&template["spec"]["restartPolicy"], &["Always"]));
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        causes.push(at.field("activeDeadlineSeconds").forbidden(&detail));
    }
}

/// The selector of an apps/v1 workload never changes.
pub(super) fn immutable_selector(old: &Value, new: &Value, causes: &mut Causes) {
    super::at::immutable(&old["spec"], &new["spec"], "selector", &At::Root.field("spec"), causes);
}

/// No count of a status is negative, and none is larger than the one that it is a part of.
pub(super) fn validate_counts(status: &Value, counts: &[&str], parts: &[(&str, &str)], causes: &mut Causes) {
    let at = At::Root.field("status");
    for count in counts.iter().chain(&["observedGeneration"]) {
        at_least(status, count, 0, &at, causes);
    }
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    for (part, whole) in parts {
        if number(part) > number(whole) {
            causes.push(at.field(part).invalid(&status[*part], &format!("cannot be greater than status.{whole}")));
        }
    }
}

/// A number of pods or a share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    Pods(i64),
    Percent(i64),
}

impl Amount {
    /// Whether it is none at all.
    pub(super) const fn is_zero(self) -> bool {
        matches!(self, Self::Pods(0) | Self::Percent(0))
    }
}

/// Reads `maxSurge` or `maxUnavailable`; `None`, with a cause, when it is neither a number nor a percentage.
pub(super) fn amount(found: &Value, at: &At<'_>, causes: &mut Causes) -> Option<Amount> {
    const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
        '93%', regex used for validation is '[0-9]+%')";
    let amount = match found {
        Value::Number(number) => Amount::Pods(number.as_i64().unwrap_or(-1)),
        Value::String(text) => {
            let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            let Some(percent) = digits.and_then(|digits| digits.parse().ok()) else {
                causes.push(at.invalid(found, PERCENT));
                return None;
            };
            Amount::Percent(percent)
        }
        _ => return None,
    };
    if matches!(amount, Amount::Pods(..0)) {
        causes.push(at.invalid(found, "must be greater than or equal to 0"));
        return None;
    }
    Some(amount)
}

/// `maxUnavailable` is at most all of them.
pub(super) fn at_most_all(amount: Option<Amount>, found: &Value, at: &At<'_>, causes: &mut Causes) {
    if matches!(amount, Some(Amount::Percent(101..))) {
        causes.push(at.invalid(found, "must not be greater than 100%"));
    }
}
