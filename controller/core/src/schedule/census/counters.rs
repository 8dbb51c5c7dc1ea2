//! Counts by domain, moved by every change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::nodes::{NodeId, Nodes};
use super::super::question::Toleration;
use super::super::slots::Slots;
use super::super::symbols::{Effect, Symbol, Symbols};
use super::super::terms::Term;
use super::classes::MatcherId;
use super::topology::{Domain, Topologies, TopologyId};

/// A count by domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct CounterId(u32);

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Counting {
    /// Pods that match, those that are ending too (affinity).
    Matching,
    /// Pods that match and are not ending, on eligible nodes (topology spread).
    Spread(Arc<Eligibility>),
    /// Bound pods that refuse to be with those that match (required anti-affinity).
    Refusing,
    /// Bound pods that can only be with those that match (required affinity).
    Requiring,
    /// The weights of bound pods that would rather be with those that match; negative for those that would rather not.
    Preferring,
}

/// Nodes that count for a topology spread constraint (TSC-03).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Eligibility {
    /// Every key of the pod's constraints of the same sort; a node must carry all of them.
    pub(in super::super) keys: Vec<Symbol>,
    /// The pod's `nodeSelector`, when `nodeAffinityPolicy` is `Honor`.
    pub(in super::super) node_selector: Vec<(Symbol, Symbol)>,
    /// Its required node affinity, when `nodeAffinityPolicy` is `Honor`.
    pub(in super::super) required: Option<Vec<Term>>,
    /// Its tolerations, when `nodeTaintsPolicy` is `Honor`.
    pub(in super::super) tolerations: Option<Vec<Toleration>>,
}

impl Eligibility {
    fn admits(&self, node: NodeId, nodes: &Nodes, symbols: &Symbols) -> bool {
        let Some(facts) = nodes.facts(node) else { return false };
        let tolerates = |tolerations: &Vec<Toleration>| {
            let mut taints = nodes.taints(node).iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
            taints.all(|taint| tolerations.iter().any(|toleration| toleration.tolerates(*taint)))
        };
        self.keys.iter().all(|key| facts.label(*key).is_some())
            && self.node_selector.iter().all(|(key, value)| facts.label(*key) == Some(*value))
            && self.required.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(facts, symbols)))
            && self.tolerations.as_ref().is_none_or(tolerates)
    }
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
    /// By row, for spread.
    eligible: Vec<bool>,
    eligible_nodes: Vec<u32>,
}

/// All counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    all: Slots<Counter>,
    ids: BTreeMap<(MatcherId, TopologyId, Counting), CounterId>,
    /// Counters of pods that match, by matcher.
    about: BTreeMap<MatcherId, Vec<CounterId>>,
    /// Counters of what pods hold, by matcher.
    held_about: BTreeMap<MatcherId, Vec<CounterId>>,
}

impl Counters {
    /// The counter, and whether it is new.
    pub(super) fn acquire(
        &mut self,
        matcher: MatcherId,
        topology: TopologyId,
        counting: Counting,
        nodes: &Nodes,
        symbols: &Symbols,
    ) -> (CounterId, bool) {
        let key = (matcher, topology, counting);
        if let Some(id) = self.ids.get(&key).copied() {
            if let Some(counter) = self.all.get_mut(id.0) {
                counter.uses += 1;
            }
            return (id, false);
        }
        let counting = key.2.clone();
        let mut counter = Counter {
            matcher,
            topology,
            counting,
            uses: 1,
            by_domain: Vec::new(),
            held: BTreeMap::new(),
            eligible: Vec::new(),
            eligible_nodes: Vec::new(),
        };
        for node in nodes.ids() {
            counter.judge(node, nodes, symbols);
        }
        let is_held = matches!(counter.counting, Counting::Refusing | Counting::Requiring | Counting::Preferring);
        let id = CounterId(self.all.insert(counter));
        let about = if is_held { &mut self.held_about } else { &mut self.about };
        about.entry(matcher).or_default().push(id);
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
        let counter = self.all.remove(id.0)?;
        for about in [&mut self.about, &mut self.held_about] {
            if let Some(list) = about.get_mut(&counter.matcher) {
                list.retain(|known| *known != id);
                if list.is_empty() {
                    about.remove(&counter.matcher);
                }
            }
        }
        let topology = counter.topology;
        self.ids.remove(&(counter.matcher, topology, counter.counting));
        Some(topology)
    }

    /// The counter; whoever has its number holds a use of it.
    pub(super) fn get(&self, id: CounterId) -> &Counter {
        self.all.get(id.0).unwrap_or(&EMPTY)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = CounterId> + '_ {
        self.ids.values().copied()
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
        topologies: &Topologies,
    ) {
        for id in self.about.get(&matcher).into_iter().flatten() {
            let Some(counter) = self.all.get_mut(id.0) else { continue };
            let counts = match counter.counting {
                Counting::Spread(_) => living && counter.admits(node),
                _ => all,
            };
            if counts {
                counter.count(node, by, topologies);
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

    pub(super) fn is_eligible(&self, id: CounterId, node: NodeId) -> bool {
        self.get(id).admits(node)
    }

    pub(super) fn eligible_nodes(&self, id: CounterId) -> &[u32] {
        &self.get(id).eligible_nodes
    }

    /// Looks at a node anew: which counters it counts for.
    pub(super) fn judge_node(&mut self, node: NodeId, nodes: &Nodes, symbols: &Symbols) {
        for id in self.ids.values() {
            if let Some(counter) = self.all.get_mut(id.0) {
                counter.judge(node, nodes, symbols);
            }
        }
    }

    /// What a node is to a counter: its domain, and whether it counts.
    pub(super) fn standing(&self, id: CounterId, node: NodeId, topologies: &Topologies) -> (Domain, bool) {
        let counter = self.get(id);
        (topologies.domain(counter.topology, node), counter.admits(node))
    }

    /// A node's standing has changed; these pods (all, living) that match are on it.
    pub(super) fn move_node(
        &mut self,
        id: CounterId,
        node: NodeId,
        before: (Domain, bool),
        (all, living): (i64, i64),
        topologies: &Topologies,
    ) {
        let after = self.standing(id, node, topologies);
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
    pub(super) fn recount(&mut self, id: CounterId, placed: &BTreeMap<NodeId, (i64, i64)>, topologies: &Topologies) {
        let Some(counter) = self.all.get_mut(id.0) else { return };
        counter.by_domain.clear();
        let moves: Vec<(NodeId, i64)> = match counter.counting {
            Counting::Matching => placed.iter().map(|(node, (all, _))| (*node, *all)).collect(),
            Counting::Spread(_) => {
                let eligible = placed.iter().filter(|(node, _)| counter.admits(**node));
                eligible.map(|(node, (_, living))| (*node, *living)).collect()
            }
            Counting::Refusing | Counting::Requiring | Counting::Preferring => {
                counter.held.iter().map(|(node, weight)| (*node, *weight)).collect()
            }
        };
        for (node, by) in moves {
            counter.count(node, by, topologies);
        }
        counter.count_eligible_nodes(topologies);
    }
}

/// What a number that nobody holds refers to.
static EMPTY: Counter = Counter {
    matcher: MatcherId::NONE,
    topology: TopologyId::NONE,
    counting: Counting::Matching,
    uses: 0,
    by_domain: Vec::new(),
    held: BTreeMap::new(),
    eligible: Vec::new(),
    eligible_nodes: Vec::new(),
};

impl Counter {
    fn admits(&self, node: NodeId) -> bool {
        self.eligible.get(node.index()).copied().unwrap_or_default()
    }

    fn judge(&mut self, node: NodeId, nodes: &Nodes, symbols: &Symbols) {
        let Counting::Spread(eligibility) = &self.counting else { return };
        let admits = eligibility.admits(node, nodes, symbols);
        if self.eligible.len() <= node.index() {
            self.eligible.resize(node.index() + 1, false);
        }
        self.eligible[node.index()] = admits;
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

    fn count_eligible_nodes(&mut self, topologies: &Topologies) {
        self.eligible_nodes.clear();
        for (row, domain) in topologies.domains(self.topology).iter().enumerate() {
            let eligible = self.eligible.get(row).copied().unwrap_or_default();
            self.add_eligible(*domain, eligible, true);
        }
    }
}
