//! A judge of the scheduler that knows nothing of how it works: every binding, every victim and every wait is held against
//! the plain objects.
//!
//! Changes of one object in a batch come as one, so what was between two decisions of a batch is not seen. Something is
//! found only if it is wrong both when it is looked at after what came before it and when the whole batch is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_controller_core::object::Uid;
use coracle_controller_core::store::Action;
use coracle_controller_core::{Change, Key, Kind, Object};
use serde_json::Value;

use crate::placement::{self, Placed, Placement, is_ending, looks_at_others, name, nominated, priority, uid};

/// The longest that a pod may wait while it fits somewhere all the time, in milliseconds: the longest back-off (10 s), and
/// the time to decide.
pub(crate) const LONGEST_WAIT_MS: u64 = 12_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchedulingJudge {
    placement: Placement,
    /// Pods that wait and fit somewhere, and since when.
    fitting: BTreeMap<String, u64>,
    victims: BTreeSet<Uid>,
    /// How many bindings and victims were looked at.
    pub(crate) bindings: u64,
    pub(crate) evictions: u64,
}

impl SchedulingJudge {
    /// Looks at what a batch made durable.
    pub(crate) fn batch(&mut self, changes: &[Change]) -> Result<(), String> {
        let before = self.placement.clone();
        let mut suspects: Vec<(Key, String)> = Vec::new();
        let mut victims: Vec<Key> = Vec::new();
        for change in changes {
            let key = &change.object.key;
            let was_free = self.placement.get(key).is_none_or(|pod| pod["spec"]["nodeName"].is_null());
            let node = change.object.row.pod().and_then(|row| row.node.clone());
            if let Some(node) = node.filter(|_| was_free && change.action != Action::Deleted) {
                self.bindings += 1;
                suspects
                    .extend(misplaced(&self.placement, &change.object.value(), &node).map(|why| (key.clone(), why)));
            }
            self.placement.apply(change);
            if key.kind == Kind::POD && is_victim(&change.object) && self.victims.insert(change.object.uid) {
                self.evictions += 1;
                victims.push(key.clone());
            }
        }
        for (key, why) in suspects {
            let Some(pod) = self.placement.get(&key) else { continue };
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if misplaced(&self.placement, pod, node).is_some() {
                return Err(format!("{} was bound to {node}: {why}", name(pod)));
            }
        }
        self.judge_victims(&before, &victims)
    }

    /// Victims are of lower priority than the pod that they make room for, their going makes that room, and none goes who
    /// could have stayed (PRI-04, PRI-05, PRI-07).
    fn judge_victims(&self, before: &Placement, victims: &[Key]) -> Result<(), String> {
        let mut by_node: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for victim in victims.iter().filter_map(|key| self.placement.get(key)) {
            by_node.entry(victim["spec"]["nodeName"].as_str().unwrap_or_default()).or_default().push(victim);
        }
        for (node, victims) in by_node {
            let nominees: Vec<&Value> = self.placement.waiting().filter(|pod| nominated(pod) == node).collect();
            for victim in &victims {
                if !nominees.iter().any(|pod| priority(pod) > priority(victim)) {
                    return Err(format!("{} has to leave {node} for nobody above it", name(victim)));
                }
            }
            let Some(node) = self.placement.node(node) else { continue };
            // Room may be held for others there as well: who it is that they go for is not written anywhere.
            let verdicts: Vec<Result<(), String>> = nominees
                .iter()
                .map(|pod| self.judge_preemption([before, &self.placement], pod, node, &victims))
                .collect();
            if let (false, Some(Err(why))) = (verdicts.iter().any(Result::is_ok), verdicts.first()) {
                return Err(why.clone());
            }
        }
        Ok(())
    }

    fn judge_preemption(
        &self,
        views: [&Placement; 2],
        preemptor: &Value,
        node: &Value,
        victims: &[&Value],
    ) -> Result<(), String> {
        let is_here = |pod: &Value| pod["spec"]["nodeName"] == name(node);
        let goes = |pod: &Value| is_here(pod) && priority(pod) < priority(preemptor) && is_ending(pod);
        let gone: BTreeSet<&str> = self.placement.pods().filter(|pod| goes(pod)).map(uid).collect();
        let fits = |gone: &BTreeSet<&str>| {
            views.map(|view| {
                let placed: Vec<Placed<'_>> =
                    view.placed().into_iter().filter(|(pod, _)| !gone.contains(uid(pod))).collect();
                view.fits(preemptor, node, &placed)
            })
        };
        // Of those who are going anyway, some may be counted on, and others may be whom the preemptor wants to be with.
        let marked: BTreeSet<&str> = victims.iter().map(|pod| uid(pod)).collect();
        if let ([Err(why), Err(_)], [Err(_), Err(_)]) = (fits(&gone), fits(&marked)) {
            return Err(format!("{} leave {} for {} in vain: {why}", shown(victims), name(node), name(preemptor)));
        }
        // If others are going anyway, or somebody minds who else is there, then it is not as simple.
        let mut nominees = self.placement.waiting().filter(|pod| nominated(pod) == name(node));
        let is_alone = nominees.all(|pod| uid(pod) == uid(preemptor));
        let is_simple = is_alone && gone.len() == victims.len() && !looks_at_others(preemptor);
        for victim in victims.iter().filter(|victim| is_simple && !looks_at_others(victim)) {
            let others = gone.iter().copied().filter(|other| *other != uid(victim)).collect();
            if fits(&others).iter().all(Result::is_ok) {
                return Err(format!("{} leaves {} and could have stayed", name(victim), name(node)));
            }
        }
        Ok(())
    }

    /// No pod waits for long that fits somewhere all the time. While the scheduler does not work, time does not count.
    pub(crate) fn waits(&mut self, now: u64, is_working: bool, has_changed: bool) -> Result<(), String> {
        if !is_working {
            self.fitting.clear();
            return Ok(());
        }
        if has_changed {
            let waiting = self.placement.waiting().filter(|pod| !self.placement.feasible(pod).is_empty());
            let since = |pod: &Value| self.fitting.get(uid(pod)).copied().unwrap_or(now);
            self.fitting = waiting.map(|pod| (uid(pod).to_owned(), since(pod))).collect();
        }
        let late = self.fitting.iter().find(|(_, since)| now.saturating_sub(**since) > LONGEST_WAIT_MS);
        let Some((late, since)) = late else { return Ok(()) };
        let pod = self.placement.waiting().find(|pod| uid(pod) == late);
        let nodes = pod.map(|pod| self.placement.feasible(pod)).unwrap_or_default();
        let nodes: Vec<&str> = nodes.into_iter().map(name).collect();
        Err(format!("{} waits since {since} ms and would fit on {nodes:?}", pod.map_or("", name)))
    }

    /// The controller begins anew: it looks at every pod again.
    pub(crate) fn started(&mut self, durable: &BTreeMap<Key, Arc<Object>>) {
        self.placement = Placement::of(durable);
        self.fitting.clear();
    }
}

fn shown(pods: &[&Value]) -> String {
    let names: Vec<&str> = pods.iter().map(|pod| placement::name(pod)).collect();
    names.join(", ")
}

/// Why a pod may not be on the node to which it is bound.
fn misplaced(placement: &Placement, pod: &Value, node: &str) -> Option<String> {
    let Some(node) = placement.node(node) else { return Some("there is no such node".to_owned()) };
    let others: Vec<Placed<'_>> = placement.placed().into_iter().filter(|(other, _)| uid(other) != uid(pod)).collect();
    placement.fits(pod, node, &others).err()
}

fn is_victim(pod: &Object) -> bool {
    pod.is_deleting() && pod.body().contains("\"PreemptionByScheduler\"")
}
