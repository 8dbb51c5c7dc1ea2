//! Who may say and hear what on the embedded broker. Pure: client ids and topics in, yes or no out.
//!
//! There are three kinds of clients. The controller is known by an id that never leaves this process. An agent's id
//! names its node, and it may use that node's topics and no others (DESIGN, decision 6). Anybody else may hand in
//! manifests and hear what became of them, on topics outside `coracle/`.

use coracle_link::client_id;
use coracle_wire::topic::{self, NodeTopic};

/// The rules of one cluster's broker.
#[derive(Debug)]
pub(crate) struct Access {
    cluster: String,
    controller_id: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Client<'a> {
    Controller,
    Agent(&'a str),
    Other,
}

impl Access {
    pub(crate) const fn new(cluster: String, controller_id: String) -> Self {
        Self { cluster, controller_id }
    }

    fn client<'a>(&self, client_id: &'a str) -> Client<'a> {
        if client_id == self.controller_id {
            return Client::Controller;
        }
        client_id::node_of_agent(&self.cluster, client_id).map_or(Client::Other, Client::Agent)
    }

    /// Whether this is the controller, to which no rule applies.
    pub(crate) fn is_controller(&self, client_id: &str) -> bool {
        self.client(client_id) == Client::Controller
    }

    /// Whether a client may connect. Its Last Will is checked here, because the broker publishes it without asking again.
    pub(crate) fn may_connect(&self, client_id: &str, will_topic: Option<&str>) -> bool {
        let known = match self.client(client_id) {
            Client::Agent(node) => topic::is_name(node),
            Client::Controller | Client::Other => true,
        };
        known && will_topic.is_none_or(|topic| self.may_publish(client_id, topic))
    }

    /// Whether a client may publish on a topic.
    pub(crate) fn may_publish(&self, client_id: &str, topic: &str) -> bool {
        match self.client(client_id) {
            Client::Controller => true,
            Client::Agent(node) => matches!(
                topic::parse(&self.cluster, topic),
                Some(topic::Topic::Node(owner, NodeTopic::Birth | NodeTopic::Death | NodeTopic::Up)) if owner == node
            ),
            Client::Other => {
                matches!(topic::parse(&self.cluster, topic), Some(topic::Topic::Apply | topic::Topic::Delete))
            }
        }
    }

    /// Whether a client may subscribe to a topic filter.
    pub(crate) fn may_subscribe(&self, client_id: &str, filter: &str) -> bool {
        match self.client(client_id) {
            Client::Controller => true,
            Client::Agent(node) => filter == topic::node(&self.cluster, node, NodeTopic::Down),
            Client::Other => filter == topic::manifests_result(&self.cluster) || is_foreign(filter),
        }
    }

    /// Whether the outcome of manifests may be published on a response topic that a client chose. It must not become a
    /// way to speak to agents in the controller's name.
    pub(crate) fn may_answer_on(cluster: &str, response_topic: &str) -> bool {
        !response_topic.contains(['+', '#', '\0'])
            && (response_topic == topic::manifests_result(cluster) || is_foreign(response_topic))
    }
}

/// Whether a topic or filter lies outside of Coracle's and the broker's own: its first level is written out.
fn is_foreign(filter: &str) -> bool {
    let first = filter.split('/').next().unwrap_or_default();
    !filter.is_empty() && first != "coracle" && !first.starts_with('$') && !first.contains(['+', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access::new("default".to_owned(), "secret".to_owned())
    }

    #[test]
    fn an_agent_speaks_and_hears_for_its_own_node_only() {
        let access = access();
        let agent = client_id::agent("default", "pi-1", 7);
        for word in ["birth", "death", "up"] {
            assert!(access.may_publish(&agent, &format!("coracle/default/n/pi-1/{word}")), "{word}");
            assert!(!access.may_publish(&agent, &format!("coracle/default/n/pi-2/{word}")), "{word}");
        }
        assert!(access.may_subscribe(&agent, "coracle/default/n/pi-1/down"));
        for topic in ["coracle/default/n/pi-1/down", "coracle/default/manifests/apply", "home/light"] {
            assert!(!access.may_publish(&agent, topic), "{topic}");
        }
        for filter in ["coracle/default/n/pi-2/down", "coracle/default/n/+/down", "#", "coracle/default/n/pi-1/#"] {
            assert!(!access.may_subscribe(&agent, filter), "{filter}");
        }
    }

    #[test]
    fn anybody_may_hand_in_manifests_and_hear_of_them() {
        let access = access();
        assert!(access.may_publish("mosq", "coracle/default/manifests/apply"));
        assert!(access.may_publish("mosq", "coracle/default/manifests/delete"));
        for topic in ["coracle/default/manifests/result", "coracle/default/n/pi-1/up", "home/light", "$SYS/x"] {
            assert!(!access.may_publish("mosq", topic), "{topic}");
        }
        for filter in ["coracle/default/manifests/result", "replies/7", "replies/#"] {
            assert!(access.may_subscribe("mosq", filter), "{filter}");
        }
        for filter in ["#", "+/default/n/pi-1/down", "coracle/#", "coracle/default/n/pi-1/up", "$SYS/#", ""] {
            assert!(!access.may_subscribe("mosq", filter), "{filter}");
        }
    }

    #[test]
    fn a_last_will_is_checked_when_its_client_connects() {
        let access = access();
        let agent = client_id::agent("default", "pi-1", 7);
        assert!(access.may_connect(&agent, Some("coracle/default/n/pi-1/death")));
        assert!(!access.may_connect(&agent, Some("coracle/default/n/pi-2/death")));
        assert!(!access.may_connect("mosq", Some("coracle/default/n/pi-2/death")));
        assert!(access.may_connect("mosq", None));
        assert!(!access.may_connect(&client_id::agent("default", "Not_A_Name", 7), None));
    }

    #[test]
    fn only_the_secret_id_is_the_controller() {
        let access = access();
        assert!(access.is_controller("secret"));
        assert!(!access.is_controller("Secret"));
        assert!(access.may_subscribe("secret", "coracle/default/n/+/up"));
    }

    #[test]
    fn outcomes_go_to_the_result_topic_or_outside_of_coracle() {
        for topic in ["coracle/default/manifests/result", "replies/7"] {
            assert!(Access::may_answer_on("default", topic), "{topic}");
        }
        for topic in ["", "coracle/default/n/pi-1/down", "coracle/other/manifests/result", "replies/+", "$SYS/x"] {
            assert!(!Access::may_answer_on("default", topic), "{topic}");
        }
    }
}
