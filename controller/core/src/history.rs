//! The last changes, from which watches resume. Bounded: who asks for older ones is told so (410 `Expired`).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::ApiError;
use crate::kind::Kind;
use crate::store::Change;

/// Changes that are kept in memory.
const MAX_CHANGES: usize = 32_768;
/// Bytes that they take at most, whether or not the view has the same objects.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The last changes in the order of their revisions.
#[derive(Debug, Default)]
pub struct History {
    /// Everything after this revision is here.
    floor: u64,
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
}

impl History {
    /// Nothing is known before or at `revision`.
    #[must_use]
    pub const fn new(revision: u64) -> Self {
        Self { floor: revision, changes: VecDeque::new(), bytes: 0 }
    }

    /// Adds a committed change; the oldest goes when there are too many.
    pub fn push(&mut self, change: Arc<Change>) {
        self.bytes += change.object.memory_bytes();
        self.changes.push_back(change);
        while self.changes.len() > MAX_CHANGES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.bytes -= oldest.object.memory_bytes();
            self.floor = oldest.revision;
        }
    }

    /// The first changes of one kind after a revision, `most` of them, oldest first.
    ///
    /// # Errors
    /// `Expired` when changes after that revision are no longer kept.
    pub fn since(&self, kind: Kind, after: u64, most: usize) -> Result<Vec<Arc<Change>>, ApiError> {
        if after < self.floor {
            let message = format!("too old resource version: {after} ({})", self.floor);
            return Err(ApiError::expired(message));
        }
        let start = self.changes.partition_point(|change| change.revision <= after);
        let later = self.changes.range(start..);
        Ok(later.filter(|change| change.object.key.kind == kind).take(most).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::Names;
    use crate::object::Object;
    use crate::store::Action;

    fn change(revision: u64, text: &str) -> Arc<Change> {
        let uid = "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11";
        let metadata = json!({"name": format!("c{revision}"), "namespace": "default", "uid": uid});
        let value = json!({"metadata": metadata, "data": {"text": text}});
        let object = Object::from_value(Kind::CONFIG_MAP, revision, value).expect("an object");
        Arc::new(Change { revision, action: Action::Added, object: Arc::new(object), previous: None })
    }

    #[test]
    fn a_watch_resumes_after_its_revision_or_is_told_that_it_is_too_late() {
        let mut history = History::new(10);
        for revision in 11..=20 {
            history.push(change(revision, "short"));
        }
        assert_eq!(history.since(Kind::CONFIG_MAP, 9, usize::MAX).map_err(|error| error.code).err(), Some(410));
        assert_eq!(history.since(Kind::CONFIG_MAP, 10, usize::MAX).expect("kept").len(), 10);
        assert_eq!(history.since(Kind::POD, 15, usize::MAX).expect("kept").len(), 0);
        assert_eq!(history.since(Kind::CONFIG_MAP, 19, usize::MAX).expect("kept")[0].revision, 20);
        assert!(history.since(Kind::CONFIG_MAP, 29, usize::MAX).expect("the future is empty").is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        // Nothing that repeats itself, so that packing does not help.
        let mut names = Names::new(1);
        let text: String = (0..20_000).map(|_| names.suffix()).collect();
        let mut history = History::new(0);
        for revision in 1..=1000 {
            history.push(change(revision, &text));
        }
        let kept = history.since(Kind::CONFIG_MAP, history.floor, usize::MAX).expect("kept");
        let bytes: usize = kept.iter().map(|change| change.object.memory_bytes()).sum();
        assert_eq!((bytes, kept.last().map(|last| last.revision)), (history.bytes, Some(1000)));
        assert!(bytes <= MAX_BYTES && kept.len() < 1000);
    }
}
