//! Hollow agents, thousands in one process: the real session, lifecycle and link of an agent, on guests and a disk that
//! are made up.
//!
//! *In:* where the broker is, how many nodes, what they look like. *Out:* nodes that join, pods that become Running, and
//! figures of what went over the wire.
//! *Must never know:* WebAssembly, Kubernetes' objects, the inside of a controller.
//! *Tested:* chance, guests and disk beside them; the whole against a real controller end to end, in
//! `tests/tests/fleet.rs`.
//!
//! One node is one task with one TCP connection of its own. What a controller hears of it is what it would hear of a real
//! agent, down to the byte; only that no guest runs.
#![forbid(unsafe_code)]

mod settings;

mod chance;

mod figures;

mod disk;

mod guests;

mod uplink;

mod node;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coracle_model::SessionNumber;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use figures::Figures;
pub use settings::{FleetError, Settings};

use chance::Chance;
use figures::Tally;
use node::{Node, Origin};

/// A node that must not run: its name is taken, or the cluster is another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node {node} must not run: {reason}")]
pub struct Refused {
    /// Its name.
    pub node: String,
    /// What its core said.
    pub reason: String,
}

/// A fleet that runs. Dropping it breaks every connection, as a power cut would.
#[derive(Debug)]
pub struct Fleet {
    tally: Arc<Tally>,
    stop: watch::Sender<bool>,
    nodes: JoinSet<Result<(), Refused>>,
}

impl Fleet {
    /// Lets the nodes begin to join. To be called within a Tokio runtime.
    ///
    /// # Errors
    /// When a name is not usable, or the broker is on another machine.
    pub fn start(settings: Settings) -> Result<Self, FleetError> {
        settings.check()?;
        let tally = Arc::new(Tally::default());
        let (stop, stopping) = watch::channel(false);
        let origin = Origin { instant: Instant::now(), session: first_session() };
        let between = Duration::from_secs(1) / settings.joins_per_second.max(1);
        let (count, settings) = (settings.nodes, Arc::new(settings));
        let mut chance = Chance::new(settings.seed);
        let mut nodes = JoinSet::new();
        for number in 1..=count {
            let joins_at = origin.instant + between * (number - 1);
            let node = Node::new(number, &settings, Arc::clone(&tally), origin, joins_at, chance.branch());
            nodes.spawn(node.run(stopping.clone()));
        }
        Ok(Self { tally, stop, nodes })
    }

    /// What has been counted so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.tally.figures()
    }

    /// Waits for the next node that must not run; for ever if there is none. Cancel-safe.
    pub async fn refused(&mut self) -> Refused {
        while let Some(ended) = self.nodes.join_next().await {
            match ended {
                Ok(Err(refused)) => return refused,
                Ok(Ok(())) => {}
                Err(error) => tracing::error!(%error, "a hollow node failed"),
            }
        }
        std::future::pending().await
    }

    /// Every node says goodbye; the controller hears at once that they are gone.
    pub async fn stop(mut self) -> Figures {
        self.stop.send_replace(true);
        while self.nodes.join_next().await.is_some() {}
        self.tally.figures()
    }
}

/// Sessions of one node are counted upwards for ever. A hollow node has no disk to count on, so it begins with the time.
fn first_session() -> SessionNumber {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    SessionNumber(u64::try_from(since.as_millis()).unwrap_or_default())
}
