//! What users were told is theirs: an object whose write was answered stays, at that revision or a later one, through
//! every crash, until somebody deletes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_controller_core::object::Uid;
use coracle_controller_core::request::{Answer, Outcome, Request, Verb};
use coracle_controller_core::store::Action;
use coracle_controller_core::{Change, Key, Kind, Object};

use crate::node::Node;

/// What a pod says that its node was lost to: the cluster may delete it by itself.
const EVICTED: &str = "DisruptionTarget";

/// Everything that was promised.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    kept: BTreeMap<Key, (Uid, u64)>,
    /// Pods that somebody wants gone without their node's word.
    forced: BTreeSet<Key>,
}

impl Promises {
    /// A user asks. From then on, what is to be deleted may be gone, also if nobody answers.
    pub(crate) fn asked(&mut self, request: &Request) {
        if let Verb::Delete(options) = &request.verb {
            let key = Key::new(request.kind, &request.namespace, &request.name);
            self.kept.remove(&key);
            if options.grace_seconds == Some(0) {
                self.forced.insert(key);
            }
        }
    }

    /// A user was told that it is done.
    pub(crate) fn answered(&mut self, answer: &Answer) {
        if let Outcome::Created(object) | Outcome::Updated(object) | Outcome::Unchanged(object) = &answer.outcome
            && !object.is_deleting()
        {
            self.forced.remove(&object.key);
            self.kept.insert(object.key.clone(), (object.uid, object.revision));
        }
    }

    /// Looks at what a batch made durable: nothing goes that nobody deleted, and no pod that still runs (SAF-01). The
    /// pods of a node that is lost, or that somebody deleted, do (SAF-02, SAF-03).
    pub(crate) fn batch(
        &mut self,
        changes: &[Change],
        durable: &BTreeMap<Key, Arc<Object>>,
        nodes: &[Node],
    ) -> Result<(), String> {
        for change in changes {
            let object = &change.object;
            let node = object.row.pod().and_then(|row| row.node.as_deref());
            let is_homeless = node.is_some_and(|node| !durable.contains_key(&Key::new(Kind::NODE, "", node)));
            if is_homeless || object.body().contains(EVICTED) {
                self.kept.remove(&object.key);
            }
            let forced = change.action == Action::Deleted && self.forced.remove(&object.key);
            let runs = nodes.iter().find(|node| node.runtime.pods().any(|uid| uid == object.uid));
            if let Some(runs) = runs.filter(|_| change.action == Action::Deleted && !forced && !is_homeless) {
                return Err(format!("{:?} is gone, and {} still runs it", object.key, runs.name));
            }
            if change.action == Action::Deleted && self.kept.contains_key(&object.key) {
                return Err(format!("{:?} is gone, and nobody deleted it", object.key));
            }
        }
        Ok(())
    }

    /// Whether an object was acknowledged.
    #[cfg(test)]
    pub(crate) fn keeps(&self, key: &Key) -> bool {
        self.kept.contains_key(key)
    }

    /// Whether everything that was promised is there.
    pub(crate) fn check(&self, durable: &BTreeMap<Key, Arc<Object>>) -> Result<(), String> {
        for (key, (uid, revision)) in &self.kept {
            let Some(object) = durable.get(key) else {
                return Err(format!("{key:?} was acknowledged and is lost"));
            };
            if object.uid != *uid || object.revision < *revision {
                return Err(format!("{key:?} was acknowledged at {revision} and is at {}", object.revision));
            }
        }
        Ok(())
    }
}
