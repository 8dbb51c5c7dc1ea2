//! Phase and conditions, derived from the states of a pod's containers (LIF-01, LIF-03) by Kubernetes' rules and in
//! its words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use coracle_model::{
    Condition, ConditionKind, ConditionStatus, ContainerState, ContainerStatus, Millis, Phase, PodStatus,
};

/// `status.reason` of a pod that used more than it may.
pub(crate) const EVICTED: &str = "Evicted";

/// Where a pod as a whole stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No container has begun: a volume is missing, or the pod is to end before it began.
    Waiting,
    /// Its containers live their lives.
    Begun,
    /// The node ends it.
    Evicted,
}

/// `status.phase`. `ended`: every container has ended and none will start again; the restart policy has had its say in
/// that. `before` is the phase so far, behind which it never goes back.
pub(crate) fn phase(containers: &[ContainerStatus], ended: bool, stage: Stage, before: Phase) -> Phase {
    let (mut running, mut waiting, mut stopped, mut succeeded) = (0, 0, 0, 0);
    for container in containers {
        match &container.state {
            ContainerState::Running { .. } => running += 1,
            ContainerState::Terminated(ended) => {
                stopped += 1;
                succeeded += usize::from(ended.exit_code == 0);
            }
            // Between two runs: it counts by the one that ended.
            ContainerState::Waiting { .. } if container.last_state.is_some() => stopped += 1,
            ContainerState::Waiting { .. } => waiting += 1,
        }
    }
    let derived = if ended {
        if stopped == succeeded && stage != Stage::Evicted { Phase::Succeeded } else { Phase::Failed }
    } else if waiting > 0 || running + stopped == 0 {
        Phase::Pending
    } else {
        Phase::Running
    };
    if before.is_terminal() { before } else { derived.max(before) }
}

/// `status.conditions`, as far as a node owns them. `before` is the status so far, whose transition times stay where
/// nothing changed.
pub(crate) fn conditions(
    containers: &[ContainerStatus],
    phase: Phase,
    stage: Stage,
    before: &PodStatus,
    now: Millis,
) -> Vec<Condition> {
    let (ready, reason, message) = containers_ready(containers, phase);
    let completed = if phase == Phase::Succeeded { "PodCompleted" } else { "" };
    let condition = |kind, holds: bool, reason: &str, message: &str| {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        let unchanged = before.conditions.iter().find(|old| old.kind == kind && old.status == status);
        let changed_at = unchanged.map_or(now, |old| old.changed_at);
        Condition { kind, status, reason: reason.to_string(), message: message.to_string(), changed_at }
    };
    // The sandbox is there once the pod's volumes can be, and goes when the pod is at its end.
    let sandbox = stage != Stage::Waiting && !phase.is_terminal();
    let mut conditions = vec![
        condition(ConditionKind::PodReadyToStartContainers, sandbox, "", ""),
        condition(ConditionKind::Initialized, true, completed, ""),
        condition(ConditionKind::ContainersReady, ready, reason, &message),
        condition(ConditionKind::Ready, ready, reason, &message),
    ];
    if stage == Stage::Evicted {
        let why = before.message.as_str();
        conditions.push(condition(ConditionKind::DisruptionTarget, true, "TerminationByKubelet", why));
    }
    conditions
}

fn containers_ready(containers: &[ContainerStatus], phase: Phase) -> (bool, &'static str, String) {
    match phase {
        Phase::Succeeded => return (false, "PodCompleted", String::new()),
        Phase::Failed => return (false, "PodFailed", String::new()),
        Phase::Pending | Phase::Running => {}
    }
    let unready: Vec<&str> =
        containers.iter().filter(|container| !container.ready).map(|container| container.name.as_str()).collect();
    if unready.is_empty() {
        return (true, "", String::new());
    }
    (false, "ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" ")))
}
