//! What a fleet is made from.

use std::ops::RangeInclusive;

use coracle_link::{BrokerUrl, LinkError};
use coracle_model::NodeFacts;
use coracle_wire::topic;

/// What a fleet is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to connect.
    pub broker: BrokerUrl,
    /// The name of the cluster.
    pub cluster: String,
    /// How many nodes.
    pub nodes: u32,
    /// Node 7 of `hollow` is called `hollow-000007`.
    pub name_prefix: String,
    /// The zones over which the nodes are spread in turn; none for nodes without a zone.
    pub zones: Vec<String>,
    /// What every node says of itself, but for its zone.
    pub facts: NodeFacts,
    /// How long a guest takes to start, and to end after its signal, in milliseconds; drawn evenly.
    pub start_ms: RangeInclusive<u64>,
    /// Of a thousand runs, so many fail with exit code 1 within a second.
    pub fail_per_mille: u64,
    /// Whether artifacts are really pulled, once a node; else every image is on the disk already.
    pub pulls: bool,
    /// How many nodes begin to join in a second.
    pub joins_per_second: u32,
    /// From which names of instances, delays and failures are drawn.
    pub seed: u64,
}

/// Why there is no fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A name that cannot be a level of an MQTT topic.
    #[error("{what} \"{found}\" is no DNS name: want lower case letters, digits, \"-\" and \".\", such as hollow")]
    Name {
        /// The prefix, or the cluster.
        what: &'static str,
        /// As given.
        found: String,
    },
    /// Plaintext to another machine.
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl Settings {
    /// Refuses what no node could use.
    pub(crate) fn check(&self) -> Result<(), FleetError> {
        for (what, found) in [("the name prefix", &self.name_prefix), ("the cluster", &self.cluster)] {
            if !topic::is_name(found) {
                return Err(FleetError::Name { what, found: found.clone() });
            }
        }
        Ok(self.broker.refuse_plaintext()?)
    }
}
