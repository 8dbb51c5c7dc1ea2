//! The pods that wait: those to be tried now, those that wait a while after a failure, and those that nothing has
//! happened for since (SCH-04, PRI-03).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use coracle_model::Millis;

use super::hints::Hints;
use crate::object::Key;

/// A pod is tried again after this many milliseconds even if nothing that could help it was seen (Kubernetes: 5 min).
const FLUSH_MS: u64 = 300_000;

/// A pod's place in line: priority, then age, then the order in which pods were first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i32>,
    created_ms: u64,
    order: u64,
}

impl Rank {
    pub(super) const fn new(priority: i32, created_ms: u64, order: u64) -> Self {
        Self { priority: Reverse(priority), created_ms, order }
    }
}

/// A pod that waits, as the queue knows it.
#[derive(Clone, Debug)]
struct Waiting {
    key: Key,
    attempts: u32,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// To be tried now.
    Active,
    /// To be tried at this time.
    BackOff(Millis),
    /// To be tried when one of these happens, but not before `ready`; at `flush` in any case.
    Unschedulable { helped_by: Hints, ready: Millis, flush: Millis },
    /// Taken out and not yet answered for.
    Taken,
}

/// The queue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// The first wait after a failure, in milliseconds.
    first_back_off_ms: u64,
    /// The longest wait, in milliseconds.
    most_back_off_ms: u64,
    pods: BTreeMap<Rank, Waiting>,
    active: BTreeSet<Rank>,
    unschedulable: BTreeSet<Rank>,
    /// When a pod of the back-off or the unschedulable part is due.
    timers: BTreeSet<(Millis, Rank)>,
}

impl Queue {
    /// An empty one: the first wait after a failure, and the longest, in milliseconds.
    pub(super) const fn new(first_back_off_ms: u64, most_back_off_ms: u64) -> Self {
        Self {
            first_back_off_ms,
            most_back_off_ms,
            pods: BTreeMap::new(),
            active: BTreeSet::new(),
            unschedulable: BTreeSet::new(),
            timers: BTreeSet::new(),
        }
    }

    /// Puts a new pod in line, to be tried now.
    pub(super) fn add(&mut self, rank: Rank, key: Key) {
        self.pods.insert(rank, Waiting { key, attempts: 0, place: Place::Taken });
        self.put(rank, Place::Active);
    }

    /// Takes a pod out for good.
    pub(super) fn remove(&mut self, rank: Rank) {
        self.unlink(rank);
        self.pods.remove(&rank);
    }

    /// The next pod to be tried. It must be answered for: with [`Queue::remove`], [`Queue::failed`],
    /// [`Queue::wake`] or [`Queue::retry_taken`].
    pub(super) fn take(&mut self, now: Millis) -> Option<(Rank, Key)> {
        while let Some((_, rank)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.put(rank, Place::Active);
        }
        let rank = self.active.first().copied()?;
        self.unlink(rank);
        let waiting = self.pods.get_mut(&rank)?;
        waiting.attempts = waiting.attempts.saturating_add(1);
        Some((rank, waiting.key.clone()))
    }

    /// No node was found.
    pub(super) fn failed(&mut self, rank: Rank, helped_by: Hints, now: Millis) {
        let Some(waiting) = self.pods.get(&rank) else { return };
        let doublings = waiting.attempts.saturating_sub(1).min(16);
        let back_off_ms = self.first_back_off_ms.saturating_mul(1 << doublings).min(self.most_back_off_ms);
        self.put(rank, Place::Unschedulable { helped_by, ready: now + back_off_ms, flush: now + FLUSH_MS });
    }

    /// The pod itself has changed: it is tried again, after its back-off.
    pub(super) fn wake(&mut self, rank: Rank, now: Millis) {
        match self.pods.get(&rank).map(|waiting| waiting.place) {
            Some(Place::Unschedulable { ready, .. }) if ready > now => self.put(rank, Place::BackOff(ready)),
            Some(Place::Unschedulable { .. } | Place::Taken) => self.put(rank, Place::Active),
            Some(Place::Active | Place::BackOff(_)) | None => {}
        }
    }

    /// What was decided for the pod did not come about: it is tried again.
    pub(super) fn retry_taken(&mut self, rank: Rank) {
        if self.pods.get(&rank).is_some_and(|waiting| waiting.place == Place::Taken) {
            self.put(rank, Place::Active);
        }
    }

    /// Something has happened: the pods that it could help are tried again, after their back-off.
    pub(super) fn happened(&mut self, what: Hints, now: Millis) {
        if what == Hints::NONE || self.unschedulable.is_empty() {
            return;
        }
        let helped = self.unschedulable.iter().copied().filter(|rank| {
            self.pods.get(rank).is_some_and(|waiting| match waiting.place {
                Place::Unschedulable { helped_by, .. } => helped_by.meets(what),
                Place::Active | Place::BackOff(_) | Place::Taken => false,
            })
        });
        for rank in helped.collect::<Vec<_>>() {
            self.wake(rank, now);
        }
    }

    /// When the next pod is due, if none is now.
    pub(super) fn wake_at(&self) -> Option<Millis> {
        self.timers.first().map(|(due, _)| *due)
    }

    fn unlink(&mut self, rank: Rank) {
        let Some(waiting) = self.pods.get_mut(&rank) else { return };
        match std::mem::replace(&mut waiting.place, Place::Taken) {
            Place::Active => self.active.remove(&rank),
            Place::BackOff(due) => self.timers.remove(&(due, rank)),
            Place::Unschedulable { flush, .. } => {
                self.timers.remove(&(flush, rank)) && self.unschedulable.remove(&rank)
            }
            Place::Taken => false,
        };
    }

    fn put(&mut self, rank: Rank, place: Place) {
        self.unlink(rank);
        let Some(waiting) = self.pods.get_mut(&rank) else { return };
        waiting.place = place;
        match place {
            Place::Active => self.active.insert(rank),
            Place::BackOff(due) => self.timers.insert((due, rank)),
            Place::Unschedulable { flush, .. } => self.timers.insert((flush, rank)) && self.unschedulable.insert(rank),
            Place::Taken => false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    fn key(name: &str) -> Key {
        Key::new(Kind::POD, "default", name)
    }

    #[test]
    fn higher_priority_goes_first_then_age_then_order() {
        // PRI-03
        let mut queue = Queue::new(1_000, 10_000);
        queue.add(Rank::new(0, 5, 0), key("young"));
        queue.add(Rank::new(0, 1, 2), key("old second"));
        queue.add(Rank::new(0, 1, 1), key("old first"));
        queue.add(Rank::new(7, 9, 3), key("high"));
        let names: Vec<_> = std::iter::from_fn(|| queue.take(Millis(0))).map(|(_, key)| key.name.to_string()).collect();
        assert_eq!(names, ["high", "old first", "old second", "young"]);
    }

    #[test]
    fn a_pod_that_fails_waits_one_second_then_twice_as_long_up_to_ten() {
        // SCH-04
        let mut queue = Queue::new(1_000, 10_000);
        let rank = Rank::new(0, 0, 0);
        queue.add(rank, key("p"));
        let mut now = Millis(0);
        for seconds in [1, 2, 4, 8, 10, 10] {
            assert!(queue.take(now).is_some());
            queue.failed(rank, Hints::LABELS, now);
            queue.happened(Hints::TAINTS, now);
            assert_eq!(queue.wake_at(), Some(now + FLUSH_MS));
            queue.happened(Hints::LABELS, now);
            assert_eq!(queue.wake_at(), Some(now + seconds * 1000));
            assert_eq!(queue.take(now), None);
            now = now + seconds * 1000;
        }
        assert!(queue.take(now).is_some());
        queue.failed(rank, Hints::LABELS, now);
        assert!(queue.take(now + FLUSH_MS).is_some());
        queue.remove(rank);
        assert_eq!((queue.wake_at(), queue.take(now + FLUSH_MS)), (None, None));
    }

    #[test]
    fn after_its_back_off_a_pod_is_tried_as_soon_as_something_could_help_it() {
        let mut queue = Queue::new(1_000, 10_000);
        let rank = Rank::new(0, 0, 0);
        queue.add(rank, key("p"));
        assert!(queue.take(Millis(0)).is_some());
        queue.failed(rank, Hints::POD_GONE, Millis(0));
        queue.happened(Hints::POD_GONE.and(Hints::LABELS), Millis(5_000));
        assert!(queue.take(Millis(5_000)).is_some());
    }
}
