//! The pods of one node, the queue of effects and the order of wakes.

use alloc::collections::{BTreeMap, BTreeSet};

use coracle_model::{Limits, Millis, Pod, PodStatus, PodUid};

use crate::container::Word;
use crate::effects::Effects;
use crate::event::{Effect, Event, Run};
use crate::pod::PodMachine;

/// One node's pods. Every event costs a logarithm of the pods, and what its own pod's containers cost.
#[derive(Debug)]
pub struct Lifecycle {
    limits: Limits,
    pods: BTreeMap<PodUid, PodMachine>,
    /// Pods that want a [`Event::Tick`], by when.
    wakes: BTreeSet<(Millis, PodUid)>,
    effects: Effects,
}

impl Lifecycle {
    /// A node without pods.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, pods: BTreeMap::new(), wakes: BTreeSet::new(), effects: Effects::new(limits.effects) }
    }

    /// Takes note of what happened. Words about pods and runs that are not, or no longer, known are ignored.
    ///
    /// A new pod is ignored when it has no containers or when there is no room; see [`Lifecycle::has_room`].
    pub fn handle(&mut self, now: Millis, event: Event) {
        match event {
            Event::Desired(pod) => self.desired(now, pod),
            Event::Removed(uid) => self.with(uid, now, |pod, effects| pod.remove(now, effects)),
            Event::Image { run, result } => {
                self.with(run.pod, now, |pod, effects| pod.image(&run, now, Word::Image(result), effects));
            }
            Event::Started(run) => self.runtime(now, &run, Word::Started),
            Event::Exited { run, exit } => self.runtime(now, &run, Word::Exited(exit)),
            Event::MountFailed { run, volume, why } => self.runtime(now, &run, Word::MountFailed { volume, why }),
            Event::Evicted { pod: uid, message } => {
                self.with(uid, now, |pod, effects| pod.evict(message, now, effects));
            }
            Event::Tick => self.tick(now),
        }
    }

    /// The next thing to do, in order; `None` when all is drained.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop()
    }

    /// When to say [`Event::Tick`] at the latest. A time in the past means: drain, then say it at once.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// What the node says of a pod.
    #[must_use]
    pub fn status(&self, uid: PodUid) -> Option<&PodStatus> {
        self.pods.get(&uid).map(PodMachine::status)
    }

    /// What the node was told of a pod.
    #[must_use]
    pub fn pod(&self, uid: PodUid) -> Option<&Pod> {
        self.pods.get(&uid).map(PodMachine::pod)
    }

    /// Whether a pod's object is gone and the node is only ending what still runs of it.
    #[must_use]
    pub fn is_removed(&self, uid: PodUid) -> bool {
        self.pods.get(&uid).is_some_and(PodMachine::is_removed)
    }

    /// Every pod that is here, also those whose end is under way, in the order of their uids.
    pub fn pods(&self) -> impl Iterator<Item = PodUid> + '_ {
        self.pods.keys().copied()
    }

    /// How many pods are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether no pod is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Whether another pod may come. Pods whose end is under way have room of their own, as much again as
    /// [`Limits::pods`], so that a full node can be given a wholly new set.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pods.len() < self.limits.pods.saturating_mul(2)
    }

    /// Puts back a pod that had come to its end before this agent started, so that it is not run a second time. Its
    /// status is shown again as it was. A status that is no end, or not this pod's, is ignored, and the pod begins.
    pub fn restore(&mut self, now: Millis, pod: Pod, status: PodStatus) {
        let fits = status.uid == pod.uid
            && status.stopped
            && status.phase.is_terminal()
            && status.containers.len() == pod.containers.len()
            && status.containers.iter().zip(&pod.containers).all(|(status, container)| status.name == container.name);
        if !fits {
            return self.desired(now, pod);
        }
        if !self.pods.contains_key(&pod.uid) && self.has_room() {
            let uid = pod.uid;
            self.pods.insert(uid, PodMachine::restored(pod, status, now));
            self.effects.push(Effect::StatusChanged(uid));
        }
    }

    fn desired(&mut self, now: Millis, pod: Pod) {
        let uid = pod.uid;
        match self.pods.get(&uid) {
            Some(known) if *known.pod() == pod => {}
            Some(_) => self.with(uid, now, |known, effects| known.change(pod, now, effects)),
            None if pod.containers.is_empty() || !self.has_room() => {}
            None => {
                self.pods.insert(uid, PodMachine::new(pod, now));
                self.with(uid, now, |pod, effects| pod.begin(now, effects));
            }
        }
    }

    fn runtime(&mut self, now: Millis, run: &Run, word: Word) {
        self.with(run.pod, now, |pod, effects| pod.runtime(run, now, word, effects));
    }

    /// Every pod whose time has come, as long as there is room for effects; the rest at the next tick.
    fn tick(&mut self, now: Millis) {
        while let Some((at, uid)) = self.wakes.first().copied() {
            if at > now || self.effects.is_full() {
                break;
            }
            self.with(uid, now, |pod, effects| pod.due(now, effects));
        }
    }

    /// Changes one pod, then draws the conclusions: its status, its next wake, and whether it is to be forgotten.
    fn with(&mut self, uid: PodUid, now: Millis, change: impl FnOnce(&mut PodMachine, &mut Effects)) {
        let Some(pod) = self.pods.get_mut(&uid) else { return };
        let had_ended = pod.has_ended();
        change(pod, &mut self.effects);
        if pod.has_ended() && !had_ended && !pod.pod().volumes.is_empty() {
            self.effects.push(Effect::TearDown(uid));
        }
        if pod.is_removed() {
            if pod.has_ended() {
                if let Some(at) = pod.woken_at {
                    self.wakes.remove(&(at, uid));
                }
                self.pods.remove(&uid);
                self.effects.push(Effect::Forget(uid));
                return;
            }
        } else if pod.derive_status(now) {
            self.effects.push(Effect::StatusChanged(uid));
        }
        let wake_at = pod.wake_at();
        if pod.woken_at != wake_at {
            if let Some(at) = pod.woken_at {
                self.wakes.remove(&(at, uid));
            }
            if let Some(at) = wake_at {
                self.wakes.insert((at, uid));
            }
            pod.woken_at = wake_at;
        }
    }
}
