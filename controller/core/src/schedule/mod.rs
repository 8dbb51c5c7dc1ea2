//! The scheduler: small named rules over dense arrays (SCH-01 to SCH-06).
//!
//! *In:* every change of the staged view, and the time. *Out:* a binding, or why there is none, one pod at a time.
//! *Must never know:* how a plan is carried out; the API.
//! *Tested:* tables for each rule, and a property against an oracle that looks at plain objects.
//!
//! A pod's spec is compiled into a [`Question`] once; nodes are rows of a table of integers, in which the sums of what
//! pods use are kept with every change. [`filters`] say where a pod cannot go, [`scores`] where it had better go,
//! [`decide`] chooses, [`queue`] says who is next. There are no assumed pods: a binding comes back through
//! [`Scheduler::observe`] before the next decision. Pods that ask the same share their question, which is where one
//! evaluation for many of them can hook in.

mod slots;
mod symbols;

mod requests;
mod terms;

mod question;

mod hints;
mod nodes;

mod census;
mod rules;

mod nominations;
mod overlay;

mod filters;
mod scores;

mod tournament;

mod evaluation;

mod decide;

mod preempt;

mod services;

mod queue;

mod words;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_model::Millis;
use serde_json::{Value, json};

use crate::clock::Now;
use crate::kind::Kind;
use crate::object::{Key, Object, Uid};
use crate::plan::Plan;
use crate::rows::PodRow;
pub use crate::rows::SCHEDULER_NAME;
use crate::store::{Action, Change};
use crate::view::View;

use census::Census;
use decide::Decision;
pub use decide::{Explanation, Points, Reason, Verdict};
use evaluation::Evaluations;
use hints::Hints;
use nodes::{NodeId, Nodes};
use nominations::{Nominations, Nominee};
use overlay::{Cluster, Seen};
use preempt::{Budgets, Preemptions, Preemptor, Resident, Residents, Scene, Victims};
use question::{DefaultSpread, Question, labels_of};
use queue::{Queue, Rank};
use rules::{Asked, Questions};
use services::Services;
use symbols::Symbols;

/// Places pods on nodes.
#[derive(Clone, Debug)]
pub struct Scheduler {
    seed: u64,
    symbols: Symbols,
    nodes: Nodes,
    census: Census,
    nominations: Nominations,
    residents: Residents,
    budgets: Budgets,
    services: Services,
    questions: Questions,
    evaluations: Evaluations,
    preemptions: Preemptions,
    queue: Queue,
    pods: BTreeMap<Key, Tracked>,
    decision: Decision,
    system_spread: Vec<Value>,
    /// How many pods have been put in line.
    order: u64,
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
    /// A scheduler that knows of nothing yet. `seed` breaks ties between nodes that are equally good.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            symbols: Symbols::new(),
            nodes: Nodes::default(),
            census: Census::default(),
            nominations: Nominations::default(),
            residents: Residents::default(),
            budgets: Budgets::default(),
            services: Services::default(),
            questions: Questions::default(),
            evaluations: Evaluations::default(),
            preemptions: Preemptions::default(),
            queue: Queue::default(),
            pods: BTreeMap::new(),
            decision: Decision::default(),
            system_spread: vec![
                json!({"maxSkew": 3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}),
                json!({"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}),
            ],
            order: 0,
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
        if gone || row.phase.is_terminal() {
            return;
        }
        match &row.node {
            Some(node) => self.observe_bound(pod, row, node, now),
            None if waits(pod, row) => self.observe_waiting(view, pod, row, now),
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
        let asked = self.questions.acquire(question, &mut self.census, &self.nodes, &self.symbols);
        let namespace = self.symbols.intern(pod.namespace());
        let class = self.census.class(namespace, labels, &self.symbols);
        let seen = Seen { asked, class, ending: pod.is_deleting() };
        let place = self.nodes.reserve(node, &seen.asked.question);
        rules::arrive(&seen, place, &mut self.census);
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

    /// What rules see of a pod that is not bound; to be released.
    fn see(&mut self, view: &View, pod: &Object) -> Seen {
        let labels = labels_of(pod, &mut self.symbols);
        let selector = self.services.default_selector(view, pod);
        let spread = DefaultSpread { constraints: &self.system_spread, selector, is_system: true };
        let question = Question::compile(pod, &labels, &spread, &mut self.symbols);
        let asked = self.questions.acquire(question, &mut self.census, &self.nodes, &self.symbols);
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
        self.residents.unset(place, key);
        self.nodes.release(place, &tracked.seen.asked.question);
        self.release(tracked.seen);
        self.queue.happened(Hints::POD_GONE, now.mono);
    }

    /// Decides on the next pod that is due: a binding, or the condition and the event that say why there is none.
    /// `None` when no pod is due.
    pub fn step(&mut self, view: &View, now: Now) -> Option<Plan> {
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
            if let Some(node) = self.choose(&key, &tracked) {
                return Some(words::bind(&pod, self.nodes.name(node)));
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
        let Self { nodes, symbols, census, nominations, evaluations, seed, .. } = self;
        let cluster = Cluster { nodes, symbols, census, nominations, overlay: None };
        let evaluation = evaluations.of(&seen.asked, priority, cluster, *seed);
        let explanation = decide::explain(cluster, evaluation, &seen.asked, seen.class);
        self.release(seen);
        explanation
    }

    const fn cluster(&self) -> Cluster<'_> {
        let Self { nodes, symbols, census, nominations, .. } = self;
        Cluster { nodes, symbols, census, nominations, overlay: None }
    }

    fn decide(&mut self, seen: &Seen, priority: i32) {
        if let Some(names) = seen.asked.question.only() {
            let Self { nodes, symbols, census, nominations, decision, seed, .. } = self;
            let cluster = Cluster { nodes, symbols, census, nominations, overlay: None };
            let rows = names.iter().filter_map(|name| nodes.find(symbols.text(*name)));
            let rows: Vec<NodeId> = rows.filter(|node| nodes.is_present(*node)).collect();
            return decision.decide_among(cluster, &rows, &seen.asked, (seen.class, priority, *seed));
        }
        self.make_room(seen, priority);
        let Self { nodes, symbols, census, nominations, evaluations, decision, seed, .. } = self;
        let cluster = Cluster { nodes, symbols, census, nominations, overlay: None };
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

    /// Looks for victims for a pod that fits nowhere.
    fn preempt(&mut self, pod: &Object, tracked: &Tracked) -> Preemption {
        if pod.head()["spec"]["preemptionPolicy"] == "Never" {
            return Preemption::None("not eligible due to preemptionPolicy=Never.".to_owned());
        }
        let own = self.stand_aside(&pod.key);
        let preemption = self.look_for_victims(tracked);
        self.stand_again(own);
        preemption
    }

    fn look_for_victims(&mut self, tracked: &Tracked) -> Preemption {
        self.make_room(&tracked.seen, tracked.priority);
        let Self { nodes, symbols, census, nominations, evaluations, preemptions, residents, budgets, seed, .. } = self;
        let cluster = Cluster { nodes, symbols, census, nominations, overlay: None };
        let evaluation = evaluations.of(&tracked.seen.asked, tracked.priority, cluster, *seed);
        let nominated = match tracked.state {
            State::Waiting(_, node) => node,
            State::Bound(_) => None,
        };
        if let Some(node) = nominated {
            let for_good = evaluation.refusals_of(node).iter().any(|refusal| refusal.is_for_good());
            let going = |resident: &Arc<Resident>| resident.is_preempted && resident.priority < tracked.priority;
            if !for_good && residents.on(node).iter().any(going) {
                return Preemption::Waits;
            }
        }
        let preemptor = Preemptor { asked: &tracked.seen.asked, class: tracked.seen.class, priority: tracked.priority };
        let scene = Scene { cluster, evaluation, residents, budgets };
        let Some((node, victims)) = preemptions.best(scene, preemptor) else {
            return Preemption::None(preempt::message(scene, preemptor));
        };
        let lower = nominations.on(node).iter().filter(|nominee| nominee.priority < tracked.priority);
        let losers = lower.map(|nominee| nominee.key.clone()).collect();
        Preemption::Victims { node: Arc::clone(nodes.name(node)), victims, losers }
    }
}

/// What preemption came to.
enum Preemption {
    /// Nobody can be made to go, with why.
    None(String),
    /// Victims are on their way out already.
    Waits,
    /// These go, and the room is held; these others lose theirs.
    Victims { node: Arc<str>, victims: Victims, losers: Vec<Key> },
}

/// A pod that is bound has no use for defaults.
const NO_DEFAULTS: DefaultSpread<'static> = DefaultSpread { constraints: &[], selector: Value::Null, is_system: true };

fn resident(pod: &Object, row: &PodRow, seen: Seen) -> Resident {
    // Kubernetes takes one that has not started as starting now.
    let started_ms = row.started_ms.unwrap_or(u64::MAX);
    let is_preempted = pod.is_deleting() && words::is_preempted(&pod.status());
    Resident { key: pod.key.clone(), priority: row.priority, started_ms, is_preempted, seen }
}

/// Whether an unbound pod is one to be placed here (SCH-03).
fn waits(pod: &Object, row: &PodRow) -> bool {
    row.scheduler() == SCHEDULER_NAME && !row.gated && !pod.is_deleting()
}
