//! Topology keys that rules use: which domain every node is in.

use std::collections::BTreeMap;

use super::super::nodes::{NodeChange, NodeId, Nodes};
use super::super::slots::Slots;
use super::super::symbols::Symbol;

/// A topology key in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct TopologyId(u32);

impl TopologyId {
    /// No topology.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// A value of a topology key, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Domain(u32);

impl Domain {
    /// Of a node that does not carry the key.
    pub(in super::super) const NONE: Self = Self(u32::MAX);

    /// Its place in an array by domain; beyond every array for [`Self::NONE`].
    pub(in super::super) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(in super::super) const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }
}

#[derive(Clone, Debug)]
struct Topology {
    key: Symbol,
    uses: u32,
    of_node: Vec<Domain>,
    domains: BTreeMap<Symbol, Domain>,
}

/// All keys in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Topologies {
    all: Slots<Topology>,
    by_key: BTreeMap<Symbol, TopologyId>,
}

impl Topologies {
    pub(super) fn acquire(&mut self, key: Symbol, nodes: &Nodes) -> TopologyId {
        if let Some(id) = self.by_key.get(&key).copied() {
            if let Some(topology) = self.all.get_mut(id.0) {
                topology.uses += 1;
            }
            return id;
        }
        let mut topology = Topology { key, uses: 1, of_node: Vec::new(), domains: BTreeMap::new() };
        for node in nodes.ids() {
            topology.set(node, nodes);
        }
        let id = TopologyId(self.all.insert(topology));
        self.by_key.insert(key, id);
        id
    }

    pub(super) fn release(&mut self, id: TopologyId) {
        let Some(topology) = self.all.get_mut(id.0) else { return };
        topology.uses = topology.uses.saturating_sub(1);
        if topology.uses == 0 {
            self.by_key.remove(&topology.key);
            self.all.remove(id.0);
        }
    }

    pub(super) fn domains(&self, id: TopologyId) -> &[Domain] {
        self.all.get(id.0).map_or(&[], |topology| &topology.of_node)
    }

    pub(super) fn domain(&self, id: TopologyId, node: NodeId) -> Domain {
        #[cfg(test)]
        super::super::work::note();
        self.domains(id).get(node.index()).copied().unwrap_or(Domain::NONE)
    }

    /// Takes over what has changed of a node's labels; tells in which domains it was, of those keys that put it in another.
    pub(super) fn node_changed(&mut self, change: &NodeChange, nodes: &Nodes) -> BTreeMap<TopologyId, Domain> {
        let mut moved = BTreeMap::new();
        for id in change.keys.iter().filter_map(|key| self.by_key.get(key)) {
            let before = self.domain(*id, change.row);
            if let Some(topology) = self.all.get_mut(id.0) {
                topology.set(change.row, nodes);
            }
            if self.domain(*id, change.row) != before {
                moved.insert(*id, before);
            }
        }
        moved
    }
}

impl Topology {
    fn set(&mut self, node: NodeId, nodes: &Nodes) {
        let value = nodes.facts(node).and_then(|facts| facts.label(self.key));
        let domain = value.map_or(Domain::NONE, |value| {
            let next = Domain(u32::try_from(self.domains.len()).unwrap_or(u32::MAX - 1));
            *self.domains.entry(value).or_insert(next)
        });
        if self.of_node.len() <= node.index() {
            self.of_node.resize(node.index() + 1, Domain::NONE);
        }
        self.of_node[node.index()] = domain;
    }
}
