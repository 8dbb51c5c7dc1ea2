//! Which session each node is in, and what its engine is; as much of a birth as the link itself needs. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_model::SessionNumber;

use crate::images::interfaces::{is_offered, missing};

/// Nodes that are kept track of. More would be somebody who invents them.
const MAX_PEERS: usize = 262_144;

/// What artifacts are made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The compilation target.
    pub(crate) target: String,
    /// The fingerprint of the engine.
    pub(crate) engine: String,
    /// What guests may import there; empty when the agent does not say.
    pub(crate) interfaces: Arc<[String]>,
}

/// How many of the connected nodes can run something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offering {
    /// Nodes that are connected.
    pub connected: usize,
    /// Those that offer everything.
    pub offering: usize,
    /// Those that do not say what they offer.
    pub unknown: usize,
}

#[derive(Debug)]
struct Peer {
    session: SessionNumber,
    machine: Machine,
}

#[derive(Debug, Default)]
struct Node {
    /// The session that the controller has welcomed.
    current: Option<Peer>,
    /// A birth to which the controller has said nothing yet.
    born: Option<Peer>,
}

/// Every node that is connected.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    nodes: BTreeMap<String, Node>,
    /// Each list of interfaces once, however many nodes have it.
    interfaces: BTreeSet<Arc<[String]>>,
}

impl Peers {
    /// A birth came. It counts when the controller welcomes it: a second agent of the same name, which is going to be
    /// refused, must not cut the first one's streams.
    pub(crate) fn born(&mut self, node: &str, session: SessionNumber, mut machine: Machine) {
        if self.nodes.len() >= MAX_PEERS && !self.nodes.contains_key(node) {
            return;
        }
        machine.interfaces = self.shared(&machine.interfaces);
        self.nodes.entry(node.to_owned()).or_default().born = Some(Peer { session, machine });
    }

    fn shared(&mut self, interfaces: &Arc<[String]>) -> Arc<[String]> {
        if let Some(known) = self.interfaces.get(interfaces) {
            return Arc::clone(known);
        }
        // A count of one is the set's own: no node has this list any more.
        self.interfaces.retain(|known| Arc::strong_count(known) > 1);
        self.interfaces.insert(Arc::clone(interfaces));
        Arc::clone(interfaces)
    }

    /// The connected nodes that offer an interface, by name.
    pub(crate) fn offering(&self, import: &str) -> Vec<&str> {
        let offers = |peer: &Peer| is_offered(&peer.machine.interfaces, import);
        let nodes = self.nodes.iter().filter(|(_, node)| node.current.as_ref().is_some_and(offers));
        nodes.map(|(name, _)| name.as_str()).collect()
    }

    /// How many nodes offer all of these.
    pub(crate) fn count(&self, imports: &[String]) -> Offering {
        let mut found = Offering::default();
        for peer in self.nodes.values().filter_map(|node| node.current.as_ref()) {
            found.connected += 1;
            let interfaces = &peer.machine.interfaces;
            found.unknown += usize::from(interfaces.is_empty());
            found.offering += usize::from(!interfaces.is_empty() && missing(imports, interfaces).is_none());
        }
        found
    }

    /// The controller welcomed a session. `true` when another one was there before: its streams are over.
    pub(crate) fn welcomed(&mut self, node: &str, session: SessionNumber) -> bool {
        let Some(known) = self.nodes.get_mut(node) else { return false };
        match known.born.take() {
            Some(born) if born.session == session => {
                known.current.replace(born).is_some_and(|before| before.session != session)
            }
            other => {
                known.born = other;
                false
            }
        }
    }

    /// A session ended. `true` when it was the current one: its streams are over.
    pub(crate) fn died(&mut self, node: &str, session: SessionNumber) -> bool {
        let Some(known) = self.nodes.get_mut(node) else { return false };
        known.born.take_if(|born| born.session == session);
        let ended = known.current.take_if(|current| current.session == session).is_some();
        if known.current.is_none() && known.born.is_none() {
            self.nodes.remove(node);
        }
        ended
    }

    /// The session of a node that is connected.
    pub(crate) fn session(&self, node: &str) -> Option<SessionNumber> {
        self.nodes.get(node)?.current.as_ref().map(|peer| peer.session)
    }

    /// The machine of a node, if it is in this session.
    pub(crate) fn machine(&self, node: &str, session: SessionNumber) -> Option<&Machine> {
        let known = self.nodes.get(node)?;
        let peers = [known.current.as_ref(), known.born.as_ref()];
        peers.into_iter().flatten().find(|peer| peer.session == session).map(|peer| &peer.machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionNumber = SessionNumber(1);
    const TWO: SessionNumber = SessionNumber(2);

    fn machine(target: &str) -> Machine {
        Machine { target: target.to_owned(), engine: "e".to_owned(), interfaces: Arc::default() }
    }

    #[test]
    fn a_session_counts_from_its_welcome() {
        let mut peers = Peers::default();
        peers.born("a", ONE, machine("x"));
        assert_eq!(peers.session("a"), None);
        assert_eq!(peers.machine("a", ONE), Some(&machine("x")));
        assert!(!peers.welcomed("a", ONE));
        assert_eq!(peers.session("a"), Some(ONE));
        assert_eq!(peers.machine("a", TWO), None);
    }

    #[test]
    fn a_new_session_ends_the_one_before_and_a_repeated_birth_does_not() {
        let mut peers = Peers::default();
        peers.born("a", ONE, machine("x"));
        assert!(!peers.welcomed("a", ONE));
        peers.born("a", ONE, machine("x"));
        assert!(!peers.welcomed("a", ONE));
        peers.born("a", TWO, machine("y"));
        assert!(peers.welcomed("a", TWO));
        assert_eq!(peers.session("a"), Some(TWO));
    }

    #[test]
    fn a_birth_that_is_not_welcomed_changes_nothing() {
        let mut peers = Peers::default();
        peers.born("a", ONE, machine("x"));
        peers.welcomed("a", ONE);
        peers.born("a", TWO, machine("y"));
        assert_eq!(peers.session("a"), Some(ONE));
        assert!(!peers.died("a", TWO));
        assert_eq!(peers.session("a"), Some(ONE));
        assert!(!peers.welcomed("a", TWO));
        assert!(!peers.welcomed("b", TWO));
    }

    // EDGE-02
    #[test]
    fn nodes_that_offer_an_interface_are_named_and_counted() {
        let mut peers = Peers::default();
        let offer = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (node, names) in [("a", &["x:y/z@1.0.0"][..]), ("b", &["x:y/z@1.0.0"]), ("c", &["x:y/w@1.0.0"]), ("d", &[])]
        {
            peers.born(node, ONE, Machine { interfaces: offer(names).into(), ..machine("x") });
            peers.welcomed(node, ONE);
        }
        peers.born("e", ONE, Machine { interfaces: offer(&["x:y/z@1.0.0"]).into(), ..machine("x") });
        assert_eq!(peers.offering("x:y/z@1.2.0"), ["a", "b"]);
        assert!(peers.offering("x:y/v@1.0.0").is_empty());
        let count = |names: &[&str]| peers.count(&offer(names));
        assert_eq!(count(&["x:y/z@1.0.0"]), Offering { connected: 4, offering: 2, unknown: 1 });
        assert_eq!(count(&[]), Offering { connected: 4, offering: 3, unknown: 1 });
        assert_eq!(peers.interfaces.len(), 3, "equal lists are one");
    }

    #[test]
    fn only_the_death_of_the_current_session_counts() {
        let mut peers = Peers::default();
        peers.born("a", TWO, machine("x"));
        peers.welcomed("a", TWO);
        assert!(!peers.died("a", ONE));
        assert!(peers.died("a", TWO));
        assert!(!peers.died("a", TWO));
        assert_eq!(peers.session("a"), None);
        assert!(peers.nodes.is_empty());
    }
}
