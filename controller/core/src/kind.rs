//! The kinds that are served: one row each. Everything generic about the API is driven by this table.

use std::fmt;

/// A kind, as its place in [`TABLE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u16);

/// What the API needs to know of a kind.
#[derive(Debug)]
pub struct KindInfo {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// `v1`
    pub version: &'static str,
    /// `kind`
    pub kind: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The name of one.
    pub singular: &'static str,
    /// What people type instead.
    pub short_names: &'static [&'static str],
    /// Groups of kinds, for `kubectl get all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Paths below an object.
    pub subresources: &'static [Subresource],
    /// Whether a change of anything but metadata and status raises `metadata.generation`.
    pub generation: bool,
    /// `false` for a kind that is shown from memory and cannot be written (leases).
    pub stored: bool,
}

/// A path below an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `/status`
    Status,
    /// `/scale` (autoscaling/v1 Scale)
    Scale,
    /// `/log`
    Log,
    /// `/proxy`
    Proxy,
    /// `/binding`
    Binding,
    /// `/finalize` of a namespace
    Finalize,
    /// `/eviction` of a pod (policy/v1 Eviction)
    Eviction,
    /// `/placement` of a pod: where it goes and why (coracle.dev/v1 `PodPlacement`)
    Placement,
}

impl Subresource {
    /// The word in the path.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Log => "log",
            Self::Proxy => "proxy",
            Self::Binding => "binding",
            Self::Finalize => "finalize",
            Self::Eviction => "eviction",
            Self::Placement => "placement",
        }
    }
}

use Subresource::{Binding, Eviction, Finalize, Log, Placement, Proxy, Scale, Status};

impl Kind {
    /// v1 Namespace
    pub const NAMESPACE: Self = Self(0);
    /// v1 Node
    pub const NODE: Self = Self(1);
    /// v1 Pod
    pub const POD: Self = Self(2);
    /// v1 `ConfigMap`
    pub const CONFIG_MAP: Self = Self(3);
    /// v1 Secret
    pub const SECRET: Self = Self(4);
    /// v1 Event
    pub const EVENT: Self = Self(5);
    /// apps/v1 `ReplicaSet`
    pub const REPLICA_SET: Self = Self(6);
    /// apps/v1 Deployment
    pub const DEPLOYMENT: Self = Self(7);
    /// apps/v1 `DaemonSet`
    pub const DAEMON_SET: Self = Self(8);
    /// coordination.k8s.io/v1 Lease, shown from memory
    pub const LEASE: Self = Self(9);
    /// scheduling.k8s.io/v1 `PriorityClass`
    pub const PRIORITY_CLASS: Self = Self(10);
    /// policy/v1 `PodDisruptionBudget`
    pub const POD_DISRUPTION_BUDGET: Self = Self(11);
    /// v1 Service
    pub const SERVICE: Self = Self(12);
    /// v1 `PersistentVolume`
    pub const PERSISTENT_VOLUME: Self = Self(13);
    /// v1 `PersistentVolumeClaim`
    pub const PERSISTENT_VOLUME_CLAIM: Self = Self(14);
    /// storage.k8s.io/v1 `StorageClass`
    pub const STORAGE_CLASS: Self = Self(15);

    /// The kind's row.
    #[must_use]
    pub fn info(self) -> &'static KindInfo {
        &TABLE[usize::from(self.0)]
    }

    /// Every kind, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..).take(TABLE.len()).map(Self)
    }

    /// The kind that a manifest names with `apiVersion` and `kind`.
    #[must_use]
    pub fn of_manifest(api_version: &str, kind: &str) -> Option<Self> {
        Self::all().find(|candidate| candidate.info().kind == kind && candidate.api_version() == api_version)
    }

    /// The kind that a path names with group, version and plural.
    #[must_use]
    pub fn of_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::all().find(|candidate| {
            let info = candidate.info();
            info.group == group && info.version == version && info.plural == plural
        })
    }

    /// The kind with this number in the store.
    #[must_use]
    pub fn of_number(number: u16) -> Option<Self> {
        (usize::from(number) < TABLE.len()).then_some(Self(number))
    }

    /// The kind's number in the store; rows are only ever added at the end of the table.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// `apiVersion`: `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(self) -> String {
        let info = self.info();
        if info.group.is_empty() { info.version.to_owned() } else { format!("{}/{}", info.group, info.version) }
    }

    /// As errors name it: `pods`, `deployments.apps`.
    #[must_use]
    pub fn qualified_plural(self) -> String {
        let info = self.info();
        if info.group.is_empty() { info.plural.to_owned() } else { format!("{}.{}", info.plural, info.group) }
    }

    /// As validation errors name it: `Pod`, `Deployment.apps`.
    #[must_use]
    pub fn qualified_kind(self) -> String {
        let info = self.info();
        if info.group.is_empty() { info.kind.to_owned() } else { format!("{}.{}", info.kind, info.group) }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().kind)
    }
}

const fn core(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
) -> KindInfo {
    KindInfo {
        group: "",
        version: "v1",
        kind,
        plural,
        singular,
        short_names,
        categories: &[],
        namespaced: true,
        subresources: &[],
        generation: false,
        stored: true,
    }
}

const fn apps(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
) -> KindInfo {
    KindInfo {
        group: "apps",
        categories: &["all"],
        subresources: &[Status, Scale],
        generation: true,
        ..core(kind, plural, singular, short_names)
    }
}

/// Every kind that is served. The order is the numbering in the store: new rows go to the end.
pub static TABLE: &[KindInfo] = &[
    KindInfo {
        namespaced: false,
        subresources: &[Status, Finalize],
        ..core("Namespace", "namespaces", "namespace", &["ns"])
    },
    KindInfo { namespaced: false, subresources: &[Status, Proxy], ..core("Node", "nodes", "node", &["no"]) },
    KindInfo {
        categories: &["all"],
        subresources: &[Status, Log, Proxy, Binding, Eviction, Placement],
        generation: true,
        ..core("Pod", "pods", "pod", &["po"])
    },
    core("ConfigMap", "configmaps", "configmap", &["cm"]),
    core("Secret", "secrets", "secret", &[]),
    core("Event", "events", "event", &["ev"]),
    apps("ReplicaSet", "replicasets", "replicaset", &["rs"]),
    apps("Deployment", "deployments", "deployment", &["deploy"]),
    KindInfo { subresources: &[Status], ..apps("DaemonSet", "daemonsets", "daemonset", &["ds"]) },
    KindInfo { group: "coordination.k8s.io", stored: false, ..core("Lease", "leases", "lease", &[]) },
    KindInfo {
        group: "scheduling.k8s.io",
        namespaced: false,
        generation: true,
        ..core("PriorityClass", "priorityclasses", "priorityclass", &["pc"])
    },
    KindInfo {
        group: "policy",
        subresources: &[Status],
        generation: true,
        ..core("PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget", &["pdb"])
    },
    KindInfo { categories: &["all"], subresources: &[Status], ..core("Service", "services", "service", &["svc"]) },
    KindInfo {
        namespaced: false,
        subresources: &[Status],
        ..core("PersistentVolume", "persistentvolumes", "persistentvolume", &["pv"])
    },
    KindInfo {
        subresources: &[Status],
        ..core("PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim", &["pvc"])
    },
    KindInfo {
        group: "storage.k8s.io",
        namespaced: false,
        ..core("StorageClass", "storageclasses", "storageclass", &["sc"])
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_name_their_rows() {
        for (kind, name) in [
            (Kind::NAMESPACE, "Namespace"),
            (Kind::NODE, "Node"),
            (Kind::POD, "Pod"),
            (Kind::CONFIG_MAP, "ConfigMap"),
            (Kind::SECRET, "Secret"),
            (Kind::EVENT, "Event"),
            (Kind::REPLICA_SET, "ReplicaSet"),
            (Kind::DEPLOYMENT, "Deployment"),
            (Kind::DAEMON_SET, "DaemonSet"),
            (Kind::LEASE, "Lease"),
            (Kind::PRIORITY_CLASS, "PriorityClass"),
            (Kind::POD_DISRUPTION_BUDGET, "PodDisruptionBudget"),
            (Kind::SERVICE, "Service"),
            (Kind::PERSISTENT_VOLUME, "PersistentVolume"),
            (Kind::PERSISTENT_VOLUME_CLAIM, "PersistentVolumeClaim"),
            (Kind::STORAGE_CLASS, "StorageClass"),
        ] {
            assert_eq!(kind.info().kind, name);
            assert_eq!(Kind::of_manifest(&kind.api_version(), name), Some(kind));
        }
    }
}
