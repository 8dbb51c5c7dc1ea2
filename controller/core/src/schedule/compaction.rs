//! Words that nobody uses any more: labels, names and resources come and go with their objects, and the tables that number
//! them only grow. When most of what they hold may be out of use, the scheduler begins anew from the view and keeps only
//! its queue; a cluster that stays as large as it is never holds more than about twice its own words.

use super::nominations::Nominee;
use super::{Scheduler, State, Tracked};
use crate::clock::Now;
use crate::kind::Kind;
use crate::object::Object;
use crate::store::{Action, Change};
use crate::view::View;

/// As many words are never too many.
const ALWAYS_KEPT: usize = 64 * 1024;

/// What pods are asked about beside their nodes: it is there before they are.
const KINDS: [Kind; 7] = [
    Kind::NAMESPACE,
    Kind::SERVICE,
    Kind::POD_DISRUPTION_BUDGET,
    Kind::STORAGE_CLASS,
    Kind::PERSISTENT_VOLUME,
    Kind::PERSISTENT_VOLUME_CLAIM,
    Kind::NODE,
];

impl Scheduler {
    /// Begins anew if there are twice as many words as after the last time.
    pub(super) fn compact_if_crowded(&mut self, view: &View, now: Now) {
        if self.symbols.len() > self.words_after_compaction.saturating_mul(2).max(ALWAYS_KEPT) {
            self.compact(view, now);
        }
    }

    /// How many words there are.
    #[cfg(test)]
    pub(super) const fn words(&self) -> usize {
        self.symbols.len()
    }

    /// Begins anew. Everything that the view has must have been observed.
    pub(super) fn compact(&mut self, view: &View, now: Now) {
        let mut fresh = Self::configured(self.seed, &self.configuration);
        for object in KINDS.iter().flat_map(|kind| view.list(*kind, None)) {
            let change =
                Change { revision: view.revision(), action: Action::Added, object: object.clone(), previous: None };
            fresh.observe(view, &change, now);
        }
        for (key, tracked) in std::mem::take(&mut self.pods) {
            let pod = view.get_same(&key, tracked.uid);
            match (tracked.state, pod) {
                (State::Waiting(rank, _), None) => self.queue.remove(rank),
                (State::Waiting(_, nominated), Some(pod)) => {
                    let node = nominated.map(|node| fresh.nodes.hold(self.nodes.name(node)));
                    fresh.keep_waiting(view, pod, &tracked, node);
                }
                (State::Bound(_), Some(pod)) => fresh.observe_pod(view, pod, false, now),
                (State::Bound(_), None) => {}
            }
        }
        std::mem::swap(&mut fresh.queue, &mut self.queue);
        std::mem::swap(&mut fresh.strangers, &mut self.strangers);
        std::mem::swap(&mut fresh.chronicle, &mut self.chronicle);
        fresh.order = self.order;
        fresh.words_after_compaction = fresh.symbols.len();
        *self = fresh;
    }

    /// A pod keeps its place in line.
    fn keep_waiting(&mut self, view: &View, pod: &Object, tracked: &Tracked, nominated: Option<super::nodes::NodeId>) {
        let seen = self.see(view, pod);
        if let Some(node) = nominated {
            let nominee = Nominee { key: pod.key.clone(), priority: tracked.priority, seen: seen.clone() };
            self.nominations.add(node, nominee);
        }
        if let State::Waiting(rank, _) = tracked.state {
            let state = State::Waiting(rank, nominated);
            self.pods.insert(pod.key.clone(), Tracked { uid: tracked.uid, seen, priority: tracked.priority, state });
        }
    }
}
