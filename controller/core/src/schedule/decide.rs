//! One decision: every node is filtered, every node that is left is scored, ties are broken by a seed. A pure function
//! of the nodes, the question and the seed (SCH-06).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::filters::{Cluster, FILTERS, Refusal};
use super::hints::Hints;
use super::nodes::NodeId;
use super::question::Question;
use super::scores::SCORES;
use super::symbols::Symbols;

/// Everything that a decision has found out; kept between decisions so that its room is used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Decision {
    /// The nodes to which the pod can go.
    feasible: Vec<NodeId>,
    /// Points times weight, one a feasible node, by score.
    points: Vec<Vec<i64>>,
    /// Their sums.
    totals: Vec<i64>,
    /// Why the others were refused, in the order of the nodes.
    refusals: Vec<(NodeId, Refusal)>,
    /// What could help if no node was found.
    pub(super) helped_by: Hints,
    /// The best node.
    pub(super) best: Option<NodeId>,
    reasons: Vec<Refusal>,
}

impl Decision {
    /// Decides. `seed` breaks ties.
    pub(super) fn decide(&mut self, cluster: Cluster<'_>, question: &Question, seed: u64) {
        self.filter(cluster, question);
        self.score(cluster, question);
        self.best = self.choose(cluster, seed);
    }

    fn filter(&mut self, cluster: Cluster<'_>, question: &Question) {
        self.feasible.clear();
        self.refusals.clear();
        self.helped_by = Hints::NODE_ADDED;
        for node in cluster.nodes.ids() {
            self.reasons.clear();
            for filter in FILTERS {
                (filter.check)(cluster, node, question, &mut self.reasons);
                if !self.reasons.is_empty() {
                    self.helped_by = self.helped_by.and(filter.helped_by);
                    break;
                }
            }
            if self.reasons.is_empty() {
                self.feasible.push(node);
            } else {
                self.refusals.extend(self.reasons.iter().map(|reason| (node, *reason)));
            }
        }
    }

    fn score(&mut self, cluster: Cluster<'_>, question: &Question) {
        self.totals.clear();
        self.totals.resize(self.feasible.len(), 0);
        self.points.resize_with(SCORES.len(), Vec::new);
        for (score, column) in SCORES.iter().zip(&mut self.points) {
            column.clear();
            if !(score.applies)(question) {
                column.resize(self.feasible.len(), 0);
                continue;
            }
            column.extend(self.feasible.iter().map(|node| (score.points)(cluster, *node, question)));
            (score.normalise)(column);
            for (total, points) in self.totals.iter_mut().zip(column) {
                *points *= score.weight;
                *total += *points;
            }
        }
    }

    /// The highest total; of several, the one that the seed prefers. Which row a node has plays no part.
    fn choose(&self, cluster: Cluster<'_>, seed: u64) -> Option<NodeId> {
        let lot = |node: NodeId| {
            let hash = cluster.nodes.name_hash(node);
            (mix(seed ^ hash), hash)
        };
        let ranked = self.feasible.iter().zip(&self.totals);
        ranked
            .max_by(|(one, first), (two, second)| first.cmp(second).then_with(|| lot(**one).cmp(&lot(**two))))
            .map(|(node, _)| *node)
    }

    /// Why no node was found, in Kubernetes' words (SCH-04).
    pub(super) fn message(&self, cluster: Cluster<'_>) -> String {
        let nodes = cluster.nodes.len();
        if nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut counts: BTreeMap<Refusal, usize> = BTreeMap::new();
        for (_, refusal) in &self.refusals {
            *counts.entry(*refusal).or_default() += 1;
        }
        let mut reasons: Vec<String> =
            counts.iter().map(|(refusal, count)| format!("{count} {}", refusal.reason(cluster.symbols))).collect();
        reasons.sort_unstable();
        format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
    }

    /// The decision as data.
    pub(super) fn explain(&self, cluster: Cluster<'_>) -> Explanation {
        let mut verdicts: BTreeMap<Arc<str>, Verdict> = BTreeMap::new();
        for (index, node) in self.feasible.iter().enumerate() {
            let points = SCORES
                .iter()
                .zip(&self.points)
                .map(|(score, column)| Points { score: score.name, weight: score.weight, points: column[index] })
                .collect();
            let verdict = Verdict::Feasible { points, total: self.totals[index] };
            verdicts.insert(Arc::clone(cluster.nodes.name(*node)), verdict);
        }
        for (node, refusal) in &self.refusals {
            let reason = reason_of(*refusal, cluster.symbols);
            let entry = verdicts.entry(Arc::clone(cluster.nodes.name(*node)));
            if let Verdict::Refused { reasons } = entry.or_insert_with(|| Verdict::Refused { reasons: Vec::new() }) {
                reasons.push(reason);
            }
        }
        Explanation { verdicts, best: self.best.map(|node| Arc::clone(cluster.nodes.name(node))) }
    }
}

fn reason_of(refusal: Refusal, symbols: &Symbols) -> Reason {
    Reason { filter: refusal.filter(), words: refusal.reason(symbols) }
}

/// `SplitMix64`'s last step: spreads what differs in a few bits over all.
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Why a pod goes where it goes, or nowhere: what was found of every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// By the node's name.
    pub verdicts: BTreeMap<Arc<str>, Verdict>,
    /// The node that is chosen.
    pub best: Option<Arc<str>>,
}

/// What was found of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod cannot go there.
    Refused {
        /// Why, at least one.
        reasons: Vec<Reason>,
    },
    /// The pod can go there.
    Feasible {
        /// What each score gives.
        points: Vec<Points>,
        /// Their sum; the highest is chosen.
        total: i64,
    },
}

/// Why a node was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Kubernetes' name of the plugin that refused it.
    pub filter: &'static str,
    /// Kubernetes' words, as in the condition `PodScheduled`.
    pub words: String,
}

/// What one score gives to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points {
    /// Kubernetes' name of the plugin.
    pub score: &'static str,
    /// How much it counts.
    pub weight: i64,
    /// 0 to 100, times the weight.
    pub points: i64,
}
