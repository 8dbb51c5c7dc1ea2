//! What users were told is theirs: an object whose write was answered stays, at that revision or a later one, through
//! every crash, until somebody deletes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_controller_core::object::Uid;
use coracle_controller_core::request::{Answer, Outcome, Request, Verb};
use coracle_controller_core::store::Action;
use coracle_controller_core::{Change, Key, Object};

/// What a pod says that its node was lost to: the cluster may delete it by itself.
const EVICTED: &str = "DisruptionTarget";

/// Everything that was promised.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    kept: BTreeMap<Key, (Uid, u64)>,
}

impl Promises {
    /// A user asks. From then on, what is to be deleted may be gone, also if nobody answers.
    pub(crate) fn asked(&mut self, request: &Request) {
        if matches!(request.verb, Verb::Delete(_)) {
            self.kept.remove(&Key::new(request.kind, &request.namespace, &request.name));
        }
    }

    /// A user was told that it is done.
    pub(crate) fn answered(&mut self, answer: &Answer) {
        if let Outcome::Created(object) | Outcome::Updated(object) | Outcome::Unchanged(object) = &answer.outcome
            && !object.is_deleting()
        {
            self.kept.insert(object.key.clone(), (object.uid, object.revision));
        }
    }

    /// Looks at what a batch made durable: nothing goes that nobody deleted.
    pub(crate) fn batch(&mut self, changes: &[Change]) -> Result<(), String> {
        for change in changes {
            let object = &change.object;
            if object.is_deleting() && object.body().contains(EVICTED) {
                self.kept.remove(&object.key);
            }
            if change.action == Action::Deleted && self.kept.contains_key(&object.key) {
                return Err(format!("{:?} is gone, and nobody deleted it", object.key));
            }
        }
        Ok(())
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
