//! The cluster as the API would list it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::tests::World;
use super::profile::Profile;
use crate::kind::Kind;

/// The elements of a list; none if there is no list.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

pub(super) fn name(object: &Value) -> &str {
    text(&object["metadata"], "name")
}

pub(super) fn namespace(pod: &Value) -> &str {
    text(&pod["metadata"], "namespace")
}

pub(super) fn priority(pod: &Value) -> i64 {
    pod["spec"]["priority"].as_i64().unwrap_or(0)
}

pub(super) fn is_ending(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// A pod and the node on which it is.
pub(super) type Placed<'a> = (&'a Value, &'a Value);

/// What the scheduler could know. Pods that have come to their end are left out.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Value>,
    pub(super) pods: Vec<Value>,
    pub(super) namespaces: BTreeMap<String, Value>,
    pub(super) replica_sets: Vec<Value>,
    pub(super) services: Vec<Value>,
    pub(super) budgets: Vec<Value>,
    pub(super) claims: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) classes: Vec<Value>,
    /// The file of the configuration.
    pub(super) configuration: Value,
}

impl Cluster {
    pub(super) fn of(world: &World) -> Self {
        let all = |kind| world.view.list(kind, None).map(|object| object.value()).collect::<Vec<Value>>();
        let mut pods = all(Kind::POD);
        pods.retain(|pod| !matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed"));
        let namespaces = all(Kind::NAMESPACE);
        Self {
            nodes: all(Kind::NODE),
            pods,
            namespaces: namespaces.into_iter().map(|namespace| (name(&namespace).to_owned(), namespace)).collect(),
            replica_sets: all(Kind::REPLICA_SET),
            services: all(Kind::SERVICE),
            budgets: all(Kind::POD_DISRUPTION_BUDGET),
            claims: all(Kind::PERSISTENT_VOLUME_CLAIM),
            volumes: all(Kind::PERSISTENT_VOLUME),
            classes: all(Kind::STORAGE_CLASS),
            configuration: world.configuration.clone(),
        }
    }

    /// What the pod's profile says.
    pub(super) fn profile(&self, pod: &Value) -> Profile<'_> {
        Profile::of(&self.configuration, pod)
    }

    pub(super) fn node(&self, wanted: &str) -> Option<&Value> {
        self.nodes.iter().find(|node| name(node) == wanted)
    }

    pub(super) fn pod(&self, in_namespace: &str, wanted: &str) -> Option<&Value> {
        self.pods.iter().find(|pod| namespace(pod) == in_namespace && name(pod) == wanted)
    }

    /// The pods that are on nodes, except on nodes that are gone.
    pub(super) fn placed(&self) -> Vec<Placed<'_>> {
        self.pods.iter().filter_map(|pod| Some((pod, self.node(text(&pod["spec"], "nodeName"))?))).collect()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Value> {
        self.pods.iter().filter(|pod| text(&pod["spec"], "nodeName").is_empty())
    }

    /// The other pods for which room is held on a node.
    pub(super) fn nominees<'a>(&'a self, node: &'a Value, except: &'a Value) -> impl Iterator<Item = &'a Value> {
        self.waiting()
            .filter(|pod| text(&pod["status"], "nominatedNodeName") == name(node))
            .filter(|pod| pod["metadata"]["uid"] != except["metadata"]["uid"])
    }
}
