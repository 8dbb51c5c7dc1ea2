//! A question together with its places in the census: what all pods that ask it share.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::census::{Census, ClassId, CounterId, Counting, EligibilityId, Matcher, MatcherId};
use super::nodes::{NodeId, Nodes};
use super::overlay::{Cluster, Seen};
use super::question::{PodTerm, Question};
use super::rulebook::{Rulebook, Rulebooks};
use super::symbols::Symbols;

/// A question that is asked now, with its counters.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Tells it from every other question there has ever been.
    pub(super) number: u64,
    pub(super) question: Question,
    /// The rules by which a pod that asks this is placed.
    pub(super) rulebook: Arc<Rulebook>,
    /// One a spread constraint.
    pub(super) spread: Vec<CounterId>,
    /// One a term of required affinity; each counts pods that all terms mean.
    pub(super) affinity: Vec<CounterId>,
    /// One a term of required anti-affinity.
    pub(super) anti_affinity: Vec<CounterId>,
    /// One a preferred term.
    pub(super) preferred: Vec<CounterId>,
    /// What a pod that asks this holds once it is bound, with its weight; in order.
    held: Vec<(CounterId, i64)>,
    matchers: Vec<MatcherId>,
    eligibilities: Vec<EligibilityId>,
}

impl Asked {
    /// What a pod that asks this holds of a counter once it is bound.
    pub(super) fn held(&self, counter: CounterId) -> i64 {
        let from = self.held.partition_point(|(known, _)| *known < counter);
        self.held[from..].iter().take_while(|(known, _)| *known == counter).map(|(_, weight)| *weight).sum()
    }

    /// Whether a pod that asks this refuses to be on a node together with pods of a class.
    pub(super) fn refuses(&self, class: ClassId, node: NodeId, cluster: Cluster<'_>) -> bool {
        let meant = |counter: &&CounterId| cluster.census.is_meant(class, cluster.census.matcher_of(**counter));
        self.anti_affinity.iter().filter(meant).any(|counter| {
            let domains = cluster.census.domains(cluster.census.topology_of(*counter));
            domains.get(node.index()).is_some_and(|domain| !domain.is_none())
        })
    }

    /// What is there of other pods has nothing to say of where this pod may go, as far as its own question is concerned.
    pub(super) const fn is_about_nodes_alone(&self) -> bool {
        self.spread.is_empty() && self.affinity.is_empty() && self.anti_affinity.is_empty() && self.preferred.is_empty()
    }
}

/// The questions that are asked now; pods that ask the same share one.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions {
    all: BTreeMap<Question, Arc<Asked>>,
    numbers: u64,
}

impl Questions {
    /// The question with its counters; to be released.
    pub(super) fn acquire(
        &mut self,
        question: &Question,
        rulebooks: &Rulebooks,
        census: &mut Census,
        nodes: &Nodes,
        symbols: &Symbols,
    ) -> Arc<Asked> {
        if let Some(known) = self.all.get(question) {
            return Arc::clone(known);
        }
        let eligibilities = question.eligibilities.iter();
        let eligibilities: Vec<EligibilityId> =
            eligibilities.map(|eligibility| census.eligibility(eligibility, nodes, symbols)).collect();
        let mut maker = Maker { census, nodes, symbols, matchers: Vec::new() };
        let spread = question.spread.iter();
        let spread = spread
            .map(|constraint| {
                let counting = Counting::Spread(eligibilities[constraint.eligibility]);
                maker.counter(constraint.pods.clone(), constraint.key, counting)
            })
            .collect();
        let affinity = maker.counters_of_all(&question.affinity);
        let one = |term: &PodTerm| Matcher(vec![term.pods.clone()]);
        let anti = question.anti_affinity.iter();
        let anti_affinity = anti.map(|term| maker.counter(one(term), term.key, Counting::Matching)).collect();
        let preferred = question.preferred_pods.iter();
        let preferred = preferred.map(|(_, term)| maker.counter(one(term), term.key, Counting::Matching)).collect();
        let mut held = Vec::new();
        for term in &question.anti_affinity {
            held.push((maker.counter(one(term), term.key, Counting::Refusing), 1));
        }
        for term in &question.affinity {
            held.push((maker.counter(one(term), term.key, Counting::Requiring), 1));
        }
        for (weight, term) in &question.preferred_pods {
            held.push((maker.counter(one(term), term.key, Counting::Preferring), *weight));
        }
        held.sort_unstable();
        let matchers = maker.matchers;
        let rulebook = Arc::clone(rulebooks.at(question));
        self.numbers += 1;
        let number = self.numbers;
        let asked = Arc::new(Asked {
            number,
            question: question.clone(),
            rulebook,
            spread,
            affinity,
            anti_affinity,
            preferred,
            held,
            matchers,
            eligibilities,
        });
        self.all.insert(question.clone(), Arc::clone(&asked));
        asked
    }

    /// Forgets a question that nobody asks any more, and says its number then.
    pub(super) fn release(&mut self, asked: Arc<Asked>, census: &mut Census) -> Option<u64> {
        // This one and the table's.
        if Arc::strong_count(&asked) > 2 {
            return None;
        }
        self.all.remove(&asked.question);
        let own = asked.spread.iter().chain(&asked.affinity).chain(&asked.anti_affinity).chain(&asked.preferred);
        for counter in own.chain(asked.held.iter().map(|(counter, _)| counter)) {
            census.release_counter(*counter);
        }
        for matcher in &asked.matchers {
            census.release_matcher(*matcher);
        }
        for eligibility in &asked.eligibilities {
            census.release_eligibility(*eligibility);
        }
        Some(asked.number)
    }
}

struct Maker<'a> {
    census: &'a mut Census,
    nodes: &'a Nodes,
    symbols: &'a Symbols,
    matchers: Vec<MatcherId>,
}

impl Maker<'_> {
    fn matcher(&mut self, pods: Matcher) -> MatcherId {
        let matcher = self.census.matcher(pods, self.symbols);
        self.matchers.push(matcher);
        matcher
    }

    /// One a term, each of pods that all of the terms mean. There may be thousands of terms, so who is meant is found once.
    fn counters_of_all(&mut self, terms: &[PodTerm]) -> Vec<CounterId> {
        if terms.is_empty() {
            return Vec::new();
        }
        let matcher = self.matcher(Matcher(terms.iter().map(|term| term.pods.clone()).collect()));
        let counter = |term: &PodTerm| self.census.counter(matcher, term.key, Counting::Matching, self.nodes);
        terms.iter().map(counter).collect()
    }

    fn counter(&mut self, pods: Matcher, key: super::symbols::Symbol, counting: Counting) -> CounterId {
        let matcher = self.matcher(pods);
        self.census.counter(matcher, key, counting, self.nodes)
    }
}

/// A pod is on a node now.
pub(super) fn arrive(pod: &Seen, node: NodeId, census: &mut Census) {
    census.arrived(pod.class, node, pod.ending);
    for (counter, weight) in &pod.asked.held {
        census.held(*counter, node, *weight);
    }
}

/// It is gone.
pub(super) fn leave(pod: &Seen, node: NodeId, census: &mut Census) {
    census.left(pod.class, node, pod.ending);
    for (counter, weight) in &pod.asked.held {
        census.held(*counter, node, -*weight);
    }
}
