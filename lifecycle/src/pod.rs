//! One pod: its containers side by side, and the status that they add up to.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use coracle_model::{ContainerState, Millis, Phase, Pod, PodStatus, Volume, VolumeSource};

use crate::container::{Machine, SHORTEST_GRACE_MS, Scene, Word};
use crate::effects::{Effects, Tone};
use crate::event::{Effect, Run};
use crate::phase::{self, EVICTED, Stage};
use crate::wording;

/// A pod on this node.
#[derive(Clone, Debug)]
pub(crate) struct PodMachine {
    pod: Pod,
    containers: Vec<Machine>,
    status: PodStatus,
    stage: Stage,
    /// Its object is gone: when nothing runs any more, it is forgotten.
    removed: bool,
    /// Under which time it stands in the set of wakes.
    pub(crate) woken_at: Option<Millis>,
}

impl PodMachine {
    /// A pod that nothing has been done for yet.
    pub(crate) fn new(pod: Pod, now: Millis) -> Self {
        let containers: Vec<Machine> = pod.containers.iter().map(|_| Machine::new()).collect();
        let status = PodStatus {
            uid: pod.uid,
            phase: Phase::Pending,
            reason: String::new(),
            message: String::new(),
            accepted_at: now,
            conditions: Vec::new(),
            containers: Vec::new(),
            stopped: false,
        };
        Self { pod, containers, status, stage: Stage::Waiting, removed: false, woken_at: None }
    }

    /// A pod that came to its end before this agent started.
    pub(crate) fn restored(pod: Pod, mut status: PodStatus, now: Millis) -> Self {
        bring_back(&mut status, now);
        let containers = status.containers.iter().map(|container| Machine::restored(container, now)).collect();
        let stage = if status.reason == EVICTED { Stage::Evicted } else { Stage::Begun };
        Self { pod, containers, status, stage, removed: false, woken_at: None }
    }

    pub(crate) const fn pod(&self) -> &Pod {
        &self.pod
    }

    pub(crate) const fn status(&self) -> &PodStatus {
        &self.status
    }

    pub(crate) const fn is_removed(&self) -> bool {
        self.removed
    }

    /// Whether every container has ended for good.
    pub(crate) fn has_ended(&self) -> bool {
        self.containers.iter().all(Machine::has_ended)
    }

    /// When time alone changes something.
    pub(crate) fn wake_at(&self) -> Option<Millis> {
        self.containers.iter().filter_map(Machine::wake_at).min()
    }

    /// Begins: with its containers, once every volume can be laid out; or, when it is to end already, with nothing at
    /// all (TRM-07).
    pub(crate) fn begin(&mut self, now: Millis, effects: &mut Effects) {
        if let Some(stop) = self.pod.stop {
            return self.every(now, &Word::Stop { grace_ms: stop.grace_ms }, effects);
        }
        tell_unavailable(&self.pod, &[], effects);
        self.begin_if_possible(now, effects);
    }

    fn begin_if_possible(&mut self, now: Millis, effects: &mut Effects) {
        if self.pod.volumes.iter().all(|volume| unavailable(volume).is_none()) {
            self.stage = Stage::Begun;
            self.every(now, &Word::Begin, effects);
        }
    }

    /// Takes on a new form. Images, files of volumes and the order to stop act at once; the rest counts from the next run
    /// on.
    pub(crate) fn change(&mut self, mut pod: Pod, now: Millis, effects: &mut Effects) {
        let same_containers = pod.containers.len() == self.pod.containers.len()
            && pod.containers.iter().zip(&self.pod.containers).all(|(new, old)| new.name == old.name);
        if self.removed || !same_containers {
            return;
        }
        pod.stop = pod.stop.or(self.pod.stop);
        let before = core::mem::replace(&mut self.pod, pod);
        if let Some(stop) = self.pod.stop {
            if before.stop != Some(stop) {
                self.every(now, &Word::Stop { grace_ms: stop.grace_ms }, effects);
            }
            return;
        }
        tell_unavailable(&self.pod, &before.volumes, effects);
        if self.stage == Stage::Waiting {
            return self.begin_if_possible(now, effects);
        }
        if self.pod.volumes != before.volumes && !self.has_ended() {
            effects.push(Effect::Refresh(self.pod.uid));
        }
        for (index, old) in before.containers.iter().enumerate() {
            if self.pod.containers[index] != *old {
                let image = self.pod.containers[index].image != old.image;
                self.one(index, now, Word::Changed { image }, effects);
            }
        }
    }

    /// Its object is gone (TRM-08).
    pub(crate) fn remove(&mut self, now: Millis, effects: &mut Effects) {
        self.removed = true;
        self.every(now, &Word::Stop { grace_ms: SHORTEST_GRACE_MS }, effects);
    }

    /// It used more than it may: nothing of it goes on, and nothing starts again (PRI-09).
    pub(crate) fn evict(&mut self, message: String, now: Millis, effects: &mut Effects) {
        if self.removed || self.stage == Stage::Evicted || self.has_ended() {
            return;
        }
        self.stage = Stage::Evicted;
        effects.tell(self.pod.uid, "", Tone::Warning, EVICTED, message.clone());
        self.status.reason = EVICTED.to_string();
        self.status.message = message;
        self.every(now, &Word::Stop { grace_ms: 0 }, effects);
    }

    /// Time has passed.
    pub(crate) fn due(&mut self, now: Millis, effects: &mut Effects) {
        self.every(now, &Word::Due, effects);
    }

    /// A word about the image of a run.
    pub(crate) fn image(&mut self, run: &Run, now: Millis, word: Word, effects: &mut Effects) {
        if let Some(index) = self.find(run, |machine| machine.prepares(run.attempt)) {
            self.one(index, now, word, effects);
        }
    }

    /// A word of the runtime about a run.
    pub(crate) fn runtime(&mut self, run: &Run, now: Millis, word: Word, effects: &mut Effects) {
        if let Some(index) = self.find(run, |machine| machine.runs(run.attempt)) {
            self.one(index, now, word, effects);
        }
    }

    /// Derives the status anew; whether it differs.
    pub(crate) fn derive_status(&mut self, now: Millis) -> bool {
        let containers: Vec<_> = self
            .containers
            .iter()
            .zip(&self.pod.containers)
            .map(|(machine, container)| machine.status(&self.pod, container))
            .collect();
        let stopped = self.has_ended();
        let phase = phase::phase(&containers, stopped, self.stage, self.status.phase);
        let conditions = phase::conditions(&containers, phase, self.stage, &self.status, now);
        let before = &mut self.status;
        let same = before.phase == phase
            && before.stopped == stopped
            && before.containers == containers
            && before.conditions == conditions;
        if !same {
            (before.phase, before.stopped) = (phase, stopped);
            (before.containers, before.conditions) = (containers, conditions);
        }
        !same
    }

    fn find(&self, run: &Run, is_meant: impl Fn(&Machine) -> bool) -> Option<usize> {
        let index = self.pod.containers.iter().position(|container| container.name == run.container)?;
        is_meant(&self.containers[index]).then_some(index)
    }

    fn every(&mut self, now: Millis, word: &Word, effects: &mut Effects) {
        for index in 0..self.containers.len() {
            self.one(index, now, word.clone(), effects);
        }
    }

    fn one(&mut self, index: usize, now: Millis, word: Word, effects: &mut Effects) {
        let scene = Scene { now, pod: &self.pod, container: &self.pod.containers[index] };
        self.containers[index].step(&scene, word, effects);
    }
}

/// Why a volume cannot be laid out.
fn unavailable(volume: &Volume) -> Option<&str> {
    match &volume.source {
        VolumeSource::Unavailable(why) => Some(why),
        VolumeSource::EmptyDir { .. } | VolumeSource::Files(_) => None,
    }
}

/// Tells of the volumes that cannot be laid out, unless the form before said the same.
fn tell_unavailable(pod: &Pod, before: &[Volume], effects: &mut Effects) {
    for volume in pod.volumes.iter().filter(|volume| !before.contains(volume)) {
        if let Some(why) = unavailable(volume) {
            wording::tell_mount_failed(pod, wording::mount_failure(&volume.name, why), effects);
        }
    }
}

/// The clock of an earlier start may have stood later than this one does now; nothing may lie in the future.
fn bring_back(status: &mut PodStatus, now: Millis) {
    let clamp = |time: &mut Millis| *time = (*time).min(now);
    clamp(&mut status.accepted_at);
    status.conditions.iter_mut().for_each(|condition| clamp(&mut condition.changed_at));
    for container in &mut status.containers {
        let ended = match &mut container.state {
            ContainerState::Terminated(ended) => Some(ended),
            _ => None,
        };
        for run in ended.into_iter().chain(&mut container.last_state) {
            clamp(&mut run.started_at);
            clamp(&mut run.finished_at);
        }
    }
}
