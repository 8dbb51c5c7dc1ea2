//! The world: who is there, what will happen, and what goes wrong.

use std::fmt;

use coracle_controller_core::controller::Ticket;
use coracle_controller_core::request::Request;
use coracle_wire::down::Down;

#[cfg(test)]
use coracle_controller_core::{Key, Kind};

use crate::chance::Chance;
use crate::checkers::{self, Judge, Violation};
use crate::controller::{Crash, SimulatedController, Turn};
use crate::network::{Agenda, Happening, Weather};
use crate::node::{Node, Outside};
use crate::promises::Promises;
use crate::rest;
use crate::scheduling::SchedulingJudge;
use crate::users;

mod trouble;

/// The longest time between two steps of faults.
const STEP_MS: u64 = 400;

/// What a run was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    steps: u64,
    nodes: usize,
    virtual_ms: u64,
    requests: u64,
    refused: u64,
    batches: u64,
    changes: u64,
    crashes: u64,
    /// Disks that were full, clocks that jumped, processes that stood still.
    oddities: u64,
    bindings: u64,
    /// Pods that had to make room.
    evictions: u64,
    /// Pods that nodes evicted because they were short of memory (PRI-09).
    pub evicted_by_nodes: u64,
    /// A fingerprint of everything that became durable: two runs of one seed give the same.
    pub fingerprint: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, nodes, virtual_ms, requests, refused, batches, changes, crashes, oddities, .. } = self;
        let Self { bindings, evictions, evicted_by_nodes, fingerprint, .. } = self;
        write!(
            f,
            "{steps} steps, {nodes} nodes, {} virtual s, {requests} requests ({refused} refused), {batches} batches, \
             {changes} changes, {bindings} bindings, {evictions} evictions, {evicted_by_nodes} by nodes, \
             {crashes} crashes, {oddities} oddities, fingerprint {fingerprint:016x}",
            virtual_ms / 1000
        )
    }
}

/// Everything.
pub(crate) struct World<'a> {
    now: u64,
    chance: Chance,
    agenda: Agenda,
    weather: Weather,
    controller: SimulatedController,
    nodes: Vec<Node>,
    judge: Judge,
    scheduling: SchedulingJudge,
    promises: Promises,
    /// The broker is a process of its own, and lives on when the controller crashes.
    broker_is_apart: bool,
    /// How the controller crashes in its next batch.
    crash: Option<Crash>,
    /// The controller's process is stopped, and what comes for it waits.
    controller_stands_still: bool,
    waiting: Vec<Happening>,
    next_ticket: Ticket,
    report: Report,
    trace: &'a mut dyn FnMut(&str),
}

impl<'a> World<'a> {
    pub(crate) fn new(seed: u64, trace: &'a mut dyn FnMut(&str)) -> Self {
        let mut chance = Chance::new(seed);
        let count = 2 + usize::try_from(chance.below(4)).unwrap_or(0);
        let report = Report {
            steps: 0,
            nodes: count,
            virtual_ms: 0,
            requests: 0,
            refused: 0,
            batches: 0,
            changes: 0,
            crashes: 0,
            oddities: 0,
            bindings: 0,
            evictions: 0,
            evicted_by_nodes: 0,
            fingerprint: seed,
        };
        let mut world = Self {
            now: 1,
            agenda: Agenda::default(),
            weather: Weather::FAIR,
            controller: SimulatedController::new(),
            nodes: (0..count).map(Node::new).collect(),
            judge: Judge::default(),
            scheduling: SchedulingJudge::default(),
            promises: Promises::default(),
            broker_is_apart: chance.per_mille(300),
            crash: None,
            controller_stands_still: false,
            waiting: Vec::new(),
            next_ticket: 0,
            report,
            trace,
            chance,
        };
        world.agenda.at(1, Happening::ControllerStarts);
        for node in 0..count {
            let at = 1 + world.chance.below(3_000);
            world.agenda.at(at, Happening::AgentStarts { node });
        }
        world
    }

    /// One step of a bad time: something goes wrong or somebody wants something, and time goes on.
    pub(crate) fn step(&mut self) -> Result<(), Violation> {
        self.trouble();
        let until = self.now + 1 + self.chance.below(STEP_MS);
        self.run_until(until)
    }

    /// Ends every fault: everybody is up, and the network is fair.
    pub(crate) fn heal(&mut self) -> Result<(), Violation> {
        self.say("everything heals");
        self.weather = Weather::FAIR;
        self.crash = None;
        self.agenda.at(self.now + 1, Happening::ControllerStarts);
        for node in 0..self.nodes.len() {
            self.agenda.at(self.now + 1, Happening::AgentStarts { node });
            self.agenda.at(self.now + 1, Happening::Reunited { node });
            self.agenda.at(self.now + 1, Happening::NodeHasRoom { node });
            self.agenda.at(self.now + 1, Happening::NodeGoesOn { node });
        }
        self.agenda.at(self.now + 1, Happening::ControllerHasRoom);
        self.agenda.at(self.now + 1, Happening::ControllerGoesOn);
        self.run_until(self.now + 1_000)?;
        // Whoever waits for a class of its own gets it.
        for number in 0..users::CLASSES {
            self.ask(users::priority_class(number));
        }
        Ok(())
    }

    /// Runs until the cluster is at rest, and says what is not if it never is.
    pub(crate) fn converge(&mut self, limit_ms: u64) -> Result<(), Violation> {
        let deadline = self.now + limit_ms;
        loop {
            self.promises.check(self.controller.durable()).map_err(|what| self.violation(what))?;
            let unrest = rest::unrest(self.controller.durable(), &self.nodes);
            if unrest.is_empty() {
                return Ok(());
            }
            if self.now >= deadline {
                return Err(self.violation(format!("the healed cluster does not come to rest: {}", unrest.join("; "))));
            }
            self.run_until(self.now + 1_000)?;
        }
    }

    pub(crate) fn report(mut self, steps: u64) -> Report {
        self.report.steps = steps;
        self.report.virtual_ms = self.now;
        (self.report.bindings, self.report.evictions) = (self.scheduling.bindings, self.scheduling.evictions);
        self.report.evicted_by_nodes = self.judge.evicted;
        for object in self.controller.durable().values() {
            for byte in object.body().bytes() {
                self.report.fingerprint = (self.report.fingerprint ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        self.report
    }

    /// What no store may do: an object that was acknowledged is gone after a restart.
    #[cfg(test)]
    pub(crate) fn lose(&mut self, kind: Kind) -> Option<Key> {
        let mut keys = self.controller.durable().keys();
        let key = keys.find(|key| key.kind == kind && self.promises.keeps(key)).cloned()?;
        self.controller.lose(&key);
        Some(key)
    }

    /// An embedded broker dies with its controller, and every session breaks.
    fn controller_crashed(&mut self, crash: Option<Crash>) {
        self.say(&format!("the controller crashes: {crash:?}"));
        self.report.crashes += 1;
        if !self.broker_is_apart {
            for node in 0..self.nodes.len() {
                self.with_node(node, Node::break_link);
            }
        }
        let later = self.now + 500 + self.chance.below(20_000);
        self.agenda.at(later, Happening::ControllerStarts);
    }

    fn ask(&mut self, wish: Request) {
        if !self.controller.is_up() || self.controller_stands_still {
            return;
        }
        let verb = format!("{:?}", wish.verb);
        let verb = verb.split('(').next().unwrap_or_default();
        self.say(&format!("a user asks: {verb} {:?} {}", wish.kind, wish.name));
        self.next_ticket += 1;
        self.report.requests += 1;
        self.promises.asked(&wish);
        self.controller.request(self.now, self.next_ticket, wish);
    }

    /// Lets everything happen up to a time, in order.
    fn run_until(&mut self, until: u64) -> Result<(), Violation> {
        loop {
            self.drain()?;
            let next = self.next_time().unwrap_or(until).max(self.now + 1);
            if next > until {
                self.now = until;
                return Ok(());
            }
            self.now = next;
        }
    }

    fn next_time(&self) -> Option<u64> {
        let agents = self.nodes.iter().filter_map(Node::wake_at).min();
        let controller = self.controller.wake_at().filter(|_| !self.controller_stands_still);
        [self.agenda.next_time(), controller, agents].into_iter().flatten().min()
    }

    fn drain(&mut self) -> Result<(), Violation> {
        while let Some(happening) = self.agenda.due(self.now) {
            self.happen(happening)?;
        }
        for node in 0..self.nodes.len() {
            self.with_node(node, Node::tick);
        }
        if self.controller_stands_still {
            return self.judge_waits(false);
        }
        let was_up = self.controller.is_up();
        let turn = self.controller.turn(self.now, self.crash, &mut self.chance);
        let has_changed = !turn.changes.is_empty();
        if turn.crashed.is_some() {
            self.crash = None;
            self.scheduling.started(self.controller.durable());
        }
        self.release(turn)?;
        self.judge_waits(has_changed)?;
        if was_up && !self.controller.is_up() {
            let crash = self.crash.take();
            self.controller_crashed(crash);
        }
        Ok(())
    }

    fn judge_waits(&mut self, has_changed: bool) -> Result<(), Violation> {
        let is_working = self.controller.is_up() && !self.controller.is_full() && !self.controller_stands_still;
        self.scheduling.waits(self.now, is_working, has_changed).map_err(|what| self.violation(what))
    }

    fn release(&mut self, turn: Turn) -> Result<(), Violation> {
        if !turn.changes.is_empty() {
            self.report.batches += 1;
            self.report.changes += turn.changes.len() as u64;
            self.judge.batch(&turn.changes).map_err(|what| self.violation(what))?;
            let durable = self.controller.durable();
            self.promises.batch(&turn.changes, durable, &self.nodes).map_err(|what| self.violation(what))?;
            checkers::capacity(self.controller.durable()).map_err(|what| self.violation(what))?;
            self.scheduling.batch(&turn.changes).map_err(|what| self.violation(what))?;
        }
        self.judge.runs(&self.nodes).map_err(|what| self.violation(what))?;
        for (_, answer) in turn.answers {
            match answer {
                Ok(answer) => {
                    self.promises.answered(&answer);
                    self.promises.check(self.controller.durable()).map_err(|what| self.violation(what))?;
                }
                Err(error) => {
                    self.report.refused += 1;
                    self.say(&format!("refused: {error}"));
                    let no_room = error.code == 507 && self.report.oddities > 0;
                    if error.code >= 500 && !no_room {
                        return Err(self.violation(format!("the API failed: {error}")));
                    }
                }
            }
        }
        for (node, down) in turn.downs {
            self.send_down(&node, &down);
        }
        Ok(())
    }

    fn send_down(&mut self, name: &str, down: &Down) {
        let Some(node) = self.nodes.iter().position(|node| node.name == name) else { return };
        let Some(session) = self.nodes[node].connected.filter(|_| !self.nodes[node].cut_off) else { return };
        if let Ok(payload) = down.encode() {
            let message = Happening::Down { node, session, payload };
            self.agenda.send(self.now, self.weather, &mut self.chance, &message);
        }
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Up { .. } if self.controller_stands_still => self.waiting.push(happening),
            Happening::Up { node, payload } => {
                let name = self.nodes[node].name.clone();
                if let Some(reply) = self.controller.hear(self.now, &name, &payload) {
                    self.send_down(&name, &reply);
                }
            }
            Happening::Down { node, session, payload } => {
                self.with_node(node, |node, outside| node.down(session, payload, outside));
            }
            Happening::Connect { node } => {
                let broker_is_up = self.broker_is_apart || self.controller.is_up();
                self.with_node(node, |node, outside| node.connect(broker_is_up, outside));
            }
            Happening::Started { node, run, boot } => {
                self.with_node(node, |node, outside| node.started(run, boot, outside));
            }
            Happening::Exited { node, run, exit, boot } => {
                self.with_node(node, |node, outside| node.exited(run, exit, boot, outside));
            }
            Happening::AgentStarts { node } => {
                if !self.nodes[node].is_up() {
                    self.say(&format!("the agent of node-{node} starts"));
                    self.with_node(node, Node::start);
                }
            }
            Happening::ControllerStarts => {
                if !self.controller.is_up() {
                    self.say("the controller starts");
                    self.controller_stands_still = false;
                    self.promises.check(self.controller.durable()).map_err(|what| self.violation(what))?;
                    self.controller.start(self.now, &mut self.chance);
                    self.scheduling.started(self.controller.durable());
                }
            }
            Happening::Reunited { node } => {
                self.nodes[node].cut_off = false;
                // The broker has given up on the old connection meanwhile.
                self.with_node(node, Node::break_link);
            }
            Happening::NodeHasRoom { node } => {
                self.nodes[node].disk_is_full = false;
                self.nodes[node].memory_is_short = false;
            }
            Happening::NodeGoesOn { node } => self.with_node(node, Node::go_on),
            Happening::ControllerHasRoom => self.controller.set_full(self.now, false),
            Happening::ControllerGoesOn => {
                self.controller_stands_still = false;
                for happening in std::mem::take(&mut self.waiting) {
                    self.happen(happening)?;
                }
            }
        }
        Ok(())
    }

    fn with_node(&mut self, node: usize, act: impl FnOnce(&mut Node, &mut Outside<'_>)) {
        let mut outside =
            Outside { now: self.now, agenda: &mut self.agenda, weather: self.weather, chance: &mut self.chance };
        act(&mut self.nodes[node], &mut outside);
    }

    fn say(&mut self, what: &str) {
        let line = format!("{:>10}.{:03} {what}", self.now / 1000, self.now % 1000);
        (self.trace)(&line);
    }

    fn violation(&self, what: String) -> Violation {
        Violation { at_ms: self.now, what }
    }
}
