//! Volumes of a pod, resolved as far as a controller can: what a node needs to lay them out (VOL-01).

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// `spec.volumes[]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// `name`, unique in the pod.
    pub name: String,
    /// What is in it.
    pub source: VolumeSource,
}

/// Where a volume's content comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeSource {
    /// `emptyDir`: empty at first, kept over restarts of containers, gone with the pod's uid.
    EmptyDir {
        /// `medium: Memory`
        in_memory: bool,
        /// `sizeLimit` in bytes; zero for none.
        size_limit_bytes: u64,
    },
    /// `configMap`, `secret`, `downwardAPI` and `projected`, read by the controller. Containers only read it, and see a
    /// change of it as one step.
    Files(Vec<VolumeFile>),
    /// It cannot be laid out as things are (a missing config map, for instance), with why. No container of the pod
    /// starts until the controller sends something better.
    Unavailable(String),
}

/// One file of a [`VolumeSource::Files`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFile {
    /// Below the volume, parts separated by `/`; never absolute and without `..`.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// `mode` or `defaultMode`, the permission bits.
    pub mode: u32,
}

/// `spec.containers[].volumeMounts[]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    /// `name` of the volume.
    pub volume: String,
    /// `mountPath`: absolute, in the guest.
    pub path: String,
    /// `subPath` or `subPathExpr`, expanded; empty for the whole volume. Never absolute and without `..`.
    pub sub_path: String,
    /// `readOnly`
    pub read_only: bool,
}
