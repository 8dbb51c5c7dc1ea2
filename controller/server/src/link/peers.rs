//! Which session each node is in, and what its engine is; as much of a birth as the link itself needs. Pure.

use std::collections::BTreeMap;

use coracle_model::SessionNumber;

/// Nodes that are kept track of. More would be somebody who invents them.
const MAX_PEERS: usize = 262_144;

/// What artifacts are made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The compilation target.
    pub(crate) target: String,
    /// The fingerprint of the engine.
    pub(crate) engine: String,
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
}

impl Peers {
    /// A birth came. It counts when the controller welcomes it: a second agent of the same name, which is going to be
    /// refused, must not cut the first one's streams.
    pub(crate) fn born(&mut self, node: &str, session: SessionNumber, machine: Machine) {
        if self.nodes.len() >= MAX_PEERS && !self.nodes.contains_key(node) {
            return;
        }
        self.nodes.entry(node.to_owned()).or_default().born = Some(Peer { session, machine });
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
        Machine { target: target.to_owned(), engine: "e".to_owned() }
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
