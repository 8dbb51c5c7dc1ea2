//! The node on which preemption does the least harm.

use std::collections::BTreeMap;

use super::super::evaluation::Evaluation;
use super::super::nodes::NodeId;
use super::super::overlay::Cluster;
use super::super::tournament::Tournament;
use super::budgets::Budgets;
use super::victims::{Harmlessness, Preemptor, Residents, Victims, on_node};

/// Questions whose candidates are kept.
const MAX_KEPT: usize = 16;

/// What was found of every node for one question and priority.
#[derive(Clone, Debug, Default)]
struct Candidates {
    used: u64,
    /// When it was found; `None` if it was found while rules about other pods had a say.
    moment: Option<u64>,
    budgets: u64,
    tournament: Tournament<Harmlessness>,
    rows: usize,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Preemptions {
    kept: BTreeMap<(u64, i32), Candidates>,
    uses: u64,
}

/// Everything that decides on a preemption.
#[derive(Clone, Copy)]
pub(in super::super) struct Scene<'a> {
    pub(in super::super) cluster: Cluster<'a>,
    pub(in super::super) evaluation: &'a Evaluation,
    pub(in super::super) residents: &'a Residents,
    pub(in super::super) budgets: &'a Budgets,
}

impl Scene<'_> {
    fn victims(self, preemptor: Preemptor<'_>, node: NodeId) -> Option<Victims> {
        let for_good = self.evaluation.refusals_of(node).iter().any(|refusal| refusal.is_for_good());
        if for_good || !self.cluster.nodes.is_present(node) {
            return None;
        }
        on_node(self.cluster, self.residents.on(node), self.budgets, preemptor, node)
    }

    fn strength(self, preemptor: Preemptor<'_>, node: NodeId) -> Option<Harmlessness> {
        let victims = self.victims(preemptor, node)?;
        Some(victims.harmlessness(self.evaluation.lot_of(self.cluster, node)))
    }
}

impl Preemptions {
    /// The node and its victims.
    pub(in super::super) fn best(&mut self, scene: Scene<'_>, preemptor: Preemptor<'_>) -> Option<(NodeId, Victims)> {
        self.uses += 1;
        let key = (preemptor.asked.number, preemptor.priority);
        if !self.kept.contains_key(&key) && self.kept.len() >= MAX_KEPT {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.kept.remove(&oldest));
        }
        let kept = self.kept.entry(key).or_default();
        kept.used = self.uses;
        kept.refresh(scene, preemptor);
        let node = NodeId::of(u32::try_from(kept.tournament.best()?).ok()?);
        Some((node, scene.victims(preemptor, node)?))
    }

    /// The question is asked no more.
    pub(in super::super) fn forget(&mut self, number: u64) {
        self.kept.retain(|(known, _), _| *known != number);
    }
}

impl Candidates {
    fn refresh(&mut self, scene: Scene<'_>, preemptor: Preemptor<'_>) {
        let nodes = scene.cluster.nodes;
        // Rules about other pods depend on every node at once: what was found under them says nothing, now or later.
        let is_about_nodes_alone = preemptor.asked.is_about_nodes_alone()
            && scene.cluster.census.holders_against(preemptor.class).next().is_none();
        let is_kept = is_about_nodes_alone && self.budgets == scene.budgets.version() && self.rows == nodes.rows();
        match self.moment.filter(|_| is_kept).and_then(|moment| nodes.changed_since(moment)) {
            Some(changed) => {
                for node in changed {
                    self.tournament.set(node.index(), scene.strength(preemptor, node));
                }
            }
            None => {
                let rows = (0_u32..).take(nodes.rows()).map(NodeId::of);
                self.tournament.start(rows.map(|node| scene.strength(preemptor, node)));
            }
        }
        self.moment = is_about_nodes_alone.then(|| nodes.moment());
        (self.budgets, self.rows) = (scene.budgets.version(), nodes.rows());
    }
}

/// Why preemption does not help, in Kubernetes' words.
pub(in super::super) fn message(scene: Scene<'_>, preemptor: Preemptor<'_>) -> String {
    let nodes = scene.cluster.nodes;
    if nodes.len() == 0 {
        return String::new();
    }
    let (mut no_victims, mut no_help) = (0, 0);
    for node in nodes.ids() {
        let for_good = scene.evaluation.refusals_of(node).iter().any(|refusal| refusal.is_for_good());
        if for_good {
            no_help += 1;
        } else if scene.residents.on(node).iter().any(|resident| resident.priority < preemptor.priority) {
            // They would go in vain.
            no_help += 1;
        } else {
            no_victims += 1;
        }
    }
    let reasons = [
        (no_victims, "No preemption victims found for incoming pod"),
        (no_help, "Preemption is not helpful for scheduling"),
    ];
    let reasons: Vec<String> =
        reasons.iter().filter(|(count, _)| *count > 0).map(|(count, reason)| format!("{count} {reason}")).collect();
    format!("0/{} nodes are available: {}.", nodes.len(), reasons.join(", "))
}
