//! A placement as data: what the API answers (`PodPlacement`), and what the command line and the dashboard show.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::{Explanation, Verdict};
use super::counted;
use crate::object::Object;

/// The most nodes that are told of one by one because they are good, whatever is asked for.
pub const MAX_LIMIT: usize = 500;

/// How many nodes are told of without being asked for.
const DEFAULT_LIMIT: usize = 20;

/// Of which nodes is told one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The best so many, chosen and present node among them; at most [`MAX_LIMIT`].
    pub limit: usize,
    /// These in any case, by name.
    pub nodes: Vec<String>,
}

impl Default for Detail {
    fn default() -> Self {
        Self { limit: DEFAULT_LIMIT, nodes: Vec::new() }
    }
}

/// Where a pod goes, or would go, and why; or why it goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// What the pod does now.
    pub state: PlacementState,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present_node: Option<String>,
    /// `status.nominatedNodeName`: the node on which room is held for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
    /// The node that is chosen now; none when no node fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_node: Option<String>,
    /// One line, in the words of the condition `PodScheduled` and the event `FailedScheduling`.
    pub message: String,
    /// How many nodes there are.
    pub nodes: NodeCounts,
    /// Why nodes are refused, and how many: most nodes first. A node with several reasons counts for each.
    pub reasons: Vec<ReasonCount>,
    /// Nodes one by one: the chosen one, then by points, then those that are refused by name.
    pub verdicts: Vec<NodeVerdict>,
    /// How many nodes are not among `verdicts`.
    pub omitted: usize,
    /// What preemption would do; only of a pod that no node fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Outlook>,
}

/// What a pod does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PlacementState {
    /// It waits for a node.
    Waiting,
    /// It waits until its `spec.schedulingGates` are removed (SCH-03).
    Gated,
    /// It is on a node.
    Bound,
    /// It has ended, or ends before it was anywhere.
    Ended,
    /// It waits for a scheduler of another name (`spec.schedulerName`).
    Elsewhere,
}

impl PlacementState {
    /// The word in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Gated => "Gated",
            Self::Bound => "Bound",
            Self::Ended => "Ended",
            Self::Elsewhere => "Elsewhere",
        }
    }
}

/// How many nodes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeCounts {
    /// All.
    pub total: usize,
    /// Those that fit.
    pub feasible: usize,
    /// Those that do not.
    pub refused: usize,
}

/// One reason, and how many nodes have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReasonCount {
    /// Kubernetes' name of the plugin that says so.
    pub plugin: String,
    /// Kubernetes' words.
    pub reason: String,
    /// How many nodes.
    pub nodes: usize,
}

/// What was found of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeVerdict {
    /// Its name.
    pub node: String,
    /// Whether it is the one that is chosen.
    pub chosen: bool,
    /// Whether the pod is there now.
    pub present: bool,
    /// The sum of the weighted points; only of a node that fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// Points rule by rule; only of a node that fits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<RulePoints>,
    /// Why it does not fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<NodeReason>,
}

/// What one score gives to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RulePoints {
    /// Kubernetes' name of the plugin.
    pub plugin: String,
    /// 0 to 100.
    pub points: i64,
    /// How much it counts.
    pub weight: i64,
    /// Points times weight.
    pub weighted: i64,
}

/// Why a node does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReason {
    /// Kubernetes' name of the plugin that says so.
    pub plugin: String,
    /// Kubernetes' words.
    pub reason: String,
}

/// What preemption would do (PRI-04).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Whether it makes room.
    pub helps: bool,
    /// The node on which it does the least harm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Who would have to go from there, the most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<Victim>,
    /// How many of them a `PodDisruptionBudget` protects.
    pub budget_violations: usize,
    /// One line.
    pub message: String,
}

/// A pod that would have to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Victim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i32,
}

impl Placement {
    /// Keeps of an explanation what is worth telling. `refusal` is the message of a pod that no node fits.
    pub(super) fn of(
        explanation: &Explanation,
        refusal: Option<String>,
        preemption: Option<Outlook>,
        detail: &Detail,
    ) -> Self {
        let total = explanation.verdicts.len();
        let refused =
            explanation.verdicts.values().filter(|verdict| matches!(verdict, Verdict::Refused { .. })).count();
        let nodes = NodeCounts { total, feasible: total - refused, refused };
        let reasons = counted(explanation);
        let verdicts = told(explanation, detail);
        Self {
            state: PlacementState::Waiting,
            present_node: None,
            nominated_node: None,
            chosen_node: explanation.best.as_ref().map(ToString::to_string),
            message: refusal.unwrap_or_else(|| fits(nodes, &reasons)),
            nodes,
            reasons,
            omitted: total - verdicts.len(),
            verdicts,
            preemption,
        }
    }

    /// The same, of a pod that is in this state and place now.
    pub(super) fn about(mut self, state: PlacementState, present: Option<&str>, nominated: Option<&str>) -> Self {
        self.state = state;
        self.present_node = present.map(ToOwned::to_owned);
        self.nominated_node = nominated.map(ToOwned::to_owned);
        for verdict in &mut self.verdicts {
            verdict.present = present == Some(&*verdict.node);
        }
        self
    }

    /// `GET …/pods/NAME/placement`: a `PodPlacement`.
    #[must_use]
    pub fn to_json(&self, pod: &Object) -> Value {
        let mut value = json!({
            "kind": "PodPlacement", "apiVersion": "coracle.dev/v1",
            "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid.to_string()},
        });
        // A placement has nothing in it that JSON cannot hold.
        let fields = serde_json::to_value(self).unwrap_or_default();
        if let (Some(root), Value::Object(fields)) = (value.as_object_mut(), fields) {
            root.extend(fields);
        }
        value
    }
}

/// The line about a pod that fits somewhere.
fn fits(nodes: NodeCounts, reasons: &[ReasonCount]) -> String {
    let mut words: Vec<String> = reasons.iter().map(|reason| format!("{} {}", reason.nodes, reason.reason)).collect();
    words.sort_unstable();
    let why = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
    format!("{}/{} nodes are available{why}.", nodes.feasible, nodes.total)
}

/// The nodes that are told of one by one, in their order.
fn told(explanation: &Explanation, detail: &Detail) -> Vec<NodeVerdict> {
    let is_best = |name: &str| explanation.best.as_deref() == Some(name);
    let mut order: Vec<(&str, &Verdict)> =
        explanation.verdicts.iter().map(|(name, verdict)| (&**name, verdict)).collect();
    order.sort_by_key(|(name, verdict)| {
        let total = match verdict {
            Verdict::Feasible { total, .. } => Some(*total),
            Verdict::Refused { .. } => None,
        };
        (!is_best(name), Reverse(total), *name)
    });
    let asked: BTreeSet<&str> = detail.nodes.iter().map(String::as_str).collect();
    let limit = detail.limit.min(MAX_LIMIT);
    let kept = order.into_iter().enumerate().filter(|(place, (name, _))| *place < limit || asked.contains(name));
    kept.map(|(_, (name, verdict))| of_node(name, is_best(name), verdict)).collect()
}

fn of_node(name: &str, chosen: bool, verdict: &Verdict) -> NodeVerdict {
    let mut told = NodeVerdict {
        node: name.to_owned(),
        chosen,
        present: false,
        score: None,
        points: Vec::new(),
        reasons: Vec::new(),
    };
    match verdict {
        Verdict::Feasible { points, total } => {
            told.score = Some(*total);
            let points = points.iter().map(|points| RulePoints {
                plugin: points.score.to_owned(),
                points: points.points.checked_div(points.weight).unwrap_or_default(),
                weight: points.weight,
                weighted: points.points,
            });
            told.points = points.collect();
        }
        Verdict::Refused { reasons } => {
            let reasons = reasons
                .iter()
                .map(|reason| NodeReason { plugin: reason.filter.to_owned(), reason: reason.words.clone() });
            told.reasons = reasons.collect();
        }
    }
    told
}
