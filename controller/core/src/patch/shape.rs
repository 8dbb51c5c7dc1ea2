//! What merges how: the one table of merge keys and list types of the kinds that are served.
//!
//! A field that is not named here merges as an object if it is one, and is replaced whole if it is a list or a scalar.

use crate::kind::Kind;

/// The fields of an object that merge in a way of their own.
#[derive(Debug)]
pub(super) struct Shape {
    /// Whether a patch of ours says which keys stay (`retainKeys`): one of several sources is chosen by its key.
    pub(super) retain_keys: bool,
    fields: &'static [(&'static str, Field)],
}

/// How one field merges.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// An object, field by field.
    Object(&'static Shape),
    /// A list of objects, of which each is known by this key.
    List(&'static str, &'static Shape),
    /// A list of scalars, none of them twice.
    Set,
    /// Replaced whole, whatever it is.
    Whole,
}

use Field::{List, Object, Set, Whole};

impl Shape {
    /// How a field merges; `None` for one without a row.
    pub(super) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, how)| *how)
    }

    /// The shape of a field that is an object.
    pub(super) fn below(&self, name: &str) -> &'static Self {
        match self.field(name) {
            Some(Object(shape)) => shape,
            Some(List(..) | Set | Whole) | None => &PLAIN,
        }
    }
}

/// The shape of a kind.
pub(super) fn of(kind: Kind) -> &'static Shape {
    match kind {
        Kind::POD => &POD,
        Kind::NODE => &NODE,
        Kind::SERVICE => &SERVICE,
        Kind::POD_DISRUPTION_BUDGET => &DISRUPTION_BUDGET,
        Kind::DEPLOYMENT | Kind::REPLICA_SET | Kind::DAEMON_SET => &WORKLOAD,
        _ => &ANY,
    }
}

const fn shape(fields: &'static [(&'static str, Field)]) -> Shape {
    Shape { retain_keys: false, fields }
}

/// Nothing merges in a way of its own.
pub(super) static PLAIN: Shape = shape(&[]);
static RETAINED: Shape = Shape { retain_keys: true, fields: &[] };

static METADATA: Shape = shape(&[("ownerReferences", List("uid", &PLAIN)), ("finalizers", Set)]);

static ANY: Shape = shape(&[("metadata", Object(&METADATA)), ("status", Object(&CONDITIONS))]);
static CONDITIONS: Shape = shape(&[("conditions", List("type", &PLAIN))]);

static POD: Shape =
    shape(&[("metadata", Object(&METADATA)), ("spec", Object(&POD_SPEC)), ("status", Object(&POD_STATUS))]);

static POD_SPEC: Shape = shape(&[
    ("containers", List("name", &CONTAINER)),
    ("initContainers", List("name", &CONTAINER)),
    ("ephemeralContainers", List("name", &CONTAINER)),
    ("volumes", List("name", &RETAINED)),
    ("imagePullSecrets", List("name", &PLAIN)),
    ("hostAliases", List("ip", &PLAIN)),
    ("topologySpreadConstraints", List("topologyKey", &PLAIN)),
    ("schedulingGates", List("name", &PLAIN)),
    ("resourceClaims", List("name", &RETAINED)),
]);

static CONTAINER: Shape = shape(&[
    ("env", List("name", &PLAIN)),
    ("ports", List("containerPort", &PLAIN)),
    ("volumeMounts", List("mountPath", &PLAIN)),
    ("volumeDevices", List("devicePath", &PLAIN)),
]);

static POD_STATUS: Shape = shape(&[
    ("conditions", List("type", &PLAIN)),
    ("podIPs", List("ip", &PLAIN)),
    ("hostIPs", List("ip", &PLAIN)),
    ("resourceClaimStatuses", List("name", &RETAINED)),
]);

static NODE: Shape =
    shape(&[("metadata", Object(&METADATA)), ("spec", Object(&NODE_SPEC)), ("status", Object(&NODE_STATUS))]);
// Taints are replaced whole, as in Kubernetes: `kubectl taint` sends all that shall be there.
static NODE_SPEC: Shape = shape(&[("podCIDRs", Set)]);
static NODE_STATUS: Shape = shape(&[("conditions", List("type", &PLAIN)), ("addresses", List("type", &PLAIN))]);

static SERVICE: Shape =
    shape(&[("metadata", Object(&METADATA)), ("spec", Object(&SERVICE_SPEC)), ("status", Object(&CONDITIONS))]);
static SERVICE_SPEC: Shape = shape(&[("ports", List("port", &PLAIN))]);

static DISRUPTION_BUDGET: Shape =
    shape(&[("metadata", Object(&METADATA)), ("spec", Object(&BUDGET_SPEC)), ("status", Object(&CONDITIONS))]);
static BUDGET_SPEC: Shape = shape(&[("selector", Whole)]);

static WORKLOAD: Shape =
    shape(&[("metadata", Object(&METADATA)), ("spec", Object(&WORKLOAD_SPEC)), ("status", Object(&CONDITIONS))]);
static WORKLOAD_SPEC: Shape = shape(&[("template", Object(&TEMPLATE)), ("strategy", Object(&RETAINED))]);
static TEMPLATE: Shape = shape(&[("metadata", Object(&METADATA)), ("spec", Object(&POD_SPEC))]);
