//! What a fleet counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// One count, of things that are or of things that were.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, fewer: usize) {
        self.0.fetch_sub(fewer as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Shared by all nodes.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) connected: Count,
    pub(crate) joined: Count,
    pub(crate) refused: Count,
    pub(crate) pods_running: Count,
    pub(crate) starts: Count,
    pub(crate) ends: Count,
    pub(crate) reconnects: Count,
    pub(crate) connects_failed: Count,
    pub(crate) up_messages: Count,
    pub(crate) up_bytes: Count,
    pub(crate) down_messages: Count,
    pub(crate) down_bytes: Count,
    pub(crate) artifacts_pulled: Count,
    pub(crate) artifact_bytes: Count,
}

/// What a fleet has counted up to one moment. Bytes are of MQTT payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Nodes with an MQTT session now.
    pub connected: u64,
    /// Nodes that are welcome and hold the whole desired set now.
    pub joined: u64,
    /// Nodes that the controller did not want; they are gone.
    pub refused: u64,
    /// Pods of which a container runs now.
    pub pods_running: u64,
    /// Containers that have started.
    pub starts: u64,
    /// Containers that have ended.
    pub ends: u64,
    /// Sessions after a node's first.
    pub reconnects: u64,
    /// Connections that did not come about.
    pub connects_failed: u64,
    /// Messages to the controller.
    pub up_messages: u64,
    /// Their bytes.
    pub up_bytes: u64,
    /// Messages from the controller.
    pub down_messages: u64,
    /// Their bytes.
    pub down_bytes: u64,
    /// Artifacts that were pulled whole.
    pub artifacts_pulled: u64,
    /// Bytes of blocks of artifacts.
    pub artifact_bytes: u64,
}

impl Tally {
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            connected: self.connected.get(),
            joined: self.joined.get(),
            refused: self.refused.get(),
            pods_running: self.pods_running.get(),
            starts: self.starts.get(),
            ends: self.ends.get(),
            reconnects: self.reconnects.get(),
            connects_failed: self.connects_failed.get(),
            up_messages: self.up_messages.get(),
            up_bytes: self.up_bytes.get(),
            down_messages: self.down_messages.get(),
            down_bytes: self.down_bytes.get(),
            artifacts_pulled: self.artifacts_pulled.get(),
            artifact_bytes: self.artifact_bytes.get(),
        }
    }
}
