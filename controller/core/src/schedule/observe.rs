//! Changes of the view, taken over one by one: nodes, pods that wait or are bound, and what they are asked about.

use std::sync::Arc;

use serde_json::Value;

use super::hints::Hints;
use super::nodes::NodeId;
use super::nominations::Nominee;
use super::overlay::Seen;
use super::preempt::Resident;
use super::question::{DefaultSpread, Question, labels_of};
use super::queue::Rank;
use super::{Scheduler, State, Tracked, rules, services, words};
use crate::clock::Now;
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::rows::PodRow;
use crate::store::{Action, Change};
use crate::view::View;

impl Scheduler {
    /// Takes over one change of the staged view. At the start, every object is observed as added.
    pub fn observe(&mut self, view: &View, change: &Change, now: Now) {
        self.tell_successor(view, change, now);
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
            Kind::POD if change.is_of_status_alone() => self.observe_status(view, object, now),
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
        self.compiled.forget();
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
        let change = if gone { self.nodes.unset(node.name()) } else { self.nodes.set(node, &mut self.symbols) };
        let Some(change) = change else { return };
        self.queue.happened(change.hints, now.mono);
        self.census.node_changed(&change, &self.nodes, &self.symbols);
        if change.presence {
            self.storage.node_came_or_went(change.row);
        }
    }

    /// Nothing but the status of a pod has changed, so what is known of what it asks stays as it is.
    fn observe_status(&mut self, view: &View, pod: &Object, now: Now) {
        let bound = self.pods.get(&pod.key).and_then(|tracked| match tracked.state {
            State::Bound(place) if tracked.uid == pod.uid => Some((place, tracked.seen.clone())),
            State::Bound(_) | State::Waiting(..) => None,
        });
        match (bound, pod.row.pod().filter(|row| !row.phase.is_terminal())) {
            (Some((place, seen)), Some(row)) => {
                if self.residents.update(place, resident(pod, row, seen)) {
                    self.nodes.changed(place);
                }
            }
            _ => self.observe_pod(view, pod, false, now),
        }
    }

    pub(super) fn observe_pod(&mut self, view: &View, pod: &Object, gone: bool, now: Now) {
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
        let labels = labels_of(pod, &mut self.symbols);
        let namespace = self.symbols.intern(pod.namespace());
        let class = self.census.class(namespace, labels.clone(), &self.symbols);
        // A binding changes nothing of what the pod asks, so its JSON need not be read again.
        let waited = self.pods.get(&pod.key).filter(|waited| waited.seen.class == class);
        let question = match waited {
            Some(waited) => waited.seen.asked.question.of_bound(),
            None => Question::compile(pod, &labels, &NO_DEFAULTS, &mut self.symbols).of_bound(),
        };
        self.leave_line(&pod.key, self.nodes.find(node), now);
        let asked = self.questions.acquire(&question, &self.rulebooks, &mut self.census, &self.nodes, &self.symbols);
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
    pub(super) fn forget(&mut self, key: &Key, now: Now) {
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
}

/// A pod that is bound has no use for defaults.
const NO_DEFAULTS: DefaultSpread<'static> = DefaultSpread { constraints: &[], selector: Value::Null, is_system: true };

pub(super) fn resident(pod: &Object, row: &PodRow, seen: Seen) -> Resident {
    // Kubernetes takes one that has not started as starting now.
    let started_ms = row.started_ms.unwrap_or(u64::MAX);
    let is_preempted = pod.is_deleting() && words::is_preempted(&pod.status());
    Resident { key: pod.key.clone(), priority: row.priority, started_ms, is_preempted, seen }
}
