//! What every node is to one question, as far as the node alone decides: kept between decisions, and brought up to date
//! from the journal of the rows that changed. Pods of one template share it, so the next of them costs what the last one
//! changed, and not a look at every node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::filters::Refusal;
use super::hints::Hints;
use super::nodes::NodeId;
use super::overlay::Cluster;
use super::rules::Asked;
use super::scores::{Normalise, Score};
use super::tournament::{Search, Tournament};

/// Rows of all evaluations together; the least recently used go when there are more.
const MAX_ROWS: usize = 2_000_000;
/// Evaluations, whatever their size.
const MAX_EVALUATIONS: usize = 256;

/// Nodes that are asked one by one, the best first, before all are looked at.
const PATIENCE: usize = 128;

/// Why a node is refused, as a number of this evaluation's own; the first means that it is not, the second that there
/// is no node.
type Cause = u16;
const FITS: Cause = 0;
const ABSENT: Cause = 1;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Evaluation {
    moment: Option<u64>,
    seed: u64,
    /// Of the pods that ask: room that is held for less important ones is theirs.
    priority: i32,
    causes: Vec<Cause>,
    /// What a cause stands for, and how many nodes have it.
    meanings: Vec<(Vec<Refusal>, usize)>,
    /// The numbers of causes: there may be as many as nodes, if each has a taint of its own.
    numbers: BTreeMap<Vec<Refusal>, Cause>,
    /// Weighted points of the scores that no other node has a say in.
    settled: Vec<i64>,
    /// Raw points of the others, by score, then by row.
    relative: Vec<Relative>,
    lots: Vec<u64>,
    /// What decides on points for images besides what each node holds, and of which count of them that was found.
    images: Vec<i64>,
    images_at: (u64, usize),
    /// By points, then by lot.
    tournament: Tournament<(i64, u64)>,
}

#[derive(Clone, Debug)]
struct Relative {
    score: &'static Score,
    weight: i64,
    raw: Vec<i64>,
    /// How many nodes that fit have how many points.
    spectrum: BTreeMap<i64, usize>,
    /// The most points, as the tournament has them.
    most: i64,
}

impl Relative {
    fn most(&self) -> i64 {
        self.spectrum.last_key_value().map_or(0, |(points, _)| *points)
    }

    fn weighted(&self, row: usize, most: i64) -> i64 {
        self.weight * self.score.normalise.apply(self.raw[row], most)
    }
}

impl Evaluation {
    /// Brings it up to date.
    fn refresh(&mut self, cluster: Cluster<'_>, asked: &Asked, seed: u64) {
        self.look_at_images(cluster, asked);
        let changed = self.moment.and_then(|moment| cluster.nodes.changed_since(moment));
        match changed {
            Some(changed) if self.seed == seed => {
                let mut rows: Vec<NodeId> = changed.collect();
                rows.sort_unstable();
                rows.dedup();
                if rows.len() > self.causes.len() / 4 {
                    self.start(cluster, asked, seed);
                } else {
                    self.follow(cluster, asked, &rows);
                }
            }
            _ => self.start(cluster, asked, seed),
        }
        self.moment = Some(cluster.nodes.moment());
    }

    /// What is found of images goes for all nodes at once, so everything is found anew when that has changed.
    fn look_at_images(&mut self, cluster: Cluster<'_>, asked: &Asked) {
        let (images, nodes) = (cluster.nodes.images(), cluster.nodes.len());
        if asked.question.images.is_empty() || self.images_at == (images.version(), nodes) {
            return;
        }
        self.images_at = (images.version(), nodes);
        let standing = images.standing(&asked.question.images, nodes);
        if standing != self.images {
            self.images = standing;
            self.moment = None;
        }
    }

    fn start(&mut self, cluster: Cluster<'_>, asked: &Asked, seed: u64) {
        let rows = cluster.nodes.rows();
        let (images, images_at) = (std::mem::take(&mut self.images), self.images_at);
        *self = Self { seed, priority: self.priority, images, images_at, ..Self::default() };
        self.meanings = vec![(Vec::new(), 0), (Vec::new(), rows)];
        for (score, weight) in asked.rulebook.scores.iter().copied() {
            if score.normalise != Normalise::AsTheyAre {
                let spectrum = BTreeMap::new();
                self.relative.push(Relative { score, weight, raw: vec![0; rows], spectrum, most: 0 });
            }
        }
        self.widen(rows);
        for node in cluster.nodes.ids() {
            self.look_at(cluster, asked, node);
        }
        self.hold_tournament();
    }

    fn widen(&mut self, rows: usize) {
        let more = rows.saturating_sub(self.causes.len());
        if self.causes.len() < rows && self.moment.is_some() {
            self.meanings[usize::from(ABSENT)].1 += more;
        }
        self.causes.resize(rows, ABSENT);
        self.settled.resize(rows, 0);
        self.lots.resize(rows, 0);
        for relative in &mut self.relative {
            relative.raw.resize(rows, 0);
        }
    }

    fn follow(&mut self, cluster: Cluster<'_>, asked: &Asked, rows: &[NodeId]) {
        let grown = cluster.nodes.rows() > self.causes.len();
        self.widen(cluster.nodes.rows());
        for node in rows {
            self.look_at(cluster, asked, *node);
        }
        if grown || self.relative.iter().any(|relative| relative.most() != relative.most) {
            return self.hold_tournament();
        }
        for node in rows {
            let strength = self.strength(node.index());
            self.tournament.set(node.index(), strength);
        }
    }

    fn hold_tournament(&mut self) {
        for relative in &mut self.relative {
            relative.most = relative.most();
        }
        let mut tournament = std::mem::take(&mut self.tournament);
        tournament.start((0..self.causes.len()).map(|row| self.strength(row)));
        self.tournament = tournament;
    }

    fn strength(&self, row: usize) -> Option<(i64, u64)> {
        if self.causes[row] != FITS {
            return None;
        }
        let relative: i64 = self.relative.iter().map(|relative| relative.weighted(row, relative.most)).sum();
        Some((self.settled[row] + relative, self.lots[row]))
    }

    /// Looks at one node anew.
    fn look_at(&mut self, cluster: Cluster<'_>, asked: &Asked, node: NodeId) {
        let row = node.index();
        let before = self.causes[row];
        self.meanings[usize::from(before)].1 -= 1;
        if before == FITS {
            for relative in &mut self.relative {
                let points = relative.raw[row];
                if let Some(nodes) = relative.spectrum.get_mut(&points) {
                    *nodes -= 1;
                    if *nodes == 0 {
                        relative.spectrum.remove(&points);
                    }
                }
            }
        }
        let cause = self.cause(cluster, asked, node);
        self.causes[row] = cause;
        self.meanings[usize::from(cause)].1 += 1;
        if cause != FITS {
            return;
        }
        let question = &asked.question;
        self.lots[row] = lot(self.seed, cluster.nodes.name_hash(node));
        let mut settled = 0;
        for (score, weight) in &asked.rulebook.scores {
            if score.normalise == Normalise::AsTheyAre && (score.applies)(question) {
                settled += weight * (score.points)(cluster, node, question);
            }
        }
        self.settled[row] = settled;
        for relative in &mut self.relative {
            let score = relative.score;
            let points = if (score.applies)(question) { (score.points)(cluster, node, question) } else { 0 };
            relative.raw[row] = points;
            *relative.spectrum.entry(points).or_default() += 1;
        }
    }

    fn cause(&mut self, cluster: Cluster<'_>, asked: &Asked, node: NodeId) -> Cause {
        if !cluster.nodes.is_present(node) {
            return ABSENT;
        }
        let mut reasons = refusals(cluster, asked, node);
        if reasons.is_empty() {
            // Room that is held for others is no room.
            let Some(overlay) = cluster.nominations.held_against(node, self.priority) else { return FITS };
            reasons = refusals(Cluster { overlay: Some(&overlay), ..cluster }, asked, node);
            if reasons.is_empty() {
                return FITS;
            }
        }
        if let Some(known) = self.numbers.get(&reasons) {
            return *known;
        }
        // As many different causes as this would mean as many different taints: those beyond it are told as the last.
        let Ok(next) = Cause::try_from(self.meanings.len()) else { return Cause::MAX };
        self.meanings.push((reasons.clone(), 0));
        self.numbers.insert(reasons, next);
        next
    }

    /// The priority for which it looks at nodes.
    pub(super) const fn priority(&self) -> i32 {
        self.priority
    }

    /// The nodes that fit, in the order of their rows.
    pub(super) fn fitting(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..).zip(&self.causes).filter(|(_, cause)| **cause == FITS).map(|(row, _)| NodeId::of(row))
    }

    /// The best of those that fit, when nothing but the node counts.
    pub(super) fn best(&self) -> Option<NodeId> {
        self.tournament.best().map(|row| NodeId::of(u32::try_from(row).unwrap_or(u32::MAX)))
    }

    /// The best of those that fit and that `accept` takes, when no other node has a say in anybody's points; gives up
    /// when it is better to look at all of them.
    pub(super) fn best_where(&self, mut accept: impl FnMut(NodeId) -> bool) -> Search {
        if self.relative.iter().any(|relative| relative.most() != 0) {
            // Their shares depend on who is left.
            return Search::GaveUp;
        }
        self.tournament.best_where(PATIENCE, |row| accept(NodeId::of(u32::try_from(row).unwrap_or(u32::MAX))))
    }

    /// What decides between nodes with the same points.
    pub(super) fn lot(&self, node: NodeId) -> u64 {
        self.lots[node.index()]
    }

    /// The lot of any node, also of one that does not fit.
    pub(super) fn lot_of(&self, cluster: Cluster<'_>, node: NodeId) -> u64 {
        lot(self.seed, cluster.nodes.name_hash(node))
    }

    /// Weighted points of the scores about the node alone, for each of these nodes, which fit.
    pub(super) fn points(&self, nodes: &[NodeId], totals: &mut Vec<i64>) {
        let mut equal = 0;
        let mut unequal: Vec<(&Relative, i64)> = Vec::new();
        for relative in &self.relative {
            let most = if relative.most() == 0 {
                0
            } else {
                nodes.iter().map(|node| relative.raw[node.index()]).max().unwrap_or_default()
            };
            if most == 0 {
                // Nearly always: nobody has any, so all are equal.
                equal += relative.weight * relative.score.normalise.apply(0, 0);
            } else {
                unequal.push((relative, most));
            }
        }
        totals.clear();
        totals.extend(nodes.iter().map(|node| self.settled[node.index()] + equal));
        for (relative, most) in unequal {
            for (total, node) in totals.iter_mut().zip(nodes) {
                *total += relative.weighted(node.index(), most);
            }
        }
    }

    /// Why nodes do not fit: the reasons, and how many nodes have them.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&[Refusal], usize)> {
        self.meanings.iter().skip(2).filter(|(_, nodes)| *nodes > 0).map(|(meaning, nodes)| (&meaning[..], *nodes))
    }

    /// Why this node does not fit; nothing if it does, or is no node.
    pub(super) fn refusals_of(&self, node: NodeId) -> &[Refusal] {
        let cause = self.causes.get(node.index()).copied().unwrap_or(ABSENT);
        self.meanings.get(usize::from(cause)).map_or(&[], |(meaning, _)| meaning)
    }

    /// What could change the mind of the filters that refused.
    pub(super) fn helped_by(&self) -> Hints {
        let reasons = self.refused().flat_map(|(reasons, _)| reasons);
        reasons.fold(Hints::NODE_ADDED, |hints, reason| hints.and(reason.helped_by()))
    }
}

/// Why a node is refused by the filters about the node alone: what the first that refuses it says.
pub(super) fn refusals(cluster: Cluster<'_>, asked: &Asked, node: NodeId) -> Vec<Refusal> {
    let mut reasons = Vec::new();
    for filter in &asked.rulebook.filters {
        (filter.check)(cluster, node, &asked.question, &mut reasons);
        if !reasons.is_empty() {
            break;
        }
    }
    reasons
}

/// A node's lot, from the seed and its name: which row it has plays no part.
pub(super) fn lot(seed: u64, name_hash: u64) -> u64 {
    let bits = (seed ^ name_hash).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// One evaluation that is kept, and its question with it: the next pod of a template often comes after the last has been
/// bound, and finds everything as it was left.
#[derive(Clone, Debug)]
struct Kept {
    used: u64,
    asked: Arc<Asked>,
    evaluation: Evaluation,
}

/// The evaluations of the questions that were asked last, by question and priority.
#[derive(Clone, Debug, Default)]
pub(super) struct Evaluations {
    all: BTreeMap<(u64, i32), Kept>,
    uses: u64,
}

impl Evaluations {
    /// Makes room for one more; the questions that are not kept any longer are to be released.
    pub(super) fn make_room(&mut self, asked: &Asked, priority: i32, rows: usize) -> Vec<Arc<Asked>> {
        let mut dropped = Vec::new();
        if self.all.contains_key(&(asked.number, priority)) {
            return dropped;
        }
        let most = (MAX_ROWS / rows.max(1)).clamp(1, MAX_EVALUATIONS);
        while self.all.len() >= most {
            let oldest = self.all.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
            let Some(kept) = oldest.and_then(|oldest| self.all.remove(&oldest)) else { break };
            dropped.push(kept.asked);
        }
        dropped
    }

    /// The evaluation of a question, up to date.
    pub(super) fn of(&mut self, asked: &Arc<Asked>, priority: i32, cluster: Cluster<'_>, seed: u64) -> &Evaluation {
        self.uses += 1;
        let fresh =
            || Kept { used: 0, asked: Arc::clone(asked), evaluation: Evaluation { priority, ..Evaluation::default() } };
        let kept = self.all.entry((asked.number, priority)).or_insert_with(fresh);
        kept.used = self.uses;
        kept.evaluation.refresh(cluster, asked, seed);
        &kept.evaluation
    }
}
