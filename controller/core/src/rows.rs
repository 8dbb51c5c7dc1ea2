//! What reconcilers, scheduler and dispatch read of an object all the time, taken out of its JSON once.
//!
//! Rows are derived and never stored. A question that is asked once a write reads the JSON instead.

use std::sync::Arc;

use coracle_model::{Phase, ResourceAmounts, quantity};
use serde_json::Value;

use crate::clock;
use crate::kind::Kind;

/// The derived part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// v1 Pod
    Pod(Box<PodRow>),
    /// v1 Node
    Node(Box<NodeRow>),
    /// A kind of which the JSON is enough.
    Plain,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRow {
    /// `spec.nodeName`; `None` while it is not bound.
    pub node: Option<Arc<str>>,
    /// `status.phase`; `None` for a word that is not one of Kubernetes'.
    pub phase: Phase,
    /// Since when `Ready` is `True`, in milliseconds since 1970; `None` when it is not.
    pub ready_since_ms: Option<u64>,
    /// `spec.priority`
    pub priority: i32,
    /// What the pod asks of a node: the sum of its containers' requests.
    pub requests: ResourceAmounts,
    /// Host ports that it takes: (protocol, port).
    pub host_ports: Vec<(Box<str>, u16)>,
    /// The sum of `restartCount`.
    pub restarts: u32,
    /// `spec.schedulingGates`, whether there are any.
    pub gated: bool,
    /// `metadata.deletionGracePeriodSeconds`, in milliseconds.
    pub deletion_grace_ms: Option<u64>,
    /// `status.startTime`, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// `spec.schedulerName`
    pub scheduler: Box<str>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Whether the condition `Ready` is `True`.
    pub ready: bool,
    /// `spec.unschedulable`
    pub unschedulable: bool,
    /// `status.allocatable`: cpu and memory.
    pub allocatable: ResourceAmounts,
    /// `status.allocatable.pods`
    pub max_pods: u32,
    /// `spec.taints`: (key, value, effect).
    pub taints: Vec<Taint>,
}

/// One of `spec.taints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// `key`
    pub key: Box<str>,
    /// `value`
    pub value: Box<str>,
    /// `effect`: `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    pub effect: Box<str>,
    /// `timeAdded`, in milliseconds since 1970.
    pub added_ms: Option<u64>,
}

impl Row {
    /// Derives the row of an object.
    #[must_use]
    pub fn of(kind: Kind, value: &Value) -> Self {
        match kind {
            Kind::POD => Self::Pod(Box::new(PodRow::of(value))),
            Kind::NODE => Self::Node(Box::new(NodeRow::of(value))),
            _ => Self::Plain,
        }
    }

    /// The pod's row.
    #[must_use]
    pub fn pod(&self) -> Option<&PodRow> {
        match self {
            Self::Pod(row) => Some(row),
            Self::Node(_) | Self::Plain => None,
        }
    }

    /// The node's row.
    #[must_use]
    pub fn node(&self) -> Option<&NodeRow> {
        match self {
            Self::Node(row) => Some(row),
            Self::Pod(_) | Self::Plain => None,
        }
    }
}

impl PodRow {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let mut requests = ResourceAmounts::default();
        let mut host_ports = Vec::new();
        for container in spec["containers"].as_array().into_iter().flatten() {
            let amounts = &container["resources"]["requests"];
            requests.cpu_millis = requests.cpu_millis.saturating_add(cpu_millis(&amounts["cpu"]));
            requests.memory_bytes = requests.memory_bytes.saturating_add(units(&amounts["memory"]));
            for port in container["ports"].as_array().into_iter().flatten() {
                let number = port["hostPort"].as_u64().and_then(|port| u16::try_from(port).ok());
                if let Some(number) = number.filter(|number| *number != 0) {
                    host_ports.push((port["protocol"].as_str().unwrap_or("TCP").into(), number));
                }
            }
        }
        let statuses = status["containerStatuses"].as_array().into_iter().flatten();
        let restarts = statuses.filter_map(|status| status["restartCount"].as_u64()).sum::<u64>();
        Self {
            node: spec["nodeName"].as_str().filter(|name| !name.is_empty()).map(Into::into),
            phase: phase(&status["phase"]),
            ready_since_ms: condition_since(status, "Ready", "True"),
            priority: spec["priority"].as_i64().and_then(|value| i32::try_from(value).ok()).unwrap_or_default(),
            requests,
            host_ports,
            restarts: u32::try_from(restarts).unwrap_or(u32::MAX),
            gated: spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()),
            deletion_grace_ms: pod["metadata"]["deletionGracePeriodSeconds"]
                .as_u64()
                .map(|seconds| seconds.saturating_mul(1000)),
            started_ms: status["startTime"].as_str().and_then(clock::parse_stamp),
            scheduler: spec["schedulerName"].as_str().unwrap_or("default-scheduler").into(),
        }
    }

    /// Whether `Ready` is `True`.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready_since_ms.is_some()
    }
}

impl NodeRow {
    fn of(node: &Value) -> Self {
        let allocatable = &node["status"]["allocatable"];
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        Self {
            ready: condition_since(&node["status"], "Ready", "True").is_some(),
            unschedulable: node["spec"]["unschedulable"].as_bool().unwrap_or_default(),
            allocatable: ResourceAmounts {
                cpu_millis: cpu_millis(&allocatable["cpu"]),
                memory_bytes: units(&allocatable["memory"]),
                storage_bytes: units(&allocatable["ephemeral-storage"]),
            },
            max_pods: u32::try_from(units(&allocatable["pods"])).unwrap_or(u32::MAX),
            taints: taints
                .map(|taint| Taint {
                    key: taint["key"].as_str().unwrap_or_default().into(),
                    value: taint["value"].as_str().unwrap_or_default().into(),
                    effect: taint["effect"].as_str().unwrap_or_default().into(),
                    added_ms: taint["timeAdded"].as_str().and_then(clock::parse_stamp),
                })
                .collect(),
        }
    }
}

/// `status.phase`; anything that is not a phase reads as Pending, as the API server's default does.
fn phase(value: &Value) -> Phase {
    match value.as_str() {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => Phase::Pending,
    }
}

/// Since when a condition has this status, in milliseconds since 1970; `None` when it has another one.
fn condition_since(status: &Value, kind: &str, wanted: &str) -> Option<u64> {
    let mut conditions = status["conditions"].as_array()?.iter();
    let condition = conditions.find(|condition| condition["type"] == kind && condition["status"] == wanted)?;
    Some(condition["lastTransitionTime"].as_str().and_then(clock::parse_stamp).unwrap_or_default())
}

/// A `cpu` quantity in thousandths; 0 when it is missing or no quantity.
#[must_use]
pub fn cpu_millis(quantity: &Value) -> u64 {
    read(quantity, quantity::milli_value)
}

/// Any other quantity in units; 0 when it is missing or no quantity.
#[must_use]
pub fn units(quantity: &Value) -> u64 {
    read(quantity, quantity::value)
}

fn read(found: &Value, parse: fn(&str) -> Result<i64, quantity::ParseQuantityError>) -> u64 {
    let number = match found {
        Value::String(text) => parse(text).unwrap_or_default(),
        Value::Number(number) => parse(&number.to_string()).unwrap_or_default(),
        _ => 0,
    };
    u64::try_from(number).unwrap_or_default()
}
