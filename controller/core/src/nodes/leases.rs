//! When each node was last heard. Kept in memory only: leases are never written to the store.

use std::collections::BTreeMap;

use coracle_model::Millis;

/// The last sign of life of every node.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    /// Since when the controller listens without a break.
    started: Millis,
    renewed: BTreeMap<String, Millis>,
}

impl Leases {
    /// No node has been heard; the controller started at `now`, so every node gets a full grace period from then.
    #[must_use]
    pub const fn new(now: Millis) -> Self {
        Self { started: now, renewed: BTreeMap::new() }
    }

    /// The node was heard.
    pub fn renew(&mut self, node: &str, now: Millis) {
        if let Some(at) = self.renewed.get_mut(node) {
            *at = now;
        } else {
            self.renewed.insert(node.to_owned(), now);
        }
    }

    /// The controller itself was away until `now`: whoever was not heard meanwhile may well have spoken.
    pub fn forgive(&mut self, now: Millis) {
        self.started = now;
    }

    /// Whether the node was heard since the controller's start.
    #[must_use]
    pub fn has_heard(&self, node: &str) -> bool {
        self.renewed.contains_key(node)
    }

    /// From when the node's silence counts: when it was last heard, or when the controller began to listen.
    #[must_use]
    pub fn renewed_at(&self, node: &str) -> Millis {
        self.renewed.get(node).map_or(self.started, |at| self.started.max(*at))
    }

    /// Every node that has been heard, with when.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Millis)> {
        self.renewed.iter().map(|(node, at)| (node.as_str(), *at))
    }
}
