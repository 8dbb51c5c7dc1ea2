//! Parts that many objects have alike, found again so that they are kept once: namespaces, the names of nodes, labels,
//! owners.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use super::{Object, Owner};
use crate::selector::Labels;

/// The fewest things that are remembered before those that have gone are forgotten.
const MIN_KNOWN: usize = 64;

/// Where parts are found that another object has already.
pub(super) trait Sharing {
    /// A name.
    fn text(&mut self, text: &str) -> Arc<str>;
    /// Labels.
    fn labels(&mut self, labels: Labels) -> Arc<Labels>;
    /// Owners.
    fn owners(&mut self, owners: Vec<Owner>) -> Arc<[Owner]>;
}

/// The state of an object from which the next one is made has most of what that one has.
impl Sharing for &Object {
    fn text(&mut self, text: &str) -> Arc<str> {
        let node = self.row.pod().and_then(|row| row.node.as_ref());
        let mut same = [Some(&self.key.namespace), Some(&self.key.name), node].into_iter().flatten();
        same.find(|own| ***own == *text).map_or_else(|| text.into(), Arc::clone)
    }

    fn labels(&mut self, labels: Labels) -> Arc<Labels> {
        if *self.labels == labels { Arc::clone(&self.labels) } else { Arc::new(labels) }
    }

    fn owners(&mut self, owners: Vec<Owner>) -> Arc<[Owner]> {
        if *self.owners == *owners { Arc::clone(&self.owners) } else { owners.into() }
    }
}

/// Things that are in use, by what they are found with. Objects hold them; this only finds them.
#[derive(Debug)]
pub(super) struct Known<K, T: ?Sized> {
    things: BTreeMap<K, Weak<T>>,
    /// How many are known when those that nobody holds are to be forgotten.
    forget_at: usize,
}

impl<K, T: ?Sized> Default for Known<K, T> {
    fn default() -> Self {
        Self { things: BTreeMap::new(), forget_at: 0 }
    }
}

impl<K: Clone, T: ?Sized> Clone for Known<K, T> {
    fn clone(&self) -> Self {
        Self { things: self.things.clone(), forget_at: self.forget_at }
    }
}

impl<K: Ord, T: ?Sized> Known<K, T> {
    /// Whether anything was ever noted under this key, and what, if it is still in use.
    pub(super) fn find(&self, key: &K) -> Option<Option<Arc<T>>> {
        self.things.get(key).map(Weak::upgrade)
    }

    /// How many things are remembered, with those that have gone meanwhile.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    /// Remembers something.
    pub(super) fn note(&mut self, key: K, thing: Weak<T>) {
        if self.things.len() >= self.forget_at.max(MIN_KNOWN) {
            self.things.retain(|_, thing| thing.strong_count() > 0);
            self.forget_at = self.things.len() * 2;
        }
        self.things.insert(key, thing);
    }
}

impl<T: ?Sized + Hash + Eq> Known<u64, T> {
    /// The one that is like this, if it is in use; else this one, from now on. Two that have the same hash are not shared.
    pub(super) fn share<V: Borrow<T> + Into<Arc<T>>>(&mut self, thing: V) -> Arc<T> {
        let mut hasher = DefaultHasher::new();
        thing.borrow().hash(&mut hasher);
        let key = hasher.finish();
        if let Some(found) = self.find(&key).flatten().filter(|found| **found == *thing.borrow()) {
            return found;
        }
        let thing = thing.into();
        self.note(key, Arc::downgrade(&thing));
        thing
    }
}
