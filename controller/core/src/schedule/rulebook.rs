//! The rules of one profile, compiled: which filters and scores are on, with weights, in the order of the tables. A
//! question carries the number of its rulebook, so pods of two profiles never share an evaluation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::config::{DefaultSpread, Preference, Profile, ScoringStrategy};
use super::filters::{FILTERS, Filter, POD_FILTERS, PodFilter};
use super::question::{Question, Weighed};
use super::scores::{MOST_ALLOCATED, POD_SCORES, PodScore, SCORES, Score};
use super::symbols::{Resource, Symbols};
use super::terms::Term;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Rulebook {
    number: u16,
    /// `schedulerName`
    pub(super) name: Arc<str>,
    pub(super) filters: Vec<&'static Filter>,
    pub(super) pod_filters: Vec<&'static PodFilter>,
    /// With weights.
    pub(super) scores: Vec<(&'static Score, i64)>,
    /// With weights.
    pub(super) pod_scores: Vec<(&'static PodScore, i64)>,
    /// Whether preemption is tried.
    pub(super) preempts: bool,
    /// Whether a pod goes to no other nodes than its required node affinity names.
    pub(super) obeys_node_affinity: bool,
    /// What required affinity of existing pods counts in scores.
    pub(super) hard_affinity_weight: i64,
    /// Whether a pod that has no preferences among pods is not scored by those of others.
    pub(super) ignores_preferences_of_others: bool,
    /// Constraints of pods that state none, without a selector, and whether they are the system's own.
    pub(super) default_spread: (Vec<Value>, bool),
    /// Required and preferred terms of `addedAffinity`.
    enforced: Option<Vec<Term>>,
    preferred: Vec<(i64, Term)>,
    /// Resources that are scored, with weights; `None` for cpu and memory alike.
    scored: Option<Vec<ScoredResource>>,
}

/// A resource of the scoring strategy.
#[derive(Clone, Copy, Debug)]
struct ScoredResource {
    resource: Resource,
    weight: i64,
    /// Neither cpu nor memory nor storage: a pod that does not ask for it is not scored by it.
    is_scalar: bool,
}

/// Every profile's.
#[derive(Clone, Debug)]
pub(super) struct Rulebooks {
    all: Vec<Arc<Rulebook>>,
    by_name: BTreeMap<Arc<str>, Arc<Rulebook>>,
}

impl Rulebooks {
    /// Compiles all profiles.
    pub(super) fn compile(profiles: &[Profile], symbols: &mut Symbols) -> Self {
        let all: Vec<Arc<Rulebook>> = (0..)
            .zip(profiles)
            .map(|(number, profile)| Arc::new(Rulebook::compile(number, profile, symbols)))
            .collect();
        let by_name = all.iter().map(|rulebook| (Arc::clone(&rulebook.name), Arc::clone(rulebook))).collect();
        Self { all, by_name }
    }

    /// That of pods with this `schedulerName`.
    pub(super) fn of(&self, scheduler_name: &str) -> Option<&Arc<Rulebook>> {
        self.by_name.get(scheduler_name)
    }

    /// The first, for pods that nobody here places.
    pub(super) fn first(&self) -> &Arc<Rulebook> {
        &self.all[0]
    }

    /// That of a question.
    pub(super) fn at(&self, question: &Question) -> &Arc<Rulebook> {
        self.all.get(usize::from(question.rulebook)).unwrap_or_else(|| self.first())
    }

    /// `"a", "b"`
    pub(super) fn names(&self) -> String {
        let names: Vec<String> = self.all.iter().map(|rulebook| format!("\"{}\"", rulebook.name)).collect();
        names.join(", ")
    }
}

impl Rulebook {
    fn compile(number: u16, profile: &Profile, symbols: &mut Symbols) -> Self {
        let is_on = |name: &str| profile.filters.contains(name);
        let weight = |name: &str| profile.scores.get(name).copied();
        let most_allocated = profile.scoring_strategy.preference == Preference::MostAllocated;
        let scores = SCORES.iter().filter_map(|score| {
            let replaced = most_allocated && score.name == MOST_ALLOCATED.name;
            Some((if replaced { MOST_ALLOCATED } else { score }, weight(score.name)?))
        });
        let pod_scores = POD_SCORES.iter().filter_map(|score| Some((score, weight(score.name)?)));
        let required = &profile.added_affinity["requiredDuringSchedulingIgnoredDuringExecution"];
        let preferred = &profile.added_affinity["preferredDuringSchedulingIgnoredDuringExecution"];
        Self {
            number,
            name: Arc::clone(&profile.scheduler_name),
            filters: FILTERS.iter().filter(|filter| is_on(filter.name)).collect(),
            pod_filters: POD_FILTERS.iter().filter(|filter| is_on(filter.name)).collect(),
            scores: scores.collect(),
            pod_scores: pod_scores.collect(),
            preempts: profile.preempts,
            obeys_node_affinity: is_on("NodeAffinity"),
            hard_affinity_weight: profile.hard_pod_affinity_weight,
            ignores_preferences_of_others: profile.ignore_preferred_terms_of_existing_pods,
            default_spread: default_spread(&profile.default_spread),
            enforced: Term::compile_required(required, symbols),
            preferred: Term::compile_preferred(preferred, symbols),
            scored: scored(&profile.scoring_strategy, symbols),
        }
    }

    /// Adds what the profile says to what the pod asks.
    pub(super) fn inscribe(&self, mut question: Question) -> Question {
        question.rulebook = self.number;
        question.enforced.clone_from(&self.enforced);
        question.preferred.extend(self.preferred.iter().cloned());
        question.weighed = self.scored.as_ref().map(|resources| {
            let weighed = resources.iter().filter_map(|scored| {
                let ScoredResource { resource, weight, is_scalar } = *scored;
                let amount = match question.scored.get(resource.index()) {
                    Some(amount) => *amount,
                    None => question.request(resource),
                };
                // A device that the pod does not ask for says nothing of where it had better be.
                (!is_scalar || amount > 0).then_some(Weighed { resource, weight, amount })
            });
            weighed.collect()
        });
        question
    }
}

/// The constraints, and whether they are the system's own (TSC-05).
fn default_spread(stated: &DefaultSpread) -> (Vec<Value>, bool) {
    match stated {
        DefaultSpread::List(constraints) => (constraints.clone(), false),
        DefaultSpread::System => {
            let constraint = |skew: i64, key: &str| json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"});
            (vec![constraint(3, "kubernetes.io/hostname"), constraint(5, "topology.kubernetes.io/zone")], true)
        }
    }
}

fn scored(strategy: &ScoringStrategy, symbols: &mut Symbols) -> Option<Vec<ScoredResource>> {
    let mut sorted = strategy.resources.clone();
    sorted.sort();
    if sorted == ScoringStrategy::default().resources {
        return None;
    }
    let scored = strategy.resources.iter().map(|(name, weight)| ScoredResource {
        resource: symbols.resource(name),
        weight: *weight,
        is_scalar: !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage"),
    });
    Some(scored.collect())
}
