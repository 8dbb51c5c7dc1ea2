//! Who is to look at what: at once, and at which time.

use std::collections::{BTreeMap, BTreeSet};

use coracle_model::Millis;

use crate::object::Key;

/// A set of (reconciler, key): being woken twice is being woken once.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    now: BTreeSet<(usize, Key)>,
    later: BTreeSet<(Millis, usize, Key)>,
    times: BTreeMap<(usize, Key), Millis>,
}

impl Wakes {
    /// Look at once.
    pub(super) fn wake(&mut self, row: usize, key: Key) {
        self.now.insert((row, key));
    }

    /// The next that is to look; in the order of the reconcilers' table.
    pub(super) fn pop(&mut self) -> Option<(usize, Key)> {
        self.now.pop_first()
    }

    /// Replaces the time at which this one looks again.
    pub(super) fn schedule(&mut self, row: usize, key: &Key, at: Option<Millis>) {
        let entry = (row, key.clone());
        if let Some(earlier) = self.times.remove(&entry) {
            self.later.remove(&(earlier, entry.0, entry.1.clone()));
        }
        if let Some(at) = at {
            self.later.insert((at, entry.0, entry.1.clone()));
            self.times.insert(entry, at);
        }
    }

    /// Wakes everyone whose time has come.
    pub(super) fn due(&mut self, now: Millis) {
        while let Some((at, _, _)) = self.later.first()
            && *at <= now
            && let Some((_, row, key)) = self.later.pop_first()
        {
            self.times.remove(&(row, key.clone()));
            self.now.insert((row, key));
        }
    }

    /// When somebody is to look next.
    pub(super) fn next(&self) -> Option<Millis> {
        if self.now.is_empty() { self.later.first().map(|(at, _, _)| *at) } else { Some(Millis::ZERO) }
    }
}
