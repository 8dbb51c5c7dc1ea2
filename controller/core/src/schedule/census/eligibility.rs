//! Which nodes count for topology spread constraints (TSC-03): found out once for all counters that want to know the same,
//! and anew for a node when something has changed of it that they read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::nodes::{NodeChange, NodeId, Nodes};
use super::super::question::Toleration;
use super::super::slots::Slots;
use super::super::symbols::{Effect, Symbol, Symbols};
use super::super::terms::Term;

/// Nodes that count for a topology spread constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Eligibility {
    /// Every key of the pod's constraints of the same sort, each once; a node must carry all of them.
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

    /// Every label that it reads.
    fn reads(&self) -> BTreeSet<Symbol> {
        let selected = self.node_selector.iter().map(|(key, _)| *key);
        let required = self.required.iter().flatten().flat_map(Term::keys);
        self.keys.iter().copied().chain(selected).chain(required).collect()
    }
}

/// An [`Eligibility`] that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct EligibilityId(u32);

#[derive(Clone, Debug)]
struct Judged {
    eligibility: Arc<Eligibility>,
    uses: u32,
    /// By row.
    admitted: Vec<bool>,
}

impl Judged {
    fn admits(&self, node: NodeId) -> bool {
        self.admitted.get(node.index()).copied().unwrap_or_default()
    }

    /// Looks at a node anew; whether the verdict is another one.
    fn judge(&mut self, node: NodeId, nodes: &Nodes, symbols: &Symbols) -> bool {
        let admits = self.eligibility.admits(node, nodes, symbols);
        if self.admitted.len() <= node.index() {
            self.admitted.resize(node.index() + 1, false);
        }
        std::mem::replace(&mut self.admitted[node.index()], admits) != admits
    }
}

/// All that are in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Eligibilities {
    all: Slots<Judged>,
    ids: BTreeMap<Arc<Eligibility>, EligibilityId>,
    /// By the labels that they read.
    by_key: BTreeMap<Symbol, BTreeSet<EligibilityId>>,
    /// Those that ask for no label before anything else: whether there is a node at all decides on them.
    without_keys: BTreeSet<EligibilityId>,
    /// Those that read taints.
    by_taints: BTreeSet<EligibilityId>,
}

impl Eligibilities {
    pub(super) fn acquire(
        &mut self,
        eligibility: &Arc<Eligibility>,
        nodes: &Nodes,
        symbols: &Symbols,
    ) -> EligibilityId {
        if let Some(id) = self.ids.get(eligibility).copied() {
            if let Some(judged) = self.all.get_mut(id.0) {
                judged.uses += 1;
            }
            return id;
        }
        let mut judged = Judged { eligibility: Arc::clone(eligibility), uses: 1, admitted: Vec::new() };
        for node in nodes.ids() {
            judged.judge(node, nodes, symbols);
        }
        let id = EligibilityId(self.all.insert(judged));
        self.ids.insert(Arc::clone(eligibility), id);
        for key in eligibility.reads() {
            self.by_key.entry(key).or_default().insert(id);
        }
        if eligibility.keys.is_empty() {
            self.without_keys.insert(id);
        }
        if eligibility.tolerations.is_some() {
            self.by_taints.insert(id);
        }
        id
    }

    pub(super) fn release(&mut self, id: EligibilityId) {
        let Some(judged) = self.all.get_mut(id.0) else { return };
        judged.uses = judged.uses.saturating_sub(1);
        if judged.uses > 0 {
            return;
        }
        let Some(judged) = self.all.remove(id.0) else { return };
        for key in judged.eligibility.reads() {
            super::forget(&mut self.by_key, &key, id);
        }
        self.without_keys.remove(&id);
        self.by_taints.remove(&id);
        self.ids.remove(&judged.eligibility);
    }

    /// Whether a node counts.
    pub(super) fn admits(&self, id: EligibilityId, node: NodeId) -> bool {
        self.all.get(id.0).is_some_and(|judged| judged.admits(node))
    }

    /// Takes over what has changed of a node; tells which verdicts are others now.
    pub(super) fn node_changed(
        &mut self,
        change: &NodeChange,
        nodes: &Nodes,
        symbols: &Symbols,
    ) -> BTreeSet<EligibilityId> {
        let by_key = change.keys.iter().filter_map(|key| self.by_key.get(key)).flatten();
        let by_taints = self.by_taints.iter().filter(|_| change.taints);
        let mut concerned: BTreeSet<EligibilityId> = by_key.chain(by_taints).copied().collect();
        if change.presence {
            concerned.extend(&self.without_keys);
        }
        concerned.retain(|id| self.all.get_mut(id.0).is_some_and(|judged| judged.judge(change.row, nodes, symbols)));
        concerned
    }
}
