//! The census: how many pods of which kind are in which part of the topology. Rules that look at other pods (topology
//! spread, affinity between pods) ask here, and every answer was kept up to date by the changes that made it.
//!
//! *In:* pods that are bound, end or go; labels of nodes and namespaces that change. *Out:* counts by domain.
//! *Must never know:* what a rule does with a count.
//! *Tested:* by the rules' tables, and against an oracle that counts plain objects.
//!
//! Pods with the same namespace and labels are one class ([`ClassId`]). A [`Matcher`] is what a rule means by "these
//! pods". A counter ([`CounterId`]) counts, for a matcher and a topology key, by domain (a value of the key). A change
//! costs as much as there are counters that it moves, not as there are nodes.

mod classes;
mod counters;
mod topology;

use std::collections::BTreeMap;

#[cfg(test)]
pub(super) use classes::looks;
pub(super) use classes::{ClassId, Matcher, MatcherId, Scope};
pub(super) use counters::{CounterId, Counting, Eligibility};
pub(super) use topology::{Domain, TopologyId};

use classes::Classes;
use counters::Counters;
use topology::Topologies;

use super::nodes::{NodeId, Nodes};
use super::symbols::{Symbol, Symbols};
use super::terms::Labels;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    classes: Classes,
    topologies: Topologies,
    counters: Counters,
}

impl Census {
    /// The class of a pod; to be released when the pod is forgotten.
    pub(super) fn class(&mut self, namespace: Symbol, labels: Labels, symbols: &Symbols) -> ClassId {
        self.classes.acquire(namespace, labels, symbols)
    }

    /// A pod of this class is forgotten.
    pub(super) fn release_class(&mut self, class: ClassId) {
        self.classes.release(class);
    }

    /// A pod of this class is on this node now. One that is ending already counts as that.
    pub(super) fn arrived(&mut self, class: ClassId, node: NodeId, ending: bool) {
        self.classes.place(class, node, ending);
        self.move_counts(class, node, 1, true, !ending);
    }

    /// It is gone.
    pub(super) fn left(&mut self, class: ClassId, node: NodeId, was_ending: bool) {
        self.classes.unplace(class, node, was_ending);
        self.move_counts(class, node, -1, true, !was_ending);
    }

    fn move_counts(&mut self, class: ClassId, node: NodeId, by: i64, all: bool, living: bool) {
        for matcher in self.classes.matchers_of(class) {
            self.counters.matched(*matcher, node, by, all, living, &self.topologies);
        }
    }

    /// Whether pods of this class are meant by this matcher.
    pub(super) fn is_meant(&self, class: ClassId, matcher: MatcherId) -> bool {
        self.classes.matchers_of(class).binary_search(&matcher).is_ok()
    }

    /// Whether pods of this class have labels at all.
    pub(super) fn has_labels(&self, class: ClassId) -> bool {
        self.classes.has_labels(class)
    }

    /// A matcher; to be released.
    pub(super) fn matcher(&mut self, matcher: Matcher, symbols: &Symbols) -> MatcherId {
        self.classes.acquire_matcher(matcher, symbols)
    }

    /// Nobody who acquired it needs it any more.
    pub(super) fn release_matcher(&mut self, matcher: MatcherId) {
        self.classes.release_matcher(matcher);
    }

    /// A counter; to be released. It counts from its first moment what is there.
    pub(super) fn counter(
        &mut self,
        matcher: MatcherId,
        key: Symbol,
        counting: Counting,
        nodes: &Nodes,
        symbols: &Symbols,
    ) -> CounterId {
        let topology = self.topologies.acquire(key, nodes);
        let (counter, is_new) = self.counters.acquire(matcher, topology, counting, nodes, symbols);
        if is_new {
            self.recount(counter);
        } else {
            self.topologies.release(topology);
        }
        counter
    }

    /// Nobody who acquired it needs it any more.
    pub(super) fn release_counter(&mut self, counter: CounterId) {
        if let Some(topology) = self.counters.release(counter) {
            self.topologies.release(topology);
        }
    }

    /// A pod that holds a rule against or for others is on this node now, or no longer, with this weight.
    pub(super) fn held(&mut self, counter: CounterId, node: NodeId, weight: i64) {
        self.counters.hold(counter, node, weight, &self.topologies);
    }

    /// Counters of what bound pods hold for or against pods of this class.
    pub(super) fn holders_against(&self, class: ClassId) -> impl Iterator<Item = CounterId> + '_ {
        let about = self.classes.matchers_of(class).iter().flat_map(|matcher| self.counters.held_about(*matcher));
        about.filter(|counter| self.counters.is_held(*counter))
    }

    /// The counter's topology.
    pub(super) fn topology_of(&self, counter: CounterId) -> TopologyId {
        self.counters.get(counter).topology
    }

    /// What the counter counts with.
    pub(super) fn counting_of(&self, counter: CounterId) -> &Counting {
        &self.counters.get(counter).counting
    }

    /// The counter's matcher.
    pub(super) fn matcher_of(&self, counter: CounterId) -> MatcherId {
        self.counters.get(counter).matcher
    }

    /// Counts by domain; shorter than the topology has domains when the last ones count nothing.
    pub(super) fn counts(&self, counter: CounterId) -> &[i64] {
        &self.counters.get(counter).by_domain
    }

    /// Whether the node counts for a spread counter.
    pub(super) fn is_eligible(&self, counter: CounterId, node: NodeId) -> bool {
        self.counters.is_eligible(counter, node)
    }

    /// How many eligible nodes each domain has, for a spread counter.
    pub(super) fn eligible_nodes(&self, counter: CounterId) -> &[u32] {
        self.counters.eligible_nodes(counter)
    }

    /// The domain of every node, by row; [`Domain::NONE`] for a node without the key.
    pub(super) fn domains(&self, topology: TopologyId) -> &[Domain] {
        self.topologies.domains(topology)
    }

    /// A node appeared, changed or went: its labels, taints or name.
    pub(super) fn node_changed(&mut self, node: NodeId, nodes: &Nodes, symbols: &Symbols) {
        let ids: Vec<CounterId> = self.counters.ids().collect();
        let before: Vec<_> = ids.iter().map(|id| self.counters.standing(*id, node, &self.topologies)).collect();
        self.topologies.set_node(node, nodes);
        self.counters.judge_node(node, nodes, symbols);
        for (id, before) in ids.into_iter().zip(before) {
            if self.counters.standing(id, node, &self.topologies) == before {
                continue;
            }
            let matcher = self.counters.get(id).matcher;
            let classes = self.classes.classes_of(matcher);
            let (mut all, mut living) = (0, 0);
            for placed in classes.filter_map(|class| self.classes.placed(class, node)) {
                all += i64::from(placed.all);
                living += i64::from(placed.all - placed.ending);
            }
            self.counters.move_node(id, node, before, (all, living), &self.topologies);
        }
    }

    /// A namespace appeared or its labels changed.
    pub(super) fn namespace_changed(&mut self, namespace: Symbol, labels: Labels, symbols: &Symbols) {
        let changed = self.classes.set_namespace(namespace, labels, symbols);
        for counter in self.counters.ids().collect::<Vec<_>>() {
            if changed.contains(&self.counters.get(counter).matcher) {
                self.recount(counter);
            }
        }
    }

    fn recount(&mut self, counter: CounterId) {
        let matcher = self.counters.get(counter).matcher;
        let mut placed: BTreeMap<NodeId, (i64, i64)> = BTreeMap::new();
        for class in self.classes.classes_of(matcher) {
            for (node, count) in self.classes.places(class) {
                let sum = placed.entry(node).or_default();
                sum.0 += i64::from(count.all);
                sum.1 += i64::from(count.all - count.ending);
            }
        }
        self.counters.recount(counter, &placed, &self.topologies);
    }
}
