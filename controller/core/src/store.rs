//! What a batch of durable writes is: the language between the core and a store engine.
//!
//! A batch is a list of changes, each an object write with a revision of its own, in order. An engine makes a batch
//! durable as a whole (embedded: one fsync) or change by change under a compare on the key's last revision (etcd: one
//! transaction a group), and keeps the changes as its log, from which watches resume.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::object::{Object, Uid};

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

impl Change {
    /// Whether it is one of the status alone. `false` may be wrong, and then costs a look at the JSON.
    #[must_use]
    pub fn is_of_status_alone(&self) -> bool {
        let previous = self.previous.as_ref().filter(|_| self.action == Action::Modified);
        previous.is_some_and(|previous| self.object.differs_in_status_alone(previous))
    }
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

/// Makes one change of several of one object in a batch. Nobody ever sees what was between them, since a batch is shown
/// as a whole: a pod that is made and bound at once is added with its node. A deletion stays a change of its own.
#[must_use]
pub fn coalesce(mut changes: Vec<Change>) -> Vec<Change> {
    let mut last: BTreeMap<Uid, usize> = BTreeMap::new();
    let mut is_overtaken = vec![false; changes.len()];
    for index in 0..changes.len() {
        let (uid, action) = (changes[index].object.uid, changes[index].action);
        let before = last.insert(uid, index).filter(|_| action == Action::Modified);
        if let Some(before) = before {
            is_overtaken[before] = true;
            changes[index].action = changes[before].action;
            changes[index].previous = changes[before].previous.take();
        }
    }
    let mut overtaken = is_overtaken.into_iter();
    changes.retain(|_| !overtaken.next().unwrap_or_default());
    changes
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

/// How much room a store has for more (DESIGN, decision 3: a full disk makes the API read-only, not dead).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// Enough.
    #[default]
    Plenty,
    /// It is running out: events are not kept any more.
    Scarce,
    /// Nothing may be written. Where, how much is free, and how much is needed: a sentence for users.
    Full(String),
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no room for the batch. Nothing of it is durable, and the store goes on as it was before.
    #[error("{what}")]
    Full {
        /// Where, how much is free, and how much is needed.
        what: String,
    },
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
    /// When the engine fails, there is no room, or somebody else wrote first.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError>;

    /// How much room there is; asked before every batch, so it must cost next to nothing.
    fn room(&mut self) -> Room {
        Room::Plenty
    }

    /// Forgets the log up to this revision; watches from before it are told `Expired`.
    ///
    /// # Errors
    /// When the engine fails.
    fn compact(&mut self, revision: u64) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::Kind;

    fn object(uid: u128, revision: u64) -> Arc<Object> {
        let metadata = json!({"name": format!("c{uid}"), "uid": coracle_model::PodUid(uid).to_string()});
        Arc::new(Object::from_value(Kind::CONFIG_MAP, revision, json!({"metadata": metadata})).expect("an object"))
    }

    #[test]
    fn changes_of_one_object_in_a_batch_become_one_and_a_deletion_stays() {
        use Action::{Added, Deleted, Modified};
        let change = |revision, action, uid, before: Option<u64>| Change {
            revision,
            action,
            object: object(uid, revision),
            previous: before.map(|before| object(uid, before)),
        };
        let batch = vec![
            change(11, Added, 1, None),
            change(12, Modified, 2, Some(5)),
            change(13, Modified, 1, Some(11)),
            change(14, Modified, 2, Some(12)),
            change(15, Added, 3, None),
            change(16, Modified, 1, Some(13)),
            change(17, Deleted, 2, Some(14)),
        ];
        let shown = coalesce(batch);
        let shown: Vec<_> = shown
            .iter()
            .map(|change| (change.revision, change.action, change.previous.as_ref().map(|previous| previous.revision)))
            .collect();
        let want = [(14, Modified, Some(5)), (15, Added, None), (16, Added, None), (17, Deleted, Some(14))];
        assert_eq!(shown, want);
    }
}
