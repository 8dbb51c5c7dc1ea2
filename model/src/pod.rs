//! What a node is told to run.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize};

use crate::id::PodUid;
use crate::volume::{Volume, VolumeMount};

/// A pod that is bound to this node, as the desired set holds it. Everything is resolved: environment values are
/// literal, `$(VAR)` is expanded, defaults are filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// `metadata.uid`; the same name with another uid is another pod (POD-02).
    pub uid: PodUid,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`, which is also the guest's host name (POD-03).
    pub name: String,
    /// `spec.restartPolicy`.
    pub restart_policy: RestartPolicy,
    /// `spec.terminationGracePeriodSeconds`, in milliseconds.
    pub termination_grace_ms: u64,
    /// `spec.containers`, in their order.
    pub containers: Vec<Container>,
    /// Set once the pod is to end; never cleared (TRM-01).
    pub stop: Option<Stop>,
    /// `spec.volumes`, in their order (VOL-01).
    pub volumes: Vec<Volume>,
    /// `spec.priority` (PRI-09); 0 in what a controller wrote that did not say it yet.
    #[serde(deserialize_with = "or_default")]
    pub priority: i32,
}

/// The last field of an element, which older writers leave out: nothing in its place is its default.
fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

/// The pod was deleted: its containers are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// `metadata.deletionGracePeriodSeconds`, in milliseconds from when the node hears of it.
    pub grace_ms: u64,
}

/// `spec.containers[]`: one WebAssembly component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// `name`, unique in the pod.
    pub name: String,
    /// `image` as the user wrote it.
    pub image: String,
    /// `imagePullPolicy`.
    pub pull_policy: PullPolicy,
    /// The guest's argv: `command` followed by `args` (POD-08). May be empty; the runtime then passes the
    /// container's name as argv 0.
    pub argv: Vec<String>,
    /// `env` and `envFrom`, resolved, in order; a later one of the same name wins.
    pub env: Vec<EnvVar>,
    /// `workingDir`.
    pub working_dir: Option<String>,
    /// `ports[].containerPort`, as far as they are TCP, with their `name` (may be empty).
    pub ports: Vec<(String, u16)>,
    /// `resources.limits`; zero means no limit.
    pub limits: ResourceAmounts,
    /// `resources.requests`.
    pub requests: ResourceAmounts,
    /// Why the container cannot be started, as found while its references were resolved: a missing config map or
    /// secret (`CreateContainerConfigError`). It waits with this message until the controller sends a better one.
    pub config_error: Option<String>,
    /// The annotation `coracle.dev/stdin-eof: now`: standard input is at its end from the start, instead of staying
    /// open until termination.
    pub stdin_eof: bool,
    /// `volumeMounts`, in their order.
    pub mounts: Vec<VolumeMount>,
}

/// One literal environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// `name`.
    pub name: String,
    /// The resolved value.
    pub value: String,
}

/// Amounts of the resources that every node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceAmounts {
    /// `cpu` in thousandths of a core.
    pub cpu_millis: u64,
    /// `memory` in bytes.
    pub memory_bytes: u64,
    /// `ephemeral-storage` in bytes: what a pod may write to its node's disk.
    pub storage_bytes: u64,
}

/// `spec.restartPolicy` (LIF-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    /// Whatever the exit code.
    Always,
    /// After a non-zero exit code.
    OnFailure,
    /// Not at all.
    Never,
}

/// `imagePullPolicy` (POD-09).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullPolicy {
    /// Ask the controller at every start what the name means now.
    Always,
    /// Use what the node has.
    IfNotPresent,
    /// Use what the node has, or wait with `ErrImageNeverPull`.
    Never,
}
