//! Topic names: one set a node, so that a broker can keep nodes apart by client id, and three for manifests.

use alloc::format;
use alloc::string::String;

/// The first level of every topic of one cluster.
const ROOT: &str = "coracle";

/// Which of a node's topics (DESIGN, decision 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeTopic {
    /// Agent to controller: the first message of a session.
    Birth,
    /// Broker to controller: the Last Will.
    Death,
    /// Agent to controller: everything after the birth.
    Up,
    /// Controller to agent.
    Down,
}

impl NodeTopic {
    const ALL: [Self; 4] = [Self::Birth, Self::Death, Self::Up, Self::Down];

    const fn word(self) -> &'static str {
        match self {
            Self::Birth => "birth",
            Self::Death => "death",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// `coracle/<cluster>/n/<node>/<topic>`.
#[must_use]
pub fn node(cluster: &str, node: &str, topic: NodeTopic) -> String {
    format!("{ROOT}/{cluster}/n/{node}/{}", topic.word())
}

/// The filter with which a controller hears one topic of every node.
#[must_use]
pub fn every_node(cluster: &str, topic: NodeTopic) -> String {
    format!("{ROOT}/{cluster}/n/+/{}", topic.word())
}

/// Where manifests are published to be applied (EDGE-04).
#[must_use]
pub fn manifests_apply(cluster: &str) -> String {
    format!("{ROOT}/{cluster}/manifests/apply")
}

/// Where manifests are published to be deleted.
#[must_use]
pub fn manifests_delete(cluster: &str) -> String {
    format!("{ROOT}/{cluster}/manifests/delete")
}

/// Where outcomes appear when the publisher named no MQTT 5 response topic.
#[must_use]
pub fn manifests_result(cluster: &str) -> String {
    format!("{ROOT}/{cluster}/manifests/result")
}

/// A topic of this cluster, read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic<'a> {
    /// One of a node's.
    Node(&'a str, NodeTopic),
    /// Manifests to apply.
    Apply,
    /// Manifests to delete.
    Delete,
}

/// Reads a topic name; `None` for one that is not of `cluster` or not of Coracle.
#[must_use]
pub fn parse<'a>(cluster: &str, topic: &'a str) -> Option<Topic<'a>> {
    let rest = topic.strip_prefix(ROOT)?.strip_prefix('/')?.strip_prefix(cluster)?.strip_prefix('/')?;
    match rest {
        "manifests/apply" => Some(Topic::Apply),
        "manifests/delete" => Some(Topic::Delete),
        _ => {
            let (node, word) = rest.strip_prefix("n/")?.split_once('/')?;
            let topic = NodeTopic::ALL.into_iter().find(|topic| topic.word() == word)?;
            (!node.is_empty()).then_some(Topic::Node(node, topic))
        }
    }
}

/// Whether a text may stand as one level of a topic: the cluster's name, or a node's. It is a DNS subdomain
/// (RFC 1123), as Kubernetes wants of node names, so it holds no `/`, `+` or `#`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_as_they_are_written() {
        for topic in NodeTopic::ALL {
            assert_eq!(parse("default", &node("default", "pi-1", topic)), Some(Topic::Node("pi-1", topic)));
        }
        assert_eq!(parse("default", &manifests_apply("default")), Some(Topic::Apply));
        assert_eq!(parse("default", &manifests_delete("default")), Some(Topic::Delete));
    }

    #[test]
    fn topics_of_others_are_not_ours() {
        for topic in ["", "coracle", "coracle/other/n/a/up", "coracle/default/n//up", "coracle/default/n/a/b/up"] {
            assert_eq!(parse("default", topic), None, "{topic}");
        }
    }

    #[test]
    fn names_hold_nothing_that_mqtt_treats_specially() {
        for name in ["a", "pi-1", "rack1.pi-2", "0"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a/b", "a+", "#", "a..b", "a_b", "é"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
