//! Persistent volumes and claims as the scheduler and the binder read them, and which volume fits which claim (VOL-02).

use std::sync::Arc;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Key, Object, Uid};
use crate::rows::units;

/// Where the class of a volume or a claim stood before it had a field.
pub const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a claim whose volume has been told of it too: it is bound for good.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or a volume of which no user has said what it is bound to.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// `provisioner` of a class whose volumes people make.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// `accessModes`, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessModes(u8);

impl AccessModes {
    const READ_WRITE_ONCE: u8 = 1;
    const READ_ONLY_MANY: u8 = 1 << 1;
    const READ_WRITE_MANY: u8 = 1 << 2;
    const READ_WRITE_ONCE_POD: u8 = 1 << 3;

    fn of(modes: &Value) -> Self {
        let bit = |mode: &Value| match mode.as_str() {
            Some("ReadWriteOnce") => Self::READ_WRITE_ONCE,
            Some("ReadOnlyMany") => Self::READ_ONLY_MANY,
            Some("ReadWriteMany") => Self::READ_WRITE_MANY,
            Some("ReadWriteOncePod") => Self::READ_WRITE_ONCE_POD,
            _ => 0,
        };
        Self(modes.as_array().into_iter().flatten().map(bit).fold(0, |modes, mode| modes | mode))
    }

    /// Whether every one of the others is among these.
    #[must_use]
    pub const fn include(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether one node at a time may use it.
    #[must_use]
    pub const fn is_for_one_node(self) -> bool {
        self.0 & (Self::READ_ONLY_MANY | Self::READ_WRITE_MANY) == 0
    }

    /// Whether one pod at a time may use it.
    #[must_use]
    pub const fn is_for_one_pod(self) -> bool {
        self.0 & Self::READ_WRITE_ONCE_POD != 0
    }
}

/// `spec.claimRef` of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReference {
    /// The claim.
    pub claim: Key,
    /// `None` when a user has set the volume aside for a claim to come.
    pub uid: Option<Uid>,
}

impl ClaimReference {
    /// Whether this claim is meant.
    #[must_use]
    pub fn means(&self, claim: &Object) -> bool {
        self.claim == claim.key && self.uid.is_none_or(|uid| uid == claim.uid)
    }
}

/// `status.phase` of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumePhase {
    /// It has not been looked at.
    Pending,
    /// A claim may have it.
    Available,
    /// A claim has it.
    Bound,
    /// Its claim is gone, and what it has written is still there.
    Released,
    /// It should have been reclaimed and was not.
    Failed,
}

impl VolumePhase {
    /// Kubernetes' word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Available => "Available",
            Self::Bound => "Bound",
            Self::Released => "Released",
            Self::Failed => "Failed",
        }
    }

    fn of(status: &Value) -> Self {
        let all = [Self::Available, Self::Bound, Self::Released, Self::Failed];
        let word = status["phase"].as_str().unwrap_or_default();
        all.into_iter().find(|phase| phase.as_str() == word).unwrap_or(Self::Pending)
    }
}

/// A v1 `PersistentVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRow {
    /// `spec.storageClassName`; empty for none.
    pub class: Arc<str>,
    /// `spec.capacity.storage`
    pub capacity_bytes: u64,
    /// `spec.accessModes`
    pub modes: AccessModes,
    /// `spec.volumeMode: Block`
    pub is_block: bool,
    /// `spec.local`: it is on the disk of the nodes that its affinity names.
    pub is_local: bool,
    /// `spec.claimRef`
    pub reserved: Option<ClaimReference>,
    /// `status.phase`
    pub phase: VolumePhase,
}

impl VolumeRow {
    pub(crate) fn of(volume: &Value) -> Self {
        let spec = &volume["spec"];
        let reference = &spec["claimRef"];
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let reserved = reference.is_object().then(|| ClaimReference {
            claim: Key::new(Kind::PERSISTENT_VOLUME_CLAIM, text("namespace"), text("name")),
            uid: text("uid").parse().ok(),
        });
        Self {
            class: class_of(volume),
            capacity_bytes: units(&spec["capacity"]["storage"]),
            modes: AccessModes::of(&spec["accessModes"]),
            is_block: spec["volumeMode"] == "Block",
            is_local: spec["local"].is_object(),
            reserved,
            phase: VolumePhase::of(&volume["status"]),
        }
    }

    pub(crate) fn with_status(&self, status: &Value) -> Self {
        Self { phase: VolumePhase::of(status), ..self.clone() }
    }

    /// Whether no claim has it and none is to have it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.phase == VolumePhase::Available && self.reserved.is_none()
    }

    /// Whether it is what a claim asks for, but for the claim's selector.
    #[must_use]
    pub fn fits(&self, claim: &ClaimRow) -> bool {
        self.class == claim.class
            && self.capacity_bytes >= claim.request_bytes
            && self.is_block == claim.is_block
            && self.modes.include(claim.modes)
    }
}

/// `status.phase` of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimPhase {
    /// It has no volume yet.
    Pending,
    /// It has one.
    Bound,
    /// The volume that it had is gone.
    Lost,
}

/// A v1 `PersistentVolumeClaim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRow {
    /// `spec.storageClassName`; empty for none.
    pub class: Arc<str>,
    /// `spec.resources.requests.storage`
    pub request_bytes: u64,
    /// `spec.accessModes`
    pub modes: AccessModes,
    /// `spec.volumeMode: Block`
    pub is_block: bool,
    /// `spec.volumeName`
    pub volume: Option<Arc<str>>,
    /// `status.phase`
    pub phase: ClaimPhase,
}

impl ClaimRow {
    pub(crate) fn of(claim: &Value) -> Self {
        let spec = &claim["spec"];
        Self {
            class: class_of(claim),
            request_bytes: units(&spec["resources"]["requests"]["storage"]),
            modes: AccessModes::of(&spec["accessModes"]),
            is_block: spec["volumeMode"] == "Block",
            volume: spec["volumeName"].as_str().filter(|name| !name.is_empty()).map(Into::into),
            phase: claim_phase(&claim["status"]),
        }
    }

    pub(crate) fn with_status(&self, status: &Value) -> Self {
        Self { phase: claim_phase(status), ..self.clone() }
    }
}

fn claim_phase(status: &Value) -> ClaimPhase {
    match status["phase"].as_str() {
        Some("Bound") => ClaimPhase::Bound,
        Some("Lost") => ClaimPhase::Lost,
        _ => ClaimPhase::Pending,
    }
}

fn class_of(object: &Value) -> Arc<str> {
    let beta = object["metadata"]["annotations"][BETA_CLASS].as_str();
    beta.or_else(|| object["spec"]["storageClassName"].as_str()).unwrap_or_default().into()
}

/// Whether a class leaves the choice of a volume to the scheduler (`volumeBindingMode: WaitForFirstConsumer`).
#[must_use]
pub fn waits_for_consumer(class: &Value) -> bool {
    class["volumeBindingMode"] == "WaitForFirstConsumer"
}
