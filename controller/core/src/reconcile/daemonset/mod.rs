//! `DaemonSet`: one pod on every node that may have one (DS-01 to DS-03).
//!
//! *In:* the set, its pods, all nodes. *Out:* pods made for a node (the scheduler binds them by their node affinity),
//! pods ended, the set's status.
//! *Must never know:* how the scheduler scores, how many pods a node has room for.
//! *Tested:* transcripts.
//!
//! A plan first brings every node to what it should have; when all have it, it takes a step of the [`update`]; when
//! none is to be taken, it says how things stand.

mod eligible;
mod pod;
#[cfg(test)]
mod tests;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_model::Phase;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::kind::Kind;
use crate::names::Names;
use crate::object::{Key, Object};
use crate::plan::{Plan, Write};
use crate::selector::LabelSelector;
use crate::store::{Action, Change};
use crate::view::View;

use super::{Context, MAX_BURST, RETRY_MS, claim, note, pods, template};
use eligible::{Eligibility, Template};

const COMPONENT: &str = "daemonset-controller";

/// A failed daemon pod is replaced this long after it was made at the earliest, in milliseconds: a node that refuses
/// it would otherwise be given another one as fast as messages travel.
const FAILED_POD_MS: u64 = 10_000;

/// A set is woken by itself, by its pods, and by every change of a node that could make it eligible or end that.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    match change.object.key.kind {
        Kind::DAEMON_SET if change.action != Action::Deleted => wake(change.object.key.clone()),
        Kind::POD if pods::counts_otherwise(change) => claim::wake_owners(view, change, Kind::DAEMON_SET, wake),
        Kind::NODE if concerns_eligibility(change) => {
            view.list(Kind::DAEMON_SET, None).for_each(|set| wake(set.key.clone()));
        }
        _ => {}
    }
}

fn concerns_eligibility(change: &Change) -> bool {
    let Some(previous) = change.previous.as_ref().filter(|_| change.action == Action::Modified) else { return true };
    let taints = |object: &Object| object.row.node().map(|row| row.taints.clone());
    previous.labels != change.object.labels || taints(previous) != taints(&change.object)
}

/// A set, its nodes and its pods, read once a plan.
struct Daemons {
    set: Arc<Object>,
    value: Value,
    min_ready_seconds: u64,
    /// What makes a pod one of the current template.
    hash: String,
    /// Every node, with whether it should have a pod.
    nodes: Vec<(Arc<Object>, Eligibility)>,
    /// The pods that are on a node or meant for it, oldest first.
    pods_by_node: BTreeMap<Arc<str>, Vec<Arc<Object>>>,
}

/// What is to be made and ended.
#[derive(Default)]
struct Moves {
    create_on: Vec<Arc<str>>,
    delete: Vec<Arc<Object>>,
}

/// Claims, then brings every node to what it should have, then updates, then says how it stands.
pub(super) fn plan(context: &Context<'_>, key: &Key, names: &mut Names) -> Plan {
    let Some(set) = context.view.get(key) else { return Plan::default() };
    let value = set.value();
    let Ok(selector) = LabelSelector::of_json(&value["spec"]["selector"]) else { return Plan::default() };
    let claimed = claim::claim(context, set, &selector, Kind::POD);
    if !claimed.writes.is_empty() {
        return Plan { writes: claimed.writes, ..Plan::default() };
    }
    let daemons = Daemons::of(context, set, value, &claimed.objects);
    let mut plan = Plan::default();
    if !set.is_deleting() {
        let mut moves = daemons.place(context, &mut plan);
        if moves.create_on.is_empty() && moves.delete.is_empty() {
            moves = update::step(context, &daemons, &mut plan);
        }
        daemons.carry_out(context, moves, names, &mut plan);
    }
    if plan.writes.is_empty() {
        daemons.report(context, &mut plan);
    }
    plan
}

/// An event `FailedCreate`; a later try after a pause.
pub(super) fn create_failed(context: &Context<'_>, set: &Object, error: &ApiError) -> Plan {
    let mut plan = Plan::default();
    plan.notes.push(note(set, COMPONENT, true, "FailedCreate", format!("Error creating: {}", error.message)));
    plan.wake(context.now.mono + 10 * RETRY_MS);
    plan
}

impl Daemons {
    fn of(context: &Context<'_>, set: &Arc<Object>, value: Value, owned: &[Arc<Object>]) -> Self {
        let template = &value["spec"]["template"];
        let rules = Template::of(template);
        let nodes = context.view.list(Kind::NODE, None);
        let nodes = nodes.map(|node| (Arc::clone(node), rules.eligibility(node))).collect();
        let mut pods_by_node: BTreeMap<Arc<str>, Vec<Arc<Object>>> = BTreeMap::new();
        for daemon in owned {
            if let Some(node) = pod::target(daemon) {
                pods_by_node.entry(node).or_default().push(Arc::clone(daemon));
            }
        }
        for daemons in pods_by_node.values_mut() {
            daemons.sort_by_key(|pod| (pod.row.pod().is_none_or(|row| row.node.is_none()), pod.created_ms, pod.uid));
        }
        Self {
            set: Arc::clone(set),
            min_ready_seconds: value["spec"]["minReadySeconds"].as_u64().unwrap_or_default(),
            hash: template::hash(template, value["status"]["collisionCount"].as_u64()),
            nodes,
            pods_by_node,
            value,
        }
    }

    fn on(&self, node: &str) -> &[Arc<Object>] {
        self.pods_by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    fn is_updated(&self, pod: &Object) -> bool {
        pod.labels.get(pod::HASH_LABEL).is_some_and(|hash| **hash == *self.hash)
    }

    fn is_available(&self, context: &Context<'_>, pod: &Object, plan: &mut Plan) -> bool {
        pods::is_available(context, pod, self.min_ready_seconds, plan)
    }

    /// A pod where one is missing; none where it may not be, where it has ended, or where there are too many.
    fn place(&self, context: &Context<'_>, plan: &mut Plan) -> Moves {
        let mut moves = Moves::default();
        for (node, eligibility) in &self.nodes {
            let here = self.on(node.name());
            match eligibility {
                Eligibility::Run if here.is_empty() => moves.create_on.push(Arc::clone(&node.key.name)),
                Eligibility::Run | Eligibility::Stay => self.thin_out(context, here, &mut moves, plan),
                Eligibility::Go => moves.delete.extend(here.iter().filter(|pod| !pod.is_deleting()).cloned()),
            }
        }
        moves
    }

    fn thin_out(&self, context: &Context<'_>, here: &[Arc<Object>], moves: &mut Moves, plan: &mut Plan) {
        let mut running = Vec::new();
        for pod in here.iter().filter(|pod| !pod.is_deleting()) {
            let phase = pod.row.pod().map(|row| row.phase);
            let (reason, warning, action) = match phase {
                Some(Phase::Failed) => {
                    let due_ms = pod.created_ms.saturating_add(FAILED_POD_MS);
                    if due_ms > context.now.wall_ms {
                        plan.wake(context.steady(due_ms));
                        continue;
                    }
                    ("FailedDaemonPod", true, "kill")
                }
                Some(Phase::Succeeded) => ("SucceededDaemonPod", false, "delete"),
                _ => {
                    running.push(pod);
                    continue;
                }
            };
            let found = if warning { "failed" } else { "succeeded" };
            let node = pod::target(pod).unwrap_or_default();
            let name = format!("{}/{}", pod.namespace(), pod.name());
            let message = format!("Found {found} daemon pod {name} on node {node}, will try to {action} it");
            plan.notes.push(note(&self.set, COMPONENT, warning, reason, message));
            moves.delete.push(Arc::clone(pod));
        }
        moves.delete.extend(self.too_many(context, &running, plan));
    }

    /// With surge, one old and one new pod may be on a node, until the new one is available or the old one fails.
    fn too_many(&self, context: &Context<'_>, running: &[&Arc<Object>], plan: &mut Plan) -> Vec<Arc<Object>> {
        if running.len() <= 1 {
            return Vec::new();
        }
        if update::bounds(self).max_surge == 0 {
            return running[1..].iter().map(|pod| Arc::clone(pod)).collect();
        }
        let (new, old): (Vec<&Arc<Object>>, Vec<&Arc<Object>>) =
            running.iter().copied().partition(|pod| self.is_updated(pod));
        let more = new.iter().skip(1).chain(old.iter().skip(1));
        let mut surplus: Vec<Arc<Object>> = more.map(|pod| Arc::clone(pod)).collect();
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!pods::is_ready(old) || self.is_available(context, new, plan))
        {
            surplus.push(Arc::clone(old));
        }
        surplus
    }

    fn carry_out(&self, context: &Context<'_>, moves: Moves, names: &mut Names, plan: &mut Plan) {
        for pod in moves.delete.iter().take(MAX_BURST) {
            plan.writes.push(pods::delete(pod));
            let message = format!("Deleted pod: {}", pod.name());
            plan.notes.push(note(&self.set, COMPONENT, false, "SuccessfulDelete", message));
        }
        if !context.is_open(self.set.namespace()) {
            return;
        }
        let mut taken = BTreeSet::new();
        let prefix = format!("{}-", self.set.name());
        for node in moves.create_on.iter().take(MAX_BURST) {
            let name = pods::free_name(context, self.set.namespace(), &prefix, &mut taken, names);
            let value = pod::for_node(&self.set, &self.value, &self.hash, node, &name);
            let namespace = self.set.namespace().to_owned();
            plan.writes.push(Write::Create { kind: Kind::POD, namespace, value });
            plan.notes.push(note(&self.set, COMPONENT, false, "SuccessfulCreate", format!("Created pod: {name}")));
        }
    }

    fn report(&self, context: &Context<'_>, plan: &mut Plan) {
        let (mut desired, mut current, mut misscheduled) = (0_u64, 0_u64, 0_u64);
        let (mut ready, mut available, mut updated) = (0_u64, 0_u64, 0_u64);
        for (node, eligibility) in &self.nodes {
            let first = self.on(node.name()).first();
            if *eligibility != Eligibility::Run {
                misscheduled += u64::from(first.is_some());
                continue;
            }
            desired += 1;
            let Some(pod) = first else { continue };
            current += 1;
            ready += u64::from(pods::is_ready(pod));
            available += u64::from(self.is_available(context, pod, plan));
            updated += u64::from(self.is_updated(pod));
        }
        let before = &self.value["status"];
        let mut status = json!({
            "currentNumberScheduled": current, "numberMisscheduled": misscheduled,
            "desiredNumberScheduled": desired, "numberReady": ready,
        });
        for (field, count) in [
            ("updatedNumberScheduled", updated),
            ("numberAvailable", available),
            ("numberUnavailable", desired - available),
        ] {
            if count > 0 {
                status[field] = json!(count);
            }
        }
        if let Some(generation) = self.value["metadata"]["generation"].as_u64() {
            status["observedGeneration"] = json!(generation);
        }
        for field in ["collisionCount", "conditions"] {
            if let Some(kept) = before.get(field).filter(|kept| !kept.is_null()) {
                status[field] = kept.clone();
            }
        }
        if *before != status {
            plan.writes.push(Write::Status { key: self.set.key.clone(), expected: self.set.revision, status });
        }
    }
}
