//! Why a pod goes where it goes, or nowhere, as data that stays small in a cluster of any size (SCH-04, SCH-06).
//!
//! *In:* a pod, and how many nodes to tell of one by one. *Out:* a [`Placement`].
//! *Must never know:* who asks, and how it is shown.
//! *Tested:* tables in `tests.rs`; over the API and on the command line end to end.
//!
//! It looks at the cluster exactly as a decision does, and leaves everything as it was: a pod that is bound is taken off
//! its node's account for the moment, and a pod that room is held for is not in its own way.

mod placement;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::observe::resident;
use super::{Explanation, Preemption, Scheduler, State, Tracked, Verdict, rules, words};
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::view::View;

use super::nodes::NodeId;
use super::queue::Rank;

pub use placement::{
    Detail, MAX_LIMIT, NodeCounts, NodeReason, NodeVerdict, Outlook, Placement, PlacementState, ReasonCount,
    RulePoints, Victim,
};

/// The placements of a run, written down at the moment of each decision, in order.
pub type Chronicle = Vec<(Key, Placement)>;

impl Scheduler {
    /// Where a pod would go now, and why: for one that waits, as of now; for one that is bound or has ended, as if it
    /// were free. Nothing is changed by it: neither the queue, nor nominations, nor the view.
    pub fn placement(&mut self, view: &View, pod: &Object, detail: &Detail) -> Placement {
        let present = pod.row.pod().and_then(|row| row.node.as_deref());
        let mut detail = detail.clone();
        detail.nodes.extend(present.map(ToOwned::to_owned));
        let lifted = self.lift(pod);
        let aside = self.stand_aside(&pod.key);
        let free = free(pod);
        let placement = self.placement_of_free(view, free.as_ref().unwrap_or(pod), &detail);
        self.stand_again(aside);
        if let Some(place) = lifted {
            self.set_down(pod, place);
        }
        placement.about(self.state_of(pod), present, nominated(pod).as_deref())
    }

    /// From now on every decision is explained as it is made, for [`Self::take_chronicle`]. For what-ifs: a decision
    /// costs as much as a look at every node then.
    pub fn keep_chronicle(&mut self, detail: Detail) {
        self.chronicle = Some((detail, Vec::new()));
    }

    /// What was written down since it was taken last.
    pub fn take_chronicle(&mut self) -> Chronicle {
        self.chronicle.as_mut().map(|(_, entries)| std::mem::take(entries)).unwrap_or_default()
    }

    /// Writes down why a pod that waits goes where it goes.
    pub(super) fn write_down(&mut self, view: &View, pod: &Object, chosen: Option<NodeId>) {
        let Some((detail, _)) = &self.chronicle else { return };
        let detail = detail.clone();
        let chosen = chosen.map(|node| Arc::clone(self.nodes.name(node)));
        let mut placement = self.placement(view, pod, &detail);
        if let Some(node) = chosen {
            // Room that was held for it is taken even if another node has become better.
            placement.chosen_node = Some(node.to_string());
        }
        if let Some((_, entries)) = &mut self.chronicle {
            entries.push((pod.key.clone(), placement));
        }
    }

    fn placement_of_free(&mut self, view: &View, pod: &Object, detail: &Detail) -> Placement {
        let explanation = self.explain_free(view, pod);
        let seen = self.see(view, pod);
        let priority = pod.row.pod().map_or(0, |row| row.priority);
        // As a decision puts it: for a pod that can go to a few nodes only, the others are told of as one.
        let decision = std::mem::take(&mut self.decision);
        self.decide(&seen, priority);
        let best = self.decision.best.map(|node| Arc::clone(self.nodes.name(node)));
        let refusal = best.is_none().then(|| self.decision.message(self.cluster()));
        self.decision = decision;
        let explanation = Explanation { best, ..explanation };
        let Some(refusal) = refusal else {
            self.release(seen);
            return Placement::of(&explanation, None, None, detail);
        };
        let state = match self.pods.get(&pod.key).map(|tracked| tracked.state) {
            Some(state @ State::Waiting(..)) => state,
            Some(State::Bound(_)) | None => State::Waiting(Rank::new(priority, pod.created_ms, u64::MAX), None),
        };
        let tracked = Tracked { uid: pod.uid, seen, priority, state };
        let preemption = self.preempt(pod, &tracked);
        self.release(tracked.seen);
        let message = words::told(refusal, &preemption);
        Placement::of(&explanation, Some(message), outlook(&preemption, &explanation), detail)
    }

    fn state_of(&self, pod: &Object) -> PlacementState {
        let Some(row) = pod.row.pod() else { return PlacementState::Elsewhere };
        if row.phase.is_terminal() {
            PlacementState::Ended
        } else if row.node.is_some() {
            PlacementState::Bound
        } else if row.gated {
            PlacementState::Gated
        } else if pod.is_deleting() {
            PlacementState::Ended
        } else if self.pods.get(&pod.key).is_some_and(|tracked| tracked.uid == pod.uid) {
            PlacementState::Waiting
        } else {
            PlacementState::Elsewhere
        }
    }

    /// Takes a bound pod off its node's account, until [`Self::set_down`]; its row is kept.
    fn lift(&mut self, pod: &Object) -> Option<NodeId> {
        let tracked = self.pods.get(&pod.key).filter(|tracked| tracked.uid == pod.uid)?;
        let State::Bound(place) = tracked.state else { return None };
        let seen = tracked.seen.clone();
        let name = Arc::clone(self.nodes.name(place));
        self.nodes.hold(&name);
        rules::leave(&seen, place, &mut self.census);
        self.storage.leave(&seen.asked.question.claims, place);
        self.residents.unset(place, &pod.key);
        self.nodes.release(place, &seen.asked.question);
        Some(place)
    }

    fn set_down(&mut self, pod: &Object, place: NodeId) {
        let (Some(tracked), Some(row)) = (self.pods.get(&pod.key), pod.row.pod()) else { return };
        let seen = tracked.seen.clone();
        let name = Arc::clone(self.nodes.name(place));
        self.nodes.reserve(&name, &seen.asked.question);
        rules::arrive(&seen, place, &mut self.census);
        self.storage.arrive(&seen.asked.question.claims, place);
        self.residents.set(place, resident(pod, row, seen));
        self.nodes.unhold(place);
    }
}

/// The pod as it would be if nobody had put it anywhere; `None` when nobody has.
fn free(pod: &Object) -> Option<Object> {
    pod.row.pod()?.node.as_ref()?;
    let mut value = pod.value();
    value["spec"].as_object_mut()?.remove("nodeName");
    Object::from_value(Kind::POD, pod.revision, value).ok()
}

/// `status.nominatedNodeName`
fn nominated(pod: &Object) -> Option<String> {
    pod.status()["nominatedNodeName"].as_str().filter(|node| !node.is_empty()).map(ToOwned::to_owned)
}

/// What preemption would do, as data; `None` where there is nobody to look at.
fn outlook(preemption: &Preemption, explanation: &Explanation) -> Option<Outlook> {
    if explanation.verdicts.is_empty() {
        return None;
    }
    let message = words::about_preemption(preemption).unwrap_or_default();
    Some(match preemption {
        Preemption::None(_) | Preemption::Waits => {
            Outlook { helps: false, node: None, victims: Vec::new(), budget_violations: 0, message }
        }
        Preemption::Victims { node, victims, .. } => {
            let told = victims.pods.iter().map(|victim| Victim {
                namespace: victim.key.namespace.to_string(),
                name: victim.key.name.to_string(),
                priority: victim.priority,
            });
            let message =
                format!("preemption on node {node} would end {} pod(s) of lower priority", victims.pods.len());
            let budget_violations = victims.violations;
            Outlook { helps: true, node: Some(node.to_string()), victims: told.collect(), budget_violations, message }
        }
    })
}

/// Why nodes are refused, with how many, most nodes first and then by the words.
fn counted(explanation: &Explanation) -> Vec<ReasonCount> {
    let mut counts: BTreeMap<(&'static str, &str), usize> = BTreeMap::new();
    for verdict in explanation.verdicts.values() {
        if let Verdict::Refused { reasons } = verdict {
            for reason in reasons.iter() {
                *counts.entry((reason.filter, &reason.words)).or_default() += 1;
            }
        }
    }
    let mut counts: Vec<ReasonCount> = counts
        .into_iter()
        .map(|((plugin, words), nodes)| ReasonCount { plugin: plugin.to_owned(), reason: words.to_owned(), nodes })
        .collect();
    counts.sort_by(|one, two| (two.nodes, &one.reason).cmp(&(one.nodes, &two.reason)));
    counts
}
