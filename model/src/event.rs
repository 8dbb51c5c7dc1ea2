//! What a node has to tell people: Kubernetes events from the agent (LIF-12).

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::id::PodUid;

/// An event about a pod on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodEvent {
    /// The pod (`involvedObject`).
    pub uid: PodUid,
    /// The container; makes `involvedObject.fieldPath` `spec.containers{name}`. Empty for the pod as a whole.
    pub container: String,
    /// `type`: `Warning` when set, else `Normal`.
    pub warning: bool,
    /// `reason`: `Pulling`, `Pulled`, `Created`, `Started`, `Killing`, `BackOff`, `Failed`.
    pub reason: String,
    /// `message`
    pub message: String,
}
