//! The controller's half of every session: what agents say goes up into plans (ingest), what the view says goes down
//! as desired sets (dispatch).
//!
//! *In:* [`Up`] messages, changes of the staged view, the time. *Out:* plans, and [`Down`] messages per node.
//! *Must never know:* MQTT, how a pod came to its node, how it runs there.
//! *Tested:* tables here, and the simulator under loss, duplication, reordering and partition.
//!
//! Everything here is level-triggered. A node is sent what it should run; it says up to where it has applied that, and
//! what it says of its pods replaces what it said before. A lost message is mended by the next lease.

mod dispatch;
pub mod leases;
mod lift;
mod lower;
mod session;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use coracle_model::limits::{LEASE_MS, LEASE_RENEW_MS, RESEND_MS};
use coracle_model::{ClusterId, Millis, PodStatus, SessionNumber};
use coracle_wire::down::{Ack, Down, Refuse, Reintroduce, Welcome};
use coracle_wire::envelope::VERSION;
use coracle_wire::up::{Birth, Lease, NodeReport, Report, Up};

use crate::clock::Now;
use crate::kind::Kind;
use crate::object::{Key, Uid};
use crate::plan::{Note, Plan, Write};
use crate::store::{Action, Change};
use crate::view::View;

use dispatch::Desired;
use leases::Leases;
use lower::Specs;
use session::{Heard, Session};

/// How many messages may be lost in a row before a node is asked to begin again; a bound on nothing else.
const MAX_EVENTS_PER_REPORT: usize = 1024;

/// The head of a report.
#[derive(Clone, Copy)]
struct Said {
    session: SessionNumber,
    sequence: u64,
    applied: u64,
}

/// All sessions.
#[derive(Debug)]
pub struct Nodes {
    cluster: ClusterId,
    artifact_key: [u8; 32],
    leases: Leases,
    sessions: BTreeMap<String, Session>,
    /// Nodes that said something since the last flush, or have not confirmed their set: the only ones to be looked at.
    attended: BTreeSet<String>,
    /// Pods whose form on their node may have changed.
    dirty: BTreeMap<String, BTreeSet<Uid>>,
    specs: Specs,
    downs: Vec<(String, Down)>,
    /// The store has room for what agents say of themselves and their pods.
    can_write: bool,
    /// Nodes that began a session meanwhile. They begin another one when there is room again.
    unrecorded: BTreeSet<String>,
}

impl Nodes {
    /// No sessions yet.
    #[must_use]
    pub const fn new(cluster: ClusterId, artifact_key: [u8; 32], now: Millis) -> Self {
        Self {
            cluster,
            artifact_key,
            leases: Leases::new(now),
            sessions: BTreeMap::new(),
            attended: BTreeSet::new(),
            dirty: BTreeMap::new(),
            specs: Specs::new(),
            downs: Vec::new(),
            can_write: true,
            unrecorded: BTreeSet::new(),
        }
    }

    /// Whether what agents say can be written. While it cannot, leases are renewed and desired sets are sent, and no
    /// report is acknowledged, so that all of them come again.
    pub fn record(&mut self, can_write: bool) {
        self.can_write = can_write;
        if !can_write {
            return;
        }
        for node in std::mem::take(&mut self.unrecorded) {
            if let Some(session) = self.sessions.remove(&node) {
                self.downs.push((node, Down::Reintroduce(Reintroduce { session: session.number })));
            }
        }
    }

    /// The controller itself was away until `now`.
    pub fn forgive_silence(&mut self, now: Millis) {
        self.leases.forgive(now);
    }

    /// When each node was last heard.
    #[must_use]
    pub const fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Messages that are to be sent once the batch is durable.
    pub fn take_downs(&mut self) -> Vec<(String, Down)> {
        std::mem::take(&mut self.downs)
    }

    /// When [`Self::flush`] wants to be called at the latest.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        self.attended.iter().filter_map(|node| self.sessions.get(node)?.resend_at()).min()
    }

    /// The view changed: note whose desired set that may touch.
    pub fn observe(&mut self, view: &View, change: &Change) {
        match change.object.key.kind {
            // What only the pod's status says was said by its node, or is of no use to it.
            Kind::POD if change.is_of_status_alone() => {}
            Kind::POD => {
                if let Some(node) = change.object.row.pod().and_then(|row| row.node.as_ref()) {
                    self.dirty.entry(node.to_string()).or_default().insert(change.object.uid);
                }
            }
            // Its files change with it, and the variables of its containers' next runs.
            Kind::CONFIG_MAP | Kind::SECRET | Kind::PERSISTENT_VOLUME_CLAIM => {
                for pod in view.referrers(&change.object.key) {
                    if let Some(node) = pod.row.pod().and_then(|row| row.node.as_ref()) {
                        self.dirty.entry(node.to_string()).or_default().insert(pod.uid);
                    }
                }
            }
            Kind::NODE if change.action == Action::Deleted => {
                if let Some(session) = self.sessions.remove(change.object.name()) {
                    let down = Down::Reintroduce(Reintroduce { session: session.number });
                    self.downs.push((change.object.name().to_owned(), down));
                }
            }
            _ => {}
        }
    }

    /// An agent said something.
    pub fn hear(&mut self, view: &View, now: Now, node: &str, up: Up) -> Plan {
        if !self.attended.contains(node) {
            self.attended.insert(node.to_owned());
        }
        match up {
            Up::Birth(birth) => self.birth(view, now, node, birth),
            Up::Death(death) => {
                if let Some(session) = self.session_of(node, death.session, now) {
                    session.end();
                }
                Plan::default()
            }
            Up::Report(report) => self.report(view, now, node, report),
            Up::Node(report) => self.node_report(view, now, node, report),
            Up::Lease(lease) => self.lease(view, now, node, lease),
            // Streams and artifacts never pass through the core.
            Up::Artifact(_)
            | Up::Blocks(_)
            | Up::StreamHead(_)
            | Up::StreamData(_)
            | Up::StreamCredit(_)
            | Up::StreamEnd(_) => Plan::default(),
        }
    }

    fn birth(&mut self, view: &View, now: Now, node: &str, birth: Birth) -> Plan {
        if let Some(reason) = self.refusal(node, &birth, now) {
            self.downs.push((node.to_owned(), Down::Refuse(Refuse { instance: birth.instance, reason })));
            return Plan::default();
        }
        if self.is_overtaken(node, &birth, now) {
            return Plan::default();
        }
        let repeated = self.sessions.get(node).is_some_and(|session| session.is(birth.instance, birth.session));
        self.leases.renew(node, now.mono);
        let welcome = Welcome {
            session: birth.session,
            version: birth.speaks.1.min(VERSION),
            cluster: self.cluster,
            artifact_key: self.artifact_key,
            renew_ms: LEASE_RENEW_MS,
        };
        self.downs.push((node.to_owned(), Down::Welcome(welcome)));
        let mut plan = lift::node(view, now, node, &birth.facts);
        if !self.can_write {
            plan = Plan::default();
            self.unrecorded.insert(node.to_owned());
        }
        if repeated {
            if let Some(session) = self.sessions.get_mut(node) {
                session.restart_sync();
            }
        } else {
            self.sessions.insert(node.to_owned(), Session::new(&birth, now));
        }
        plan
    }

    /// Why this agent may not be this node.
    fn refusal(&self, node: &str, birth: &Birth, now: Now) -> Option<String> {
        if birth.speaks.0 > VERSION || birth.speaks.1 < coracle_wire::envelope::OLDEST_VERSION {
            let (oldest, newest) = birth.speaks;
            return Some(format!("the agent speaks wire versions {oldest} to {newest}, the controller {VERSION}"));
        }
        if birth.pinned.is_some_and(|pinned| pinned != self.cluster) {
            return Some(format!("the agent belongs to another cluster than {}", self.cluster));
        }
        let session = self.sessions.get(node)?;
        if session.instance == birth.instance {
            return None;
        }
        self.is_alive(node, session, now)
            .then(|| format!("another agent holds the node name \"{node}\"; give this one another --node"))
    }

    /// Whether a birth comes after that of a later session, which goes on. Numbers that begin anew, because a data
    /// directory was put back, are taken once that session is silent.
    fn is_overtaken(&self, node: &str, birth: &Birth, now: Now) -> bool {
        self.sessions.get(node).is_some_and(|session| {
            session.instance == birth.instance && birth.session < session.number && self.is_alive(node, session, now)
        })
    }

    fn is_alive(&self, node: &str, session: &Session, now: Now) -> bool {
        session.is_open() && now.mono.since(self.leases.renewed_at(node)) < LEASE_MS
    }

    /// The open session with this number. Words of older ones are ignored, those of unknown ones are answered.
    fn session_of(&mut self, node: &str, number: SessionNumber, now: Now) -> Option<&mut Session> {
        match self.sessions.get(node).map(|session| session.number) {
            Some(known) if known == number => {
                self.leases.renew(node, now.mono);
                self.sessions.get_mut(node)
            }
            Some(known) if known > number => None,
            Some(_) | None => {
                self.downs.push((node.to_owned(), Down::Reintroduce(Reintroduce { session: number })));
                None
            }
        }
    }

    fn lease(&mut self, view: &View, now: Now, node: &str, lease: Lease) -> Plan {
        let Some(session) = self.session_of(node, lease.session, now) else { return Plan::default() };
        session.applied(lease.applied, now.mono);
        if self.can_write {
            self.begin_anew_unless_ready(view, node, lease.session);
        }
        Plan::default()
    }

    /// A node whose object is gone, or that was given up for lost meanwhile, is asked for a new session: its birth makes
    /// the node Ready, and every pod is reported anew.
    fn begin_anew_unless_ready(&mut self, view: &View, node: &str, session: SessionNumber) -> bool {
        let object = view.get(&Key::new(Kind::NODE, "", node));
        if object.and_then(|object| object.row.node()).is_some_and(|row| row.ready) {
            return false;
        }
        self.sessions.remove(node);
        self.downs.push((node.to_owned(), Down::Reintroduce(Reintroduce { session })));
        true
    }

    /// What every report begins with: who speaks, what is applied there, and whether this is new. If it is, wall time
    /// minus the agent's clock, in milliseconds.
    fn heard(&mut self, view: &View, now: Now, node: &str, said: Said) -> Option<i64> {
        let can_write = self.can_write;
        let session = self.session_of(node, said.session, now)?;
        session.applied(said.applied, now.mono);
        if !can_write {
            return None;
        }
        let heard = session.heard_report(said.sequence);
        let offset = session.wall_offset_ms;
        // One that was overtaken is not acknowledged: what it said is said again, as it is then.
        if heard != Heard::Overtaken {
            let ack = Down::Ack(Ack { session: said.session, sequence: said.sequence });
            self.downs.push((node.to_owned(), ack));
        }
        (heard == Heard::New && !self.begin_anew_unless_ready(view, node, said.session)).then_some(offset)
    }

    fn node_report(&mut self, view: &View, now: Now, node: &str, report: NodeReport) -> Plan {
        let said = Said { session: report.session, sequence: report.sequence, applied: report.applied };
        match self.heard(view, now, node, said) {
            Some(_) => standing::plan(view, now, node, report),
            None => Plan::default(),
        }
    }

    fn report(&mut self, view: &View, now: Now, node: &str, report: Report) -> Plan {
        let said = Said { session: report.session, sequence: report.sequence, applied: report.applied };
        let Some(offset) = self.heard(view, now, node, said) else { return Plan::default() };
        let mut plan = Plan::default();
        for status in report.statuses.iter().filter_map(coracle_wire::Item::read::<PodStatus>) {
            plan.writes.extend(ingest(view, now, node, offset, &status));
        }
        for (uid, why) in &report.refused {
            plan.writes.extend(lift::refused(view, node, *uid, why));
        }
        for event in report.events.into_iter().take(MAX_EVENTS_PER_REPORT) {
            let Some(pod) = view.by_uid(event.uid).filter(|pod| pod.key.kind == Kind::POD) else { continue };
            let field_path = match event.container.as_str() {
                "" => String::new(),
                name => format!("spec.containers{{{name}}}"),
            };
            plan.notes.push(Note {
                about: pod.key.clone(),
                uid: pod.uid,
                field_path,
                warning: event.warning,
                reason: event.reason,
                message: event.message,
                component: "kubelet".into(),
                host: node.to_owned(),
            });
        }
        plan
    }

    /// Sends every node what changed of its desired set, and the whole set where a delta was lost.
    pub fn flush(&mut self, view: &View, now: Now) {
        for node in &self.attended {
            let Some(session) = self.sessions.get_mut(node) else { continue };
            if session.resend_at().is_some_and(|at| at <= now.mono) {
                session.lose_patience();
            }
            if session.needs_sync && session.is_open() {
                self.dirty.entry(node.clone()).or_default();
            }
        }
        self.attended.retain(|node| self.sessions.get(node).is_some_and(|session| session.resend_at().is_some()));
        let dirty = std::mem::take(&mut self.dirty);
        for (node, pods) in dirty {
            // A node without a session gets everything when it is born.
            let Some(session) = self.sessions.get_mut(&node).filter(|session| session.is_open()) else { continue };
            let desired = Desired { view, node: &node, specs: &mut self.specs };
            let downs = dispatch::flush(session, desired, &pods, now.mono);
            self.downs.extend(downs.into_iter().map(|down| (node.clone(), down)));
            if session.resend_at().is_some() {
                self.attended.insert(node);
            }
        }
    }

    /// After this many milliseconds without an echo a desired set is sent again.
    pub(crate) const RESEND_MS: u64 = RESEND_MS;
}

/// What one status wants to be written: the status, and the end of a deleted pod (TRM-06).
fn ingest(view: &View, now: Now, node: &str, offset_ms: i64, status: &PodStatus) -> Vec<Write> {
    let Some(pod) = view.by_uid(status.uid).filter(|pod| pod.key.kind == Kind::POD) else { return Vec::new() };
    if pod.row.pod().and_then(|row| row.node.as_deref()) != Some(node) {
        return Vec::new();
    }
    let mut writes = Vec::new();
    if let Some(lifted) = lift::status(pod, now, offset_ms, status) {
        writes.push(Write::Status { key: pod.key.clone(), expected: pod.revision, status: lifted });
    }
    if status.stopped && pod.is_deleting() {
        writes.push(Write::Remove { key: pod.key.clone(), uid: pod.uid });
    }
    writes
}
