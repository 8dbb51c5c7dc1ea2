//! Who is who on the broker, as far as its rules need to know.
//!
//! An agent's id holds its node, so that a broker lets it use that node's topics only, and its instance, so that a second
//! agent that was given the same node name does not push the first one off its connection: both stay connected, and the
//! controller refuses the second.

use std::fmt::{Display, Write};

/// The client id of an agent: `coracle-<cluster>-n-<node>/<instance>`.
#[must_use]
pub fn agent(cluster: &str, node: &str, instance: impl Display) -> String {
    format!("coracle-{cluster}-n-{node}/{instance}")
}

/// The node that an agent's client id holds; `None` when it is no id of an agent of this cluster. The instance may be
/// missing.
#[must_use]
pub fn node_of_agent<'a>(cluster: &str, client_id: &'a str) -> Option<&'a str> {
    let rest = client_id.strip_prefix("coracle-")?.strip_prefix(cluster)?.strip_prefix("-n-")?;
    let node = rest.split_once('/').map_or(rest, |(node, _instance)| node);
    (!node.is_empty()).then_some(node)
}

/// An id that nobody guesses: `prefix` and 128 random bits.
///
/// # Errors
/// When the operating system has no randomness.
pub fn random(prefix: &str) -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    let mut id = format!("{prefix}-");
    for byte in bytes {
        // Writing into a string cannot fail.
        let _: std::fmt::Result = write!(id, "{byte:02x}");
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_id_names_its_node() {
        assert_eq!(node_of_agent("default", &agent("default", "rack1.pi-2", 7)), Some("rack1.pi-2"));
        assert_eq!(node_of_agent("default", "coracle-default-n-pi"), Some("pi"));
        assert_eq!(node_of_agent("a", "coracle-a-n-b-n-c"), Some("b-n-c"));
    }

    #[test]
    fn ids_of_others_name_no_node() {
        for id in ["", "coracle-other-n-pi", "coracle-default-n-", "coracle-default-n-/7", "mosq-1", "coracle-default-"]
        {
            assert_eq!(node_of_agent("default", id), None, "{id}");
        }
    }

    #[test]
    fn random_ids_differ() {
        let one = random("coracle-c").expect("randomness");
        assert_ne!(one, random("coracle-c").expect("randomness"));
        assert_eq!(one.len(), "coracle-c-".len() + 32);
    }
}
