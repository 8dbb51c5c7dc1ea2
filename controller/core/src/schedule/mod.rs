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

mod symbols;

mod terms;

mod question;

mod hints;

mod nodes;

mod filters;
mod scores;

mod decide;

mod queue;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_model::Millis;
use serde_json::{Value, json};

use crate::clock::Now;
use crate::kind::Kind;
use crate::object::{Key, Object, Uid};
use crate::plan::{Note, Plan, Write};
use crate::rows::PodRow;
pub use crate::rows::SCHEDULER_NAME;
use crate::store::{Action, Change};
use crate::view::View;

use decide::Decision;
pub use decide::{Explanation, Points, Reason, Verdict};
use filters::Cluster;
use hints::Hints;
use nodes::{NodeId, Nodes};
use question::Question;
use queue::{Queue, Rank};
use symbols::Symbols;

/// Places pods on nodes.
#[derive(Clone, Debug)]
pub struct Scheduler {
    seed: u64,
    symbols: Symbols,
    nodes: Nodes,
    queue: Queue,
    pods: BTreeMap<Key, Tracked>,
    /// The questions that are asked now; pods that ask the same share one.
    questions: BTreeSet<Arc<Question>>,
    decision: Decision,
    /// How many pods have been put in line.
    order: u64,
}

/// A pod that waits for a node or uses one.
#[derive(Clone, Debug)]
struct Tracked {
    uid: Uid,
    question: Arc<Question>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In line.
    Waiting(Rank),
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
            queue: Queue::default(),
            pods: BTreeMap::new(),
            questions: BTreeSet::new(),
            decision: Decision::default(),
            order: 0,
        }
    }

    /// Takes over one change of the staged view. At the start, every object is observed as added.
    pub fn observe(&mut self, _view: &View, change: &Change, now: Now) {
        let gone = change.action == Action::Deleted;
        let object = &change.object;
        match object.key.kind {
            Kind::NODE if gone => self.nodes.unset(object.name()),
            Kind::NODE => {
                let hints = self.nodes.set(object, &mut self.symbols);
                self.queue.happened(hints, now.mono);
            }
            Kind::POD => self.observe_pod(object, gone, now),
            _ => {}
        }
    }

    fn observe_pod(&mut self, pod: &Object, gone: bool, now: Now) {
        let Some(row) = pod.row.pod() else { return };
        let stale = self.pods.get(&pod.key).is_some_and(|tracked| tracked.uid != pod.uid);
        if stale || gone || row.phase.is_terminal() {
            self.forget(&pod.key, now);
        }
        if gone || row.phase.is_terminal() {
            return;
        }
        match &row.node {
            Some(node) => self.observe_bound(pod, node),
            None if waits(pod, row) => self.observe_waiting(pod, row, now),
            None => self.forget(&pod.key, now),
        }
    }

    fn observe_bound(&mut self, pod: &Object, node: &Arc<str>) {
        // A bound pod never changes what it asks for.
        let question = match self.pods.get(&pod.key) {
            Some(Tracked { state: State::Bound(_), .. }) => return,
            Some(Tracked { state: State::Waiting(rank), question, .. }) => {
                self.queue.remove(*rank);
                Arc::clone(question)
            }
            None => self.compile(pod, true),
        };
        let row = self.nodes.reserve(node, &question);
        self.pods.insert(pod.key.clone(), Tracked { uid: pod.uid, question, state: State::Bound(row) });
    }

    fn observe_waiting(&mut self, pod: &Object, row: &PodRow, now: Now) {
        let question = self.compile(pod, false);
        match self.pods.get_mut(&pod.key) {
            // Also when only its status changed: a pod that was decided on and not bound is tried again.
            Some(Tracked { state: State::Waiting(rank), question: asked, .. }) => {
                let rank = *rank;
                let before = std::mem::replace(asked, question);
                if self.pods.get(&pod.key).is_some_and(|tracked| tracked.question != before) {
                    self.queue.wake(rank, now.mono);
                } else {
                    self.queue.retry_taken(rank);
                }
                self.release_question(before);
            }
            _ => {
                let rank = Rank::new(row.priority, pod.created_ms, self.order);
                self.order += 1;
                self.queue.add(rank, pod.key.clone());
                let state = State::Waiting(rank);
                self.pods.insert(pod.key.clone(), Tracked { uid: pod.uid, question, state });
            }
        }
    }

    /// The pod neither waits nor uses anything any more.
    fn forget(&mut self, key: &Key, now: Now) {
        let Some(tracked) = self.pods.remove(key) else { return };
        match tracked.state {
            State::Waiting(rank) => self.queue.remove(rank),
            State::Bound(row) => {
                self.nodes.release(row, &tracked.question);
                self.queue.happened(Hints::POD_GONE, now.mono);
            }
        }
        self.release_question(tracked.question);
    }

    /// What a pod asks; for a bound one only what it uses counts, so that more pods share it.
    fn compile(&mut self, pod: &Object, bound: bool) -> Arc<Question> {
        let mut question = Question::compile(&pod.head(), &mut self.symbols);
        if bound {
            let Question { host_ports, requests, scored, .. } = question;
            question = Question { host_ports, requests, scored, ..Question::default() };
        }
        if let Some(shared) = self.questions.get(&question) {
            return Arc::clone(shared);
        }
        let question = Arc::new(question);
        self.questions.insert(Arc::clone(&question));
        question
    }

    /// Forgets a question that nobody asks any more.
    fn release_question(&mut self, question: Arc<Question>) {
        // This one and the table's.
        if Arc::strong_count(&question) <= 2 {
            self.questions.remove(&question);
        }
    }

    /// Decides on the next pod that is due: a binding, or the condition and the event that say why there is none.
    /// `None` when no pod is due.
    pub fn step(&mut self, view: &View, now: Now) -> Option<Plan> {
        loop {
            let (rank, key) = self.queue.take(now.mono)?;
            let Some(tracked) = self.pods.get(&key) else {
                self.queue.remove(rank);
                continue;
            };
            let Some(pod) = view.get_same(&key, tracked.uid).cloned() else {
                self.forget(&key, now);
                continue;
            };
            let question = Arc::clone(&tracked.question);
            self.decide(&question, pod.uid);
            if let Some(node) = self.decision.best {
                return Some(bind(&pod, self.nodes.name(node)));
            }
            self.queue.failed(rank, self.decision.helped_by, now.mono);
            let cluster = Cluster { nodes: &self.nodes, symbols: &self.symbols };
            return Some(unschedulable(&pod, self.decision.message(cluster), now));
        }
    }

    /// When [`Scheduler::step`] has something to do again, if nothing changes before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        self.queue.wake_at()
    }

    /// Where a pod would go now, and why: for a pod that waits, and for one that is only thought of.
    pub fn explain(&mut self, pod: &Object) -> Explanation {
        let question = Question::compile(&pod.head(), &mut self.symbols);
        self.decide(&question, pod.uid);
        self.decision.explain(Cluster { nodes: &self.nodes, symbols: &self.symbols })
    }

    fn decide(&mut self, question: &Question, uid: Uid) {
        let seed = self.seed ^ (uid.0 as u64) ^ ((uid.0 >> 64) as u64);
        self.decision.decide(Cluster { nodes: &self.nodes, symbols: &self.symbols }, question, seed);
    }
}

/// Whether an unbound pod is one to be placed here (SCH-03).
fn waits(pod: &Object, row: &PodRow) -> bool {
    row.scheduler() == SCHEDULER_NAME && !row.gated && !pod.is_deleting()
}

fn bind(pod: &Object, node: &Arc<str>) -> Plan {
    let message = format!("Successfully assigned {}/{} to {node}", pod.namespace(), pod.name());
    let write = Write::Bind { key: pod.key.clone(), uid: pod.uid, node: node.to_string() };
    Plan { writes: vec![write], notes: vec![note(pod, false, "Scheduled", message)], wake_at: None }
}

fn unschedulable(pod: &Object, message: String, now: Now) -> Plan {
    let mut plan = Plan::default();
    if let Some(status) = status_with(pod, &message, now) {
        plan.writes.push(Write::Status { key: pod.key.clone(), expected: pod.revision, status });
    }
    plan.notes.push(note(pod, true, "FailedScheduling", message));
    plan
}

/// The pod's status with the condition that says why it waits; `None` if it says so already.
fn status_with(pod: &Object, message: &str, now: Now) -> Option<Value> {
    let mut status = pod.status();
    let conditions = status["conditions"].as_array();
    let old = conditions.and_then(|list| list.iter().find(|condition| condition["type"] == "PodScheduled"));
    let mut since = json!(now.stamp());
    if let Some(old) = old.filter(|old| old["status"] == "False") {
        if old["reason"] == "Unschedulable" && old["message"] == message {
            return None;
        }
        // It moves only when the status does.
        since = old["lastTransitionTime"].clone();
    }
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null, "lastTransitionTime": since,
    });
    crate::write::put_condition(&mut status, condition);
    Some(status)
}

fn note(pod: &Object, warning: bool, reason: &str, message: String) -> Note {
    Note {
        about: pod.key.clone(),
        uid: pod.uid,
        field_path: String::new(),
        warning,
        reason: reason.to_owned(),
        message,
        component: SCHEDULER_NAME,
        host: String::new(),
    }
}
