//! Judges that know nothing of how the cores work: they look at what became durable, and at what runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coracle_controller_core::object::Uid;
use coracle_controller_core::store::Action;
use coracle_controller_core::{Change, Key, Kind, Object};
use coracle_model::Phase;

use crate::node::{Node, POD_BYTES};

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
    /// Pods that their nodes evicted.
    pub(crate) evicted: u64,
}

#[derive(Clone, Debug)]
struct Seen {
    phase: Phase,
    node: Option<Arc<str>>,
    restarts: u32,
    is_evicted: bool,
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

    /// No container runs twice on a node, on a node that its pod is not bound to, or after the end of its pod.
    pub(crate) fn runs(&self, nodes: &[Node]) -> Result<(), String> {
        for node in nodes {
            if let Some(run) = node.runtime.doubled() {
                return Err(format!("{} runs {} of {} twice", node.name, run.container, run.pod));
            }
            if let Some(why) = &node.quit {
                return Err(format!("the agent of {} gave up: {why}", node.name));
            }
            for uid in node.runtime.pods() {
                // Of a pod whose object is gone, something may still be ending.
                let Some(seen) = self.pods.get(&uid) else { continue };
                if seen.node.as_deref() != Some(&*node.name) {
                    return Err(format!("{} runs {uid}, which is bound to {:?}", node.name, seen.node));
                }
                if seen.phase.is_terminal() {
                    return Err(format!("{} runs {uid}, which is {:?}", node.name, seen.phase));
                }
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
        // PRI-09
        let is_evicted = change.object.body().contains("\"reason\":\"Evicted\"");
        if is_evicted && row.requests.memory_bytes >= POD_BYTES {
            return Err(format!("pod {name} was evicted, and uses no more than it requested"));
        }
        let now = Seen { phase: row.phase, node: row.node.clone(), restarts: row.restarts, is_evicted };
        let Some(before) = self.pods.insert(change.object.uid, now.clone()) else { return Ok(()) };
        self.evicted += u64::from(is_evicted && !before.is_evicted);
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
