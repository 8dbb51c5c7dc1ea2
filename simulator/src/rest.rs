//! Whether a healed cluster has come to rest at what its users asked for.
//!
//! More may be asked for than the nodes can hold. Then a pod may wait, if there is truly no node that would take it, not
//! even without the pods of lower priority, and its owner may be short of exactly as many.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_controller_core::rows::PodRow;
use coracle_controller_core::{Key, Kind, Object};
use coracle_model::Phase;

use crate::node::Node;
use crate::placement::{Placement, can_preempt};

/// What still differs from what the users asked for; empty once the cluster has come to rest.
pub(crate) fn unrest(durable: &BTreeMap<Key, Arc<Object>>, nodes: &[Node]) -> Vec<String> {
    let scene = Scene::new(durable, nodes);
    let mut found = Vec::new();
    for object in durable.values() {
        if let Some(owner) = object.owners.iter().find(|owner| !scene.uids.contains_key(&owner.uid)) {
            found.push(format!("{:?} outlives its owner {}", object.key, owner.uid));
        }
        match object.key.kind {
            Kind::NODE if object.row.node().is_some_and(|row| !row.ready) => {
                found.push(format!("{} is not ready", object.name()));
            }
            Kind::DEPLOYMENT => scene.deployment(object, &mut found),
            Kind::DAEMON_SET => {
                let wanted = nodes.len() as u64;
                scene.replicas(object.name(), (wanted, 0), &mut found);
            }
            Kind::POD => found.extend(scene.pod(object)),
            _ => {}
        }
    }
    for node in nodes {
        for uid in node.runtime.pods() {
            let known = scene.uids.get(&uid);
            let here = known.is_some_and(|pod| pod.row.pod().and_then(|row| row.node.as_deref()) == Some(&node.name));
            if !here {
                found.push(format!("{} runs {uid}, which nobody wants there", node.name));
            }
        }
    }
    found
}

struct Scene<'a> {
    nodes: &'a [Node],
    uids: BTreeMap<coracle_model::PodUid, &'a Arc<Object>>,
    placement: Placement,
}

impl<'a> Scene<'a> {
    fn new(durable: &'a BTreeMap<Key, Arc<Object>>, nodes: &'a [Node]) -> Self {
        let placement = Placement::of(durable);
        Self { nodes, uids: durable.values().map(|object| (object.uid, object)).collect(), placement }
    }

    /// Whether a pod waits for a place that does not exist, and that nobody can be asked to leave.
    fn is_starved(&self, pod: &Object) -> bool {
        if live(pod).is_none_or(|row| row.node.is_some()) {
            return false;
        }
        let pod = pod.value();
        self.placement.feasible(&pod).is_empty() && !can_preempt(&self.placement, &pod)
    }

    fn deployment(&self, deployment: &Object, found: &mut Vec<String>) {
        let value = deployment.value();
        let replicas = value["spec"]["replicas"].as_u64().unwrap_or(1);
        let surge = match value["spec"]["strategy"]["type"].as_str() {
            Some("Recreate") => 0,
            _ => replicas.div_ceil(4),
        };
        let (live, ready) = self.replicas(deployment.name(), (replicas, surge), found);
        let count = |field: &str| value["status"][field].as_u64().unwrap_or_default();
        let stale = value["status"]["observedGeneration"] != value["metadata"]["generation"];
        if stale || (count("replicas"), count("readyReplicas")) != (live, ready) {
            let (name, status) = (deployment.name(), &value["status"]);
            found.push(format!("{name} has {live} pods, {ready} of them ready, and says {status}"));
        }
    }

    /// Counts the live and the ready pods of an app.
    fn replicas(&self, app: &str, (wanted, surge): (u64, u64), found: &mut Vec<String>) -> (u64, u64) {
        let is_of_app = |object: &&&Arc<Object>| object.labels.get("app").map(|label| &**label) == Some(app);
        let pods: Vec<(&Object, &PodRow)> =
            self.uids.values().filter(is_of_app).filter_map(|object| Some((&***object, live(object)?))).collect();
        let live = pods.len() as u64;
        let ready = pods.iter().filter(|(_, row)| row.is_ready()).count() as u64;
        let starved = pods.iter().filter(|(pod, _)| self.is_starved(pod)).count() as u64;
        let most = if starved > 0 { wanted + surge } else { wanted };
        if ready + starved != live || live < wanted || live > most {
            found.push(format!("{app} has {ready} ready and {starved} starved of {live} pods, wants {wanted}"));
        }
        (live, ready)
    }

    fn pod(&self, pod: &Object) -> Option<String> {
        let row = pod.row.pod()?;
        if pod.is_deleting() {
            return Some(format!("pod {} is still ending on {:?}", pod.name(), row.node));
        }
        let node = row.node.as_deref().and_then(|name| self.nodes.iter().find(|node| node.name == name));
        match (row.phase, node) {
            (Phase::Pending, None) if self.is_starved(pod) => None,
            (Phase::Pending, _) => Some(format!("pod {} is still pending on {:?}", pod.name(), row.node)),
            (Phase::Running, Some(node)) if row.is_ready() && !node.runtime.pods().any(|uid| uid == pod.uid) => {
                Some(format!("pod {} is said to be ready and does not run", pod.name()))
            }
            _ => None,
        }
    }
}

/// A pod that has not come to its end.
fn live(object: &Object) -> Option<&PodRow> {
    object.row.pod().filter(|row| !row.phase.is_terminal())
}
