//! What of a question depends on more than its pod and the nodes: the images that nodes hold, and storage. Both change
//! seldom, so a pod is asked about anew when it is its turn, and not with every change.

use super::hints::Hints;
use super::nodes::NodeId;
use super::nominations::Nominee;
use super::{Scheduler, State, Tracked};
use crate::clock::Now;
use crate::object::Object;
use crate::plan::Write;
use crate::view::View;

impl Scheduler {
    /// A volume, a claim or a class has changed.
    pub(super) fn observe_storage(&mut self, view: &View, object: &Object, gone: bool, now: Now) {
        let version = self.storage.version();
        let hints = self.storage.observe(object, gone, &mut self.symbols);
        if hints != Hints::NONE {
            self.queue.happened(hints, now.mono);
        }
        if self.storage.version() == version {
            return;
        }
        // A claim concerns the pods that name it, and no others.
        for pod in view.referrers(&object.key) {
            if let Some(Tracked { state: State::Waiting(rank, _), .. }) = self.pods.get(&pod.key) {
                self.queue.wake(*rank, now.mono);
            }
        }
    }

    /// The pod with the question as it is asked now.
    pub(super) fn renewed(&mut self, view: &View, pod: &Object, tracked: Tracked) -> Tracked {
        if !tracked.seen.asked.question.is_stale(&self.nodes, &self.storage) {
            return tracked;
        }
        let seen = self.see(view, pod);
        let Tracked { uid, seen: before, priority, state } = tracked;
        if let State::Waiting(_, Some(node)) = state {
            self.nominations.add(node, Nominee { key: pod.key.clone(), priority, seen: seen.clone() });
            self.nodes.changed(node);
        }
        let renewed = Tracked { uid, seen, priority, state };
        self.pods.insert(pod.key.clone(), renewed.clone());
        self.release(before);
        renewed
    }

    /// What is to be written of the volumes of a pod that goes to a node.
    pub(super) fn set_aside(&self, view: &View, tracked: &Tracked, node: NodeId) -> Vec<Write> {
        let claims = &tracked.seen.asked.question.claims;
        match self.nodes.facts(node) {
            Some(facts) if !claims.is_empty() => self.storage.set_aside(view, claims, facts, &self.symbols),
            _ => Vec::new(),
        }
    }
}
