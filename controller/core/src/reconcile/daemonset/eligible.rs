//! Which nodes a daemon pod may be on: node selector, required node affinity and taints, and nothing else. Whether it
//! fits is the scheduler's question.

use serde::Deserialize;
use serde_json::Value;

use crate::object::Object;
use crate::reconcile::tolerations::Toleration;

use super::pod;

/// What a node should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eligibility {
    /// A pod.
    Run,
    /// The pod that is there, but no new one: the node is tainted `NoSchedule`.
    Stay,
    /// No pod.
    Go,
}

/// A template's rules about nodes.
pub(super) struct Template {
    node_name: Option<String>,
    node_selector: Vec<(String, String)>,
    /// ORed; `None` for no rule.
    affinity: Option<Vec<Term>>,
    tolerations: Vec<Toleration>,
}

/// One of `nodeSelectorTerms`: ANDed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Template {
    /// Reads `spec.template`, with the tolerations that every daemon pod gets.
    pub(super) fn of(template: &Value) -> Self {
        let spec = &template["spec"];
        let terms =
            &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        let given = |value: &Value| serde_json::from_value::<Vec<Toleration>>(value.clone()).unwrap_or_default();
        let mut tolerations = given(&spec["tolerations"]);
        tolerations
            .extend(pod::automatic_tolerations(spec).into_iter().map(|(key, effect)| Toleration::exists(key, effect)));
        Self {
            node_name: spec["nodeName"].as_str().filter(|name| !name.is_empty()).map(str::to_owned),
            node_selector: spec["nodeSelector"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            affinity: (!terms.is_null()).then(|| serde_json::from_value(terms.clone()).unwrap_or_default()),
            tolerations,
        }
    }

    /// What this node should have.
    pub(super) fn eligibility(&self, node: &Object) -> Eligibility {
        let label = |key: &str| node.labels.get(key).map(|value| &**value);
        let fits = self.node_name.as_ref().is_none_or(|name| *name == node.name())
            && self.node_selector.iter().all(|(key, value)| label(key) == Some(value))
            && self.affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)));
        if !fits {
            return Eligibility::Go;
        }
        let untolerated = |effects: &[&str]| {
            let taints = node.row.node().map(|row| row.taints.as_slice()).unwrap_or_default();
            taints
                .iter()
                .filter(|taint| effects.contains(&&*taint.effect))
                .any(|taint| !self.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
        };
        if !untolerated(&["NoSchedule", "NoExecute"]) {
            Eligibility::Run
        } else if untolerated(&["NoExecute"]) {
            Eligibility::Go
        } else {
            Eligibility::Stay
        }
    }
}

impl Term {
    /// A term without requirements matches nothing.
    fn matches(&self, node: &Object) -> bool {
        let label = |key: &str| node.labels.get(key).map(|value| &**value);
        let field = |key: &str| (key == "metadata.name").then(|| node.name());
        !(self.match_expressions.is_empty() && self.match_fields.is_empty())
            && self.match_expressions.iter().all(|requirement| requirement.matches(label(&requirement.key)))
            && self.match_fields.iter().all(|requirement| requirement.matches(field(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, found: Option<&str>) -> bool {
        let among = || found.is_some_and(|found| self.values.iter().any(|value| value == found));
        let compared = |test: fn(i64, i64) -> bool| {
            let limit = self.values.first().and_then(|value| value.parse().ok());
            let found = found.and_then(|found| found.parse().ok());
            found.zip(limit).is_some_and(|(found, limit)| test(found, limit))
        };
        match self.operator.as_str() {
            "In" => among(),
            "NotIn" => !among(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => compared(|found, limit| found > limit),
            "Lt" => compared(|found, limit| found < limit),
            _ => false,
        }
    }
}
