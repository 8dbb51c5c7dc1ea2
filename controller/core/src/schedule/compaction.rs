//! Words that nobody uses any more: labels, names and resources come and go with their objects, and the tables that number
//! them only grow. When most of what they hold may be out of use, a successor is made that is shown what the view has, a
//! few objects with each step, beside all changes; when it has seen everything it takes over, with the queue. A cluster
//! that stays as large as it is never holds more than about twice its own words, and no decision waits for long.

use std::vec::IntoIter;

use super::{Scheduler, State};
use crate::clock::Now;
use crate::kind::Kind;
use crate::object::Key;
use crate::store::{Action, Change};
use crate::view::View;

/// As many words are never too many.
const ALWAYS_KEPT: usize = 64 * 1024;
/// Objects that a successor is shown with one step: about two milliseconds of a slow core.
const AT_ONCE: usize = 256;

/// What is shown, in this order: as at a start, what pods are asked about is there before they are.
const KINDS: [Kind; 8] = [
    Kind::NAMESPACE,
    Kind::SERVICE,
    Kind::POD_DISRUPTION_BUDGET,
    Kind::STORAGE_CLASS,
    Kind::PERSISTENT_VOLUME,
    Kind::PERSISTENT_VOLUME_CLAIM,
    Kind::NODE,
    Kind::POD,
];

/// A scheduler that is to take over.
#[derive(Clone, Debug)]
pub(super) struct Successor {
    scheduler: Box<Scheduler>,
    /// What it has not been shown yet.
    left: IntoIter<Key>,
    at_once: usize,
}

impl Scheduler {
    /// Makes a successor if there are twice as many words as when this one took over, and shows it more of the view; it
    /// takes over when it has seen everything.
    pub(super) fn compact_if_crowded(&mut self, view: &View, now: Now) {
        let is_crowded = self.symbols.len() > self.words_at_first.saturating_mul(2).max(ALWAYS_KEPT);
        if is_crowded && self.successor.is_none() {
            self.compact(view, AT_ONCE);
        }
        let Some(mut successor) = self.successor.take() else { return };
        for key in successor.left.by_ref().take(successor.at_once) {
            let Some(object) = view.get(&key) else { continue };
            let object = object.clone();
            let change = Change { revision: view.revision(), action: Action::Added, object, previous: None };
            successor.scheduler.observe(view, &change, now);
        }
        if successor.left.len() > 0 {
            self.successor = Some(successor);
        } else {
            self.hand_over(*successor.scheduler);
        }
    }

    /// How many words there are.
    #[cfg(test)]
    pub(super) const fn words(&self) -> usize {
        self.symbols.len()
    }

    /// Makes a successor, which sees so many objects with each step.
    pub(super) fn compact(&mut self, view: &View, at_once: usize) {
        let keys = KINDS.iter().flat_map(|kind| view.list(*kind, None)).map(|object| object.key.clone());
        let left = keys.collect::<Vec<Key>>().into_iter();
        let scheduler = Box::new(Self::configured(self.seed, &self.configuration));
        self.successor = Some(Successor { scheduler, left, at_once });
    }

    /// A change concerns a successor, too.
    pub(super) fn tell_successor(&mut self, view: &View, change: &Change, now: Now) {
        if let Some(successor) = &mut self.successor {
            successor.scheduler.observe(view, change, now);
        }
    }

    /// The successor knows the same pods; each keeps its place in line.
    fn hand_over(&mut self, mut successor: Self) {
        for (key, tracked) in &self.pods {
            let State::Waiting(rank, _) = tracked.state else { continue };
            if let Some(known) = successor.pods.get_mut(key)
                && let State::Waiting(own, _) = &mut known.state
            {
                *own = rank;
            }
        }
        std::mem::swap(&mut successor.queue, &mut self.queue);
        std::mem::swap(&mut successor.strangers, &mut self.strangers);
        std::mem::swap(&mut successor.chronicle, &mut self.chronicle);
        successor.order = self.order;
        successor.words_at_first = successor.symbols.len();
        *self = successor;
    }
}
