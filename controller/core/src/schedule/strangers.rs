//! Pods whose `schedulerName` no profile has. They stay Pending, and any scheduler may bind them through the API; one
//! event says whom they wait for, because nothing else would.

use std::collections::{BTreeMap, BTreeSet};

use crate::object::{Key, Uid};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Strangers {
    all: BTreeMap<Key, Uid>,
    untold: BTreeSet<Key>,
}

impl Strangers {
    /// A pod is one (`Some`), or is none.
    pub(super) fn set(&mut self, key: &Key, uid: Option<Uid>) {
        let Some(uid) = uid else {
            if !self.all.is_empty() && self.all.remove(key).is_some() {
                self.untold.remove(key);
            }
            return;
        };
        if self.all.get(key) != Some(&uid) {
            self.all.insert(key.clone(), uid);
            self.untold.insert(key.clone());
        }
    }

    /// The next one that nothing was said of, which is said now.
    pub(super) fn take_untold(&mut self) -> Option<(Key, Uid)> {
        let key = self.untold.pop_first()?;
        let uid = self.all.get(&key).copied()?;
        Some((key, uid))
    }
}
