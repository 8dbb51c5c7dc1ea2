//! The volumes that nobody has, in such an order that few are looked at for one claim on one node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::symbols::Symbol;
use super::super::terms::{Facts, Term};
use super::Volume;
use crate::volumes::ClaimRow;

/// A label that every node from which a volume is reached carries; `None` for a volume of which that cannot be told.
type Anchor = Option<(Symbol, Symbol)>;

/// The free volumes of one class.
#[derive(Clone, Debug, Default)]
struct Shelf {
    /// By size, and of the same size by name.
    volumes: BTreeMap<Anchor, BTreeSet<(u64, Arc<str>)>>,
    /// The keys of anchors, with how many anchors have them.
    keys: BTreeMap<Symbol, usize>,
}

/// By class.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelves {
    shelves: BTreeMap<Arc<str>, Shelf>,
}

impl Shelves {
    pub(super) fn put(&mut self, name: &Arc<str>, volume: &Volume) {
        let shelf = self.shelves.entry(Arc::clone(&volume.row.class)).or_default();
        for anchor in anchors(volume) {
            let place = shelf.volumes.entry(anchor).or_default();
            if place.is_empty()
                && let Some((key, _)) = anchor
            {
                *shelf.keys.entry(key).or_default() += 1;
            }
            place.insert((volume.row.capacity_bytes, Arc::clone(name)));
        }
    }

    /// Takes a volume out, if it is there.
    pub(super) fn take(&mut self, name: &Arc<str>, volume: &Volume) {
        let Some(shelf) = self.shelves.get_mut(&volume.row.class) else { return };
        let entry = (volume.row.capacity_bytes, Arc::clone(name));
        for anchor in anchors(volume) {
            let Some(place) = shelf.volumes.get_mut(&anchor) else { continue };
            place.remove(&entry);
            if !place.is_empty() {
                continue;
            }
            shelf.volumes.remove(&anchor);
            let Some((key, _)) = anchor else { continue };
            if let Some(anchors) = shelf.keys.get_mut(&key) {
                *anchors -= 1;
                if *anchors == 0 {
                    shelf.keys.remove(&key);
                }
            }
        }
        if shelf.volumes.is_empty() {
            self.shelves.remove(&volume.row.class);
        }
    }

    /// The smallest volume for a claim that may be reached from a node and is accepted.
    pub(super) fn smallest(
        &self,
        claim: &ClaimRow,
        node: Facts<'_>,
        accepts: impl Fn(&Arc<str>) -> bool,
    ) -> Option<&Arc<str>> {
        let shelf = self.shelves.get(&claim.class)?;
        let labels = shelf.keys.keys().filter_map(|key| Some(Some((*key, node.label(*key)?))));
        let places = labels.chain([None]).filter_map(|anchor| shelf.volumes.get(&anchor));
        let least = (claim.request_bytes, Arc::from(""));
        let found = places.filter_map(|place| place.range(&least..).find(|(_, name)| accepts(name)));
        found.min().map(|(_, name)| name)
    }
}

fn anchors(volume: &Volume) -> Vec<Anchor> {
    let Some(terms) = &volume.affinity else { return vec![None] };
    let anchors: Option<Vec<_>> = terms.iter().map(Term::anchor).collect();
    anchors.map_or_else(
        || vec![None],
        |anchors| anchors.into_iter().flatten().map(Some).collect::<BTreeSet<_>>().into_iter().collect(),
    )
}
