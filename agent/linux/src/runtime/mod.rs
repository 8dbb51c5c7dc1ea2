//! Runs guests: every container is a component in a store of its own, on threads apart from the link's.
//!
//! *In:* what to start, signal and kill; requests for guests that answer HTTP. *Out:* [`RuntimeEvent`]s, and lines into
//! the logs. *Must never know:* MQTT, phases and restarts, why a guest is to run or to end.
//! *Tested:* the pure parts (quota, memory) beside them, the rest with real guests in `tests/`.
//!
//! An idle runtime owns nothing: the engine, the epoch's thread and the guest threads are made when they are needed.
//! Guests are tasks on a few threads; each computes while it has a turn, and a turn ends when the guest waits, or at the
//! next tick of the epoch. Threads look for news after every single turn, so a kill waits for one turn at most.
//!
//! What a container may use is counted in [`tally`]s, its own and the node's: memory, descriptors, space on
//! the disk. `docs/limits.md` says what counts.

mod tally;

mod preopen;

mod quota;

mod turns;

mod epoch;

mod meter;

mod memory;

mod termination;

mod output;

mod filesystem;

mod host;

mod imports;

mod machine;

mod fate;

mod handler;

mod guest;

mod threads;

mod usage;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle_agent_core::RuntimeEvent;
use coracle_lifecycle::{Exit, Run};
use coracle_model::{Container, Digest, Pod, PodUid};
use rustix::process::{Resource, getrlimit};
use tokio::sync::{Notify, mpsc};

use self::guest::Order;
pub(crate) use self::handler::{Answered, Incoming};
use self::host::{Node, Surroundings};
pub use self::imports::interfaces;
use self::machine::Machine;
use self::meter::Meter;
pub use self::preopen::{DiskFull, DiskQuota, Preopen};
use self::tally::Tally;
use self::termination::Bell;
use self::threads::GuestThreads;
use self::usage::Counts;
use crate::artifacts::Stored;
use crate::logs::Output;

/// Requests that wait for one container.
const MAX_WAITING_REQUESTS: usize = 64;
/// Descriptors of the operating system that guests leave to the agent itself.
const OWN_DESCRIPTORS: u64 = 256;

/// What the runtime has to say.
#[derive(Debug)]
pub enum Report {
    /// For the core.
    Event(RuntimeEvent),
    /// This artifact is not what was signed: it is to be pulled again.
    Damaged(Digest),
}

struct Handle {
    image: Digest,
    bell: Bell,
    kill: Arc<Notify>,
    requests: mpsc::Sender<Incoming>,
    counts: Counts,
    /// Ports that the container names; none means that it answers on any.
    ports: Vec<u16>,
}

/// Everything about one start.
pub struct Start<'a> {
    /// Which run.
    pub run: Run,
    /// The pod.
    pub pod: &'a Pod,
    /// Its container.
    pub container: &'a Container,
    /// The image.
    pub image: Digest,
    /// The image's artifact and the key that must have signed it; nothing if it is not on the disk.
    pub artifact: Option<(Stored, [u8; 32])>,
    /// Where its lines go.
    pub output: Arc<Output>,
    /// The directories that it finds open.
    pub preopens: Vec<Preopen>,
}

/// The guests of one agent. Dropping it ends them all.
pub struct Runtime {
    machine: Arc<OnceLock<Arc<Machine>>>,
    threads: Option<GuestThreads>,
    node: Node,
    runs: HashMap<Run, Handle>,
    reports: mpsc::Sender<Report>,
}

impl Runtime {
    /// An idle one, which will say what happens on `reports`. All its guests together may take `memory_bytes`
    /// (`status.allocatable.memory`; zero for no bound).
    #[must_use]
    pub fn new(reports: mpsc::Sender<Report>, memory_bytes: u64) -> Self {
        let open = getrlimit(Resource::Nofile).current.unwrap_or(0);
        let descriptors = if open == 0 { 0 } else { open.saturating_sub(OWN_DESCRIPTORS).max(1) };
        let node = Node {
            memory: Arc::new(Tally::new(memory_bytes, None)),
            descriptors: Arc::new(Tally::new(descriptors, None)),
        };
        Self { machine: Arc::default(), threads: None, node, runs: HashMap::new(), reports }
    }

    /// Starts a run; [`RuntimeEvent::Started`] or [`RuntimeEvent::Exited`] follows. Starting it twice is starting it
    /// once.
    pub async fn start(&mut self, start: Start<'_>) {
        if self.runs.contains_key(&start.run) {
            return;
        }
        let Start { run, pod, container, image, artifact, output, preopens } = start;
        let machine = match self.machine() {
            Ok(machine) => machine,
            Err(reason) => {
                output.end();
                return self.exited(run, Exit::CannotStart(reason)).await;
            }
        };
        let threads = match self.threads() {
            Ok(threads) => threads,
            Err(error) => {
                output.end();
                return self.exited(run, Exit::CannotStart(format!("no thread for it: {error}"))).await;
            }
        };
        let (bell, hearing) = termination::bell();
        let (sender, requests) = mpsc::channel(MAX_WAITING_REQUESTS);
        let kill = Arc::new(Notify::new());
        let schedule = Arc::clone(&threads.schedule);
        let (limit, request) = (container.limits.cpu_millis, container.requests.cpu_millis);
        let meter = Meter::new(schedule, Arc::clone(&machine.ticker), limit, request);
        let surroundings = Surroundings::new((pod, container), hearing, output, preopens, meter, &self.node);
        let counts = Counts::of(&surroundings);
        let order =
            Order { run: run.clone(), image, artifact, surroundings, requests, kill: Arc::clone(&kill), machine };
        let ports = container.ports.iter().map(|(_, port)| *port).collect();
        let reports = self.reports.clone();
        if let Some(threads) = &self.threads {
            threads.attend(order, reports);
        }
        self.runs.insert(run, Handle { image, bell, kill, requests: sender, counts, ports });
    }

    fn threads(&mut self) -> std::io::Result<&GuestThreads> {
        match &mut self.threads {
            Some(threads) => Ok(threads),
            threads => Ok(threads.insert(GuestThreads::start()?)),
        }
    }

    fn machine(&self) -> Result<Arc<Machine>, String> {
        if let Some(machine) = self.machine.get() {
            return Ok(Arc::clone(machine));
        }
        let machine = Arc::new(Machine::new().map_err(|error| error.to_string())?);
        Ok(Arc::clone(self.machine.get_or_init(|| machine)))
    }

    /// Makes the termination signal visible to the guest.
    pub fn signal(&self, run: &Run, grace_ms: u64) {
        if let Some(handle) = self.runs.get(run) {
            handle.bell.ring(Duration::from_millis(grace_ms));
        }
    }

    /// Makes it visible to all guests; for the end of the agent.
    pub fn signal_all(&self, grace_ms: u64) {
        for handle in self.runs.values() {
            handle.bell.ring(Duration::from_millis(grace_ms));
        }
    }

    /// Ends a run now. One that is not known here has ended, and that is said again.
    pub async fn kill(&self, run: &Run) {
        match self.runs.get(run) {
            Some(handle) => handle.kill.notify_one(),
            None => self.exited(run.clone(), Exit::Killed).await,
        }
    }

    /// Ends all runs now; for the end of the agent.
    pub fn kill_all(&self) {
        for handle in self.runs.values() {
            handle.kill.notify_one();
        }
    }

    async fn exited(&self, run: Run, exit: Exit) {
        // The receiver lives as long as the driver, and without it nobody wants to know.
        let _ = self.reports.send(Report::Event(RuntimeEvent::Exited { run, exit })).await;
    }

    /// The run has exited; to be called for every [`RuntimeEvent::Exited`] that is read from the reports.
    pub fn ended(&mut self, run: &Run) {
        self.runs.remove(run);
    }

    /// Whether nothing runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a run of this image is there.
    #[must_use]
    pub fn is_running(&self, image: Digest) -> bool {
        self.runs.values().any(|handle| handle.image == image)
    }

    /// Where to send requests for a port of a pod; zero is the first port that somebody answers on.
    pub(crate) fn listener(&self, pod: PodUid, port: u16) -> Option<mpsc::Sender<Incoming>> {
        let answers = |handle: &Handle| port == 0 || handle.ports.is_empty() || handle.ports.contains(&port);
        let mut found: Vec<_> = self
            .runs
            .iter()
            .filter(|(run, handle)| run.pod == pod && answers(handle) && !handle.requests.is_closed())
            .collect();
        found.sort_by_key(|(run, handle)| (!handle.ports.contains(&port), run.container.clone()));
        found.first().map(|(_, handle)| handle.requests.clone())
    }
}
