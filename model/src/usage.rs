//! What the containers of a node use, measured when somebody asks. Nothing of it travels by itself.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::id::PodUid;
use crate::time::Millis;

/// Everything that runs on a node, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeUsage {
    /// The agent's monotonic clock.
    pub at: Millis,
    /// Processor time of the agent's whole process since it started, guests included, in nanoseconds.
    pub cpu_ns: u64,
    /// Memory that the agent's process holds (resident set), guests included, in bytes.
    pub memory_bytes: u64,
    /// Containers that run now, or whose last run is remembered.
    pub containers: Vec<ContainerUsage>,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerUsage {
    /// Its pod.
    pub uid: PodUid,
    /// Its name.
    pub container: String,
    /// When its current run began.
    pub started_at: Millis,
    /// Processor time of the current run, in nanoseconds.
    pub cpu_ns: u64,
    /// Periods of 100 ms in which it wanted to run (`container_cpu_cfs_periods_total`).
    pub periods: u64,
    /// Periods in which its limit held it back (`container_cpu_cfs_throttled_periods_total`).
    pub throttled_periods: u64,
    /// How long its limit has held it back, in nanoseconds (`container_cpu_cfs_throttled_seconds_total`).
    pub throttled_ns: u64,
    /// What counts against its memory limit now, in bytes: linear memories, tables, and buffers of the host.
    pub memory_bytes: u64,
    /// The most that ever counted, in bytes.
    pub memory_peak_bytes: u64,
    /// What its pod's volumes on disk hold by its writing, in bytes.
    pub storage_bytes: u64,
    /// Files, directories and sockets that it has open.
    pub descriptors: u32,
    /// Bytes that it has written to its log since the run began, thrown away or not.
    pub log_bytes: u64,
}
