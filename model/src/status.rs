//! What a node says of its pods: phase, conditions and container states (LIF-01, LIF-02, LIF-03).
//!
//! Times are readings of the agent's own monotonic clock. A report says what that clock showed when it was sent, and
//! the controller turns readings into wall time: a small board has no clock of its own.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::id::{Digest, PodUid};
use crate::time::Millis;

/// `status` of a pod, as far as its node owns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodStatus {
    /// The pod.
    pub uid: PodUid,
    /// `phase`; never goes backwards.
    pub phase: Phase,
    /// `reason`, for instance `Evicted`; often empty.
    pub reason: String,
    /// `message`.
    pub message: String,
    /// When the node first saw the pod (`startTime`).
    pub accepted_at: Millis,
    /// `conditions`, one of each kind that the node owns.
    pub conditions: Vec<Condition>,
    /// `containerStatuses`, in the order of the pod's containers.
    pub containers: Vec<ContainerStatus>,
    /// Every container has ended and none will start again, because the pod was told to stop or has finished. The
    /// pod object of a deleted pod may go only after this (TRM-06).
    pub stopped: bool,
}

/// `status.phase` (LIF-01), in the only order in which a pod may pass through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Accepted, but not every container has started once.
    Pending,
    /// Bound, and at least one container runs, starts or restarts.
    Running,
    /// Every container ended with exit code 0 and none will be restarted.
    Succeeded,
    /// Every container ended, at least one of them in failure.
    Failed,
}

impl Phase {
    /// The word in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// Whether the pod has come to its end.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// One of `status.conditions` (LIF-03).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// `type`.
    pub kind: ConditionKind,
    /// `status`.
    pub status: ConditionStatus,
    /// `reason`; empty when true.
    pub reason: String,
    /// `message`; may be empty.
    pub message: String,
    /// `lastTransitionTime`; moves only when `status` changes.
    pub changed_at: Millis,
}

/// The condition types that a node owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionKind {
    /// Sandbox and network exist.
    PodReadyToStartContainers,
    /// Init containers are done.
    Initialized,
    /// Every container is ready.
    ContainersReady,
    /// The pod may serve.
    Ready,
    /// The node ends the pod before its time: it used more than it may (`TerminationByKubelet`). Every other reason of
    /// this condition is the controller's to give.
    DisruptionTarget,
}

impl ConditionKind {
    /// The word in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodReadyToStartContainers => "PodReadyToStartContainers",
            Self::Initialized => "Initialized",
            Self::ContainersReady => "ContainersReady",
            Self::Ready => "Ready",
            Self::DisruptionTarget => "DisruptionTarget",
        }
    }
}

/// `status` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// `True`
    True,
    /// `False`
    False,
    /// `Unknown`
    Unknown,
}

impl ConditionStatus {
    /// The word in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// One of `status.containerStatuses` (LIF-02).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// `name`.
    pub name: String,
    /// `state`.
    pub state: ContainerState,
    /// `lastState.terminated`: the run before this one.
    pub last_state: Option<Terminated>,
    /// `restartCount`.
    pub restart_count: u32,
    /// `ready`.
    pub ready: bool,
    /// `started`.
    pub started: bool,
    /// `image`, as the user wrote it.
    pub image: String,
    /// `imageID`: the digest of the image that ran last.
    pub image_id: Option<Digest>,
    /// Which run this is, from 1; 0 before the first. `containerID` is made of the pod's uid, the name and this.
    pub attempt: u32,
}

/// `state` of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    /// Not running; why is in `reason` (`ContainerCreating`, `CrashLoopBackOff`, `ErrImagePull`, …).
    Waiting {
        /// One word.
        reason: String,
        /// A sentence; may be empty.
        message: String,
    },
    /// Running since then.
    Running {
        /// `startedAt`
        started_at: Millis,
    },
    /// Ended.
    Terminated(Terminated),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminated {
    /// `exitCode`; 137 when it was killed.
    pub exit_code: i32,
    /// `signal`, when it was ended by one (9); else 0.
    pub signal: i32,
    /// `reason`: `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, `StartError`, …
    pub reason: String,
    /// `message`: the trap, for instance; may be empty.
    pub message: String,
    /// `startedAt`
    pub started_at: Millis,
    /// `finishedAt`
    pub finished_at: Millis,
    /// The run that ended.
    pub attempt: u32,
}
