//! What a batch of durable writes is: the language between the core and a store engine.
//!
//! A batch is a list of changes, each an object write with a revision of its own, in order. An engine makes a batch
//! durable as a whole (embedded: one fsync) or change by change under a compare on the key's last revision (etcd: one
//! transaction a group), and keeps the changes as its log, from which watches resume.

use std::sync::Arc;

use crate::object::Object;

/// One write that has been decided on and staged.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision that this write makes.
    pub revision: u64,
    /// Whether the object appears, changes or goes.
    pub action: Action,
    /// The object after the write; for [`Action::Deleted`] its last state, with this change's revision.
    pub object: Arc<Object>,
    /// The object before the write. Its revision is what an engine that shares its store compares with.
    pub previous: Option<Arc<Object>>,
}

/// What a change does, in the words of watch events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
}

impl Action {
    /// The word in a watch event.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// Its number in the log.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Added => 0,
            Self::Modified => 1,
            Self::Deleted => 2,
        }
    }

    /// Reads its number in the log.
    #[must_use]
    pub const fn of_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Added),
            1 => Some(Self::Modified),
            2 => Some(Self::Deleted),
            _ => None,
        }
    }
}

/// What a store holds when it is opened.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The revision of the last change; 0 for a new store.
    pub revision: u64,
    /// Every object.
    pub objects: Vec<Arc<Object>>,
    /// Every change after this revision is in `log`.
    pub log_floor: u64,
    /// The last changes, oldest first, from which watches resume; [`Change::previous`] is not kept.
    pub log: Vec<Change>,
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The engine could not read or write. A batch that failed like this may or may not be durable, so the process has
    /// to end and read it anew.
    #[error("the store's engine failed: {what}")]
    Engine {
        /// What it was doing, and where.
        what: String,
        /// The engine's own error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What is stored is not what was written.
    #[error("the store is damaged: {what}")]
    Damaged {
        /// Which table and key.
        what: String,
    },
    /// A newer build has written this store.
    #[error("the store has schema version {found}, this build reads up to {known}")]
    Newer {
        /// The version in the store.
        found: u32,
        /// The newest version of this build.
        known: u32,
    },
    /// Somebody else wrote first (engines that share their store): drop the stage, load again.
    #[error("another controller changed {key:?}")]
    Conflict {
        /// The object.
        key: crate::object::Key,
    },
}

/// A store engine. One writer; reads happen from memory.
///
/// Designed against etcd as well: a change's `previous` revision is the compare of its transaction, `log` is its watch
/// history, and `compact` is its compaction.
pub trait Store: Send {
    /// Reads everything. Called once, first.
    ///
    /// # Errors
    /// When the engine fails or what is stored is damaged.
    fn load(&mut self) -> Result<Snapshot, StoreError>;

    /// Makes a batch durable: when this returns, it survives the loss of power. All of it or nothing of it, for an
    /// engine that does not share its store.
    ///
    /// # Errors
    /// When the engine fails, or somebody else wrote first.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError>;

    /// Forgets the log up to this revision; watches from before it are told `Expired`.
    ///
    /// # Errors
    /// When the engine fails.
    fn compact(&mut self, revision: u64) -> Result<(), StoreError>;
}
