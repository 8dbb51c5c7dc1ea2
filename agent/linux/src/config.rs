//! What an agent is started with.

use std::path::PathBuf;

pub use coracle_agent_core::pressure::{Eviction, Thresholds};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// `mqtt://host:port`
    pub broker: String,
    /// The name of the node.
    pub node: String,
    /// The name of the cluster, `default` if nobody chose another.
    pub cluster: String,
    /// `topology.kubernetes.io/zone`; may be empty.
    pub zone: String,
    /// Labels of the node.
    pub labels: Vec<(String, String)>,
    /// Where this agent keeps what outlives it. One agent, one directory.
    pub data_dir: PathBuf,
    /// `--eviction-hard`: what makes a shortage on this node (PRI-09). Nothing for what suits the machine.
    pub eviction_hard: Option<Thresholds>,
    /// `--eviction-pressure-transition-period`, in milliseconds; [`Eviction::TRANSITION_MS`] unless somebody chose.
    pub eviction_transition_ms: u64,
}
