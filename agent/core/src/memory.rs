//! What the disk is to remember, and when: never while nothing changes (decision 11).
//!
//! An order to stop, an end and a removal are remembered at once, before any report speaks of them. New pods and new forms
//! are remembered a little later, so that the disk does not stand in the way of their start, and a thousand of them are not
//! a thousand writes; what a power cut takes from that, the next sync brings again.

use alloc::collections::BTreeMap;

use coracle_model::{ClusterId, Millis, Pod, PodStatus, PodUid};

use crate::desired::Desired;
use crate::interface::Remembered;

/// How long a write that can wait does, in milliseconds.
const PATIENCE_MS: u64 = 100;
/// The least distance of such a write from the one before, in milliseconds.
const GATHER_MS: u64 = 1_000;

/// What is remembered besides the desired set, and whether the disk is behind.
#[derive(Debug)]
pub(crate) struct Memory {
    pinned: Option<(ClusterId, [u8; 32])>,
    /// The last word about pods that have ended by themselves.
    finished: BTreeMap<PodUid, PodStatus>,
    due_at: Option<Millis>,
    written_at: Option<Millis>,
}

impl Memory {
    pub(crate) const fn new(pinned: Option<(ClusterId, [u8; 32])>) -> Self {
        Self { pinned, finished: BTreeMap::new(), due_at: None, written_at: None }
    }

    pub(crate) const fn pinned(&self) -> Option<(ClusterId, [u8; 32])> {
        self.pinned
    }

    /// First contact.
    pub(crate) const fn pin(&mut self, cluster: ClusterId, key: [u8; 32]) {
        self.pinned = Some((cluster, key));
        self.due_at = Some(Millis::ZERO);
    }

    /// An end that is on disk already.
    pub(crate) fn restore(&mut self, status: PodStatus) {
        self.finished.insert(status.uid, status);
    }

    /// A pod is new, or has a new form.
    pub(crate) fn changed(&mut self, pod: &Pod, now: Millis) {
        let soon = now + PATIENCE_MS;
        let later = self.written_at.map_or(soon, |written| soon.max(written + GATHER_MS));
        self.wait_until(if pod.stop.is_some() { now } else { later });
    }

    /// A pod is no longer desired.
    pub(crate) fn removed(&mut self, uid: PodUid, now: Millis) {
        self.finished.remove(&uid);
        self.wait_until(now);
    }

    /// A pod has come to its end. One that was told to stop ends again by itself when it is remembered that it was.
    pub(crate) fn finished(&mut self, pod: &Pod, status: &PodStatus, now: Millis) {
        if pod.stop.is_none() && !self.finished.contains_key(&status.uid) {
            self.finished.insert(status.uid, status.clone());
            self.wait_until(now);
        }
    }

    pub(crate) const fn wake_at(&self) -> Option<Millis> {
        self.due_at
    }

    pub(crate) fn is_due(&self, now: Millis) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }

    /// Everything that the disk is to hold.
    pub(crate) fn write(&mut self, now: Millis, desired: &Desired) -> Remembered {
        self.due_at = None;
        self.written_at = Some(now);
        Remembered {
            pinned: self.pinned,
            sequence: desired.sequence(),
            pods: desired.pods().cloned().collect(),
            finished: self.finished.values().filter(|status| desired.contains(status.uid)).cloned().collect(),
        }
    }

    fn wait_until(&mut self, at: Millis) {
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
    }
}
