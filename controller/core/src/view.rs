//! All objects at one revision, with the indexes that make one plan cost what it owns and not the whole cluster.
//!
//! The controller has two: the staged view, on which it decides, and the committed one, which the API reads. Both are
//! moved by the same [`Change`]s and share the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::kind::Kind;
use crate::object::{Key, Object, Templates, Uid};
use crate::store::{Action, Change};

/// Every object.
#[derive(Clone, Debug, Default)]
pub struct View {
    revision: u64,
    objects: BTreeMap<Key, Arc<Object>>,
    by_owner: BTreeMap<Uid, BTreeSet<Key>>,
    by_uid: BTreeMap<Uid, Key>,
    pods_by_node: BTreeMap<Arc<str>, BTreeSet<Key>>,
    orphans: BTreeSet<Key>,
    /// Pods by the config maps, secrets and claims that they name, whether or not these are there.
    referrers: BTreeMap<Key, BTreeSet<Key>>,
    templates: Templates,
}

impl View {
    /// A view of what a store holds.
    #[must_use]
    pub fn new(revision: u64, objects: impl IntoIterator<Item = Arc<Object>>) -> Self {
        let mut view = Self { revision, ..Self::default() };
        for object in objects {
            view.templates.note(&object);
            view.insert(object);
        }
        view
    }

    /// What objects of one controller share; for making another one.
    pub(crate) const fn templates(&mut self) -> &mut Templates {
        &mut self.templates
    }

    /// The revision of the last change.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// One object, if it is still the one with this uid.
    #[must_use]
    pub fn get_same(&self, key: &Key, uid: Uid) -> Option<&Arc<Object>> {
        self.get(key).filter(|object| object.uid == uid)
    }

    /// One object, by its uid.
    #[must_use]
    pub fn by_uid(&self, uid: Uid) -> Option<&Arc<Object>> {
        self.objects.get(self.by_uid.get(&uid)?)
    }

    /// All objects of a kind, by namespace and name; of one namespace, if one is given.
    pub fn list<'a>(&'a self, kind: Kind, namespace: Option<&'a str>) -> impl Iterator<Item = &'a Arc<Object>> {
        let first = Key::new(kind, namespace.unwrap_or_default(), "");
        self.objects
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |(key, _)| {
                key.kind == kind && namespace.is_none_or(|namespace| &*key.namespace == namespace)
            })
            .map(|(_, object)| object)
    }

    /// All objects of the kind and namespace of a key, from that name on.
    pub fn list_from<'a>(&'a self, first: &'a Key) -> impl Iterator<Item = &'a Arc<Object>> {
        let alike = move |key: &&Key| key.kind == first.kind && key.namespace == first.namespace;
        self.objects.range(first..).take_while(move |(key, _)| alike(key)).map(|(_, object)| object)
    }

    /// All objects that name this uid among their `ownerReferences`.
    pub fn owned_by(&self, owner: Uid) -> impl Iterator<Item = &Arc<Object>> {
        self.by_owner.get(&owner).into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// All pods that are bound to this node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.pods_by_node.get(node).into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// All objects of an adoptable kind (pods and replica sets) in this namespace that nothing controls.
    pub fn orphans<'a>(&'a self, kind: Kind, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Object>> {
        self.orphans
            .range(Key::new(kind, namespace, "")..)
            .take_while(move |key| key.kind == kind && &*key.namespace == namespace)
            .filter_map(|key| self.objects.get(key))
    }

    /// All pods whose variables or files are read from this config map or secret, or that have a volume of this claim.
    pub fn referrers(&self, key: &Key) -> impl Iterator<Item = &Arc<Object>> {
        self.referrers.get(key).into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// Whether a namespace exists (in any phase).
    #[must_use]
    pub fn has_namespace(&self, name: &str) -> bool {
        self.objects.contains_key(&Key::new(Kind::NAMESPACE, "", name))
    }

    /// Moves the view by one change.
    pub fn apply(&mut self, change: &Change) {
        self.revision = self.revision.max(change.revision);
        if change.action == Action::Deleted {
            self.remove(&change.object.key);
        } else {
            self.insert(Arc::clone(&change.object));
        }
    }

    fn insert(&mut self, object: Arc<Object>) {
        if let Some(known) = self.objects.get_mut(&object.key)
            && is_filed_alike(known, &object)
        {
            *known = object;
            return;
        }
        self.remove(&object.key);
        for owner in object.owners.iter() {
            self.by_owner.entry(owner.uid).or_default().insert(object.key.clone());
        }
        if let Some(node) = object.row.pod().and_then(|row| row.node.as_ref()) {
            self.pods_by_node.entry(Arc::clone(node)).or_default().insert(object.key.clone());
        }
        for reference in object.row.pod().into_iter().flat_map(|row| row.references()) {
            self.referrers.entry(reference.clone()).or_default().insert(object.key.clone());
        }
        if matches!(object.key.kind, Kind::POD | Kind::REPLICA_SET) && object.controller().is_none() {
            self.orphans.insert(object.key.clone());
        }
        self.by_uid.insert(object.uid, object.key.clone());
        self.objects.insert(object.key.clone(), object);
    }

    fn remove(&mut self, key: &Key) {
        let Some(object) = self.objects.remove(key) else { return };
        for owner in object.owners.iter() {
            forget(&mut self.by_owner, &owner.uid, key);
        }
        if let Some(node) = object.row.pod().and_then(|row| row.node.as_ref()) {
            forget(&mut self.pods_by_node, node, key);
        }
        for reference in object.row.pod().into_iter().flat_map(|row| row.references()) {
            forget(&mut self.referrers, reference, key);
        }
        self.by_uid.remove(&object.uid);
        self.orphans.remove(key);
    }
}

/// Whether two states of an object have the same place in every index.
fn is_filed_alike(one: &Object, two: &Object) -> bool {
    let node = |object: &Object| object.row.pod().and_then(|row| row.node.clone());
    one.uid == two.uid && one.owners == two.owners && node(one) == node(two)
}

fn forget<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Key>>, entry: &K, key: &Key) {
    if let Some(keys) = index.get_mut(entry) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(entry);
        }
    }
}
