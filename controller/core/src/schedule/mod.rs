//! The scheduler: small named rules over dense arrays (SCH-01 to SCH-06).
//!
//! *In:* every change of the staged view, and the time. *Out:* a binding, or why there is none, one pod at a time.
//! *Must never know:* how a plan is carried out; the API.
//! *Tested:* tables for each rule, and a property against an oracle that looks at plain objects.
//!
//! Changes come in by [`observe`]. A pod's spec is compiled into a [`Question`] once, and its profile ([`config`],
//! [`rulebook`]) says by which rules it is answered; nodes are rows of a table of integers, in which the sums of what pods
//! use are kept with every change. [`filters`] say where a pod cannot go, [`scores`] where it had better go, [`decide`]
//! chooses, [`queue`] says who is next. There are no assumed pods: a binding comes back through [`Scheduler::observe`]
//! before the next decision. Pods that ask the same share their question, and what was found of nodes for it
//! ([`evaluation`]).

pub mod config;

mod slots;
mod symbols;

mod requests;
mod terms;

mod question;

mod amounts;
mod hints;
mod images;
mod nodes;

mod census;
mod rules;

mod nominations;
mod overlay;

mod filters;
mod scores;

mod tournament;

mod rulebook;

mod evaluation;

mod decide;

mod preempt;

mod services;

mod storage;

mod observe;

mod renewal;

mod compaction;

mod queue;
mod strangers;

mod words;

mod explain;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_model::Millis;

use crate::clock::Now;
use crate::object::{Key, Object, Uid};
use crate::plan::Plan;
use crate::recent::Recent;
pub use crate::rows::SCHEDULER_NAME;
use crate::view::View;

use census::Census;
use compaction::Successor;
use config::Configuration;
use decide::Decision;
pub use decide::{Explanation, Points, Reason, Verdict};
use evaluation::Evaluations;
pub use explain::{
    Chronicle, Detail, MAX_LIMIT, NodeCounts, NodeReason, NodeVerdict, Outlook, Placement, PlacementState, ReasonCount,
    RulePoints, Victim,
};
use hints::Hints;
use nodes::{NodeId, Nodes};
use nominations::{Nominations, Nominee};
use overlay::{Cluster, Seen};
use preempt::{Budgets, Preemption, Preemptions, Residents};
use question::{Asking, DefaultSpread, Question, labels_of};
use queue::{Queue, Rank};
use rulebook::Rulebooks;
use rules::{Asked, Questions};
use services::Services;
use storage::Storage;
pub(crate) use storage::set_aside;
use strangers::Strangers;
use symbols::{Symbol, Symbols};
use terms::Labels;

/// Places pods on nodes.
#[derive(Clone, Debug)]
pub struct Scheduler {
    seed: u64,
    configuration: Arc<Configuration>,
    /// How many words there were when this one took over.
    words_at_first: usize,
    /// One that is to take over, and does not know everything yet.
    successor: Option<Successor>,
    rulebooks: Rulebooks,
    symbols: Symbols,
    nodes: Nodes,
    census: Census,
    nominations: Nominations,
    residents: Residents,
    budgets: Budgets,
    services: Services,
    storage: Storage,
    /// The questions that were compiled last; of services as they are now.
    compiled: Recent<Asking, Question>,
    questions: Questions,
    evaluations: Evaluations,
    preemptions: Preemptions,
    queue: Queue,
    pods: BTreeMap<Key, Tracked>,
    strangers: Strangers,
    decision: Decision,
    /// How many pods have been put in line.
    order: u64,
    /// Every decision, explained; only where somebody wants to know.
    chronicle: Option<(Detail, Chronicle)>,
}

/// A pod that waits for a node or uses one.
#[derive(Clone, Debug)]
struct Tracked {
    uid: Uid,
    seen: Seen,
    priority: i32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In line, perhaps with room held for it on a node.
    Waiting(Rank, Option<NodeId>),
    /// On a node's account.
    Bound(NodeId),
}

impl Scheduler {
    /// A scheduler with Kubernetes' defaults that knows of nothing yet. `seed` breaks ties between nodes that are equally
    /// good.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::configured(seed, &Configuration::default())
    }

    /// As [`Self::new`], with an operator's configuration.
    #[must_use]
    pub fn configured(seed: u64, configuration: &Configuration) -> Self {
        let mut symbols = Symbols::new();
        Self {
            seed,
            configuration: Arc::new(configuration.clone()),
            words_at_first: 0,
            successor: None,
            rulebooks: Rulebooks::compile(&configuration.profiles, &mut symbols),
            symbols,
            nodes: Nodes::default(),
            census: Census::default(),
            nominations: Nominations::default(),
            residents: Residents::default(),
            budgets: Budgets::default(),
            services: Services::default(),
            storage: Storage::default(),
            compiled: Recent::new(),
            questions: Questions::default(),
            evaluations: Evaluations::default(),
            preemptions: Preemptions::default(),
            queue: Queue::new(configuration.initial_back_off_ms, configuration.most_back_off_ms),
            strangers: Strangers::default(),
            pods: BTreeMap::new(),
            decision: Decision::default(),
            order: 0,
            chronicle: None,
        }
    }

    /// What the rules of its profile see of a pod that is not bound; to be released. One that nobody here places is seen as
    /// by the first profile.
    fn see(&mut self, view: &View, pod: &Object) -> Seen {
        let (namespace, labels) = (self.symbols.intern(pod.namespace()), labels_of(pod, &mut self.symbols));
        let question = self.question(view, pod, namespace, labels.clone()).of_now(&self.nodes, &self.storage);
        let asked = self.questions.acquire(&question, &self.rulebooks, &mut self.census, &self.nodes, &self.symbols);
        Seen { asked, class: self.census.class(namespace, labels, &self.symbols), ending: false }
    }

    fn question(&mut self, view: &View, pod: &Object, namespace: Symbol, labels: Labels) -> Question {
        let row = pod.row.pod();
        let own = row.and_then(|row| self.rulebooks.of(row.scheduler()));
        let rulebook = Arc::clone(own.unwrap_or_else(|| self.rulebooks.first()));
        let controller = pod.controller().and_then(|owner| view.by_uid(owner.uid));
        let asking = Asking {
            spec: pod.spec_text(),
            node: row.and_then(|row| row.node.clone()),
            namespace,
            labels,
            controller: controller.map(|controller| (controller.uid, controller.revision)),
            profile: Arc::clone(&rulebook.name),
        };
        let Self { compiled, services, symbols, .. } = self;
        compiled.find_or_make(asking, |asking| {
            let (constraints, is_system) = &rulebook.default_spread;
            let selector = services.default_selector(view, pod);
            let spread = DefaultSpread { constraints, selector, is_system: *is_system };
            rulebook.inscribe(Question::compile(pod, &asking.labels, &spread, symbols))
        })
    }

    fn release(&mut self, seen: Seen) {
        self.census.release_class(seen.class);
        self.release_question(seen.asked);
    }

    fn release_question(&mut self, asked: Arc<Asked>) {
        if let Some(number) = self.questions.release(asked, &mut self.census) {
            self.preemptions.forget(number);
        }
    }

    /// So that an evaluation of this question can be kept.
    fn make_room(&mut self, seen: &Seen, priority: i32) {
        for asked in self.evaluations.make_room(&seen.asked, priority, self.nodes.rows()) {
            self.release_question(asked);
        }
    }

    /// Room that was held is held no more, which helps others unless the same pod takes it (`next`).
    fn drop_nomination(&mut self, key: &Key, state: State, next: Option<NodeId>, now: Now) {
        if let State::Waiting(_, Some(node)) = state {
            drop(self.nominations.remove(node, key));
            self.nodes.unhold(node);
            if next != Some(node) {
                self.queue.happened(Hints::POD_GONE, now.mono);
            }
        }
    }

    /// Decides on the next pod that is due: a binding, or the condition and the event that say why there is none.
    /// `None` when no pod is due. Pods that no profile is for get their event first.
    pub fn step(&mut self, view: &View, now: Now) -> Option<Plan> {
        while let Some((key, uid)) = self.strangers.take_untold() {
            let pod = view.get_same(&key, uid);
            if let Some(plan) = pod.and_then(|pod| words::unknown_scheduler(view, pod, &self.rulebooks.names())) {
                return Some(plan);
            }
        }
        self.compact_if_crowded(view, now);
        loop {
            let (rank, key) = self.queue.take(now.mono)?;
            let Some(tracked) = self.pods.get(&key).cloned() else {
                self.queue.remove(rank);
                continue;
            };
            let Some(pod) = view.get_same(&key, tracked.uid).cloned() else {
                self.forget(&key, now);
                continue;
            };
            let tracked = self.renewed(view, &pod, tracked);
            let chosen = self.choose(&key, &tracked);
            if self.chronicle.is_some() {
                self.write_down(view, &pod, chosen);
            }
            if let Some(node) = chosen {
                let mut plan = words::bind(&pod, self.nodes.name(node));
                plan.writes.splice(0..0, self.set_aside(view, &tracked, node));
                return Some(plan);
            }
            self.queue.failed(rank, self.decision.helped_by, now.mono);
            let message = self.decision.message(self.cluster());
            let preemption = self.preempt(&pod, &tracked);
            return Some(words::unschedulable(view, &pod, message, preemption, now));
        }
    }

    /// The node for a pod: the one that is held for it, if it fits there, else the best.
    fn choose(&mut self, key: &Key, tracked: &Tracked) -> Option<NodeId> {
        if let State::Waiting(_, Some(node)) = tracked.state {
            let cluster = self.cluster();
            let overlay = cluster.nominations.held_except(node, tracked.priority, Some(key));
            let held = Cluster { overlay: overlay.as_ref(), ..cluster };
            let fits = |cluster| decide::check(cluster, &tracked.seen.asked, tracked.seen.class, node).is_ok();
            if cluster.nodes.is_present(node) && fits(cluster) && (overlay.is_none() || fits(held)) {
                return Some(node);
            }
        }
        self.decide(&tracked.seen, tracked.priority);
        self.decision.best
    }

    /// When [`Scheduler::step`] has something to do again, if nothing changes before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        self.queue.wake_at()
    }

    /// Where a pod would go now, and why: for a pod that waits, and for one that is only thought of.
    pub fn explain(&mut self, view: &View, pod: &Object) -> Explanation {
        let own = self.stand_aside(&pod.key);
        let explanation = self.explain_free(view, pod);
        self.stand_again(own);
        explanation
    }

    fn explain_free(&mut self, view: &View, pod: &Object) -> Explanation {
        let seen = self.see(view, pod);
        let priority = pod.row.pod().map_or(0, |row| row.priority);
        self.make_room(&seen, priority);
        let Self { nodes, symbols, census, nominations, storage, evaluations, seed, .. } = self;
        let cluster = Cluster { nodes, symbols, census, nominations, storage, overlay: None };
        let evaluation = evaluations.of(&seen.asked, priority, cluster, *seed);
        let explanation = decide::explain(cluster, evaluation, &seen.asked, seen.class);
        self.release(seen);
        explanation
    }

    const fn cluster(&self) -> Cluster<'_> {
        let Self { nodes, symbols, census, nominations, storage, .. } = self;
        Cluster { nodes, symbols, census, nominations, storage, overlay: None }
    }

    fn decide(&mut self, seen: &Seen, priority: i32) {
        let named = if seen.asked.rulebook.obeys_node_affinity { seen.asked.question.only() } else { None };
        if let Some(names) = named {
            let Self { nodes, symbols, census, nominations, storage, decision, seed, .. } = self;
            let cluster = Cluster { nodes, symbols, census, nominations, storage, overlay: None };
            let rows = names.iter().filter_map(|name| nodes.find(symbols.text(*name)));
            let rows: Vec<NodeId> = rows.filter(|node| nodes.is_present(*node)).collect();
            return decision.decide_among(cluster, &rows, &seen.asked, (seen.class, priority, *seed));
        }
        self.make_room(seen, priority);
        let Self { nodes, symbols, census, nominations, storage, evaluations, decision, seed, .. } = self;
        let cluster = Cluster { nodes, symbols, census, nominations, storage, overlay: None };
        let evaluation = evaluations.of(&seen.asked, priority, cluster, *seed);
        decision.decide(cluster, evaluation, &seen.asked, seen.class);
    }

    /// Takes away the room that is held for a pod, so that it is not in its own way; until [`Self::stand_again`].
    fn stand_aside(&mut self, key: &Key) -> Option<(NodeId, Nominee)> {
        let Some(State::Waiting(_, Some(node))) = self.pods.get(key).map(|tracked| tracked.state) else { return None };
        self.nodes.changed(node);
        Some((node, self.nominations.remove(node, key)?))
    }

    fn stand_again(&mut self, own: Option<(NodeId, Nominee)>) {
        if let Some((node, nominee)) = own {
            self.nodes.changed(node);
            self.nominations.add(node, nominee);
        }
    }
}
