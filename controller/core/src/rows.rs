//! What reconcilers, scheduler and dispatch read of an object all the time, taken out of its JSON once.
//!
//! Rows are derived and never stored. A question that is asked once a write reads the JSON instead.

use std::collections::BTreeSet;
use std::sync::Arc;

use coracle_model::{Phase, ResourceAmounts, quantity};
use serde_json::Value;

use crate::clock;
use crate::kind::Kind;
use crate::object::Key;
use crate::volumes::{ClaimRow, VolumeRow};

/// `spec.schedulerName` of the pods that are placed here.
pub const SCHEDULER_NAME: &str = "default-scheduler";

/// The derived part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// v1 Pod
    Pod(Box<PodRow>),
    /// v1 Node
    Node(Box<NodeRow>),
    /// v1 `PersistentVolume`
    Volume(Box<VolumeRow>),
    /// v1 `PersistentVolumeClaim`
    Claim(Box<ClaimRow>),
    /// scheduling.k8s.io/v1 `PriorityClass`
    PriorityClass {
        /// `globalDefault`
        is_default: bool,
    },
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
    /// The sum of `restartCount`.
    pub restarts: u32,
    /// `spec.schedulingGates`, whether there are any.
    pub gated: bool,
    /// `metadata.deletionGracePeriodSeconds`, in milliseconds.
    pub deletion_grace_ms: Option<u64>,
    /// `status.startTime`, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// `spec.schedulerName`, unless it is [`SCHEDULER_NAME`].
    scheduler: Option<Box<str>>,
    /// Config maps, secrets and claims that its variables and volumes name; nothing for none.
    references: Option<Arc<[Key]>>,
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
    /// Derives the row of an object. `shared` finds a name that other objects have too.
    #[must_use]
    pub fn of(kind: Kind, value: &Value, shared: &mut dyn FnMut(&str) -> Arc<str>) -> Self {
        match kind {
            Kind::POD => Self::Pod(Box::new(PodRow::of(value, shared))),
            Kind::NODE => Self::Node(Box::new(NodeRow::of(value))),
            Kind::PERSISTENT_VOLUME => Self::Volume(Box::new(VolumeRow::of(value))),
            Kind::PERSISTENT_VOLUME_CLAIM => Self::Claim(Box::new(ClaimRow::of(value))),
            Kind::PRIORITY_CLASS => Self::PriorityClass { is_default: value["globalDefault"] == true },
            _ => Self::Plain,
        }
    }

    /// The row after another status.
    #[must_use]
    pub fn with_status(&self, status: &Value) -> Self {
        match self {
            Self::Pod(row) => Self::Pod(Box::new(row.with_status(status))),
            Self::Node(row) => Self::Node(Box::new(row.with_status(status))),
            Self::Volume(row) => Self::Volume(Box::new(row.with_status(status))),
            Self::Claim(row) => Self::Claim(Box::new(row.with_status(status))),
            Self::PriorityClass { .. } | Self::Plain => self.clone(),
        }
    }

    /// The row of a pod once it is bound; `None` for what is no pod without a node.
    #[must_use]
    pub fn bound(&self, node: Arc<str>, status: &Value) -> Option<Self> {
        let row = self.pod().filter(|row| row.node.is_none())?;
        Some(Self::Pod(Box::new(PodRow { node: Some(node), ..row.with_status(status) })))
    }

    /// About how many bytes of memory the row has for itself.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        match self {
            Self::Pod(_) => size_of::<PodRow>(),
            Self::Node(row) => size_of::<NodeRow>() + row.taints.len() * size_of::<Taint>(),
            Self::Volume(_) => size_of::<VolumeRow>(),
            Self::Claim(_) => size_of::<ClaimRow>(),
            Self::PriorityClass { .. } | Self::Plain => 0,
        }
    }

    /// The pod's row.
    #[must_use]
    pub fn pod(&self) -> Option<&PodRow> {
        match self {
            Self::Pod(row) => Some(row),
            _ => None,
        }
    }

    /// The node's row.
    #[must_use]
    pub fn node(&self) -> Option<&NodeRow> {
        match self {
            Self::Node(row) => Some(row),
            _ => None,
        }
    }

    /// The persistent volume's row.
    #[must_use]
    pub fn volume(&self) -> Option<&VolumeRow> {
        match self {
            Self::Volume(row) => Some(row),
            _ => None,
        }
    }

    /// The claim's row.
    #[must_use]
    pub fn claim(&self) -> Option<&ClaimRow> {
        match self {
            Self::Claim(row) => Some(row),
            _ => None,
        }
    }
}

impl PodRow {
    fn of(pod: &Value, shared: &mut dyn FnMut(&str) -> Arc<str>) -> Self {
        let spec = &pod["spec"];
        let mut requests = ResourceAmounts::default();
        for container in spec["containers"].as_array().into_iter().flatten() {
            let amounts = &container["resources"]["requests"];
            requests.cpu_millis = requests.cpu_millis.saturating_add(cpu_millis(&amounts["cpu"]));
            requests.memory_bytes = requests.memory_bytes.saturating_add(units(&amounts["memory"]));
            requests.storage_bytes = requests.storage_bytes.saturating_add(units(&amounts["ephemeral-storage"]));
        }
        let row = Self {
            node: spec["nodeName"].as_str().filter(|name| !name.is_empty()).map(shared),
            phase: Phase::Pending,
            ready_since_ms: None,
            priority: spec["priority"].as_i64().and_then(|value| i32::try_from(value).ok()).unwrap_or_default(),
            requests,
            started_ms: None,
            restarts: 0,
            gated: spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()),
            deletion_grace_ms: pod["metadata"]["deletionGracePeriodSeconds"]
                .as_u64()
                .map(|seconds| seconds.saturating_mul(1000)),
            scheduler: spec["schedulerName"].as_str().filter(|name| *name != SCHEDULER_NAME).map(Into::into),
            references: references(pod),
        };
        row.with_status(&pod["status"])
    }

    fn with_status(&self, status: &Value) -> Self {
        let containers = status["containerStatuses"].as_array().into_iter().flatten();
        let restarts = containers.filter_map(|container| container["restartCount"].as_u64()).sum::<u64>();
        Self {
            phase: phase(&status["phase"]),
            ready_since_ms: condition_since(status, "Ready", "True"),
            started_ms: status["startTime"].as_str().and_then(clock::parse_stamp),
            restarts: u32::try_from(restarts).unwrap_or(u32::MAX),
            ..self.clone()
        }
    }

    /// `spec.schedulerName`
    #[must_use]
    pub fn scheduler(&self) -> &str {
        self.scheduler.as_deref().unwrap_or(SCHEDULER_NAME)
    }

    /// Config maps and secrets from which its variables and files are read, and claims of its volumes; each once.
    #[must_use]
    pub fn references(&self) -> &[Key] {
        self.references.as_deref().unwrap_or_default()
    }

    /// Whether `Ready` is `True`.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready_since_ms.is_some()
    }
}

impl NodeRow {
    fn of(node: &Value) -> Self {
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        let row = Self {
            ready: false,
            unschedulable: node["spec"]["unschedulable"].as_bool().unwrap_or_default(),
            allocatable: ResourceAmounts::default(),
            max_pods: 0,
            taints: taints
                .map(|taint| Taint {
                    key: taint["key"].as_str().unwrap_or_default().into(),
                    value: taint["value"].as_str().unwrap_or_default().into(),
                    effect: taint["effect"].as_str().unwrap_or_default().into(),
                    added_ms: taint["timeAdded"].as_str().and_then(clock::parse_stamp),
                })
                .collect(),
        };
        row.with_status(&node["status"])
    }

    fn with_status(&self, status: &Value) -> Self {
        let allocatable = &status["allocatable"];
        Self {
            ready: condition_since(status, "Ready", "True").is_some(),
            allocatable: ResourceAmounts {
                cpu_millis: cpu_millis(&allocatable["cpu"]),
                memory_bytes: units(&allocatable["memory"]),
                storage_bytes: units(&allocatable["ephemeral-storage"]),
            },
            max_pods: u32::try_from(units(&allocatable["pods"])).unwrap_or(u32::MAX),
            ..self.clone()
        }
    }
}

/// Config maps, secrets and claims that a pod's variables and volumes name.
fn references(pod: &Value) -> Option<Arc<[Key]>> {
    fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
        value[field].as_array().into_iter().flatten()
    }
    let spec = &pod["spec"];
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut found = BTreeSet::new();
    let mut note = |kind: Kind, name: &Value| {
        if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
            found.insert(Key::new(kind, namespace, name));
        }
    };
    for container in ["containers", "initContainers"].iter().flat_map(|field| list(spec, field)) {
        for variable in list(container, "env") {
            note(Kind::CONFIG_MAP, &variable["valueFrom"]["configMapKeyRef"]["name"]);
            note(Kind::SECRET, &variable["valueFrom"]["secretKeyRef"]["name"]);
        }
        for source in list(container, "envFrom") {
            note(Kind::CONFIG_MAP, &source["configMapRef"]["name"]);
            note(Kind::SECRET, &source["secretRef"]["name"]);
        }
    }
    for volume in list(spec, "volumes") {
        note(Kind::CONFIG_MAP, &volume["configMap"]["name"]);
        note(Kind::SECRET, &volume["secret"]["secretName"]);
        note(Kind::PERSISTENT_VOLUME_CLAIM, &volume["persistentVolumeClaim"]["claimName"]);
        for source in list(&volume["projected"], "sources") {
            note(Kind::CONFIG_MAP, &source["configMap"]["name"]);
            note(Kind::SECRET, &source["secret"]["name"]);
        }
    }
    (!found.is_empty()).then(|| found.into_iter().collect())
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
