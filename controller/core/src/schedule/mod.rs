//! The scheduler: small named rules over dense arrays (SCH-01 to SCH-06).
//!
//! *In:* every change of the staged view, and the time. *Out:* a binding, or why there is none, one pod at a time.
//! *Must never know:* how a plan is carried out; the API.
//! *Tested:* tables for each rule, and a property against an oracle that looks at plain objects.
//!
//! A pod's spec is compiled into a [`Question`] once, and its profile ([`config`], [`rulebook`]) says by which rules it is
//! answered; nodes are rows of a table of integers, in which the sums of what
//! pods use are kept with every change. [`filters`] say where a pod cannot go, [`scores`] where it had better go,
//! [`decide`] chooses, [`queue`] says who is next. There are no assumed pods: a binding comes back through
//! [`Scheduler::observe`] before the next decision. Pods that ask the same share their question, which is where one
//! evaluation for many of them can hook in.

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

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_model::Millis;
use serde_json::Value;

use crate::clock::Now;
use crate::kind::Kind;
use crate::object::{Key, Object, Uid};
use crate::plan::Plan;
use crate::rows::PodRow;
pub use crate::rows::SCHEDULER_NAME;
use crate::store::{Action, Change};
use crate::view::View;

use census::Census;
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
use preempt::{Budgets, Preemption, Preemptions, Resident, Residents};
use question::{DefaultSpread, Question, labels_of};
use queue::{Queue, Rank};
use rulebook::Rulebooks;
use rules::{Asked, Questions};
use services::Services;
use storage::Storage;
pub(crate) use storage::set_aside;
use strangers::Strangers;
use symbols::Symbols;

/// Places pods on nodes.
#[derive(Clone, Debug)]
pub struct Scheduler {
    seed: u64,
    configuration: Arc<Configuration>,
    words_after_compaction: usize,
    rulebooks: Rulebooks,
    symbols: Symbols,
    nodes: Nodes,
    census: Census,
    nominations: Nominations,
    residents: Residents,
    budgets: Budgets,
    services: Services,
    storage: Storage,
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
            words_after_compaction: 0,
            rulebooks: Rulebooks::compile(&configuration.profiles, &mut symbols),
            symbols,
            nodes: Nodes::default(),
            census: Census::default(),
            nominations: Nominations::default(),
            residents: Residents::default(),
            budgets: Budgets::default(),
            services: Services::default(),
            storage: Storage::default(),
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

    /// Takes over one change of the staged view. At the start, every object is observed as added.
    pub fn observe(&mut self, view: &View, change: &Change, now: Now) {
        let gone = change.action == Action::Deleted;
        let object = &change.object;
        match object.key.kind {
            Kind::NODE => self.observe_node(object, gone, now),
            Kind::NAMESPACE if !gone => {
                let labels = labels_of(object, &mut self.symbols);
                let name = self.symbols.intern(object.name());
                self.census.namespace_changed(name, labels, &self.symbols);
                self.queue.happened(Hints::LABELS, now.mono);
            }
            Kind::POD => self.observe_pod(view, object, gone, now),
            Kind::POD_DISRUPTION_BUDGET if gone => self.budgets.unset(&object.key, &mut self.census),
            Kind::POD_DISRUPTION_BUDGET => self.budgets.set(object, &mut self.census, &mut self.symbols),
            Kind::SERVICE => self.observe_service(view, object, gone, now),
            Kind::PERSISTENT_VOLUME | Kind::PERSISTENT_VOLUME_CLAIM | Kind::STORAGE_CLASS => {
                self.observe_storage(view, object, gone, now);
            }
            _ => {}
        }
    }

    /// Pods that wait may be spread by other services than before.
    fn observe_service(&mut self, view: &View, service: &Object, gone: bool, now: Now) {
        let selectors = self.services.set(service, gone);
        if selectors.is_empty() {
            return;
        }
        let first = Key::new(Kind::POD, service.namespace(), "");
        let tracked = self.pods.range(first..).take_while(|(key, _)| key.namespace == service.key.namespace);
        let waiting = tracked.filter(|(_, tracked)| matches!(tracked.state, State::Waiting(..)));
        let pods: Vec<_> = waiting.filter_map(|(key, tracked)| view.get_same(key, tracked.uid)).cloned().collect();
        for pod in pods.iter().filter(|pod| selectors.iter().any(|selector| services::selects(selector, pod))) {
            if let Some(row) = pod.row.pod() {
                self.observe_waiting(view, pod, row, now);
            }
        }
    }

    fn observe_node(&mut self, node: &Object, gone: bool, now: Now) {
        let before = self.nodes.find(node.name());
        if gone {
            self.nodes.unset(node.name());
            // Its pods are in nobody's way any more, and its domain is not the emptiest any more.
            self.queue.happened(Hints::LABELS, now.mono);
        } else {
            let hints = self.nodes.set(node, &mut self.symbols);
            self.queue.happened(hints, now.mono);
        }
        if let Some(row) = before.or_else(|| self.nodes.find(node.name())) {
            self.census.node_changed(row, &self.nodes, &self.symbols);
        }
    }

    fn observe_pod(&mut self, view: &View, pod: &Object, gone: bool, now: Now) {
        let Some(row) = pod.row.pod() else { return };
        let stale = self.pods.get(&pod.key).is_some_and(|tracked| tracked.uid != pod.uid);
        if stale || gone || row.phase.is_terminal() {
            self.forget(&pod.key, now);
        }
        let is_over = gone || row.phase.is_terminal();
        let is_known = self.rulebooks.of(row.scheduler()).is_some();
        let asks = !is_over && row.node.is_none() && !row.gated && !pod.is_deleting();
        self.strangers.set(&pod.key, (asks && !is_known).then_some(pod.uid));
        if is_over {
            return;
        }
        match &row.node {
            Some(node) => self.observe_bound(pod, row, node, now),
            None if asks && is_known => self.observe_waiting(view, pod, row, now),
            None => self.forget(&pod.key, now),
        }
    }

    fn observe_bound(&mut self, pod: &Object, row: &PodRow, node: &Arc<str>, now: Now) {
        if let Some(Tracked { state: State::Bound(place), seen, .. }) = self.pods.get(&pod.key) {
            let (place, was) = (*place, seen.clone());
            return self.observe_bound_again(pod, row, place, was, now);
        }
        self.leave_line(&pod.key, self.nodes.find(node), now);
        let labels = labels_of(pod, &mut self.symbols);
        let question = Question::compile(pod, &labels, &NO_DEFAULTS, &mut self.symbols).of_bound();
        let asked = self.questions.acquire(question, &self.rulebooks, &mut self.census, &self.nodes, &self.symbols);
        let namespace = self.symbols.intern(pod.namespace());
        let class = self.census.class(namespace, labels, &self.symbols);
        let seen = Seen { asked, class, ending: pod.is_deleting() };
        let place = self.nodes.reserve(node, &seen.asked.question);
        rules::arrive(&seen, place, &mut self.census);
        self.storage.arrive(&seen.asked.question.claims, place);
        self.residents.set(place, resident(pod, row, seen.clone()));
        self.queue.happened(Hints::POD_ADDED, now.mono);
        let tracked = Tracked { uid: pod.uid, seen, priority: row.priority, state: State::Bound(place) };
        self.pods.insert(pod.key.clone(), tracked);
    }

    /// A bound pod never changes what it asks for; but its labels may, and it may be asked to end.
    fn observe_bound_again(&mut self, pod: &Object, row: &PodRow, place: NodeId, was: Seen, now: Now) {
        let labels = labels_of(pod, &mut self.symbols);
        let namespace = self.symbols.intern(pod.namespace());
        let class = self.census.class(namespace, labels, &self.symbols);
        let seen = Seen { class, ending: pod.is_deleting(), ..was.clone() };
        if class == was.class && seen.ending == was.ending {
            self.census.release_class(class);
            if self.residents.update(place, resident(pod, row, was)) {
                self.nodes.changed(place);
            }
            return;
        }
        rules::leave(&was, place, &mut self.census);
        rules::arrive(&seen, place, &mut self.census);
        self.census.release_class(was.class);
        self.residents.set(place, resident(pod, row, seen.clone()));
        self.nodes.changed(place);
        if let Some(tracked) = self.pods.get_mut(&pod.key) {
            tracked.seen = seen;
        }
        self.queue.happened(Hints::POD_ADDED.and(Hints::POD_GONE), now.mono);
    }

    fn observe_waiting(&mut self, view: &View, pod: &Object, row: &PodRow, now: Now) {
        let seen = self.see(view, pod);
        let status = pod.status();
        let nominated = status["nominatedNodeName"].as_str().filter(|node| !node.is_empty());
        let nominated = nominated.map(|node| self.nodes.hold(&node.into()));
        let (rank, changed) = match self.pods.get(&pod.key) {
            // Also when only its status changed: a pod that was decided on and not bound is tried again.
            Some(Tracked { state: State::Waiting(rank, _), seen: before, .. }) => {
                (*rank, before.asked.number != seen.asked.number || before.class != seen.class)
            }
            _ => {
                let rank = Rank::new(row.priority, pod.created_ms, self.order);
                self.order += 1;
                self.queue.add(rank, pod.key.clone());
                (rank, false)
            }
        };
        if changed {
            self.queue.wake(rank, now.mono);
        } else {
            self.queue.retry_taken(rank);
        }
        let before = self.pods.remove(&pod.key);
        if let Some(before) = before {
            self.drop_nomination(&pod.key, before.state, nominated.filter(|_| !changed), now);
            self.release(before.seen);
        }
        if let Some(node) = nominated {
            let nominee = Nominee { key: pod.key.clone(), priority: row.priority, seen: seen.clone() };
            self.nominations.add(node, nominee);
        }
        let state = State::Waiting(rank, nominated);
        self.pods.insert(pod.key.clone(), Tracked { uid: pod.uid, seen, priority: row.priority, state });
    }

    /// What the rules of its profile see of a pod that is not bound; to be released. One that nobody here places is seen as
    /// by the first profile.
    fn see(&mut self, view: &View, pod: &Object) -> Seen {
        let labels = labels_of(pod, &mut self.symbols);
        let selector = self.services.default_selector(view, pod);
        let own = pod.row.pod().and_then(|row| self.rulebooks.of(row.scheduler()));
        let rulebook = Arc::clone(own.unwrap_or_else(|| self.rulebooks.first()));
        let (constraints, is_system) = &rulebook.default_spread;
        let spread = DefaultSpread { constraints, selector, is_system: *is_system };
        let question = rulebook.inscribe(Question::compile(pod, &labels, &spread, &mut self.symbols));
        let question = question.of_now(&self.nodes, &self.storage);
        let asked = self.questions.acquire(question, &self.rulebooks, &mut self.census, &self.nodes, &self.symbols);
        let namespace = self.symbols.intern(pod.namespace());
        Seen { asked, class: self.census.class(namespace, labels, &self.symbols), ending: false }
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

    /// The pod does not wait any more; it may be bound now.
    fn leave_line(&mut self, key: &Key, bound: Option<NodeId>, now: Now) {
        let Some(tracked) = self.pods.remove(key) else { return };
        if let State::Waiting(rank, _) = tracked.state {
            self.queue.remove(rank);
        }
        self.drop_nomination(key, tracked.state, bound, now);
        self.release(tracked.seen);
    }

    /// The pod neither waits nor uses anything any more.
    fn forget(&mut self, key: &Key, now: Now) {
        let Some(Tracked { state: State::Bound(place), .. }) = self.pods.get(key) else {
            return self.leave_line(key, None, now);
        };
        let place = *place;
        let Some(tracked) = self.pods.remove(key) else { return };
        rules::leave(&tracked.seen, place, &mut self.census);
        self.storage.leave(&tracked.seen.asked.question.claims, place);
        self.residents.unset(place, key);
        self.nodes.release(place, &tracked.seen.asked.question);
        self.release(tracked.seen);
        self.queue.happened(Hints::POD_GONE, now.mono);
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

/// A pod that is bound has no use for defaults.
const NO_DEFAULTS: DefaultSpread<'static> = DefaultSpread { constraints: &[], selector: Value::Null, is_system: true };

fn resident(pod: &Object, row: &PodRow, seen: Seen) -> Resident {
    // Kubernetes takes one that has not started as starting now.
    let started_ms = row.started_ms.unwrap_or(u64::MAX);
    let is_preempted = pod.is_deleting() && words::is_preempted(&pod.status());
    Resident { key: pod.key.clone(), priority: row.priority, started_ms, is_preempted, seen }
}
