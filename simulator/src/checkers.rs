//! Judges that know nothing of how the cores work: they look at what became durable, and at what runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coracle_controller_core::object::Uid;
use coracle_controller_core::store::Action;
use coracle_controller_core::{Change, Key, Kind, Object};
use coracle_model::Phase;

use crate::node::Node;

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Virtual milliseconds since the start.
    pub at_ms: u64,
    /// What.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}.{:03} s: {}", self.at_ms / 1000, self.at_ms % 1000, self.what)
    }
}

/// What was seen of every pod so far.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    pods: BTreeMap<Uid, Seen>,
    revision: u64,
}

#[derive(Clone, Debug)]
struct Seen {
    phase: Phase,
    node: Option<Arc<str>>,
    restarts: u32,
}

impl Judge {
    /// Looks at what a batch made durable.
    pub(crate) fn batch(&mut self, changes: &[Change]) -> Result<(), String> {
        for change in changes {
            if change.revision <= self.revision {
                return Err(format!("revision {} after {}", change.revision, self.revision));
            }
            self.revision = change.revision;
            if change.object.key.kind == Kind::POD {
                self.pod(change)?;
            }
        }
        Ok(())
    }

    fn pod(&mut self, change: &Change) -> Result<(), String> {
        let Some(row) = change.object.row.pod() else { return Ok(()) };
        let name = change.object.name();
        if change.action == Action::Deleted {
            self.pods.remove(&change.object.uid);
            return Ok(());
        }
        let now = Seen { phase: row.phase, node: row.node.clone(), restarts: row.restarts };
        let Some(before) = self.pods.insert(change.object.uid, now.clone()) else { return Ok(()) };
        if now.phase < before.phase || before.phase.is_terminal() && now.phase != before.phase {
            return Err(format!("pod {name} went from {:?} back to {:?}", before.phase, now.phase));
        }
        if before.node.is_some() && now.node != before.node {
            return Err(format!("pod {name} moved from {:?} to {:?}", before.node, now.node));
        }
        if now.restarts < before.restarts {
            return Err(format!("pod {name} forgot restarts: {} after {}", now.restarts, before.restarts));
        }
        Ok(())
    }
}

/// No node is promised more than it has.
pub(crate) fn capacity(durable: &BTreeMap<Key, Arc<Object>>) -> Result<(), String> {
    let mut used: BTreeMap<&str, (u64, u32)> = BTreeMap::new();
    for object in durable.values() {
        let Some(row) = object.row.pod().filter(|row| !row.phase.is_terminal()) else { continue };
        if let Some(node) = row.node.as_deref() {
            let (cpu, pods) = used.entry(node).or_default();
            *cpu += row.requests.cpu_millis;
            *pods += 1;
        }
    }
    for object in durable.values() {
        let Some(row) = object.row.node() else { continue };
        let (cpu, pods) = used.get(object.name()).copied().unwrap_or_default();
        if cpu > row.allocatable.cpu_millis || pods > row.max_pods {
            return Err(format!("{} is promised {cpu}m and {pods} pods", object.name()));
        }
    }
    Ok(())
}

/// No container runs twice on a node.
pub(crate) fn runs(nodes: &[Node]) -> Result<(), String> {
    for node in nodes {
        if let Some(run) = node.runtime.doubled() {
            return Err(format!("{} runs {} of {} twice", node.name, run.container, run.pod));
        }
        if let Some(why) = &node.quit {
            return Err(format!("the agent of {} gave up: {why}", node.name));
        }
    }
    Ok(())
}

/// What still differs from what the users asked for; empty once the cluster has come to rest.
pub(crate) fn unrest(durable: &BTreeMap<Key, Arc<Object>>, nodes: &[Node]) -> Vec<String> {
    let mut found = Vec::new();
    let pods: Vec<&Arc<Object>> = durable.values().filter(|object| object.key.kind == Kind::POD).collect();
    for object in durable.values() {
        match object.key.kind {
            Kind::NODE if object.row.node().is_some_and(|row| !row.ready) => {
                found.push(format!("{} is not ready", object.name()));
            }
            Kind::DEPLOYMENT => {
                let replicas = object.value()["spec"]["replicas"].as_u64().unwrap_or(1);
                expect_pods(&pods, object.name(), replicas, &mut found);
            }
            Kind::DAEMON_SET => expect_pods(&pods, "sensor", nodes.len() as u64, &mut found),
            Kind::POD => found.extend(pod_unrest(object, nodes)),
            _ => {}
        }
    }
    for node in nodes {
        for uid in node.runtime.pods() {
            let known = pods.iter().find(|pod| pod.uid == uid);
            let here = known.is_some_and(|pod| pod.row.pod().and_then(|row| row.node.as_deref()) == Some(&node.name));
            if !here {
                found.push(format!("{} runs {uid}, which nobody wants there", node.name));
            }
        }
    }
    found
}

fn expect_pods(pods: &[&Arc<Object>], app: &str, wanted: u64, found: &mut Vec<String>) {
    let of_app = pods.iter().filter(|pod| pod.labels.get("app").map(|label| &**label) == Some(app));
    let live = of_app.filter(|pod| pod.row.pod().is_some_and(|row| !row.phase.is_terminal())).collect::<Vec<_>>();
    let ready = live.iter().filter(|pod| pod.row.pod().is_some_and(|row| row.is_ready())).count() as u64;
    if ready != wanted || live.len() as u64 != wanted {
        found.push(format!("{app} has {ready} ready of {} pods, wants {wanted}", live.len()));
    }
}

fn pod_unrest(pod: &Arc<Object>, nodes: &[Node]) -> Option<String> {
    let row = pod.row.pod()?;
    if pod.is_deleting() {
        return Some(format!("pod {} is still ending on {:?}", pod.name(), row.node));
    }
    let node = row.node.as_deref().and_then(|name| nodes.iter().find(|node| node.name == name));
    match (row.phase, node) {
        (Phase::Pending, _) => Some(format!("pod {} is still pending on {:?}", pod.name(), row.node)),
        (Phase::Running, Some(node)) if row.is_ready() && !node.runtime.pods().any(|uid| uid == pod.uid) => {
            Some(format!("pod {} is said to be ready and does not run", pod.name()))
        }
        _ => None,
    }
}
