//! The columns of each kind: Kubernetes' own names and order (API-04).

use serde_json::{Value, json};

use crate::kind::Kind;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// What it shows.
    pub description: &'static str,
    /// Whether it is shown only with `-o wide`.
    pub wide: bool,
}

impl Column {
    pub(super) fn to_json(self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": if self.name == "Name" && !self.wide { "name" } else { "" },
            "description": self.description, "priority": i32::from(self.wide),
        })
    }
}

const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", description, wide: false }
}

const fn number(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "integer", description, wide: false }
}

const fn truth(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "boolean", description, wide: false }
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", description, wide: true }
}

const NAME: Column = text("Name", "The name, unique within a namespace.");
const AGE: Column = text("Age", "The time since the object was created.");
const CONTAINERS: Column = wide("Containers", "The names of the containers in the template.");
const IMAGES: Column = wide("Images", "The images of the containers in the template.");
const SELECTOR: Column = wide("Selector", "The labels of the pods that are meant.");

/// The columns of a kind.
pub(super) fn of(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::POD => POD,
        Kind::NODE => NODE,
        Kind::NAMESPACE => NAMESPACE,
        Kind::CONFIG_MAP => CONFIG_MAP,
        Kind::SECRET => SECRET,
        Kind::EVENT => EVENT,
        Kind::DEPLOYMENT => DEPLOYMENT,
        Kind::REPLICA_SET => REPLICA_SET,
        Kind::DAEMON_SET => DAEMON_SET,
        Kind::LEASE => LEASE,
        Kind::PRIORITY_CLASS => PRIORITY_CLASS,
        Kind::POD_DISRUPTION_BUDGET => POD_DISRUPTION_BUDGET,
        Kind::SERVICE => SERVICE,
        Kind::PERSISTENT_VOLUME => PERSISTENT_VOLUME,
        Kind::PERSISTENT_VOLUME_CLAIM => PERSISTENT_VOLUME_CLAIM,
        Kind::STORAGE_CLASS => STORAGE_CLASS,
        _ => &[NAME, AGE],
    }
}

static POD: &[Column] = &[
    NAME,
    text("Ready", "The containers that are ready, of all."),
    text("Status", "The phase, or what stands in the way."),
    text("Restarts", "How often containers were started again, and when last."),
    AGE,
    wide("IP", "The pod's address."),
    wide("Node", "The node to which the pod is bound."),
    wide("Nominated Node", "The node on which room is made for the pod."),
    wide("Readiness Gates", "The conditions beyond its containers that the pod waits for, and how many are true."),
];

static NODE: &[Column] = &[
    NAME,
    text("Status", "Whether the node is ready, and whether pods may be bound to it."),
    text("Roles", "The roles that its labels give it."),
    AGE,
    text("Version", "The version of its agent."),
    wide("Internal-IP", "The address within the cluster."),
    wide("External-IP", "The address from outside."),
    wide("OS-Image", "The operating system."),
    wide("Kernel-Version", "The kernel."),
    wide("Container-Runtime", "What runs its containers."),
];

static NAMESPACE: &[Column] = &[NAME, text("Status", "The phase."), AGE];

static CONFIG_MAP: &[Column] = &[NAME, number("Data", "The number of keys."), AGE];

static SECRET: &[Column] = &[NAME, text("Type", "What it is for."), number("Data", "The number of keys."), AGE];

static EVENT: &[Column] = &[
    text("Last Seen", "The time since it happened last."),
    text("Type", "Normal or Warning."),
    text("Reason", "What happened, in one word."),
    text("Object", "What it happened to."),
    wide("Subobject", "The part that it happened to."),
    wide("Source", "Who reports it."),
    text("Message", "What happened, in a sentence."),
    wide("First Seen", "The time since it happened first."),
    wide("Count", "How often it happened."),
    wide("Name", "The name of the event."),
];

static DEPLOYMENT: &[Column] = &[
    NAME,
    text("Ready", "The pods that are ready, of those that are wanted."),
    number("Up-to-date", "The pods of the newest template."),
    number("Available", "The pods that have been ready for minReadySeconds."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

static REPLICA_SET: &[Column] = &[
    NAME,
    number("Desired", "The pods that are wanted."),
    number("Current", "The pods that exist."),
    number("Ready", "The pods that are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

static DAEMON_SET: &[Column] = &[
    NAME,
    number("Desired", "The nodes that should have a pod."),
    number("Current", "The nodes that have one."),
    number("Ready", "The pods that are ready."),
    number("Up-to-date", "The pods of the newest template."),
    number("Available", "The pods that have been ready for minReadySeconds."),
    text("Node Selector", "The labels of the nodes that are meant."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

static LEASE: &[Column] = &[NAME, text("Holder", "Who holds it."), AGE];

static PRIORITY_CLASS: &[Column] = &[
    NAME,
    number("Value", "The priority that its pods have."),
    truth("Global-Default", "Whether pods that name no class have this one."),
    AGE,
    text("PreemptionPolicy", "Whether its pods make others go."),
];

static POD_DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    text("Min Available", "The pods that must stay available."),
    text("Max Unavailable", "The pods that may be unavailable."),
    number("Allowed Disruptions", "The pods that may be evicted now."),
    AGE,
];

static SERVICE: &[Column] = &[
    NAME,
    text("Type", "How it is reached."),
    text("Cluster-IP", "The address within the cluster."),
    text("External-IP", "The address from outside."),
    text("Port(s)", "The ports, with their protocols."),
    AGE,
    SELECTOR,
];

const CAPACITY: Column = text("Capacity", "How much it holds.");
const ACCESS_MODES: Column = text("Access Modes", "How many may write to it or read it at a time.");
const STORAGE: Column = text("StorageClass", "The class of storage.");
const ATTRIBUTES: Column = text("VolumeAttributesClass", "The class of its attributes.");
const VOLUME_MODE: Column = wide("VolumeMode", "Whether it has a file system.");

static PERSISTENT_VOLUME: &[Column] = &[
    NAME,
    CAPACITY,
    ACCESS_MODES,
    text("Reclaim Policy", "What becomes of it when its claim goes."),
    text("Status", "The phase."),
    text("Claim", "The claim to which it is bound."),
    STORAGE,
    ATTRIBUTES,
    text("Reason", "Why it failed."),
    AGE,
    VOLUME_MODE,
];

static PERSISTENT_VOLUME_CLAIM: &[Column] = &[
    NAME,
    text("Status", "The phase."),
    text("Volume", "The volume to which it is bound."),
    CAPACITY,
    ACCESS_MODES,
    STORAGE,
    ATTRIBUTES,
    AGE,
    VOLUME_MODE,
];

static STORAGE_CLASS: &[Column] = &[
    NAME,
    text("Provisioner", "Who makes its volumes."),
    text("ReclaimPolicy", "What becomes of a volume when its claim goes."),
    text("VolumeBindingMode", "When a claim is bound."),
    truth("AllowVolumeExpansion", "Whether a claim may grow."),
    AGE,
];
