//! The agent of a board that runs Linux: `agent/core` with a link, a disk and a runtime.
//!
//! *In:* a broker's address, the node's name, a data directory. *Out:* pods that run, and their status over MQTT.
//! *Must never know:* Kubernetes' objects, a compiler, anything of other nodes.
//! *Tested:* the pure parts beside them; guests, disk and artifacts in `tests/`; the whole end to end.
//!
//! One task, the [`driver`], owns the core and performs its effects. Guests run on threads of their own, streams as
//! tasks, so neither ever holds up the link. Several agents fit into one process: nothing here is global.

mod config;
pub mod facts;
mod memory;
mod space;

pub mod disk;

pub mod artifacts;
pub mod volumes;

pub mod logs;
pub mod runtime;
mod serving;
pub mod streams;

mod uplink;

mod driver;

use std::task::Poll;

use coracle_agent_core::Identity;
use coracle_link::{BrokerUrl, LinkError, ParseBrokerUrlError};
use coracle_wire::topic;

pub use self::config::{AgentConfig, Eviction, Thresholds};

use self::artifacts::Artifacts;
use self::disk::{DataDir, DiskError};
use self::driver::{Driver, Refused};
use self::uplink::Uplink;

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A name that cannot be a level of an MQTT topic.
    #[error("{what} \"{found}\" is no DNS name: want lower case letters, digits, \"-\" and \".\", such as pi-1")]
    Name {
        /// `node` or `cluster`.
        what: &'static str,
        /// As given.
        found: String,
    },
    /// No broker's address.
    #[error(transparent)]
    Broker(#[from] ParseBrokerUrlError),
    /// Plaintext to another machine.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The data directory.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The operating system has no random numbers.
    #[error("no random numbers: {0}")]
    Entropy(getrandom::Error),
    /// The agent's own runtime cannot be made.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// The controller does not want this agent: another one has its name, or the cluster is not the one it knows.
    #[error("this agent must not run: {0}")]
    Refused(String),
}

/// Runs an agent until `stop`. It works without a controller in sight: pods that it remembers are started at once.
///
/// # Errors
/// When the configuration or the data directory is not usable, or the controller refuses this agent.
pub async fn run(config: AgentConfig, stop: impl Future<Output = ()>) -> Result<(), AgentError> {
    run_and_tell(config, || {}, stop).await
}

/// As [`run`], and calls `ready` once everything is open and the agent is at work.
///
/// # Errors
/// As [`run`].
pub async fn run_and_tell(
    config: AgentConfig,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), AgentError> {
    let driver = open(config)?;
    tokio::pin!(stop);
    // Whoever hears that the agent is ready may ask it to stop, so `stop` listens from before.
    if std::future::poll_fn(|context| Poll::Ready(stop.as_mut().poll(context))).await.is_ready() {
        return Ok(());
    }
    ready();
    driver.run(stop).await.map_err(|Refused(reason)| AgentError::Refused(reason))
}

/// As [`run_and_tell`], on a small runtime of its own, which takes this thread.
///
/// # Errors
/// As [`run`].
pub fn run_blocking(
    config: AgentConfig,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), AgentError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(run_and_tell(config, ready, stop));
    // Whatever still resolves a name or reads a file is not waited for.
    runtime.shutdown_background();
    outcome
}

fn open(config: AgentConfig) -> Result<Driver, AgentError> {
    let AgentConfig { broker, node, cluster, zone, labels, data_dir, eviction_hard, eviction_transition_ms } = config;
    for (what, found) in [("node", &node), ("cluster", &cluster)] {
        if !topic::is_name(found) {
            return Err(AgentError::Name { what, found: found.clone() });
        }
    }
    let broker: BrokerUrl = broker.parse()?;
    broker.refuse_plaintext()?;
    let disk = DataDir::open(&data_dir)?;
    let instance = disk.instance()?;
    let remembered = disk.remembered()?;
    let artifacts = Artifacts::open(disk.path())?;
    let mut entropy = [0; 16];
    getrandom::fill(&mut entropy).map_err(AgentError::Entropy)?;
    let entropy = u128::from_le_bytes(entropy);
    let seed = (entropy >> 64) as u64;
    let facts = facts::read(zone, labels, disk.path());
    let suitable = || Thresholds::of_node(facts.capacity.memory_bytes, facts.capacity.storage_bytes);
    let thresholds = eviction_hard.unwrap_or_else(suitable);
    let eviction = Eviction { thresholds, transition_ms: eviction_transition_ms };
    let identity = Identity { instance, boot: facts::boot(entropy), facts, seed };
    let uplink = Uplink::new(broker, cluster, node, instance, seed);
    Ok(Driver::new(identity, eviction, disk, artifacts, remembered, uplink))
}
