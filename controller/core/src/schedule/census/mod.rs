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
mod topology;

mod eligibility;

mod counters;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) use classes::{ClassId, Matcher, MatcherId, Scope};
pub(super) use counters::{CounterId, Counting};
pub(super) use eligibility::{Eligibility, EligibilityId};
pub(super) use topology::{Domain, TopologyId};

use classes::{Classes, forget};
use counters::{Counters, Places};
use eligibility::Eligibilities;
use topology::Topologies;

use super::nodes::{NodeChange, NodeId, Nodes};
use super::symbols::{Symbol, Symbols};
use super::terms::Labels;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    classes: Classes,
    topologies: Topologies,
    eligibilities: Eligibilities,
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
        let places = Places { topologies: &self.topologies, eligibilities: &self.eligibilities };
        for matcher in self.classes.matchers_of(class) {
            self.counters.matched(*matcher, node, by, all, living, places);
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

    /// Which nodes count; to be released, after the counters that need it.
    pub(super) fn eligibility(
        &mut self,
        eligibility: &Arc<Eligibility>,
        nodes: &Nodes,
        symbols: &Symbols,
    ) -> EligibilityId {
        self.eligibilities.acquire(eligibility, nodes, symbols)
    }

    /// Nobody who acquired it needs it any more.
    pub(super) fn release_eligibility(&mut self, eligibility: EligibilityId) {
        self.eligibilities.release(eligibility);
    }

    /// A counter; to be released. It counts from its first moment what is there.
    pub(super) fn counter(&mut self, matcher: MatcherId, key: Symbol, counting: Counting, nodes: &Nodes) -> CounterId {
        let topology = self.topologies.acquire(key, nodes);
        let (counter, is_new) = self.counters.acquire(matcher, topology, counting);
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
    pub(super) fn counting_of(&self, counter: CounterId) -> Counting {
        self.counters.get(counter).counting
    }

    /// The counter's matcher.
    pub(super) fn matcher_of(&self, counter: CounterId) -> MatcherId {
        self.counters.get(counter).matcher
    }

    /// Counts by domain; shorter than the topology has domains when the last ones count nothing.
    pub(super) fn counts(&self, counter: CounterId) -> &[i64] {
        &self.counters.get(counter).by_domain
    }

    /// Whether the node counts.
    pub(super) fn is_eligible(&self, eligibility: EligibilityId, node: NodeId) -> bool {
        self.eligibilities.admits(eligibility, node)
    }

    /// How many eligible nodes each domain has, for a spread counter.
    pub(super) fn eligible_nodes(&self, counter: CounterId) -> &[u32] {
        self.counters.eligible_nodes(counter)
    }

    /// The domain of every node, by row; [`Domain::NONE`] for a node without the key.
    pub(super) fn domains(&self, topology: TopologyId) -> &[Domain] {
        self.topologies.domains(topology)
    }

    /// A node appeared, changed or went. Looks at the counters to which it is something else now, and at no others.
    pub(super) fn node_changed(&mut self, change: &NodeChange, nodes: &Nodes, symbols: &Symbols) {
        let moved = self.topologies.node_changed(change, nodes);
        let judged = self.eligibilities.node_changed(change, nodes, symbols);
        let by_topology = moved.keys().flat_map(|topology| self.counters.of_topology(*topology));
        let by_eligibility = judged.iter().flat_map(|eligibility| self.counters.of_eligibility(*eligibility));
        let concerned: BTreeSet<CounterId> = by_topology.chain(by_eligibility).collect();
        if concerned.is_empty() {
            return;
        }
        let matched = self.classes.matched_on(change.row);
        let places = Places { topologies: &self.topologies, eligibilities: &self.eligibilities };
        for id in concerned {
            #[cfg(test)]
            super::work::note();
            let counter = self.counters.get(id);
            let after = counter.standing(change.row, places);
            let is_judged = matches!(counter.counting, Counting::Spread(eligibility) if judged.contains(&eligibility));
            let before = (moved.get(&counter.topology).copied().unwrap_or(after.0), after.1 != is_judged);
            let pods = matched.get(&counter.matcher).copied().unwrap_or_default();
            self.counters.move_node(id, change.row, (before, after), pods);
        }
    }

    /// A namespace appeared or its labels changed.
    pub(super) fn namespace_changed(&mut self, namespace: Symbol, labels: Labels, symbols: &Symbols) {
        let changed = self.classes.set_namespace(namespace, labels, symbols);
        let counters = changed.iter().flat_map(|matcher| self.counters.of_matcher(*matcher));
        for counter in counters.collect::<Vec<_>>() {
            #[cfg(test)]
            super::work::note();
            self.recount(counter);
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
        let places = Places { topologies: &self.topologies, eligibilities: &self.eligibilities };
        self.counters.recount(counter, &placed, places);
    }
}
