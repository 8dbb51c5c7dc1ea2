//! One node: the real agent core on a fake disk, with a fake runtime.

use std::collections::{BTreeMap, BTreeSet};

use coracle_agent_core::pressure::{Eviction, Measured, PodUse, Room, Threshold, Thresholds};
use coracle_agent_core::{Agent, Effect, Identity, Input, Remembered, RuntimeEvent};
use coracle_lifecycle::Exit;
use coracle_model::{BootId, Digest, InstanceId, Limits, Millis, NodeFacts, ResourceAmounts, SessionNumber};
use coracle_wire::artifact::ArtifactManifest;
use coracle_wire::topic::NodeTopic;
use coracle_wire::up::{Death, Up};

use crate::chance::Chance;
use crate::network::{Agenda, Happening, Weather};
use crate::runtime::Runtime;

/// How long after its time a birth may still come.
const LATEST_BIRTH_MS: u64 = 30_000;

/// All memory of a node.
const MEMORY_BYTES: u64 = 1 << 30;
/// What every pod uses of it, whatever it requested.
pub(crate) const POD_BYTES: u64 = 128 << 20;
/// When a node is short of memory, and for how long it says so.
const EVICTION: Eviction = Eviction {
    thresholds: Thresholds { memory: Some(Threshold::Bytes(100 << 20)), disk: None },
    transition_ms: 20_000,
};

/// What survives a crash.
#[derive(Debug, Default)]
struct Disk {
    remembered: Remembered,
    session: SessionNumber,
    artifacts: BTreeMap<String, Digest>,
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    number: usize,
    zone: String,
    disk: Disk,
    agent: Option<Agent>,
    pub(crate) runtime: Runtime,
    /// Counts the starts of the agent: what an earlier one began is void.
    boot: u64,
    /// The session that stands, if one does.
    pub(crate) connected: Option<SessionNumber>,
    /// No message passes, and connecting fails.
    pub(crate) cut_off: bool,
    /// What must be remembered still fits (it has a reserve); images do not.
    pub(crate) disk_is_full: bool,
    /// Somebody else on the machine has nearly all its memory.
    pub(crate) memory_is_short: bool,
    /// The process is stopped, and what happens meanwhile waits.
    stands_still: bool,
    waiting: Vec<Happening>,
    clock: Clock,
    pulling: BTreeMap<Digest, (String, Digest)>,
    /// Why the core wanted its program to end; never expected here.
    pub(crate) quit: Option<String>,
}

/// A node's own clock, which began at another time than the world's and runs at another rate.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset_ms: u64,
    /// Its milliseconds in 1000 of the world's.
    rate: u64,
}

impl Clock {
    fn of(chance: &mut Chance) -> Self {
        Self { offset_ms: chance.below(1_000_000), rate: 990 + chance.below(21) }
    }

    const fn at(self, world_ms: u64) -> Millis {
        Millis(self.offset_ms + world_ms * self.rate / 1000)
    }

    /// The first world time at which this clock has come to `at`.
    const fn world_ms(self, at: Millis) -> u64 {
        (at.0.saturating_sub(self.offset_ms) * 1000).div_ceil(self.rate)
    }
}

/// What a node's effects may touch.
pub(crate) struct Outside<'a> {
    pub(crate) now: u64,
    pub(crate) agenda: &'a mut Agenda,
    pub(crate) weather: Weather,
    pub(crate) chance: &'a mut Chance,
}

impl Node {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            name: format!("node-{number}"),
            number,
            zone: format!("zone-{}", number % 2),
            disk: Disk::default(),
            agent: None,
            runtime: Runtime::default(),
            boot: 0,
            connected: None,
            cut_off: false,
            disk_is_full: false,
            memory_is_short: false,
            stands_still: false,
            waiting: Vec::new(),
            clock: Clock { offset_ms: 0, rate: 1000 },
            pulling: BTreeMap::new(),
            quit: None,
        }
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.agent.is_some()
    }

    /// The agent starts on what its disk remembers.
    pub(crate) fn start(&mut self, outside: &mut Outside<'_>) {
        self.boot += 1;
        self.clock = Clock::of(outside.chance);
        let identity = Identity {
            instance: InstanceId(1 + self.number as u128),
            boot: BootId(u128::from(self.boot)),
            facts: self.facts(),
            seed: outside.chance.next(),
        };
        let now = self.clock.at(outside.now);
        let agent = Agent::new(identity, Limits::LINUX, self.disk.remembered.clone(), now);
        self.agent = Some(agent.evicting(EVICTION));
        let delay = 1 + outside.chance.below(500);
        outside.agenda.at(outside.now + delay, Happening::Connect { node: self.number });
        self.perform(outside);
    }

    /// The process is stopped (SIGSTOP, a suspended machine), and every guest in it.
    pub(crate) const fn stand_still(&mut self) {
        self.stands_still = true;
    }

    /// The process goes on. The broker has given it up meanwhile, and what had come for it comes now.
    pub(crate) fn go_on(&mut self, outside: &mut Outside<'_>) {
        if !std::mem::take(&mut self.stands_still) {
            return;
        }
        for happening in std::mem::take(&mut self.waiting) {
            outside.agenda.at(outside.now, happening);
        }
        self.break_link(outside);
    }

    /// Keeps what happens to a process that stands still; whether it does.
    fn waits(&mut self, happening: impl FnOnce() -> Happening) -> bool {
        if self.stands_still {
            self.waiting.push(happening());
        }
        self.stands_still
    }

    /// The process and every guest in it are gone.
    pub(crate) fn crash(&mut self, outside: &mut Outside<'_>) {
        self.stands_still = false;
        self.waiting.clear();
        self.agent = None;
        self.runtime = Runtime::default();
        self.pulling.clear();
        self.break_link(outside);
    }

    /// The MQTT session ends: the broker sends the will.
    pub(crate) fn break_link(&mut self, outside: &mut Outside<'_>) {
        if let Some(session) = self.connected.take()
            && let Ok(payload) = Up::Death(Death { session }).encode()
        {
            let message = Happening::Up { node: self.number, payload };
            outside.agenda.send(outside.now, outside.weather, outside.chance, &message);
        }
        if self.is_up() && !self.stands_still {
            self.input(Input::Disconnected, outside);
            let delay = 200 + outside.chance.below(2_000);
            outside.agenda.at(outside.now + delay, Happening::Connect { node: self.number });
        }
    }

    /// Tries to connect; tries again later if the network or the controller is away.
    pub(crate) fn connect(&mut self, broker_is_up: bool, outside: &mut Outside<'_>) {
        let node = self.number;
        if !self.is_up() || self.connected.is_some() || self.waits(|| Happening::Connect { node }) {
            return;
        }
        if self.cut_off || !broker_is_up {
            let delay = 500 + outside.chance.below(5_000);
            outside.agenda.at(outside.now + delay, Happening::Connect { node: self.number });
            return;
        }
        self.disk.session = self.disk.session.next();
        self.connected = Some(self.disk.session);
        self.input(Input::Connected(self.disk.session), outside);
    }

    /// A message from the controller, for one session.
    pub(crate) fn down(&mut self, session: SessionNumber, payload: Vec<u8>, outside: &mut Outside<'_>) {
        let node = self.number;
        if self.connected == Some(session) && !self.cut_off {
            if self.stands_still {
                self.waiting.push(Happening::Down { node, session, payload });
                return;
            }
            self.input(Input::Down(payload), outside);
        }
    }

    pub(crate) fn started(&mut self, run: coracle_lifecycle::Run, boot: u64, outside: &mut Outside<'_>) {
        let node = self.number;
        if self.waits(|| Happening::Started { node, run: run.clone(), boot }) {
            return;
        }
        if boot == self.boot && self.runtime.is_running(&run) {
            self.input(Input::Runtime(RuntimeEvent::Started(run)), outside);
        }
    }

    pub(crate) fn exited(&mut self, run: coracle_lifecycle::Run, exit: Exit, boot: u64, outside: &mut Outside<'_>) {
        let node = self.number;
        if self.waits(|| Happening::Exited { node, run: run.clone(), exit: exit.clone(), boot }) {
            return;
        }
        if boot == self.boot && self.runtime.end(&run) {
            self.input(Input::Runtime(RuntimeEvent::Exited { run, exit }), outside);
        }
    }

    /// When the core wants to be asked again, in world time.
    pub(crate) fn wake_at(&self) -> Option<u64> {
        let agent = self.agent.as_ref().filter(|_| !self.stands_still)?;
        Some(self.clock.world_ms(agent.wake_at()?))
    }

    pub(crate) fn tick(&mut self, outside: &mut Outside<'_>) {
        if self.wake_at().is_some_and(|at| at <= outside.now) {
            self.input(Input::Tick, outside);
        }
    }

    fn input(&mut self, input: Input, outside: &mut Outside<'_>) {
        let now = self.clock.at(outside.now);
        if let Some(agent) = &mut self.agent {
            agent.handle(now, input);
        }
        self.perform(outside);
    }

    fn perform(&mut self, outside: &mut Outside<'_>) {
        while let Some(effect) = self.agent.as_mut().and_then(Agent::poll_effect) {
            if let Some(answer) = self.perform_one(effect, outside) {
                let now = self.clock.at(outside.now);
                if let Some(agent) = &mut self.agent {
                    agent.handle(now, answer);
                }
            }
        }
    }

    fn perform_one(&mut self, effect: Effect, outside: &mut Outside<'_>) -> Option<Input> {
        match effect {
            Effect::Publish { topic, payload } => self.publish(topic, payload, outside),
            Effect::Reconnect => {
                self.connected = None;
                outside.agenda.at(outside.now + 100, Happening::Connect { node: self.number });
                return Some(Input::Disconnected);
            }
            Effect::Remember(remembered) => self.disk.remembered = remembered,
            Effect::Quit(why) => self.quit = Some(why),
            Effect::Start { run, pod, .. } => self.start_run(run, &pod, outside),
            Effect::Signal { run, .. } => {
                if let Some(delay) = self.runtime.signal(&run, outside.chance) {
                    self.exit_later(run, Exit::Code(0), delay, outside);
                }
            }
            Effect::Kill(run) => {
                let delay = 1 + outside.chance.below(100);
                self.exit_later(run, Exit::Killed, delay, outside);
            }
            Effect::FindArtifact { image } => {
                let digest = self.disk.artifacts.get(&image).copied();
                return Some(Input::ArtifactFound { image, digest });
            }
            Effect::BeginArtifact { image, manifest } => return Some(self.begin(image, &manifest)),
            Effect::FinishArtifact { artifact, .. } => {
                if let Some((image, digest)) = self.pulling.remove(&artifact) {
                    self.disk.artifacts.insert(image, digest);
                }
                return Some(Input::ArtifactFinished { artifact, result: Ok(()) });
            }
            Effect::Measure => return Some(Input::Measured(self.measure(false))),
            Effect::Survey { .. } => return Some(Input::Measured(self.measure(true))),
            Effect::Forget(_)
            | Effect::Refresh(_)
            | Effect::TearDown(_)
            | Effect::TearDownOthers(_)
            | Effect::WriteBlock { .. }
            | Effect::StreamOpen(_)
            | Effect::StreamData(_)
            | Effect::StreamCredit(_)
            | Effect::StreamEnd(_) => {}
        }
        None
    }

    fn measure(&self, with_pods: bool) -> Measured {
        let available_bytes = if self.memory_is_short { 0 } else { MEMORY_BYTES };
        let uses = |pod| PodUse { pod, memory_bytes: POD_BYTES, disk_bytes: 0, containers: Vec::new() };
        let pods: BTreeSet<_> = self.runtime.pods().collect();
        Measured {
            memory: Some(Room { total_bytes: MEMORY_BYTES, available_bytes }),
            disk: None,
            pods: with_pods.then(|| pods.into_iter().map(uses).collect()),
            is_settling: false,
        }
    }

    fn publish(&self, topic: NodeTopic, payload: Vec<u8>, outside: &mut Outside<'_>) {
        if self.connected.is_none() || self.cut_off {
            return;
        }
        let message = Happening::Up { node: self.number, payload };
        outside.agenda.send(outside.now, outside.weather, outside.chance, &message);
        // A birth may also come once more long after, when its session is over.
        if topic == NodeTopic::Birth && outside.chance.per_mille(outside.weather.doubling) {
            let delay = outside.chance.below(LATEST_BIRTH_MS);
            outside.agenda.at(outside.now + delay, message);
        }
    }

    fn begin(&mut self, image: String, manifest: &ArtifactManifest) -> Input {
        if self.disk_is_full {
            let result = Err("no space left on device".to_owned());
            return Input::ArtifactFinished { artifact: manifest.artifact, result };
        }
        let complete = self.disk.artifacts.get(&image) == Some(&manifest.image);
        if !complete {
            self.pulling.insert(manifest.artifact, (image, manifest.image));
        }
        Input::ArtifactBegun { artifact: manifest.artifact, complete, have: Vec::new() }
    }

    fn start_run(&mut self, run: coracle_lifecycle::Run, pod: &coracle_model::Pod, outside: &mut Outside<'_>) {
        let container = pod.containers.iter().find(|container| container.name == run.container);
        let image = container.map(|container| container.image.clone()).unwrap_or_default();
        let (started, end) = self.runtime.start(run.clone(), &image, outside.chance);
        let (node, boot) = (self.number, self.boot);
        outside.agenda.at(outside.now + started, Happening::Started { node, run: run.clone(), boot });
        if let Some((lifetime, exit)) = end {
            self.exit_later(run, exit, lifetime, outside);
        }
    }

    fn exit_later(&self, run: coracle_lifecycle::Run, exit: Exit, delay: u64, outside: &mut Outside<'_>) {
        let (node, boot) = (self.number, self.boot);
        outside.agenda.at(outside.now + delay, Happening::Exited { node, run, exit, boot });
    }

    fn facts(&self) -> NodeFacts {
        let amounts = ResourceAmounts { cpu_millis: 1000, memory_bytes: MEMORY_BYTES, storage_bytes: 1 << 33 };
        NodeFacts {
            arch: "arm64".to_owned(),
            os: "linux".to_owned(),
            target: "aarch64-unknown-linux-gnu".to_owned(),
            engine: "simulated".to_owned(),
            zone: self.zone.clone(),
            labels: Vec::new(),
            capacity: amounts,
            allocatable: amounts,
            interfaces: Vec::new(),
            max_pods: 20,
            agent_version: "simulated".to_owned(),
            kernel: String::new(),
            os_image: String::new(),
            machine_id: String::new(),
        }
    }
}
