//! What a node says of itself when it appears.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::id::Digest;
use crate::pod::ResourceAmounts;

/// The facts that a birth carries (EDGE-01).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// `kubernetes.io/arch`, in Kubernetes' words: `amd64`, `arm64`, `arm`.
    pub arch: String,
    /// `kubernetes.io/os`: `linux`.
    pub os: String,
    /// The compilation target that this node's artifacts are made for, for instance `aarch64-unknown-linux-gnu` or
    /// `pulley32`.
    pub target: String,
    /// The fingerprint of the node's engine: an artifact runs only where this is the same.
    pub engine: String,
    /// `topology.kubernetes.io/zone`; empty when the node has none.
    pub zone: String,
    /// Labels from `--label`, in order.
    pub labels: Vec<(String, String)>,
    /// `status.capacity`
    pub capacity: ResourceAmounts,
    /// `status.allocatable`
    pub allocatable: ResourceAmounts,
    /// The interfaces that guests may import here, with their versions, in order: `wasi:cli/environment@0.2`.
    pub interfaces: Vec<String>,
    /// `status.capacity.pods`
    pub max_pods: u32,
    /// `status.nodeInfo.kubeletVersion`: the agent's version.
    pub agent_version: String,
    /// `status.nodeInfo.kernelVersion`
    pub kernel: String,
    /// `status.nodeInfo.osImage`
    pub os_image: String,
    /// `status.nodeInfo.machineID`; may be empty.
    pub machine_id: String,
}

/// One of `status.images`: an image whose machine code is on the node's disk (SCH-02).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeImage {
    /// The digest of the image (`imageID`).
    pub image: Digest,
    /// What it takes on the node's disk, in bytes.
    pub size_bytes: u64,
    /// The names under which pods of this node have asked for it.
    pub names: Vec<String>,
}
