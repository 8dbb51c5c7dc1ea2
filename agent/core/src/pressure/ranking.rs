//! Which pod goes first: of those that use more than they requested, the least important one, and among equals the one
//! that is furthest above its request. A pod within its requests does not go, nor one that the system cannot do without.

use alloc::format;
use alloc::string::String;
use core::cmp::Reverse;

use coracle_model::quantity::binary;
use coracle_model::{Container, Pod, PodUid};

use super::{ContainerUse, PodUse, Resource, Shortage};

/// Pods of this priority are critical (`system-cluster-critical`): a kubelet evicts none of them.
const CRITICAL: i32 = 2_000_000_000;

/// A pod that runs, and what it uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) usage: &'a PodUse,
}

impl Resource {
    /// Kubernetes' name.
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "ephemeral-storage",
        }
    }

    const fn requested_by(self, container: &Container) -> u64 {
        match self {
            Self::Memory => container.requests.memory_bytes,
            Self::Disk => container.requests.storage_bytes,
        }
    }

    const fn used_by(self, container: &ContainerUse) -> u64 {
        match self {
            Self::Memory => container.memory_bytes,
            Self::Disk => container.disk_bytes,
        }
    }
}

/// The pod that has to go, and a kubelet's words for it; nobody if nobody uses more than was requested.
pub(crate) fn victim<'a>(
    shortage: &Shortage,
    contenders: impl Iterator<Item = Contender<'a>>,
) -> Option<(PodUid, String)> {
    let ranked = contenders.filter_map(|contender| Some((rank(shortage.resource, contender)?, contender)));
    let (_, chosen) = ranked.min_by_key(|(rank, _)| *rank)?;
    Some((chosen.pod.uid, message(shortage, chosen)))
}

/// The lower, the earlier; nothing for a pod that stays.
fn rank(resource: Resource, contender: Contender<'_>) -> Option<(i32, Reverse<u64>, PodUid)> {
    let Contender { pod, usage } = contender;
    let used = match resource {
        Resource::Memory => usage.memory_bytes,
        Resource::Disk => usage.disk_bytes,
    };
    let requested = pod.containers.iter().map(|container| resource.requested_by(container));
    let over = used.saturating_sub(requested.fold(0, u64::saturating_add));
    (over > 0 && pod.priority < CRITICAL).then_some((pod.priority, Reverse(over), pod.uid))
}

fn message(shortage: &Shortage, contender: Contender<'_>) -> String {
    let Shortage { resource, threshold_bytes, available_bytes } = *shortage;
    let (name, threshold, available) = (resource.name(), binary(threshold_bytes), binary(available_bytes));
    // Each sentence of a kubelet's ends in a space, the last one too.
    let mut text =
        format!("The node was low on resource: {name}. Threshold quantity: {threshold}, available: {available}. ");
    for container in &contender.pod.containers {
        let request = resource.requested_by(container);
        let usage = contender.usage.containers.iter().find(|usage| usage.name == container.name);
        let used = usage.map_or(0, |usage| resource.used_by(usage));
        if used > request {
            let (used, request) = (binary(used), binary(request));
            let container = &container.name;
            text += &format!(
                "Container {container} was using {used}, request is {request}, has larger consumption of {name}. "
            );
        }
    }
    text
}
