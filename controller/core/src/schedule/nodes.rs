//! The nodes as dense arrays: a row a node, a column a fact. Sums of what pods use are kept with every change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::amounts::Amounts;
use super::hints::Hints;
use super::images::Images;
use super::question::Question;
use super::requests::read_amount;
use super::symbols::{Effect, HostPort, Resource, Symbol, Symbols, Taint};
use super::terms::Facts;
use crate::object::Object;

/// A row. Rows are used again after their node and all its pods have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(u32);

impl NodeId {
    /// The node in this row.
    pub(super) const fn of(row: u32) -> Self {
        Self(row)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What of a node is not what it was before.
#[derive(Clone, Debug)]
pub(super) struct NodeChange {
    pub(super) row: NodeId,
    /// What of it could help a pod that waits.
    pub(super) hints: Hints,
    /// The labels that have another value, or are there or not.
    pub(super) keys: Vec<Symbol>,
    pub(super) taints: bool,
    /// Whether it came or went.
    pub(super) presence: bool,
}

/// Every node. A node's name has a row as long as its object is there, or a pod that is
/// bound to it, or one that room is held for.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    by_name: BTreeMap<Arc<str>, NodeId>,
    free: Vec<NodeId>,
    live: usize,
    names: Vec<Arc<str>>,
    name_symbols: Vec<Option<Symbol>>,
    name_hashes: Vec<u64>,
    present: Vec<bool>,
    unschedulable: Vec<bool>,
    labels: Vec<Box<[(Symbol, Symbol)]>>,
    taints: Vec<Box<[Taint]>>,
    max_pods: Vec<u32>,
    pods: Vec<u32>,
    /// Pods that room is held for.
    nominees: Vec<u32>,
    /// Host ports, with how many pods take them: more than one where somebody has put them there by hand.
    ports: Vec<BTreeMap<HostPort, u32>>,
    allocatable: Amounts,
    used: Amounts,
    /// Cpu and memory as scores count them, by row.
    scored: Vec<[u64; 2]>,
    images: Images,
    /// Rows in the order in which they changed, from the change with the number `forgotten` on.
    journal: VecDeque<NodeId>,
    forgotten: u64,
}

/// Changes that are remembered; whoever comes later looks at every node.
const JOURNAL: usize = 16 * 1024;

impl Nodes {
    /// How many nodes there are.
    pub(super) const fn len(&self) -> usize {
        self.live
    }

    /// How many rows there are, with those that are free.
    pub(super) const fn rows(&self) -> usize {
        self.names.len()
    }

    /// The number of the next change.
    pub(super) fn moment(&self) -> u64 {
        self.forgotten + self.journal.len() as u64
    }

    /// The rows that changed since a moment, perhaps several times; `None` when that is too long ago to know.
    pub(super) fn changed_since(&self, moment: u64) -> Option<impl Iterator<Item = NodeId> + '_> {
        let skip = usize::try_from(moment.checked_sub(self.forgotten)?).ok()?;
        Some(self.journal.iter().skip(skip).copied())
    }

    /// Notes that what rules read of a row is no longer what it was.
    pub(super) fn changed(&mut self, node: NodeId) {
        if self.journal.len() >= JOURNAL {
            self.journal.pop_front();
            self.forgotten += 1;
        }
        self.journal.push_back(node);
    }

    pub(super) fn is_present(&self, node: NodeId) -> bool {
        self.present[node.index()]
    }

    /// The row of a name that has one.
    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// Every node, in the order of the rows.
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..).zip(&self.present).filter(|(_, present)| **present).map(|(index, _)| NodeId(index))
    }

    pub(super) fn name(&self, node: NodeId) -> &Arc<str> {
        &self.names[node.index()]
    }

    /// A number made of the name, for breaking ties.
    pub(super) fn name_hash(&self, node: NodeId) -> u64 {
        self.name_hashes[node.index()]
    }

    pub(super) fn is_unschedulable(&self, node: NodeId) -> bool {
        self.unschedulable[node.index()]
    }

    /// What node affinity looks at.
    pub(super) fn facts(&self, node: NodeId) -> Option<Facts<'_>> {
        Some(Facts { labels: &self.labels[node.index()], name: self.name_symbols[node.index()]? })
    }

    pub(super) fn taints(&self, node: NodeId) -> &[Taint] {
        &self.taints[node.index()]
    }

    /// How many pods a node has, and may have.
    pub(super) fn pods(&self, node: NodeId) -> (u32, u32) {
        (self.pods[node.index()], self.max_pods[node.index()])
    }

    /// How many pods take a host port.
    pub(super) fn takers(&self, node: NodeId, port: HostPort) -> usize {
        self.ports[node.index()].get(&port).map_or(0, |pods| *pods as usize)
    }

    pub(super) fn allocatable(&self, node: NodeId, resource: Resource) -> u64 {
        self.allocatable.get(node.index(), resource)
    }

    pub(super) fn used(&self, node: NodeId, resource: Resource) -> u64 {
        self.used.get(node.index(), resource)
    }

    /// The images that nodes hold.
    pub(super) const fn images(&self) -> &Images {
        &self.images
    }

    /// What is used of cpu or memory as scores count it.
    pub(super) fn scored(&self, node: NodeId, resource: Resource) -> u64 {
        self.scored[node.index()][resource.index()]
    }

    /// The row of a name, made if it is not there.
    fn row(&mut self, name: &Arc<str>) -> NodeId {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let row = self.free.pop().unwrap_or_else(|| self.grow());
        let index = row.index();
        self.names[index] = Arc::clone(name);
        self.name_hashes[index] = hash(name);
        self.by_name.insert(Arc::clone(name), row);
        row
    }

    fn grow(&mut self) -> NodeId {
        let row = NodeId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push("".into());
        self.name_symbols.push(None);
        self.name_hashes.push(0);
        self.present.push(false);
        self.unschedulable.push(false);
        self.labels.push(Box::default());
        self.taints.push(Box::default());
        self.max_pods.push(0);
        self.pods.push(0);
        self.nominees.push(0);
        self.ports.push(BTreeMap::new());
        self.scored.push([0; 2]);
        self.allocatable.grow();
        self.used.grow();
        row
    }

    /// Takes a node's object over; tells what has changed.
    pub(super) fn set(&mut self, node: &Object, symbols: &mut Symbols) -> Option<NodeChange> {
        let facts = node.row.node()?;
        let row = self.row(&node.key.name);
        let index = row.index();
        let mut labels: Vec<_> =
            node.labels.iter().map(|(key, value)| (symbols.intern(key), symbols.intern(value))).collect();
        labels.sort_unstable();
        let taints: Box<[Taint]> = facts
            .taints
            .iter()
            .filter_map(|taint| {
                let effect = Effect::read(&taint.effect)?;
                Some(Taint { key: symbols.intern(&taint.key), value: symbols.intern(&taint.value), effect })
            })
            .collect();
        let mut hints = Hints::NONE;
        let presence = !self.present[index];
        if presence {
            self.present[index] = true;
            self.live += 1;
            self.name_symbols[index] = Some(symbols.intern(&node.key.name));
            hints = Hints::ANY_NODE;
        }
        let keys = different_keys(&self.labels[index], &labels);
        let other_taints = *self.taints[index] != *taints;
        hints = hints.when(!keys.is_empty(), Hints::LABELS);
        hints = hints.when(other_taints, Hints::TAINTS);
        hints = hints.when(self.unschedulable[index] != facts.unschedulable, Hints::UNSCHEDULABLE);
        hints = hints.when(self.max_pods[index] != facts.max_pods, Hints::ALLOCATABLE);
        self.labels[index] = labels.into();
        self.taints[index] = taints;
        self.unschedulable[index] = facts.unschedulable;
        self.max_pods[index] = facts.max_pods;
        let status = node.status();
        let allocatable = self.set_allocatable(index, &status["allocatable"], symbols);
        let hints = hints.when(allocatable, Hints::ALLOCATABLE);
        let images = self.images.set(row, &status["images"], symbols);
        if images || hints != Hints::NONE {
            self.changed(row);
        }
        Some(NodeChange { row, hints, keys, taints: other_taints, presence })
    }

    /// Whether anything of it was different before.
    fn set_allocatable(&mut self, index: usize, found: &Value, symbols: &mut Symbols) -> bool {
        let found = found.as_object().into_iter().flatten().filter(|(name, _)| *name != "pods");
        let amounts = found.map(|(name, quantity)| (symbols.resource(name), read_amount(name, quantity))).collect();
        self.allocatable.replace(index, &amounts)
    }

    /// The node's object has gone; pods that are bound to it keep its row. Tells what has changed.
    pub(super) fn unset(&mut self, name: &str) -> Option<NodeChange> {
        let row = self.by_name.get(name).copied()?;
        let index = row.index();
        let presence = std::mem::replace(&mut self.present[index], false);
        self.live -= usize::from(presence);
        self.name_symbols[index] = None;
        self.unschedulable[index] = false;
        let labels = std::mem::take(&mut self.labels[index]);
        let taints = std::mem::take(&mut self.taints[index]);
        self.max_pods[index] = 0;
        self.allocatable.replace(index, &BTreeMap::new());
        self.images.unset(row);
        self.changed(row);
        self.collect(row);
        // Its pods are in nobody's way any more, and its domain is not the emptiest any more.
        let hints = Hints::LABELS.and(Hints::POD_GONE);
        Some(NodeChange { row, hints, keys: different_keys(&labels, &[]), taints: !taints.is_empty(), presence })
    }

    /// Counts a pod that is bound to a node.
    pub(super) fn reserve(&mut self, name: &Arc<str>, question: &Question) -> NodeId {
        let row = self.row(name);
        let index = row.index();
        self.pods[index] += 1;
        for port in &question.host_ports {
            *self.ports[index].entry(*port).or_default() += 1;
        }
        for (resource, amount) in &question.requests {
            let used = self.used.get(index, *resource);
            self.used.set(index, *resource, used.saturating_add(*amount));
        }
        for (sum, amount) in self.scored[index].iter_mut().zip(question.scored) {
            *sum = sum.saturating_add(amount);
        }
        self.changed(row);
        row
    }

    /// Takes a pod off its node's account.
    pub(super) fn release(&mut self, row: NodeId, question: &Question) {
        let index = row.index();
        self.pods[index] = self.pods[index].saturating_sub(1);
        for port in &question.host_ports {
            let Some(pods) = self.ports[index].get_mut(port) else { continue };
            *pods -= 1;
            if *pods == 0 {
                self.ports[index].remove(port);
            }
        }
        for (resource, amount) in &question.requests {
            let used = self.used.get(index, *resource);
            self.used.set(index, *resource, used.saturating_sub(*amount));
        }
        for (sum, amount) in self.scored[index].iter_mut().zip(question.scored) {
            *sum = sum.saturating_sub(amount);
        }
        self.changed(row);
        self.collect(row);
    }

    /// Keeps a row for a pod that room is held for, whether or not the node is there.
    pub(super) fn hold(&mut self, name: &Arc<str>) -> NodeId {
        let row = self.row(name);
        self.nominees[row.index()] += 1;
        self.changed(row);
        row
    }

    /// Room is held no more.
    pub(super) fn unhold(&mut self, row: NodeId) {
        let nominees = &mut self.nominees[row.index()];
        *nominees = nominees.saturating_sub(1);
        self.changed(row);
        self.collect(row);
    }

    /// Frees a row that nothing holds any more.
    fn collect(&mut self, row: NodeId) {
        let index = row.index();
        if self.present[index] || self.pods[index] > 0 || self.nominees[index] > 0 {
            return;
        }
        self.by_name.remove(&self.names[index]);
        self.names[index] = "".into();
        self.free.push(row);
    }
}

/// The keys of labels that are not the same in both; each is in order.
fn different_keys(before: &[(Symbol, Symbol)], after: &[(Symbol, Symbol)]) -> Vec<Symbol> {
    let is_other = |labels: &[(Symbol, Symbol)], pair: &(Symbol, Symbol)| labels.binary_search(pair).is_err();
    let gone = before.iter().filter(|pair| is_other(after, pair));
    let come = after.iter().filter(|pair| is_other(before, pair));
    let keys: BTreeSet<Symbol> = gone.chain(come).map(|(key, _)| *key).collect();
    keys.into_iter().collect()
}

/// FNV-1a, the same on every machine.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
