//! The last changes, from which watches resume. Bounded: who asks for older ones is told so (410 `Expired`).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::ApiError;
use crate::kind::Kind;
use crate::store::Change;

/// Changes that are kept in memory.
const CAPACITY: usize = 16_384;

/// The last changes in the order of their revisions.
#[derive(Debug, Default)]
pub struct History {
    /// Everything after this revision is here.
    floor: u64,
    changes: VecDeque<Arc<Change>>,
}

impl History {
    /// Nothing is known before or at `revision`.
    #[must_use]
    pub const fn new(revision: u64) -> Self {
        Self { floor: revision, changes: VecDeque::new() }
    }

    /// Adds a committed change; the oldest goes when there are too many.
    pub fn push(&mut self, change: Arc<Change>) {
        if self.changes.len() >= CAPACITY
            && let Some(oldest) = self.changes.pop_front()
        {
            self.floor = oldest.revision;
        }
        self.changes.push_back(change);
    }

    /// Changes of one kind after a revision, oldest first.
    ///
    /// # Errors
    /// `Expired` when changes after that revision are no longer kept.
    pub fn since(&self, kind: Kind, after: u64) -> Result<Vec<Arc<Change>>, ApiError> {
        if after < self.floor {
            let message = format!("too old resource version: {after} ({})", self.floor);
            return Err(ApiError::expired(message));
        }
        let start = self.changes.partition_point(|change| change.revision <= after);
        let later = self.changes.range(start..);
        Ok(later.filter(|change| change.object.key.kind == kind).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Object;
    use crate::store::Action;

    fn change(revision: u64) -> Arc<Change> {
        let uid = "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11";
        let value = json!({"metadata": {"name": format!("c{revision}"), "namespace": "default", "uid": uid}});
        let object = Object::from_value(Kind::CONFIG_MAP, revision, value).expect("an object");
        Arc::new(Change { revision, action: Action::Added, object: Arc::new(object), previous: None })
    }

    #[test]
    fn a_watch_resumes_after_its_revision_or_is_told_that_it_is_too_late() {
        let mut history = History::new(10);
        for revision in 11..=10 + CAPACITY as u64 + 5 {
            history.push(change(revision));
        }
        assert_eq!(history.since(Kind::CONFIG_MAP, 14).map_err(|error| error.code).err(), Some(410));
        assert_eq!(history.since(Kind::CONFIG_MAP, 15).expect("kept").len(), CAPACITY);
        assert_eq!(history.since(Kind::POD, 15).expect("kept").len(), 0);
        let last = 10 + CAPACITY as u64 + 5;
        assert_eq!(history.since(Kind::CONFIG_MAP, last - 1).expect("kept")[0].revision, last);
        assert!(history.since(Kind::CONFIG_MAP, last + 9).expect("the future is empty").is_empty());
    }
}
