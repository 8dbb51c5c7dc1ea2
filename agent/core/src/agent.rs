//! The agent's core: each input goes to the part that it concerns, and what the parts want leaves in one order.

use alloc::format;
use core::fmt::Display;

use coracle_lifecycle::{Effect as Deed, Event, Lifecycle};
use coracle_model::{Limits, Millis, Pod, PodStatus, PodUid, SessionNumber};
use coracle_wire::down::{Down, Refuse, Welcome};
use coracle_wire::envelope::{OLDEST_VERSION, VERSION};
use coracle_wire::topic::NodeTopic;
use coracle_wire::up::{Birth, Lease, Up};

use crate::desired::{Changes, Desired};
use crate::interface::{Effect, Identity, Input, Remembered, RuntimeEvent};
use crate::memory::Memory;
use crate::node::NodeState;
use crate::outbox::{Moment, Outbox};
use crate::pressure::{Eviction, Pressure};
use crate::pulls::Pulls;
use crate::report::Reports;
use crate::session::{Due, Session};
use crate::stream::Streams;

mod evicting;

/// One agent.
#[derive(Debug)]
pub struct Agent {
    identity: Identity,
    limits: Limits,
    now: Millis,
    session: Session,
    memory: Memory,
    desired: Desired,
    lifecycle: Lifecycle,
    pulls: Pulls,
    node: NodeState,
    pressure: Pressure,
    reports: Reports,
    streams: Streams,
    out: Outbox,
    /// Some pod of the desired set is not in the lifecycle: it was on the way out when it was desired again, or too many
    /// others are. It begins when one of them has gone.
    behind: bool,
    /// The volumes of pods that neither the disk nor the controller knows are gone.
    tidy: bool,
    ignored: u64,
}

impl Agent {
    /// An agent that starts, with what its disk remembers: those pods start at once, with or without a controller
    /// (decision 11). Drain it before the first input.
    #[must_use]
    pub fn new(identity: Identity, limits: Limits, remembered: Remembered, now: Millis) -> Self {
        let mut agent = Self {
            limits,
            now,
            session: Session::new(identity.seed),
            memory: Memory::new(remembered.pinned),
            desired: Desired::new(remembered.sequence, limits),
            lifecycle: Lifecycle::new(limits),
            pulls: Pulls::new(limits, &identity.facts),
            node: NodeState::default(),
            pressure: Pressure::default(),
            reports: Reports::new(limits.events),
            streams: Streams::new(limits.streams),
            out: Outbox::default(),
            behind: false,
            tidy: false,
            ignored: 0,
            identity,
        };
        let mut finished = remembered.finished;
        for pod in remembered.pods {
            if !agent.desired.remember(&pod) {
                continue;
            }
            match finished.iter().position(|status| status.uid == pod.uid) {
                Some(index) => {
                    let status = finished.swap_remove(index);
                    agent.memory.restore(status.clone());
                    agent.lifecycle.restore(now, pod, status);
                }
                None => agent.lifecycle.handle(now, Event::Desired(pod)),
            }
            agent.pump();
        }
        agent
    }

    /// The same, and it watches what its node is short of. Without this nothing is measured, and nobody evicted but by
    /// [`Input::Evict`].
    #[must_use]
    pub fn evicting(mut self, eviction: Eviction) -> Self {
        self.pressure = Pressure::new(eviction, self.now);
        self
    }

    /// Takes note of what happened.
    pub fn handle(&mut self, now: Millis, input: Input) {
        self.now = self.now.max(now);
        if self.session.is_over() {
            return;
        }
        let moment = self.moment();
        match input {
            Input::Connected(number) => self.connected(number),
            Input::Disconnected => self.disconnected(),
            Input::Down(payload) => match Down::decode(&payload) {
                Ok(message) => self.down(message),
                Err(_) => self.ignore(),
            },
            Input::Runtime(RuntimeEvent::Started(run)) => self.lifecycle.handle(self.now, Event::Started(run)),
            Input::Runtime(RuntimeEvent::Exited { run, exit }) => {
                self.lifecycle.handle(self.now, Event::Exited { run, exit });
            }
            Input::Runtime(RuntimeEvent::MountFailed { run, volume, why }) => {
                self.lifecycle.handle(self.now, Event::MountFailed { run, volume, why });
            }
            Input::Evict { pod, message } => self.lifecycle.handle(self.now, Event::Evicted { pod, message }),
            Input::Measured(measured) => self.measured(&measured),
            Input::Images(images) => {
                if self.node.holds(images) {
                    self.reports.node_changed(false, self.now);
                }
            }
            Input::ArtifactFound { image, digest } => self.pulls.found(&image, digest, moment, &mut self.out),
            Input::ArtifactBegun { artifact, complete, have } => {
                self.pulls.begun(artifact, complete, &have, moment, &mut self.out);
            }
            Input::ArtifactFinished { artifact, result } => {
                self.pulls.finished(artifact, result, moment, &mut self.out);
            }
            Input::StreamHead(head) => self.streams.head(head, &mut self.out),
            Input::StreamData(data) => self.streams.data(data, &mut self.out),
            Input::StreamCredit(credit) => {
                self.streams.pass(credit.id, |out| out.up(&Up::StreamCredit(credit)), &mut self.out);
            }
            Input::StreamEnd(end) => self.streams.ended_below(end, &mut self.out),
            Input::Tick => self.tick(),
        }
        self.pump();
    }

    /// The next thing to do, in order; `None` when all is drained. What is to be remembered comes before the report that
    /// rests on it: a node never says that a pod has stopped and then runs it again after a power cut.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(effect) = self.out.pop_effect() {
            return Some(effect);
        }
        if self.session.is_over() {
            return None;
        }
        if self.memory.is_due(self.now) {
            return Some(Effect::Remember(self.memory.write(self.now, &self.desired)));
        }
        if let Some(session) = self.session.welcome().filter(|_| self.desired.is_synced()) {
            self.reports.flush(session, self.now, &self.lifecycle, &self.desired, &self.node, &mut self.out);
        }
        self.out.pop_effect()
    }

    /// When to say [`Input::Tick`] at the latest. A time in the past means: drain, then say it at once.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        if self.session.is_over() {
            return None;
        }
        let welcome = self.session.welcome().is_some();
        let reports = if welcome && self.desired.is_synced() { self.reports.wake_at() } else { None };
        let pulls = if welcome { self.pulls.wake_at() } else { None };
        let own = [self.session.wake_at(), self.lifecycle.wake_at(), self.memory.wake_at(), self.pressure.wake_at()];
        own.into_iter().chain([reports, pulls]).flatten().min()
    }

    /// Whether the controller has welcomed the session that stands.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.session.welcome().is_some()
    }

    /// Whether the controller's whole desired set has been applied in this session.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.is_connected() && self.desired.is_synced()
    }

    /// Whether [`Effect::Quit`] was said; nothing else follows.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }

    /// The session that stands, welcome or not.
    #[must_use]
    pub fn session(&self) -> Option<SessionNumber> {
        self.session.number()
    }

    /// The sequence of the desired set that is held.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.desired.sequence()
    }

    /// What this node says of its pods, in the order of their uids.
    pub fn statuses(&self) -> impl Iterator<Item = &PodStatus> {
        self.lifecycle.pods().filter_map(|uid| self.lifecycle.status(uid))
    }

    /// What this node says of a pod.
    #[must_use]
    pub fn status(&self, uid: PodUid) -> Option<&PodStatus> {
        self.lifecycle.status(uid)
    }

    /// What this node was told of a pod that is here.
    #[must_use]
    pub fn pod(&self, uid: PodUid) -> Option<&Pod> {
        self.lifecycle.pod(uid)
    }

    /// The limits that it was made with.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Payloads and messages that were not for this agent, or not to be understood.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Messages that were too large to travel, and were dropped.
    #[must_use]
    pub const fn unsendable(&self) -> u64 {
        self.out.unsendable()
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now, session: self.session.welcome() }
    }

    fn ignore(&mut self) {
        self.ignored = self.ignored.saturating_add(1);
    }

    fn connected(&mut self, number: SessionNumber) {
        self.disconnected();
        self.session.connected(number, self.now);
        self.publish_birth(number);
    }

    fn disconnected(&mut self) {
        self.session.disconnected();
        self.desired.begin_session();
        self.streams.lose(&mut self.out);
        self.pulls.suspend(self.moment(), &mut self.out);
    }

    fn publish_birth(&mut self, session: SessionNumber) {
        let birth = Birth {
            session,
            instance: self.identity.instance,
            boot: self.identity.boot,
            speaks: (OLDEST_VERSION, VERSION),
            pinned: self.memory.pinned().map(|(cluster, _)| cluster),
            now: self.now,
            facts: self.identity.facts.clone(),
            holds: self.desired.sequence(),
        };
        self.out.publish(NodeTopic::Birth, &Up::Birth(birth));
    }

    /// A message from the controller. All but the first few kinds need a session that is welcome.
    fn down(&mut self, message: Down) {
        let moment = self.moment();
        let welcome = moment.session;
        let is_ours = |session: SessionNumber| welcome == Some(session);
        match message {
            Down::Welcome(message) => self.welcome(&message),
            Down::Refuse(message) => self.refuse(message),
            Down::Reintroduce(message) if self.session.number() == Some(message.session) => {
                self.disconnected();
                self.out.effect(Effect::Reconnect);
            }
            Down::Sync(part) if is_ours(part.session) => {
                let first = !self.desired.is_synced();
                if let Some(changes) = self.desired.sync(part) {
                    self.apply(changes);
                    if !core::mem::replace(&mut self.tidy, true) {
                        let desired = self.desired.pods().map(|pod| pod.uid);
                        let held = desired.chain(self.lifecycle.pods()).collect();
                        self.out.effect(Effect::TearDownOthers(held));
                    }
                    if first {
                        self.reports.begin_session(self.lifecycle.pods(), self.now);
                    }
                    self.reports.advanced(self.now);
                }
            }
            Down::Delta(delta) if is_ours(delta.session) => {
                if let Some(changes) = self.desired.delta(delta) {
                    self.apply(changes);
                    self.reports.advanced(self.now);
                }
            }
            Down::Ack(ack) if is_ours(ack.session) => self.reports.acknowledged(ack.sequence, self.now),
            Down::Artifact(reply) if welcome.is_some() => self.pulls.replied(reply, moment, &mut self.out),
            Down::Block(block) if welcome.is_some() => self.pulls.block(block, moment, &mut self.out),
            Down::StreamOpen(stream) => self.streams.opened(stream, welcome, &mut self.out),
            Down::StreamData(data) => {
                self.streams.pass(data.id, |out| out.effect(Effect::StreamData(data)), &mut self.out);
            }
            Down::StreamCredit(credit) => {
                self.streams.pass(credit.id, |out| out.effect(Effect::StreamCredit(credit)), &mut self.out);
            }
            Down::StreamEnd(end) => self.streams.ended_above(end, &mut self.out),
            Down::Reintroduce(_)
            | Down::Sync(_)
            | Down::Delta(_)
            | Down::Ack(_)
            | Down::Artifact(_)
            | Down::Block(_) => self.ignore(),
        }
    }

    fn welcome(&mut self, welcome: &Welcome) {
        if self.session.number() != Some(welcome.session) || !(OLDEST_VERSION..=VERSION).contains(&welcome.version) {
            return self.ignore();
        }
        match self.memory.pinned() {
            Some((cluster, _)) if cluster != welcome.cluster => {
                let found = welcome.cluster;
                return self
                    .quit(&format!("the controller is of cluster {found}, and this agent belongs to {cluster}"));
            }
            Some((_, key)) if key != welcome.artifact_key => {
                return self.quit(&"the controller signs artifacts with another key than the one this agent trusts");
            }
            Some(_) => {}
            None => self.memory.pin(welcome.cluster, welcome.artifact_key),
        }
        if self.session.welcomed(welcome.renew_ms, self.now) {
            self.pulls.resume(self.moment(), &mut self.out);
        }
    }

    fn refuse(&mut self, refuse: Refuse) {
        if refuse.instance != self.identity.instance {
            return self.ignore();
        }
        self.quit(&format!("the controller refused this agent: {}", refuse.reason));
    }

    fn quit(&mut self, why: &dyn Display) {
        self.session.end();
        self.out.clear();
        self.out.effect(Effect::Quit(format!("{why}")));
    }

    fn apply(&mut self, changes: Changes) {
        for uid in changes.removed {
            self.memory.removed(uid, self.now);
            self.reports.forget(uid);
            self.lifecycle.handle(self.now, Event::Removed(uid));
            self.pump();
        }
        for pod in changes.changed {
            self.memory.changed(&pod, self.now);
            let uid = pod.uid;
            self.lifecycle.handle(self.now, Event::Desired(pod));
            self.behind |= self.lifecycle.pod(uid).is_none() || self.lifecycle.is_removed(uid);
            self.pump();
        }
    }

    /// A pod has gone, so that another may begin that could not.
    fn catch_up(&mut self) {
        if !core::mem::take(&mut self.behind) {
            return;
        }
        for pod in self.desired.pods() {
            if self.lifecycle.pod(pod.uid).is_none() {
                self.lifecycle.handle(self.now, Event::Desired(pod.clone()));
            }
            self.behind |= self.lifecycle.pod(pod.uid).is_none() || self.lifecycle.is_removed(pod.uid);
        }
    }

    fn tick(&mut self) {
        match self.session.due(self.now) {
            Some(Due::Birth) => {
                if let Some(number) = self.session.number() {
                    self.publish_birth(number);
                }
            }
            Some(Due::Lease) => {
                if let Some(session) = self.session.welcome() {
                    self.out.up(&Up::Lease(Lease { session, applied: self.desired.applied() }));
                }
            }
            None => {}
        }
        if self.pressure.is_due(self.now) {
            self.out.effect(Effect::Measure);
        }
        self.reports.tick(self.now);
        self.pulls.tick(self.moment(), &mut self.out);
        while self.lifecycle.wake_at().is_some_and(|at| at <= self.now) && self.out.len() < self.limits.effects {
            self.lifecycle.handle(self.now, Event::Tick);
            self.pump();
        }
    }

    /// Carries words between the lifecycle and the pulls until both are at rest.
    fn pump(&mut self) {
        if self.session.is_over() {
            return;
        }
        loop {
            while let Some(deed) = self.lifecycle.poll_effect() {
                self.perform(deed);
            }
            while let Some(event) = self.out.pop_event() {
                self.reports.event(event, self.now);
            }
            let Some(verdict) = self.out.pop_verdict() else { return };
            self.lifecycle.handle(self.now, verdict);
        }
    }

    fn perform(&mut self, deed: Deed) {
        match deed {
            Deed::EnsureImage { run, image, policy } => {
                let moment = self.moment();
                self.pulls.ensure(run, image, policy, moment, &mut self.out);
            }
            Deed::Start { run, image } => {
                if let Some(pod) = self.lifecycle.pod(run.pod).cloned() {
                    self.out.effect(Effect::Start { run, pod, image });
                }
            }
            Deed::Signal { run, grace_ms } => self.out.effect(Effect::Signal { run, grace_ms }),
            Deed::Kill(run) => self.out.effect(Effect::Kill(run)),
            Deed::Refresh(uid) => {
                if let Some(pod) = self.lifecycle.pod(uid).cloned() {
                    self.out.effect(Effect::Refresh(pod));
                }
            }
            Deed::TearDown(uid) => self.out.effect(Effect::TearDown(uid)),
            Deed::StatusChanged(uid) => self.status_changed(uid),
            Deed::Tell(event) => self.out.event(event),
            Deed::Forget(uid) => {
                self.pulls.forget(uid);
                self.reports.forget(uid);
                self.out.effect(Effect::Forget(uid));
                self.catch_up();
            }
        }
    }

    fn status_changed(&mut self, uid: PodUid) {
        let Some(status) = self.lifecycle.status(uid) else { return };
        self.reports.changed(status, self.now);
        if status.stopped {
            self.pulls.forget(uid);
            if let Some(pod) = self.lifecycle.pod(uid) {
                self.memory.finished(pod, status, self.now);
            }
        }
    }
}
