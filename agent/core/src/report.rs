//! What this node has to say: statuses that changed, events, refusals, images and shortages; gathered, and sent again until
//! acknowledged.
//!
//! A status that shows a new phase, readiness or end leaves as soon as the effects run dry; smaller news waits for
//! [`GATHER_MS`], so that the steps of a start travel as one. Two reports are never nearer than that to each other, and at
//! most [`WINDOW`] of them wait for an acknowledgement. What is sent again is the status of then, not the old text.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use coracle_lifecycle::Lifecycle;
use coracle_model::limits::{RESEND_MS, SYNC_PART_BYTES};
use coracle_model::{ConditionKind, ConditionStatus, Millis, Phase, PodEvent, PodStatus, PodUid, SessionNumber};
use coracle_wire::Item;
use coracle_wire::up::{Lease, Report, Up};

use crate::desired::Desired;
use crate::node::NodeState;
use crate::outbox::Outbox;

/// How long small news waits for more, and the least distance of two reports, in milliseconds.
pub(crate) const GATHER_MS: u64 = 10;
/// How long news of the node's images waits for more, and the least distance of two such reports, in milliseconds (a
/// kubelet's `nodeStatusUpdateFrequency`).
const NODE_GATHER_MS: u64 = 1_000;
const NODE_DISTANCE_MS: u64 = 10_000;
/// Reports that may wait for an acknowledgement; while so many do, news gathers.
const WINDOW: usize = 16;
/// How often the wait for an acknowledgement doubles, while none comes: up to 40 s. Over a thin link a report may take
/// longer than the first wait to travel, and saying it again ever more would fill the link for good.
const MOST_DOUBLINGS: u32 = 3;
/// The bytes of events in one report.
const EVENT_BYTES: usize = 64 * 1024;

/// What of a status cannot wait.
type Headline = (Phase, bool, bool);

/// A report that is not acknowledged.
#[derive(Debug)]
struct Sent {
    sequence: u64,
    pods: Vec<PodUid>,
    refusals: bool,
    node: bool,
    at: Millis,
}

/// Gathers and sends.
#[derive(Debug)]
pub(crate) struct Reports {
    changed: BTreeSet<PodUid>,
    /// What the controller was last told of each pod.
    told: BTreeMap<PodUid, Headline>,
    events: VecDeque<PodEvent>,
    events_limit: usize,
    refusals: bool,
    /// When the controller is to hear of the node itself.
    node_at: Option<Millis>,
    node_told_at: Option<Millis>,
    /// The desired set advanced, and the controller should hear that even if there is no other news.
    advanced: bool,
    sequence: u64,
    sent: VecDeque<Sent>,
    /// How often in a row reports were said again because none was acknowledged.
    resends: u32,
    /// When the next report is to go.
    due_at: Option<Millis>,
    last_at: Option<Millis>,
}

impl Reports {
    pub(crate) const fn new(events_limit: usize) -> Self {
        Self {
            changed: BTreeSet::new(),
            told: BTreeMap::new(),
            events: VecDeque::new(),
            events_limit,
            refusals: false,
            node_at: None,
            node_told_at: None,
            advanced: false,
            sequence: 0,
            sent: VecDeque::new(),
            resends: 0,
            due_at: None,
            last_at: None,
        }
    }

    /// A pod's status differs from before.
    pub(crate) fn changed(&mut self, status: &PodStatus, now: Millis) {
        self.changed.insert(status.uid);
        let urgent = match self.told.get(&status.uid) {
            Some(told) => *told != headline(status),
            None => status.phase != Phase::Pending,
        };
        self.wait_until(if urgent { now } else { now + GATHER_MS });
    }

    /// Something to tell people; the oldest give way.
    pub(crate) fn event(&mut self, event: PodEvent, now: Millis) {
        if self.events.len() >= self.events_limit {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.wait_until(now + GATHER_MS);
    }

    /// The desired set has another sequence, perhaps with other refusals.
    pub(crate) fn advanced(&mut self, now: Millis) {
        self.refusals = true;
        self.advanced = true;
        self.wait_until(now + GATHER_MS);
    }

    /// What the node says of itself is another thing than before; a shortage cannot wait.
    pub(crate) fn node_changed(&mut self, urgent: bool, now: Millis) {
        let soon = now + NODE_GATHER_MS;
        let later = self.node_told_at.map_or(soon, |told| soon.max(told + NODE_DISTANCE_MS));
        self.node_by(if urgent { now } else { later });
    }

    fn node_by(&mut self, at: Millis) {
        self.node_at = Some(self.node_at.map_or(at, |due| due.min(at)));
        self.wait_until(at);
    }

    /// A pod is no longer here.
    pub(crate) fn forget(&mut self, uid: PodUid) {
        self.changed.remove(&uid);
        self.told.remove(&uid);
    }

    /// A session begins: everything is to be said, from sequence 1.
    pub(crate) fn begin_session(&mut self, pods: impl Iterator<Item = PodUid>, now: Millis) {
        self.sequence = 0;
        self.sent.clear();
        self.resends = 0;
        self.told.clear();
        self.changed.extend(pods);
        self.refusals = true;
        self.last_at = None;
        self.due_at = Some(now + GATHER_MS);
        self.node_by(now + GATHER_MS);
    }

    /// This report is durable; that says nothing of those before it, any of which may have been lost.
    pub(crate) fn acknowledged(&mut self, sequence: u64, now: Millis) {
        let was_full = self.sent.len() >= WINDOW;
        self.sent.retain(|sent| sent.sequence != sequence);
        self.resends = 0;
        if was_full && (self.has_news() || self.node_at.is_some()) {
            self.wait_until(now);
        }
    }

    /// Takes back what was not acknowledged in time; it goes out again with what is true now.
    pub(crate) fn tick(&mut self, now: Millis) {
        if self.resend_at().is_none_or(|at| at > now) {
            return;
        }
        self.resends = self.resends.saturating_add(1);
        for sent in self.sent.drain(..) {
            self.changed.extend(sent.pods);
            self.refusals |= sent.refusals;
            if sent.node {
                self.node_at = Some(now);
            }
        }
        self.wait_until(now);
    }

    /// When [`Reports::tick`] or [`Reports::flush`] has something to do.
    pub(crate) fn wake_at(&self) -> Option<Millis> {
        let due_at = self.due_at.filter(|_| self.sent.len() < WINDOW).map(|at| self.no_sooner(at));
        self.resend_at().into_iter().chain(due_at).min()
    }

    fn resend_at(&self) -> Option<Millis> {
        let wait = RESEND_MS << self.resends.min(MOST_DOUBLINGS);
        self.sent.front().map(|sent| sent.at + wait)
    }

    /// Sends what there is, if it is time. Call it when nothing else is to be done.
    pub(crate) fn flush(
        &mut self,
        session: SessionNumber,
        now: Millis,
        lifecycle: &Lifecycle,
        desired: &Desired,
        node: &NodeState,
        out: &mut Outbox,
    ) {
        if self.due_at.is_none_or(|at| self.no_sooner(at) > now) {
            return;
        }
        while self.has_news() && self.sent.len() < WINDOW {
            self.send_one(session, now, lifecycle, desired, out);
        }
        if self.node_at.is_some_and(|at| at <= now) && self.sent.len() < WINDOW {
            self.send_node(session, now, node, desired, out);
        }
        if core::mem::take(&mut self.advanced) {
            out.up(&Up::Lease(Lease { session, applied: desired.applied() }));
        }
        // With a full window, the next acknowledgement or the next repetition goes on.
        self.due_at = self.has_news().then_some(now).or(self.node_at);
        self.last_at = Some(now);
    }

    fn has_news(&self) -> bool {
        self.refusals || !self.changed.is_empty() || !self.events.is_empty()
    }

    fn send_one(
        &mut self,
        session: SessionNumber,
        now: Millis,
        lifecycle: &Lifecycle,
        desired: &Desired,
        out: &mut Outbox,
    ) {
        let (mut pods, mut statuses, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(uid) = self.changed.pop_first() {
            let Some(status) = lifecycle.status(uid).filter(|_| !lifecycle.is_removed(uid)) else { continue };
            let item = Item::new(uid, status);
            if !statuses.is_empty() && bytes + item.len() > SYNC_PART_BYTES {
                self.changed.insert(uid);
                break;
            }
            bytes += item.len();
            self.told.insert(uid, headline(status));
            statuses.push(item);
            pods.push(uid);
        }
        let events = self.some_events();
        let refusals = core::mem::take(&mut self.refusals);
        let refused = if refusals { desired.refused() } else { Vec::new() };
        if statuses.is_empty() && events.is_empty() && refused.is_empty() {
            return;
        }
        self.advanced = false;
        self.sequence = self.sequence.saturating_add(1);
        self.sent.push_back(Sent {
            sequence: self.sequence,
            pods,
            refusals: !refused.is_empty(),
            node: false,
            at: now,
        });
        let (sequence, applied) = (self.sequence, desired.applied());
        out.up(&Up::Report(Report { session, sequence, now, applied, statuses, events, refused }));
    }

    fn send_node(
        &mut self,
        session: SessionNumber,
        now: Millis,
        node: &NodeState,
        desired: &Desired,
        out: &mut Outbox,
    ) {
        self.node_at = None;
        let Some(report) = node.report(session, self.sequence.saturating_add(1), desired.applied()) else { return };
        self.advanced = false;
        self.sequence = report.sequence;
        self.node_told_at = Some(now);
        self.sent.push_back(Sent { sequence: self.sequence, pods: Vec::new(), refusals: false, node: true, at: now });
        out.up(&Up::Node(report));
    }

    fn some_events(&mut self) -> Vec<PodEvent> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        while let Some(event) = self.events.front() {
            bytes += event.message.len() + event.container.len() + event.reason.len() + 32;
            if !events.is_empty() && bytes > EVENT_BYTES {
                break;
            }
            events.extend(self.events.pop_front());
        }
        events
    }

    fn wait_until(&mut self, at: Millis) {
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
    }

    fn no_sooner(&self, at: Millis) -> Millis {
        self.last_at.map_or(at, |last| at.max(last + GATHER_MS))
    }
}

fn headline(status: &PodStatus) -> Headline {
    let ready = status
        .conditions
        .iter()
        .any(|condition| condition.kind == ConditionKind::Ready && condition.status == ConditionStatus::True);
    (status.phase, ready, status.stopped)
}
