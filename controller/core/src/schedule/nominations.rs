//! Rooms that preemption has made, held for those it made them for until they are bound (PRI-04, PRI-08).

use std::collections::BTreeMap;

use super::census::ClassId;
use super::nodes::NodeId;
use super::overlay::{Cluster, Overlay, Seen};
use crate::object::Key;

/// A pod with `status.nominatedNodeName`.
#[derive(Clone, Debug)]
pub(super) struct Nominee {
    pub(super) key: Key,
    pub(super) priority: i32,
    pub(super) seen: Seen,
}

impl Nominee {
    fn refuses_any(&self) -> bool {
        !self.seen.asked.anti_affinity.is_empty()
    }
}

/// By node.
#[derive(Clone, Debug, Default)]
pub(super) struct Nominations {
    by_node: BTreeMap<NodeId, Vec<Nominee>>,
    /// How many of them refuse to be with some other pods.
    refusing: usize,
}

impl Nominations {
    /// Holds room on a node.
    pub(super) fn add(&mut self, node: NodeId, nominee: Nominee) {
        drop(self.remove(node, &nominee.key));
        self.refusing += usize::from(nominee.refuses_any());
        let nominees = self.by_node.entry(node).or_default();
        // In the order of their names, so that the order in which they came plays no part (SCH-06).
        let place = nominees.partition_point(|other| other.key < nominee.key);
        nominees.insert(place, nominee);
    }

    /// Gives it free; who had it.
    pub(super) fn remove(&mut self, node: NodeId, key: &Key) -> Option<Nominee> {
        let nominees = self.by_node.get_mut(&node)?;
        let place = nominees.iter().position(|nominee| nominee.key == *key)?;
        let nominee = nominees.remove(place);
        self.refusing -= usize::from(nominee.refuses_any());
        if nominees.is_empty() {
            self.by_node.remove(&node);
        }
        Some(nominee)
    }

    /// Whether no room is held anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// Pods for which room is held on a node.
    pub(super) fn on(&self, node: NodeId) -> &[Nominee] {
        self.by_node.get(&node).map_or(&[], |nominees| nominees)
    }

    /// Whether any pod for which room is held against this priority refuses to be with pods of a class.
    pub(super) fn refuse(&self, class: ClassId, priority: i32, cluster: Cluster<'_>) -> bool {
        if self.refusing == 0 {
            return false;
        }
        let refuses = |node: NodeId, nominee: &Nominee| {
            nominee.priority >= priority && nominee.seen.asked.refuses(class, node, cluster)
        };
        self.by_node.iter().any(|(node, nominees)| nominees.iter().any(|nominee| refuses(*node, nominee)))
    }

    /// The node as pods of this priority must take it: with those of equal or higher priority for which room is held.
    /// `None` when there are none.
    pub(super) fn held_against(&self, node: NodeId, priority: i32) -> Option<Overlay> {
        self.held_except(node, priority, None)
    }

    /// As [`Self::held_against`], for a pod for which room may be held itself.
    pub(super) fn held_except(&self, node: NodeId, priority: i32, own: Option<&Key>) -> Option<Overlay> {
        if self.by_node.is_empty() {
            return None;
        }
        let counts = |nominee: &&Nominee| nominee.priority >= priority && own.is_none_or(|own| *own != nominee.key);
        let with: Vec<Seen> = self.on(node).iter().filter(counts).map(|nominee| nominee.seen.clone()).collect();
        (!with.is_empty()).then(|| Overlay { node, without: Vec::new(), with })
    }
}
