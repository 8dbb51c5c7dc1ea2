//! One decision: the nodes that fit, the best of them, ties broken by a seed. A pure function of the cluster, the
//! question and the seed (SCH-06).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::census::ClassId;
use super::evaluation::{Evaluation, lot, refusals};
use super::filters::{DomainRule, Refusal};
use super::hints::Hints;
use super::nodes::NodeId;
use super::overlay::Cluster;
use super::rules::Asked;
use super::scores::PodScore;
use super::symbols::Symbols;
use super::tournament::Search;

/// Everything that a decision has found out; kept between decisions so that its room is used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Decision {
    /// The best node.
    pub(super) best: Option<NodeId>,
    /// What could help if no node was found.
    pub(super) helped_by: Hints,
    /// Why nodes were refused, and how many.
    causes: BTreeMap<Refusal, usize>,
    /// Nodes that fit, and what they have: only where other pods count, or somebody wants to know.
    left: Vec<NodeId>,
    totals: Vec<i64>,
    points: Vec<i64>,
}

impl Decision {
    /// Decides.
    pub(super) fn decide(&mut self, cluster: Cluster<'_>, evaluation: &Evaluation, asked: &Asked, class: ClassId) {
        self.causes.clear();
        self.helped_by = evaluation.helped_by();
        let rules = rules(cluster, asked, class);
        let says = |score: &PodScore, points: &mut Vec<i64>| (score.points)(cluster, &[], asked, class, points);
        let is_free = rules.is_empty() && !cluster.nominations.refuse(class, evaluation.priority(), cluster);
        let is_scored = asked.rulebook.pod_scores.iter().any(|(score, _)| says(score, &mut self.points));
        let found = match (is_scored, is_free) {
            (false, true) => evaluation.best().map_or(Search::Nobody, |node| Search::Found(node.index())),
            (false, false) => {
                evaluation.best_where(|node| refusal(cluster, evaluation, asked, class, &rules, node).is_none())
            }
            (true, _) => Search::GaveUp,
        };
        match found {
            Search::Found(row) => self.best = Some(NodeId::of(u32::try_from(row).unwrap_or(u32::MAX))),
            // Who was refused is counted; of those that the node alone refuses, below.
            Search::Nobody if is_free => self.best = None,
            Search::Nobody | Search::GaveUp => self.look_at_all(cluster, evaluation, asked, class, &rules),
        }
        if self.best.is_some() {
            return;
        }
        for (reasons, nodes) in evaluation.refused() {
            for reason in reasons {
                *self.causes.entry(*reason).or_default() += nodes;
            }
        }
    }

    /// Decides among a few nodes, for a pod that can go to no others.
    pub(super) fn decide_among(
        &mut self,
        cluster: Cluster<'_>,
        nodes: &[NodeId],
        asked: &Asked,
        (class, priority, seed): (ClassId, i32, u64),
    ) {
        self.causes.clear();
        self.left.clear();
        self.helped_by = Hints::NODE_ADDED;
        for node in nodes {
            let held = cluster.nominations.held_against(*node, priority);
            let found = check(cluster, asked, class, *node)
                .and_then(|()| check(Cluster { overlay: held.as_ref(), ..cluster }, asked, class, *node));
            match found {
                Ok(()) => self.left.push(*node),
                Err(refusal) => {
                    *self.causes.entry(refusal).or_default() += 1;
                    self.helped_by = self.helped_by.and(refusal.helped_by());
                }
            }
        }
        let others = cluster.nodes.len() - nodes.len();
        if others > 0 {
            self.causes.insert(Refusal::Affinity, others);
        }
        let columns = if self.left.len() > 1 { columns(cluster, asked, class, &self.left) } else { Vec::new() };
        let strength = |index: &usize| {
            let total: i64 = columns.iter().map(|(_, weight, column)| weight * column[*index]).sum();
            (total, lot(seed, cluster.nodes.name_hash(self.left[*index])))
        };
        self.best = (0..self.left.len()).max_by_key(strength).map(|index| self.left[index]);
    }

    fn look_at_all(
        &mut self,
        cluster: Cluster<'_>,
        evaluation: &Evaluation,
        asked: &Asked,
        class: ClassId,
        rules: &[DomainRule<'_>],
    ) {
        self.left.clear();
        // Few reasons, and many nodes.
        let mut refused: Vec<(Refusal, usize)> = Vec::new();
        if rules.is_empty() && cluster.nominations.is_empty() {
            self.left.extend(evaluation.fitting());
        } else {
            for node in evaluation.fitting() {
                let Some(refusal) = refusal(cluster, evaluation, asked, class, rules, node) else {
                    self.left.push(node);
                    continue;
                };
                match refused.iter_mut().find(|(known, _)| *known == refusal) {
                    Some((_, nodes)) => *nodes += 1,
                    None => refused.push((refusal, 1)),
                }
            }
        }
        for (refusal, nodes) in refused {
            self.helped_by = self.helped_by.and(refusal.helped_by());
            self.causes.insert(refusal, nodes);
        }
        evaluation.points(&self.left, &mut self.totals);
        for (score, weight) in &asked.rulebook.pod_scores {
            if (score.points)(cluster, &self.left, asked, class, &mut self.points) {
                for (total, points) in self.totals.iter_mut().zip(&self.points) {
                    *total += weight * points;
                }
            }
        }
        let strength = |index: usize| (self.totals[index], evaluation.lot(self.left[index]));
        self.best = (0..self.left.len()).max_by_key(|index| strength(*index)).map(|index| self.left[index]);
    }

    /// Why no node was found, in Kubernetes' words (SCH-04).
    pub(super) fn message(&self, cluster: Cluster<'_>) -> String {
        let nodes = cluster.nodes.len();
        if nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        if let Some(refusal) = self.causes.keys().find(|refusal| refusal.is_about_pod()) {
            return format!("0/{nodes} nodes are available: {}.", refusal.reason(cluster.symbols));
        }
        format!("0/{nodes} nodes are available: {}.", counted(&self.causes, cluster.symbols))
    }
}

/// Reasons with how many nodes have them, in Kubernetes' order.
pub(super) fn counted(causes: &BTreeMap<Refusal, usize>, symbols: &Symbols) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (refusal, count) in causes {
        *counts.entry(refusal.reason(symbols)).or_default() += count;
    }
    let mut reasons: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort_unstable();
    reasons.join(", ")
}

fn rules<'a>(cluster: Cluster<'a>, asked: &Asked, class: ClassId) -> Vec<DomainRule<'a>> {
    let mut rules = Vec::new();
    for filter in &asked.rulebook.pod_filters {
        (filter.rules)(cluster, asked, class, &mut rules);
    }
    rules
}

/// Why other pods keep the pod from a node that fits by itself.
fn refusal(
    cluster: Cluster<'_>,
    evaluation: &Evaluation,
    asked: &Asked,
    class: ClassId,
    rules: &[DomainRule<'_>],
    node: NodeId,
) -> Option<Refusal> {
    rules.iter().find_map(|rule| rule.refusal(node)).or_else(|| {
        if cluster.nominations.is_empty() {
            return None;
        }
        let overlay = cluster.nominations.held_against(node, evaluation.priority())?;
        let cluster = Cluster { overlay: Some(&overlay), ..cluster };
        asked.rulebook.pod_filters.iter().find_map(|filter| (filter.check)(cluster, node, asked, class))
    })
}

/// Whether a node fits, also one as it would be; or why not.
pub(super) fn check(cluster: Cluster<'_>, asked: &Asked, class: ClassId, node: NodeId) -> Result<(), Refusal> {
    if let Some(refusal) = refusals(cluster, asked, node).first() {
        return Err(*refusal);
    }
    match asked.rulebook.pod_filters.iter().find_map(|filter| (filter.check)(cluster, node, asked, class)) {
        None => Ok(()),
        Some(refusal) => Err(refusal),
    }
}

/// Everything about one decision, as data: every node is looked at, and every score is told.
pub(super) fn explain(cluster: Cluster<'_>, evaluation: &Evaluation, asked: &Asked, class: ClassId) -> Explanation {
    let mut decision = Decision::default();
    let rules = rules(cluster, asked, class);
    decision.look_at_all(cluster, evaluation, asked, class, &rules);
    let mut verdicts: BTreeMap<Arc<str>, Verdict> = BTreeMap::new();
    // Put into words once, however many nodes it is said of.
    let mut told: BTreeMap<Vec<Refusal>, Arc<[Reason]>> = BTreeMap::new();
    for node in cluster.nodes.ids() {
        let found = match evaluation.refusals_of(node) {
            [] => refusal(cluster, evaluation, asked, class, &rules, node),
            _ => None,
        };
        let refusals = found.as_ref().map_or_else(|| evaluation.refusals_of(node), std::slice::from_ref);
        if refusals.is_empty() {
            continue;
        }
        let reasons = match told.get(refusals) {
            Some(reasons) => Arc::clone(reasons),
            None => Arc::clone(told.entry(refusals.to_vec()).or_insert(in_words(refusals, cluster.symbols))),
        };
        verdicts.insert(Arc::clone(cluster.nodes.name(node)), Verdict::Refused { reasons });
    }
    let columns = columns(cluster, asked, class, &decision.left);
    for (index, node) in decision.left.iter().enumerate() {
        let points = columns.iter().map(|(name, weight, column)| Points {
            score: name,
            weight: *weight,
            points: weight * column[index],
        });
        let verdict = Verdict::Feasible { points: points.collect(), total: decision.totals[index] };
        verdicts.insert(Arc::clone(cluster.nodes.name(*node)), verdict);
    }
    Explanation { verdicts, best: decision.best.map(|node| Arc::clone(cluster.nodes.name(node))) }
}

/// Every score with its weight and its normalised points, one a node that is left.
fn columns(cluster: Cluster<'_>, asked: &Asked, class: ClassId, left: &[NodeId]) -> Vec<(&'static str, i64, Vec<i64>)> {
    let mut columns = Vec::new();
    for (score, weight) in &asked.rulebook.scores {
        let applies = (score.applies)(&asked.question);
        let points = |node: &NodeId| if applies { (score.points)(cluster, *node, &asked.question) } else { 0 };
        let raw: Vec<i64> = left.iter().map(points).collect();
        let most = raw.iter().copied().max().unwrap_or_default();
        columns.push((score.name, *weight, raw.iter().map(|points| score.normalise.apply(*points, most)).collect()));
    }
    for (score, weight) in &asked.rulebook.pod_scores {
        let mut points = Vec::new();
        if !(score.points)(cluster, left, asked, class, &mut points) {
            points = vec![0; left.len()];
        }
        columns.push((score.name, *weight, points));
    }
    columns
}

/// In the order of the words: that of the resources depends on which of them was heard of first.
fn in_words(refusals: &[Refusal], symbols: &Symbols) -> Arc<[Reason]> {
    let reason = |refusal: &Refusal| Reason { filter: refusal.filter(), words: refusal.reason(symbols) };
    let mut reasons: Vec<Reason> = refusals.iter().map(reason).collect();
    reasons.sort_by(|one, two| one.words.cmp(&two.words));
    reasons.into()
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
        /// Why, at least one; nodes that are refused for the same share it.
        reasons: Arc<[Reason]>,
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
