//! The crank: inputs move the staged view, reconcilers, scheduler and dispatch follow until nothing moves, and one
//! batch comes out.
//!
//! *In:* [`Input`]s and the time. *Out:* a [`Stage`]: changes to make durable, and effects to release after that.
//! *Must never know:* how the batch is made durable, or who waits for an answer.
//! *Tested:* scenarios here; the simulator runs it with thousands of agents.
//!
//! Change, then settle: after a few [`Controller::handle`]s call [`Controller::settle`] once; commit its changes;
//! release its effects. [`Controller::wake_at`] says when to settle at the latest.

mod evict;
mod placement;
mod requests;
#[cfg(test)]
mod tests;
mod wakes;
pub mod what_if;

use coracle_model::{ClusterId, Millis};
use coracle_wire::down::Down;
use coracle_wire::up::Up;

use crate::clock::Now;
use crate::error::ApiError;
use crate::events::{self, Budget};
use crate::kind::Kind;
use crate::names::Names;
use crate::nodes::Nodes;
use crate::nodes::leases::Leases;
use crate::object::Key;
use crate::plan::{Plan, Write};
use crate::reconcile;
use crate::request::{Answer, Request, Verb};
use crate::schedule::Scheduler;
use crate::schedule::config::Configuration;
use crate::store::{self, Action, Change, Room};
use crate::view::View;
use crate::write::{Writer, Written};

use wakes::Wakes;

/// Steps in one settling before the batch is handed out as it is: far above what one input causes, and the end of a
/// reconciler that never comes to rest.
const MAX_STEPS: usize = 200_000;

/// How often old events are looked for, in milliseconds.
const EXPIRE_EVENTS_MS: u64 = 60_000;

/// A controller that settles so much later than it asked for was not running, in milliseconds.
const OVERSLEPT_MS: u64 = 5_000;

/// Names a request that waits for its answer; chosen by the shell.
pub type Ticket = u64;

/// Something happened.
#[derive(Debug)]
pub enum Input {
    /// A user wants something; answered with [`Effect::Answer`].
    Request(Ticket, Box<Request>),
    /// An agent said something.
    Hear {
        /// Its node's name: the topic on which it was heard.
        node: String,
        /// What.
        up: Box<Up>,
    },
    /// The store has more or less room than before.
    Room(Room),
    /// Time has passed.
    Tick,
}

/// Something is to be done, once the batch is durable.
#[derive(Debug)]
pub enum Effect {
    /// Answer a request.
    Answer(Ticket, Box<Result<Answer, ApiError>>),
    /// Tell an agent.
    Send {
        /// Its node's name.
        node: String,
        /// What.
        down: Box<Down>,
    },
}

/// One batch, and what to do after it.
#[derive(Debug, Default)]
pub struct Stage {
    /// In the order of their revisions; often empty.
    pub changes: Vec<Change>,
    /// In order.
    pub effects: Vec<Effect>,
}

/// What a controller is given at its start.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The public key of the cluster's artifacts.
    pub artifact_key: [u8; 32],
    /// Differs at every start.
    pub entropy: u64,
}

/// The whole of the controller's state.
#[derive(Debug)]
pub struct Controller {
    view: View,
    names: Names,
    nodes: Nodes,
    scheduler: Scheduler,
    wakes: Wakes,
    /// Staged in this settling, in order.
    changes: Vec<Change>,
    /// How many of them the observers have seen.
    observed: usize,
    effects: Vec<Effect>,
    events: Budget,
    expire_events_at: Millis,
    room: Room,
    /// When [`Self::settle`] is to be called again at the latest.
    awake_by: Option<Millis>,
}

impl Controller {
    /// A controller on top of what the store holds, with Kubernetes' default scheduler. It looks at everything once.
    #[must_use]
    pub fn new(view: View, identity: Identity, now: Now) -> Self {
        Self::configured(view, identity, &Configuration::default(), now)
    }

    /// As [`Self::new`], with a scheduler as the operator wants it.
    #[must_use]
    pub fn configured(view: View, identity: Identity, scheduler: &Configuration, now: Now) -> Self {
        let mut names = Names::new(identity.entropy);
        let seed = names.next();
        let mut controller = Self {
            view,
            names,
            nodes: Nodes::new(identity.cluster, identity.artifact_key, now.mono),
            scheduler: Scheduler::configured(seed, scheduler),
            wakes: Wakes::default(),
            changes: Vec::new(),
            observed: 0,
            effects: Vec::new(),
            events: Budget::new(now.mono),
            expire_events_at: now.mono,
            room: Room::Plenty,
            awake_by: None,
        };
        let everything: Vec<_> =
            Kind::all().flat_map(|kind| controller.view.list(kind, None).cloned().collect::<Vec<_>>()).collect();
        for object in everything {
            let change = Change { revision: object.revision, action: Action::Added, object, previous: None };
            controller.observe(&change, now);
        }
        let initial = reconcile::initial_writes(&controller.view);
        controller.carry_out(initial, None, now);
        controller
    }

    /// The staged view.
    #[must_use]
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// When each node was last heard.
    #[must_use]
    pub const fn leases(&self) -> &Leases {
        self.nodes.leases()
    }

    /// Takes one input. What follows from it happens in [`Self::settle`].
    pub fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Request(ticket, request) => {
                let answer = match self.room_for(&request) {
                    Ok(()) => requests::execute(&mut self.writer(now), *request),
                    Err(error) => Err(error),
                };
                self.effects.push(Effect::Answer(ticket, Box::new(answer)));
            }
            Input::Hear { node, up } => {
                let plan = self.nodes.hear(&self.view, now, &node, *up);
                self.carry_out(plan, None, now);
                self.send_replies();
            }
            Input::Room(room) => {
                self.nodes.record(!matches!(room, Room::Full(_)));
                self.room = room;
            }
            Input::Tick => {}
        }
    }

    /// Turns the crank until nothing moves. While the store is full nothing is staged: agents are heard and told what
    /// they should run, and everything else waits.
    pub fn settle(&mut self, now: Now) -> Stage {
        self.forgive_own_absence(now);
        if matches!(self.room, Room::Full(_)) {
            self.nodes.flush(&self.view, now);
            self.send_replies();
            return Stage { changes: Vec::new(), effects: std::mem::take(&mut self.effects) };
        }
        self.expire_events(now);
        self.wakes.due(now.mono);
        for _ in 0..MAX_STEPS {
            if self.observed < self.changes.len() {
                let change = self.changes[self.observed].clone();
                self.observed += 1;
                self.observe(&change, now);
            } else if let Some((row, key)) = self.wakes.pop() {
                self.reconcile(row, &key, now);
            } else if let Some(plan) = self.scheduler.step(&self.view, now) {
                self.carry_out(plan, None, now);
            } else {
                break;
            }
        }
        self.nodes.flush(&self.view, now);
        self.send_replies();
        self.observed = 0;
        self.awake_by = self.wake_at();
        let changes = store::coalesce(std::mem::take(&mut self.changes));
        Stage { changes, effects: std::mem::take(&mut self.effects) }
    }

    /// A controller that was stopped for a while (a suspended machine, a disk that hung) has heard nobody meanwhile, and
    /// silence is judged from when it listens again: every node gets its full time, as after a start.
    fn forgive_own_absence(&mut self, now: Now) {
        if self.awake_by.take().is_some_and(|at| now.mono.since(at) > OVERSLEPT_MS) {
            self.nodes.forgive_silence(now.mono);
        }
    }

    /// Whether there is room for what a request wants. A dry run needs none.
    fn room_for(&self, request: &Request) -> Result<(), ApiError> {
        match &self.room {
            Room::Full(what) if !request.dry_run => Err(ApiError::insufficient_storage(what.as_str())),
            Room::Scarce
                if !request.dry_run && request.kind == Kind::EVENT && matches!(request.verb, Verb::Create(_)) =>
            {
                Err(ApiError::insufficient_storage("the disk of the store is nearly full: events are not kept"))
            }
            Room::Full(_) | Room::Scarce | Room::Plenty => Ok(()),
        }
    }

    /// When to settle again, if nothing happens before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        if matches!(self.room, Room::Full(_)) {
            return self.nodes.wake_at();
        }
        [self.wakes.next(), self.scheduler.wake_at(), self.nodes.wake_at(), Some(self.expire_events_at)]
            .into_iter()
            .flatten()
            .min()
    }

    fn observe(&mut self, change: &Change, now: Now) {
        let wakes = &mut self.wakes;
        reconcile::woken_by(&self.view, change, &mut |row, key| wakes.wake(row, key));
        self.scheduler.observe(&self.view, change, now);
        self.nodes.observe(&self.view, change);
    }

    fn reconcile(&mut self, row: usize, key: &Key, now: Now) {
        let Some(reconciler) = reconcile::TABLE.get(row) else { return };
        let context = reconcile::Context { view: &self.view, now, leases: self.nodes.leases() };
        let plan = (reconciler.plan)(&context, key, &mut self.names);
        self.carry_out(plan, Some((row, key)), now);
    }

    /// Carries out a plan. A wish that is refused is dropped: the change that made it stale wakes its planner again. A
    /// refused create ends the plan and is told to the owner's planner, which says so in the owner's conditions and
    /// tries again later.
    fn carry_out(&mut self, plan: Plan, planner: Option<(usize, &Key)>, now: Now) {
        for write in plan.writes {
            let creates = matches!(write, Write::Create { .. });
            let refused = self.writer(now).write(write).err();
            if let (true, Some(error), Some((row, key))) = (creates, refused, planner) {
                return self.create_failed(row, key, &error, now);
            }
        }
        // Events are the first to go.
        for note in plan.notes.into_iter().filter(|_| self.room == Room::Plenty).collect::<Vec<_>>() {
            if !self.events.allows(&note, now.mono) {
                continue;
            }
            if let Some(write) = events::record(&self.view, &note, now) {
                self.events.spend();
                // An event about a namespace that has just gone has nowhere to be kept.
                let _: Result<Written, ApiError> = self.writer(now).write(write);
            }
        }
        if let Some((row, key)) = planner {
            self.wakes.schedule(row, key, plan.wake_at);
        }
    }

    fn create_failed(&mut self, row: usize, key: &Key, error: &ApiError, now: Now) {
        let Some(owner) = self.view.get(key).cloned() else { return };
        let context = reconcile::Context { view: &self.view, now, leases: self.nodes.leases() };
        let failed = reconcile::create_failed(&context, &owner, error);
        let wake_at = failed.wake_at;
        self.carry_out(Plan { wake_at: None, ..failed }, None, now);
        self.wakes.schedule(row, key, wake_at);
    }

    fn expire_events(&mut self, now: Now) {
        if now.mono >= self.expire_events_at {
            self.expire_events_at = now.mono + EXPIRE_EVENTS_MS;
            let plan = events::expire(&self.view, now);
            self.carry_out(plan, None, now);
        }
    }

    fn send_replies(&mut self) {
        for (node, down) in self.nodes.take_downs() {
            self.effects.push(Effect::Send { node, down: Box::new(down) });
        }
    }

    const fn writer(&mut self, now: Now) -> Writer<'_> {
        Writer { view: &mut self.view, names: &mut self.names, now, dry_run: false, changes: &mut self.changes }
    }
}
