//! What a node is short of, and which of its pods has to go for it (PRI-09).
//!
//! *In:* measured amounts, and what pods ask for. *Out:* when to measure, the node's conditions, one victim at a time.
//! *Must never know:* how anything is measured, and how a pod is ended.
//! *Tested:* tables for thresholds, order and messages; whole shortages as transcripts of an agent.
//!
//! As in a kubelet: the amounts are looked at every ten seconds. An amount below its threshold (`thresholds`) is a
//! condition of the node at once, and one that stays until the amount has been above it for the transition period, so
//! that nobody is lured back by a moment of plenty. While it is below, and what nobody needs has been thrown away, one pod
//! after another goes (`ranking`), each only when the one before has gone and the amount is still too low. All of it is
//! done with or without a controller.

mod ranking;
mod thresholds;

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

use coracle_model::{Millis, PodUid};

pub use thresholds::{ParseThresholdsError, Threshold, Thresholds};

pub(crate) use ranking::{Contender, victim};

/// How often amounts are measured, in milliseconds (a kubelet's `monitoringInterval`).
const PERIOD_MS: u64 = 10_000;
/// How soon after a pod was evicted, in milliseconds.
const AGAIN_MS: u64 = 1_000;
/// How long an evicted pod is waited for before another may go, in milliseconds (a kubelet's `podCleanupTimeout`).
const LEAVING_MS: u64 = 30_000;

/// How a node keeps itself alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// `evictionHard`
    pub thresholds: Thresholds,
    /// `evictionPressureTransitionPeriod`, in milliseconds.
    pub transition_ms: u64,
}

impl Eviction {
    /// A kubelet's transition period: 5 minutes.
    pub const TRANSITION_MS: u64 = 5 * 60 * 1000;
}

/// What was measured on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The memory; nothing if the system does not say.
    pub memory: Option<Room>,
    /// The disk that pods write to; nothing if the system does not say.
    pub disk: Option<Room>,
    /// What each pod uses; nothing if that was not asked for.
    pub pods: Option<Vec<PodUse>>,
    /// Something that pods left is still being removed, so there will be more room by itself.
    pub is_settling: bool,
}

/// How much there is, and how much of it is left, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// All of it.
    pub total_bytes: u64,
    /// `available`
    pub available_bytes: u64,
}

/// What one pod uses, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUse {
    /// The pod.
    pub pod: PodUid,
    /// Memory: of its containers, and of its volumes that are in memory.
    pub memory_bytes: u64,
    /// What its volumes take on the disk.
    pub disk_bytes: u64,
    /// The part of each container.
    pub containers: Vec<ContainerUse>,
}

/// What one container uses, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUse {
    /// Its name.
    pub name: String,
    /// Memory.
    pub memory_bytes: u64,
    /// What the volumes that it mounts take on the disk.
    pub disk_bytes: u64,
}

/// What a node can be short of, in the order in which it is seen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Memory,
    Disk,
}

/// An amount that is below its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) resource: Resource,
    pub(crate) threshold_bytes: u64,
    pub(crate) available_bytes: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    eviction: Option<Eviction>,
    measure_at: Option<Millis>,
    /// When each amount was last found too low, as long as that makes a condition.
    memory_short_at: Option<Millis>,
    disk_short_at: Option<Millis>,
    /// The pod that was evicted last, and until when it is waited for.
    leaving: Option<(PodUid, Millis)>,
}

impl Pressure {
    /// Nothing is measured where nothing has a threshold.
    pub(crate) fn new(eviction: Eviction, now: Millis) -> Self {
        let watches = eviction.thresholds != Thresholds::default();
        Self { eviction: Some(eviction), measure_at: watches.then_some(now), ..Self::default() }
    }

    pub(crate) const fn wake_at(&self) -> Option<Millis> {
        self.measure_at
    }

    /// Whether it is time to measure; the next time is set.
    pub(crate) fn is_due(&mut self, now: Millis) -> bool {
        let due = self.measure_at.is_some_and(|at| at <= now);
        if due {
            self.measure_at = Some(now + PERIOD_MS);
        }
        due
    }

    /// What was measured means this: the conditions follow, and what there is too little of right now is the answer.
    pub(crate) fn judge(&mut self, measured: &Measured, now: Millis) -> Vec<Shortage> {
        let Some(Eviction { thresholds, transition_ms }) = self.eviction else { return Vec::new() };
        let mut found = Vec::new();
        let signals = [
            (Resource::Memory, thresholds.memory, measured.memory, &mut self.memory_short_at),
            (Resource::Disk, thresholds.disk, measured.disk, &mut self.disk_short_at),
        ];
        for (resource, threshold, room, short_at) in signals {
            if let Some((threshold, room)) = threshold.zip(room) {
                let (threshold_bytes, available_bytes) = (threshold.bytes(room.total_bytes), room.available_bytes);
                if available_bytes < threshold_bytes {
                    *short_at = Some(now);
                    found.push(Shortage { resource, threshold_bytes, available_bytes });
                }
            }
            *short_at = short_at.filter(|at| *at == now || now.since(*at) < transition_ms);
        }
        found
    }

    /// `MemoryPressure`
    pub(crate) const fn of_memory(&self) -> bool {
        self.memory_short_at.is_some()
    }

    /// `DiskPressure`
    pub(crate) const fn of_disk(&self) -> bool {
        self.disk_short_at.is_some()
    }

    /// A pod was evicted for want of something.
    pub(crate) fn evicted(&mut self, pod: PodUid, now: Millis) {
        self.leaving = Some((pod, now + LEAVING_MS));
        self.soon(now);
    }

    /// Whether the last victim still takes room, and another one is not to go yet.
    pub(crate) fn is_waiting(&mut self, stays: impl FnOnce(PodUid) -> bool, now: Millis) -> bool {
        let waits = self.leaving.is_some_and(|(pod, until)| now < until && stays(pod));
        if waits {
            self.soon(now);
        } else {
            self.leaving = None;
        }
        waits
    }

    fn soon(&mut self, now: Millis) {
        self.measure_at = self.measure_at.map(|at| at.min(now + AGAIN_MS));
    }
}
