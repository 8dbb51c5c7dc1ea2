//! Phase and conditions, derived from the states of a pod's containers (LIF-01, LIF-03) by Kubernetes' rules and in
//! its words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use coracle_model::{
    Condition, ConditionKind, ConditionStatus, ContainerState, ContainerStatus, Millis, Phase, PodStatus,
};

/// `status.phase`. `ended`: every container has ended and none will start again; the restart policy has had its say in
/// that. `before` is the phase so far, behind which it never goes back.
pub(crate) fn phase(containers: &[ContainerStatus], ended: bool, before: Phase) -> Phase {
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
        if stopped == succeeded { Phase::Succeeded } else { Phase::Failed }
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
    vec![
        // The sandbox is there with the pod, and goes when the pod is at its end.
        condition(ConditionKind::PodReadyToStartContainers, !phase.is_terminal(), "", ""),
        condition(ConditionKind::Initialized, true, completed, ""),
        condition(ConditionKind::ContainersReady, ready, reason, &message),
        condition(ConditionKind::Ready, ready, reason, &message),
    ]
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
