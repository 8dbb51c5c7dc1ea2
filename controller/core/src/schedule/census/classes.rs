//! Pods with the same namespace and labels, and who means them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::nodes::NodeId;
use super::super::slots::Slots;
use super::super::symbols::{Symbol, Symbols};
use super::super::terms::{Labels, Selector};

/// Pods of one namespace with the same labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct ClassId(u32);

/// Some pods, as a rule means them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct MatcherId(u32);

impl MatcherId {
    /// No matcher.
    pub(super) const NONE: Self = Self(u32::MAX);
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    namespace: Symbol,
    labels: Labels,
}

/// How many pods of a class are on a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placed {
    pub(super) all: u32,
    /// Those of them that have been asked to end.
    pub(super) ending: u32,
}

#[derive(Clone, Debug)]
struct ClassEntry {
    class: Arc<Class>,
    uses: u32,
    /// In order.
    matchers: Vec<MatcherId>,
    places: BTreeMap<NodeId, Placed>,
}

/// Pods of some namespaces that a label selector matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Scope {
    /// Namespaces by name.
    pub(in super::super) namespaces: Vec<Symbol>,
    /// And those whose labels it matches.
    pub(in super::super) namespace_selector: Option<Selector>,
    /// The pods.
    pub(in super::super) pods: Selector,
}

/// Pods that are in all of these scopes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Matcher(pub(in super::super) Vec<Scope>);

#[derive(Clone, Debug)]
struct MatcherEntry {
    matcher: Arc<Matcher>,
    uses: u32,
    classes: BTreeSet<ClassId>,
}

type Pair = (Symbol, Symbol);

/// All classes and matchers, and which matcher means which class.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    classes: Slots<ClassEntry>,
    class_ids: BTreeMap<Arc<Class>, ClassId>,
    matchers: Slots<MatcherEntry>,
    matcher_ids: BTreeMap<Arc<Matcher>, MatcherId>,
    /// Classes by each of their labels, and matchers by labels of which whoever they mean has one: so that neither a
    /// new class nor a new matcher looks at all others.
    classes_by_pair: BTreeMap<Pair, BTreeSet<ClassId>>,
    matchers_by_pair: BTreeMap<Pair, BTreeSet<MatcherId>>,
    matchers_without_pair: BTreeSet<MatcherId>,
    /// Those that mean namespaces by their labels.
    matchers_by_namespace: BTreeSet<MatcherId>,
    /// The classes that have pods on a node.
    on_node: BTreeMap<NodeId, BTreeSet<ClassId>>,
    namespaces: BTreeMap<Symbol, Labels>,
}

impl Matcher {
    fn anchor(&self) -> Option<Vec<Pair>> {
        self.0.iter().find_map(|scope| scope.pods.anchor())
    }

    /// By which labels it means namespaces.
    fn namespace_selectors(&self) -> impl Iterator<Item = &Selector> {
        self.0.iter().filter_map(|scope| scope.namespace_selector.as_ref())
    }
}

impl Classes {
    pub(super) fn acquire(&mut self, namespace: Symbol, labels: Labels, symbols: &Symbols) -> ClassId {
        let class = Class { namespace, labels };
        if let Some(id) = self.class_ids.get(&class).copied() {
            if let Some(entry) = self.classes.get_mut(id.0) {
                entry.uses += 1;
            }
            return id;
        }
        let mut candidates = self.matchers_without_pair.clone();
        for pair in &class.labels {
            candidates.extend(self.matchers_by_pair.get(pair).into_iter().flatten());
        }
        let matchers: Vec<MatcherId> =
            candidates.into_iter().filter(|matcher| self.means(*matcher, &class, symbols)).collect();
        let class = Arc::new(class);
        let entry =
            ClassEntry { class: Arc::clone(&class), uses: 1, matchers: matchers.clone(), places: BTreeMap::new() };
        let id = ClassId(self.classes.insert(entry));
        for matcher in matchers {
            if let Some(entry) = self.matchers.get_mut(matcher.0) {
                entry.classes.insert(id);
            }
        }
        for pair in &class.labels {
            self.classes_by_pair.entry(*pair).or_default().insert(id);
        }
        self.class_ids.insert(class, id);
        id
    }

    pub(super) fn release(&mut self, id: ClassId) {
        let Some(entry) = self.classes.get_mut(id.0) else { return };
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses > 0 {
            return;
        }
        let Some(entry) = self.classes.remove(id.0) else { return };
        self.class_ids.remove(&entry.class);
        for pair in &entry.class.labels {
            forget(&mut self.classes_by_pair, pair, id);
        }
        for matcher in entry.matchers {
            if let Some(matcher) = self.matchers.get_mut(matcher.0) {
                matcher.classes.remove(&id);
            }
        }
    }

    pub(super) fn acquire_matcher(&mut self, matcher: Matcher, symbols: &Symbols) -> MatcherId {
        if let Some(id) = self.matcher_ids.get(&matcher).copied() {
            if let Some(entry) = self.matchers.get_mut(id.0) {
                entry.uses += 1;
            }
            return id;
        }
        let anchor = matcher.anchor();
        let matcher = Arc::new(matcher);
        let entry = MatcherEntry { matcher: Arc::clone(&matcher), uses: 1, classes: BTreeSet::new() };
        let id = MatcherId(self.matchers.insert(entry));
        if matcher.namespace_selectors().next().is_some() {
            self.matchers_by_namespace.insert(id);
        }
        self.matcher_ids.insert(matcher, id);
        match &anchor {
            Some(pairs) => {
                for pair in pairs {
                    self.matchers_by_pair.entry(*pair).or_default().insert(id);
                }
            }
            None => {
                self.matchers_without_pair.insert(id);
            }
        }
        self.look_for_classes(id, symbols);
        id
    }

    /// Finds the classes that a matcher means, anew; whether they are others than before.
    fn look_for_classes(&mut self, id: MatcherId, symbols: &Symbols) -> bool {
        let Some(entry) = self.matchers.get(id.0) else { return false };
        let candidates: BTreeSet<ClassId> = match entry.matcher.anchor() {
            Some(pairs) => pairs.iter().filter_map(|pair| self.classes_by_pair.get(pair)).flatten().copied().collect(),
            None => self.classes.iter().map(|(id, _)| ClassId(id)).collect(),
        };
        let meant = |class: &ClassId| {
            let entry = self.classes.get(class.0);
            entry.is_some_and(|entry| self.means(id, &entry.class, symbols))
        };
        let classes: BTreeSet<ClassId> = candidates.into_iter().filter(meant).collect();
        let Some(entry) = self.matchers.get_mut(id.0) else { return false };
        if entry.classes == classes {
            return false;
        }
        for class in std::mem::replace(&mut entry.classes, classes.clone()) {
            if let Some(class) = self.classes.get_mut(class.0) {
                take_out(&mut class.matchers, &id);
            }
        }
        for class in classes {
            if let Some(class) = self.classes.get_mut(class.0) {
                add(&mut class.matchers, id);
            }
        }
        true
    }

    pub(super) fn release_matcher(&mut self, id: MatcherId) {
        let Some(entry) = self.matchers.get_mut(id.0) else { return };
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses > 0 {
            return;
        }
        let Some(entry) = self.matchers.remove(id.0) else { return };
        self.matcher_ids.remove(&entry.matcher);
        self.matchers_without_pair.remove(&id);
        self.matchers_by_namespace.remove(&id);
        for pair in entry.matcher.anchor().into_iter().flatten() {
            forget(&mut self.matchers_by_pair, &pair, id);
        }
        for class in entry.classes {
            if let Some(class) = self.classes.get_mut(class.0) {
                take_out(&mut class.matchers, &id);
            }
        }
    }

    fn means(&self, matcher: MatcherId, class: &Class, symbols: &Symbols) -> bool {
        #[cfg(test)]
        super::super::work::note();
        let Some(entry) = self.matchers.get(matcher.0) else { return false };
        entry.matcher.0.iter().all(|scope| {
            let selected = |selector: &Selector| {
                let labels = self.namespaces.get(&class.namespace).map_or(&[][..], |labels| labels);
                selector.matches(labels, symbols)
            };
            let inside =
                scope.namespaces.contains(&class.namespace) || scope.namespace_selector.as_ref().is_some_and(selected);
            inside && scope.pods.matches(&class.labels, symbols)
        })
    }

    /// Takes a namespace's labels over; tells which matchers mean other pods than before.
    pub(super) fn set_namespace(
        &mut self,
        namespace: Symbol,
        labels: Labels,
        symbols: &Symbols,
    ) -> BTreeSet<MatcherId> {
        let before = self.namespaces.insert(namespace, labels.clone()).unwrap_or_default();
        let is_other = |selector: &Selector| selector.matches(&before, symbols) != selector.matches(&labels, symbols);
        let concerned = |matcher: &MatcherId| {
            let entry = self.matchers.get(matcher.0);
            entry.is_some_and(|entry| entry.matcher.namespace_selectors().any(is_other))
        };
        let concerned: Vec<MatcherId> = self.matchers_by_namespace.iter().copied().filter(concerned).collect();
        concerned.into_iter().filter(|matcher| self.look_for_classes(*matcher, symbols)).collect()
    }

    pub(super) fn place(&mut self, class: ClassId, node: NodeId, ending: bool) {
        let Some(entry) = self.classes.get_mut(class.0) else { return };
        self.on_node.entry(node).or_default().insert(class);
        let placed = entry.places.entry(node).or_default();
        placed.all += 1;
        placed.ending += u32::from(ending);
    }

    pub(super) fn unplace(&mut self, class: ClassId, node: NodeId, was_ending: bool) {
        let Some(entry) = self.classes.get_mut(class.0) else { return };
        let Some(placed) = entry.places.get_mut(&node) else { return };
        placed.all = placed.all.saturating_sub(1);
        placed.ending = placed.ending.saturating_sub(u32::from(was_ending));
        if placed.all == 0 {
            entry.places.remove(&node);
            forget(&mut self.on_node, &node, class);
        }
    }

    /// How many pods on a node each matcher means: all of them, and those that are not ending.
    pub(super) fn matched_on(&self, node: NodeId) -> BTreeMap<MatcherId, (i64, i64)> {
        let mut matched: BTreeMap<MatcherId, (i64, i64)> = BTreeMap::new();
        let classes = self.on_node.get(&node).into_iter().flatten().filter_map(|class| self.classes.get(class.0));
        for (entry, placed) in classes.filter_map(|entry| Some((entry, entry.places.get(&node)?))) {
            for matcher in &entry.matchers {
                let (all, living) = matched.entry(*matcher).or_default();
                *all += i64::from(placed.all);
                *living += i64::from(placed.all - placed.ending);
            }
        }
        matched
    }

    pub(super) fn matchers_of(&self, class: ClassId) -> &[MatcherId] {
        self.classes.get(class.0).map_or(&[], |entry| &entry.matchers)
    }

    pub(super) fn has_labels(&self, class: ClassId) -> bool {
        self.classes.get(class.0).is_some_and(|entry| !entry.class.labels.is_empty())
    }

    pub(super) fn classes_of(&self, matcher: MatcherId) -> impl Iterator<Item = ClassId> + '_ {
        self.matchers.get(matcher.0).into_iter().flat_map(|entry| entry.classes.iter().copied())
    }

    pub(super) fn places(&self, class: ClassId) -> impl Iterator<Item = (NodeId, Placed)> + '_ {
        self.classes
            .get(class.0)
            .into_iter()
            .flat_map(|entry| entry.places.iter().map(|(node, placed)| (*node, *placed)))
    }
}

fn add<T: Ord>(list: &mut Vec<T>, item: T) {
    if let Err(place) = list.binary_search(&item) {
        list.insert(place, item);
    }
}

fn take_out<T: Ord>(list: &mut Vec<T>, item: &T) {
    if let Ok(place) = list.binary_search(item) {
        list.remove(place);
    }
}

/// Takes an item out of an index.
pub(super) fn forget<K: Ord + Copy, T: Ord>(index: &mut BTreeMap<K, BTreeSet<T>>, key: &K, item: T) {
    if let Some(items) = index.get_mut(key) {
        items.remove(&item);
        if items.is_empty() {
            index.remove(key);
        }
    }
}
