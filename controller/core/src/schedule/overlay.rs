//! What rules look at, and how one node would be if some pods were gone from it and others were there.

use std::sync::Arc;

use super::census::{Census, ClassId, CounterId, Counting};
use super::nodes::{NodeId, Nodes};
use super::nominations::Nominations;
use super::rules::Asked;
use super::storage::Storage;
use super::symbols::{HostPort, Resource, Symbol, Symbols};

/// A pod as rules see it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) asked: Arc<Asked>,
    pub(super) class: ClassId,
    pub(super) ending: bool,
}

/// One node as it would be.
#[derive(Clone, Debug)]
pub(super) struct Overlay {
    pub(super) node: NodeId,
    pub(super) without: Vec<Seen>,
    pub(super) with: Vec<Seen>,
}

/// What rules may look at.
#[derive(Clone, Copy)]
pub(super) struct Cluster<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) symbols: &'a Symbols,
    pub(super) census: &'a Census,
    pub(super) nominations: &'a Nominations,
    pub(super) storage: &'a Storage,
    /// How one of the nodes would be; `None` to see things as they are.
    pub(super) overlay: Option<&'a Overlay>,
}

impl<'a> Cluster<'a> {
    fn overlay_of(self, node: NodeId) -> Option<&'a Overlay> {
        self.overlay.filter(|overlay| overlay.node == node)
    }

    /// What pods use of a node.
    pub(super) fn used(self, node: NodeId, resource: Resource) -> u64 {
        let used = self.nodes.used(node, resource);
        let Some(overlay) = self.overlay_of(node) else { return used };
        let sum = |pods: &[Seen]| pods.iter().map(|pod| pod.asked.question.request(resource)).sum::<u64>();
        used.saturating_sub(sum(&overlay.without)).saturating_add(sum(&overlay.with))
    }

    /// Whether one more pod may be on a node.
    pub(super) fn has_room_for_pod(self, node: NodeId) -> bool {
        let (mut pods, most) = self.nodes.pods(node);
        if let Some(overlay) = self.overlay_of(node) {
            let count = |pods: &[Seen]| u32::try_from(pods.len()).unwrap_or(u32::MAX);
            pods = pods.saturating_sub(count(&overlay.without)).saturating_add(count(&overlay.with));
        }
        pods < most
    }

    /// Whether a host port is taken.
    pub(super) fn takes_port(self, node: NodeId, port: HostPort) -> bool {
        let Some(overlay) = self.overlay_of(node) else { return self.nodes.takers(node, port) > 0 };
        let takes = |pod: &&Seen| pod.asked.question.host_ports.binary_search(&port).is_ok();
        overlay.with.iter().any(|pod| takes(&pod))
            || self.nodes.takers(node, port) > overlay.without.iter().filter(takes).count()
    }

    /// How many other pods use a claim that is for one pod.
    pub(super) fn users_of_exclusive(self, claim: Symbol, node: NodeId) -> i64 {
        let users = self.storage.users_of_exclusive(claim, self.nodes);
        let Some(overlay) = self.overlay_of(node).filter(|_| users > 0) else { return users };
        let count = |pods: &[Seen]| pods.iter().filter(|pod| pod.asked.question.claims.contains(&claim)).count() as i64;
        users + count(&overlay.with) - count(&overlay.without)
    }

    /// A counter's count in a node's domain; 0 for a node without the key.
    pub(super) fn count(self, counter: CounterId, node: NodeId) -> i64 {
        let domains = self.census.domains(self.census.topology_of(counter));
        let Some(domain) = domains.get(node.index()).filter(|domain| !domain.is_none()) else { return 0 };
        let count = self.census.counts(counter).get(domain.index()).copied().unwrap_or_default();
        count + self.overlay_of(node).map_or(0, |overlay| self.difference(overlay, counter))
    }

    /// By how much the overlay changes a counter in its node's domain.
    pub(super) fn difference(self, overlay: &Overlay, counter: CounterId) -> i64 {
        let sum = |pods: &[Seen]| pods.iter().map(|pod| self.share(pod, overlay.node, counter)).sum::<i64>();
        sum(&overlay.with) - sum(&overlay.without)
    }

    /// What one pod adds to a counter where it is.
    fn share(self, pod: &Seen, node: NodeId, counter: CounterId) -> i64 {
        let meant = || i64::from(self.census.is_meant(pod.class, self.census.matcher_of(counter)));
        match self.census.counting_of(counter) {
            Counting::Matching => meant(),
            Counting::Spread(eligibility) if pod.ending || !self.census.is_eligible(eligibility, node) => 0,
            Counting::Spread(_) => meant(),
            Counting::Refusing | Counting::Requiring | Counting::Preferring => pod.asked.held(counter),
        }
    }
}
