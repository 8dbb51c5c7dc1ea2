//! Counts by domain, moved by every change.

use std::collections::{BTreeMap, BTreeSet};

use super::super::nodes::NodeId;
use super::super::slots::Slots;
use super::classes::{MatcherId, forget};
use super::eligibility::{Eligibilities, EligibilityId};
use super::topology::{Domain, Topologies, TopologyId};

/// A count by domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct CounterId(u32);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Counting {
    /// Pods that match, those that are ending too (affinity).
    Matching,
    /// Pods that match and are not ending, on nodes that count (topology spread).
    Spread(EligibilityId),
    /// Bound pods that refuse to be with those that match (required anti-affinity).
    Refusing,
    /// Bound pods that can only be with those that match (required affinity).
    Requiring,
    /// The weights of bound pods that would rather be with those that match; negative for those that would rather not.
    Preferring,
}

/// One count.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    pub(super) matcher: MatcherId,
    pub(super) topology: TopologyId,
    pub(super) counting: Counting,
    uses: u32,
    pub(super) by_domain: Vec<i64>,
    /// Weights by node, for what pods hold: kept for when a node's labels change.
    held: BTreeMap<NodeId, i64>,
    /// By domain, for spread.
    eligible_nodes: Vec<u32>,
}

/// Where nodes are, and for which constraints they count.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) topologies: &'a Topologies,
    pub(super) eligibilities: &'a Eligibilities,
}

/// What a node is to a counter: its domain, and whether it counts for a constraint.
pub(super) type Standing = (Domain, bool);

/// All counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    all: Slots<Counter>,
    ids: BTreeMap<(MatcherId, TopologyId, Counting), CounterId>,
    /// Counters of pods that match, by matcher.
    about: BTreeMap<MatcherId, BTreeSet<CounterId>>,
    /// Counters of what pods hold, by matcher.
    held_about: BTreeMap<MatcherId, BTreeSet<CounterId>>,
    by_topology: BTreeMap<TopologyId, BTreeSet<CounterId>>,
    by_eligibility: BTreeMap<EligibilityId, BTreeSet<CounterId>>,
}

impl Counters {
    /// The counter, and whether it is new.
    pub(super) fn acquire(
        &mut self,
        matcher: MatcherId,
        topology: TopologyId,
        counting: Counting,
    ) -> (CounterId, bool) {
        let key = (matcher, topology, counting);
        if let Some(id) = self.ids.get(&key).copied() {
            if let Some(counter) = self.all.get_mut(id.0) {
                counter.uses += 1;
            }
            return (id, false);
        }
        let counter = Counter { matcher, topology, counting, uses: 1, ..EMPTY.clone() };
        let id = CounterId(self.all.insert(counter));
        let is_held = matches!(counting, Counting::Refusing | Counting::Requiring | Counting::Preferring);
        let about = if is_held { &mut self.held_about } else { &mut self.about };
        about.entry(matcher).or_default().insert(id);
        self.by_topology.entry(topology).or_default().insert(id);
        if let Counting::Spread(eligibility) = counting {
            self.by_eligibility.entry(eligibility).or_default().insert(id);
        }
        self.ids.insert(key, id);
        (id, true)
    }

    /// The topology of the counter, if it is gone now.
    pub(super) fn release(&mut self, id: CounterId) -> Option<TopologyId> {
        let counter = self.all.get_mut(id.0)?;
        counter.uses = counter.uses.saturating_sub(1);
        if counter.uses > 0 {
            return None;
        }
        let Counter { matcher, topology, counting, .. } = self.all.remove(id.0)?;
        forget(&mut self.about, &matcher, id);
        forget(&mut self.held_about, &matcher, id);
        forget(&mut self.by_topology, &topology, id);
        if let Counting::Spread(eligibility) = counting {
            forget(&mut self.by_eligibility, &eligibility, id);
        }
        self.ids.remove(&(matcher, topology, counting));
        Some(topology)
    }

    /// The counter; whoever has its number holds a use of it.
    pub(super) fn get(&self, id: CounterId) -> &Counter {
        self.all.get(id.0).unwrap_or(&EMPTY)
    }

    /// Every counter of pods that a matcher means, or of what is held about them.
    pub(super) fn of_matcher(&self, matcher: MatcherId) -> impl Iterator<Item = CounterId> + '_ {
        let lists = [&self.about, &self.held_about].into_iter().filter_map(move |index| index.get(&matcher));
        lists.flatten().copied()
    }

    /// Every counter by domains of a topology.
    pub(super) fn of_topology(&self, topology: TopologyId) -> impl Iterator<Item = CounterId> + '_ {
        self.by_topology.get(&topology).into_iter().flatten().copied()
    }

    /// Every counter of pods on such nodes.
    pub(super) fn of_eligibility(&self, eligibility: EligibilityId) -> impl Iterator<Item = CounterId> + '_ {
        self.by_eligibility.get(&eligibility).into_iter().flatten().copied()
    }

    pub(super) fn held_about(&self, matcher: MatcherId) -> impl Iterator<Item = CounterId> + '_ {
        self.held_about.get(&matcher).into_iter().flatten().copied()
    }

    /// Whether anybody holds something of it.
    pub(super) fn is_held(&self, id: CounterId) -> bool {
        !self.get(id).held.is_empty()
    }

    /// Pods that a matcher means came or went: all of them, or only those that are not ending.
    pub(super) fn matched(
        &mut self,
        matcher: MatcherId,
        node: NodeId,
        by: i64,
        all: bool,
        living: bool,
        places: Places<'_>,
    ) {
        for id in self.about.get(&matcher).into_iter().flatten() {
            let Some(counter) = self.all.get_mut(id.0) else { continue };
            let counts = match counter.counting {
                Counting::Spread(_) => living && counter.admits(node, places),
                _ => all,
            };
            if counts {
                counter.count(node, by, places.topologies);
            }
        }
    }

    pub(super) fn hold(&mut self, id: CounterId, node: NodeId, weight: i64, topologies: &Topologies) {
        let Some(counter) = self.all.get_mut(id.0) else { return };
        let held = counter.held.entry(node).or_default();
        *held += weight;
        if *held == 0 {
            counter.held.remove(&node);
        }
        counter.count(node, weight, topologies);
    }

    pub(super) fn eligible_nodes(&self, id: CounterId) -> &[u32] {
        &self.get(id).eligible_nodes
    }

    /// A node's standing has changed; these pods (all, living) that match are on it.
    pub(super) fn move_node(
        &mut self,
        id: CounterId,
        node: NodeId,
        (before, after): (Standing, Standing),
        (all, living): (i64, i64),
    ) {
        let Some(counter) = self.all.get_mut(id.0) else { return };
        for ((domain, eligible), sign) in [(before, -1), (after, 1)] {
            let count = match counter.counting {
                Counting::Matching => all,
                Counting::Spread(_) if eligible => living,
                Counting::Spread(_) => 0,
                Counting::Refusing | Counting::Requiring | Counting::Preferring => {
                    counter.held.get(&node).copied().unwrap_or_default()
                }
            };
            counter.add(domain, sign * count);
            counter.add_eligible(domain, eligible, sign > 0);
        }
    }

    /// Counts anew, from pods (all, living) by node.
    pub(super) fn recount(&mut self, id: CounterId, placed: &BTreeMap<NodeId, (i64, i64)>, places: Places<'_>) {
        let Some(counter) = self.all.get_mut(id.0) else { return };
        counter.by_domain.clear();
        let moves: Vec<(NodeId, i64)> = match counter.counting {
            Counting::Matching => placed.iter().map(|(node, (all, _))| (*node, *all)).collect(),
            Counting::Spread(_) => {
                let eligible = placed.iter().filter(|(node, _)| counter.admits(**node, places));
                eligible.map(|(node, (_, living))| (*node, *living)).collect()
            }
            Counting::Refusing | Counting::Requiring | Counting::Preferring => {
                counter.held.iter().map(|(node, weight)| (*node, *weight)).collect()
            }
        };
        for (node, by) in moves {
            counter.count(node, by, places.topologies);
        }
        counter.count_eligible_nodes(places);
    }
}

/// A counter of nothing: what a number that nobody holds refers to.
static EMPTY: Counter = Counter {
    matcher: MatcherId::NONE,
    topology: TopologyId::NONE,
    counting: Counting::Matching,
    uses: 0,
    by_domain: Vec::new(),
    held: BTreeMap::new(),
    eligible_nodes: Vec::new(),
};

impl Counter {
    fn admits(&self, node: NodeId, places: Places<'_>) -> bool {
        match self.counting {
            Counting::Spread(eligibility) => places.eligibilities.admits(eligibility, node),
            _ => false,
        }
    }

    /// What a node is to it.
    pub(super) fn standing(&self, node: NodeId, places: Places<'_>) -> Standing {
        (places.topologies.domain(self.topology, node), self.admits(node, places))
    }

    fn count(&mut self, node: NodeId, by: i64, topologies: &Topologies) {
        self.add(topologies.domain(self.topology, node), by);
    }

    fn add(&mut self, domain: Domain, by: i64) {
        if domain.is_none() || by == 0 {
            return;
        }
        if self.by_domain.len() <= domain.index() {
            self.by_domain.resize(domain.index() + 1, 0);
        }
        self.by_domain[domain.index()] += by;
    }

    fn add_eligible(&mut self, domain: Domain, eligible: bool, more: bool) {
        if domain.is_none() || !eligible {
            return;
        }
        if self.eligible_nodes.len() <= domain.index() {
            self.eligible_nodes.resize(domain.index() + 1, 0);
        }
        let nodes = &mut self.eligible_nodes[domain.index()];
        *nodes = if more { *nodes + 1 } else { nodes.saturating_sub(1) };
    }

    fn count_eligible_nodes(&mut self, places: Places<'_>) {
        self.eligible_nodes.clear();
        if !matches!(self.counting, Counting::Spread(_)) {
            return;
        }
        for (row, domain) in (0..).zip(places.topologies.domains(self.topology)) {
            self.add_eligible(*domain, self.admits(NodeId::of(row), places), true);
        }
    }
}
