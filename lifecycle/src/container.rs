//! One container of one pod: its state, and the one table of how it changes.

use alloc::format;
use alloc::string::{String, ToString};

use coracle_model::{Container, ContainerState, ContainerStatus, Digest, Millis, Pod, Terminated};

use crate::backoff::BackOff;
use crate::effects::{Effects, Tone};
use crate::event::{Effect, Exit, ImageFailure, Run};
use crate::outcome;
use crate::wording::{self, Waiting, tell};

/// What remains of a grace is never less than this, unless it is nothing at all (TRM-02; Kubernetes:
/// `minimumGracePeriodInSeconds`).
pub(crate) const SHORTEST_GRACE_MS: u64 = 2_000;
/// How long a failed pull shows as `ErrImagePull` before it shows as `ImagePullBackOff`. In a kubelet this is the time
/// to its next look at the pod.
const PULL_ERROR_SHOWN_MS: u64 = 1_000;

/// Where a container is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nothing has happened yet.
    New,
    /// Something that it refers to is missing; only a new form of the pod helps.
    Misconfigured,
    /// Its image was asked for; `after` is the failure of the try before, which shows until this one is over.
    Pulling { after: Option<ImageFailure> },
    /// The image was not to be had. This shows as the error itself until `shown_until`.
    PullFailed { failure: ImageFailure, shown_until: Millis, retry_at: Millis },
    /// As before, and shows as waiting.
    PullWaiting { failure: ImageFailure, retry_at: Millis },
    /// The runtime was told to start it.
    Starting,
    /// A volume could not be laid out, so the run did not begin.
    Unmounted { image: Digest, retry_at: Millis },
    /// The guest runs.
    Running { started_at: Millis },
    /// The guest was told to end, and is killed at `kill_at`. `started_at` is missing for one that was told so before
    /// it ran. `again`: a new run follows, because its image changed (POD-10).
    Stopping { started_at: Option<Millis>, kill_at: Millis, killed: bool, again: bool },
    /// It ended and starts again after `wait_ms`.
    CrashLoop { ended: Terminated, wait_ms: u64, restart_at: Millis },
    /// It ended and will not start again.
    Ended(Terminated),
}

/// What a container hears.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    /// The pod begins.
    Begin,
    /// The image is there, or not.
    Image(Result<Digest, ImageFailure>),
    /// The run began.
    Started,
    /// The run did not begin, for want of a volume.
    MountFailed { volume: String, why: String },
    /// The run is over.
    Exited(Exit),
    /// Time has passed.
    Due,
    /// End within the grace; for good.
    Stop { grace_ms: u64 },
    /// The pod has a new form.
    Changed { image: bool },
}

/// What the table may look at, besides the container itself.
pub(crate) struct Scene<'a> {
    pub(crate) now: Millis,
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
}

/// One container's machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    state: State,
    /// The newest run that the runtime was told to start; 0 before the first.
    attempt: u32,
    /// The run before the newest one.
    last: Option<Terminated>,
    image_id: Option<Digest>,
    restarts: BackOff,
    pulls: BackOff,
    mounts: BackOff,
    /// What people were told of the volumes, as long as it holds.
    mount_failure: Option<String>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self {
            state: State::New,
            attempt: 0,
            last: None,
            image_id: None,
            restarts: BackOff::default(),
            pulls: BackOff::default(),
            mounts: BackOff::default(),
            mount_failure: None,
        }
    }

    /// One that ended before this agent started, as its status says.
    pub(crate) fn restored(status: &ContainerStatus, now: Millis) -> Self {
        let ended = match &status.state {
            ContainerState::Terminated(ended) => ended.clone(),
            _ => outcome::never_ran(now),
        };
        Self {
            state: State::Ended(ended),
            attempt: status.attempt,
            last: status.last_state.clone(),
            image_id: status.image_id,
            ..Self::new()
        }
    }

    /// The table. A pair that is not in it changes nothing: a late word, or one that means nothing here.
    pub(crate) fn step(&mut self, scene: &Scene<'_>, word: Word, effects: &mut Effects) {
        let now = scene.now;
        let state = core::mem::replace(&mut self.state, State::New);
        self.state = match (state, word) {
            (State::New, Word::Begin) => self.begin(scene, None, effects),

            (State::Pulling { .. }, Word::Image(Ok(image))) => self.start(scene, image, effects),
            (State::Pulling { after }, Word::Image(Err(failure))) => self.pull_failed(scene, after, failure, effects),
            (State::PullFailed { failure, shown_until, retry_at }, Word::Due) if now >= shown_until => {
                wording::tell_pull_waits(scene, &failure, effects);
                State::PullWaiting { failure, retry_at }
            }
            (State::PullWaiting { failure, retry_at }, Word::Due) if now >= retry_at => {
                self.begin(scene, Some(failure), effects)
            }

            (State::Starting, Word::Started) => self.running(scene, effects),
            (State::Starting, Word::MountFailed { volume, why }) => self.mount_failed(scene, &volume, &why, effects),
            (State::Unmounted { image, retry_at }, Word::Due) if now >= retry_at => self.launch(scene, image, effects),
            (State::Stopping { started_at: None, kill_at, killed, again }, Word::Started) => {
                State::Stopping { started_at: Some(now), kill_at, killed, again }
            }
            (State::Starting, Word::Exited(exit)) => self.exited(scene, exit, now, effects),
            (State::Running { started_at }, Word::Exited(exit)) => self.exited(scene, exit, started_at, effects),
            // No runtime says this of a run that it started; if one does, nothing runs.
            (State::Running { started_at }, Word::MountFailed { volume, why }) => {
                self.exited(scene, Exit::CannotStart(wording::mount_failure(&volume, &why)), started_at, effects)
            }
            (State::CrashLoop { ended, restart_at, .. }, Word::Due) if now >= restart_at => {
                self.last = Some(ended);
                self.begin(scene, None, effects)
            }

            (State::Stopping { started_at, kill_at, killed: false, again }, Word::Due) if now >= kill_at => {
                effects.push(Effect::Kill(self.run(scene)));
                State::Stopping { started_at, kill_at, killed: true, again }
            }
            (State::Stopping { started_at, again, .. }, Word::MountFailed { volume, why }) => {
                let exit = Exit::CannotStart(wording::mount_failure(&volume, &why));
                self.stopped_for(scene, exit, started_at, again, effects)
            }
            (State::Stopping { started_at, again, .. }, Word::Exited(exit)) => {
                self.stopped_for(scene, exit, started_at, again, effects)
            }
            (state, Word::Stop { grace_ms }) => self.stopped(state, scene, grace_ms, effects),
            (state, Word::Changed { image }) => self.changed(state, scene, image, effects),
            (state, _) => state,
        };
    }

    /// A run that was told to end is over.
    fn stopped_for(
        &mut self,
        scene: &Scene<'_>,
        exit: Exit,
        started_at: Option<Millis>,
        again: bool,
        effects: &mut Effects,
    ) -> State {
        let times = (started_at.unwrap_or(scene.now), scene.now);
        let ended = outcome::terminated(exit, scene.container, true, times, self.attempt);
        if !again {
            return State::Ended(ended);
        }
        self.last = Some(ended);
        self.begin(scene, None, effects)
    }

    /// The table's rows for [`Word::Stop`].
    fn stopped(&mut self, state: State, scene: &Scene<'_>, grace_ms: u64, effects: &mut Effects) -> State {
        match state {
            State::Starting => self.stop(scene, None, grace_ms, false, effects),
            State::Running { started_at } => self.stop(scene, Some(started_at), grace_ms, false, effects),
            State::Stopping { started_at, kill_at, killed, .. } => {
                self.hurry(scene, started_at, (kill_at, killed), grace_ms, effects)
            }
            State::CrashLoop { ended, .. } | State::Ended(ended) => State::Ended(ended),
            State::New
            | State::Misconfigured
            | State::Pulling { .. }
            | State::PullFailed { .. }
            | State::PullWaiting { .. }
            | State::Unmounted { .. } => {
                State::Ended(self.last.take().unwrap_or_else(|| outcome::never_ran(scene.now)))
            }
        }
    }

    /// The table's rows for [`Word::Changed`].
    fn changed(&mut self, state: State, scene: &Scene<'_>, image: bool, effects: &mut Effects) -> State {
        match state {
            State::Misconfigured => self.begin(scene, None, effects),
            State::Pulling { .. } | State::PullFailed { .. } | State::PullWaiting { .. } if image => {
                self.pulls.forget();
                self.begin(scene, None, effects)
            }
            State::Unmounted { .. } if image => {
                self.mounts.forget();
                self.begin(scene, None, effects)
            }
            State::CrashLoop { ended, .. } if image => {
                self.restarts.forget();
                self.last = Some(ended);
                self.begin(scene, None, effects)
            }
            State::Starting if image => self.replace(scene, None, effects),
            State::Running { started_at } if image => self.replace(scene, Some(started_at), effects),
            unmoved => unmoved,
        }
    }

    /// When the next [`Word::Due`] means something.
    pub(crate) const fn wake_at(&self) -> Option<Millis> {
        match self.state {
            State::PullFailed { shown_until, .. } => Some(shown_until),
            State::PullWaiting { retry_at, .. } | State::Unmounted { retry_at, .. } => Some(retry_at),
            State::Stopping { kill_at, killed: false, .. } => Some(kill_at),
            State::CrashLoop { restart_at, .. } => Some(restart_at),
            _ => None,
        }
    }

    /// Whether it ended and will not start again.
    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// Whether a word about this attempt's image is meant for the run that is being prepared.
    pub(crate) const fn prepares(&self, attempt: u32) -> bool {
        self.attempt.saturating_add(1) == attempt
    }

    /// Whether a word of the runtime is about the newest run.
    pub(crate) const fn runs(&self, attempt: u32) -> bool {
        self.attempt == attempt
    }

    fn run(&self, scene: &Scene<'_>) -> Run {
        Run { pod: scene.pod.uid, container: scene.container.name.clone(), attempt: self.attempt }
    }

    /// The next run: its image first.
    fn begin(&mut self, scene: &Scene<'_>, after: Option<ImageFailure>, effects: &mut Effects) -> State {
        if let Some(missing) = &scene.container.config_error {
            tell(scene, Tone::Warning, "Failed", format!("Error: {missing}"), effects);
            return State::Misconfigured;
        }
        let mut run = self.run(scene);
        run.attempt = run.attempt.saturating_add(1);
        effects.push(Effect::EnsureImage {
            run,
            image: scene.container.image.clone(),
            policy: scene.container.pull_policy,
        });
        State::Pulling { after }
    }

    fn pull_failed(
        &mut self,
        scene: &Scene<'_>,
        before: Option<ImageFailure>,
        failure: ImageFailure,
        effects: &mut Effects,
    ) -> State {
        let retry_at = scene.now + self.pulls.after_failed_pull();
        match failure {
            ImageFailure::Pull(_) => {
                wording::tell_pull_failed(scene, &failure, effects);
                State::PullFailed { failure, shown_until: scene.now + PULL_ERROR_SHOWN_MS, retry_at }
            }
            // These do not pass by waiting, so their own words stay, and are said once.
            ImageFailure::NeverPull | ImageFailure::InvalidName(_) => {
                if before.as_ref() != Some(&failure) {
                    wording::tell_pull_failed(scene, &failure, effects);
                }
                State::PullWaiting { failure, retry_at }
            }
        }
    }

    fn start(&mut self, scene: &Scene<'_>, image: Digest, effects: &mut Effects) -> State {
        self.pulls.forget();
        self.image_id = Some(image);
        tell(scene, Tone::Normal, "Created", format!("Created container: {}", scene.container.name), effects);
        self.attempt = self.attempt.saturating_add(1);
        self.launch(scene, image, effects)
    }

    fn launch(&self, scene: &Scene<'_>, image: Digest, effects: &mut Effects) -> State {
        effects.push(Effect::Start { run: self.run(scene), image });
        State::Starting
    }

    fn running(&mut self, scene: &Scene<'_>, effects: &mut Effects) -> State {
        self.mounts.forget();
        self.mount_failure = None;
        tell(scene, Tone::Normal, "Started", format!("Started container {}", scene.container.name), effects);
        State::Running { started_at: scene.now }
    }

    /// The run did not begin, so the same one is tried again. People are told when what is wrong is another thing than
    /// before.
    fn mount_failed(&mut self, scene: &Scene<'_>, volume: &str, why: &str, effects: &mut Effects) -> State {
        let Some(image) = self.image_id else { return State::Starting };
        let words = wording::mount_failure(volume, why);
        if self.mount_failure.as_ref() != Some(&words) {
            wording::tell_mount_failed(scene.pod, words.clone(), effects);
            self.mount_failure = Some(words);
        }
        State::Unmounted { image, retry_at: scene.now + self.mounts.after_failed_mount() }
    }

    /// The run ended and nobody had asked it to: restart policy and back-off decide.
    fn exited(&mut self, scene: &Scene<'_>, exit: Exit, started_at: Millis, effects: &mut Effects) -> State {
        if let Exit::CannotStart(why) = &exit {
            tell(scene, Tone::Warning, "Failed", format!("Error: {why}"), effects);
        }
        let times = (started_at, scene.now);
        let ended = outcome::terminated(exit, scene.container, false, times, self.attempt);
        if !outcome::restarts(scene.pod.restart_policy, ended.exit_code) {
            return State::Ended(ended);
        }
        let wait_ms = self.restarts.after_run(started_at, scene.now);
        if wait_ms == 0 {
            self.last = Some(ended);
            return self.begin(scene, None, effects);
        }
        wording::tell_crash_loop(scene, effects);
        State::CrashLoop { ended, wait_ms, restart_at: scene.now + wait_ms }
    }

    fn stop(
        &self,
        scene: &Scene<'_>,
        started_at: Option<Millis>,
        grace_ms: u64,
        again: bool,
        effects: &mut Effects,
    ) -> State {
        if !again {
            tell(scene, Tone::Normal, "Killing", format!("Stopping container {}", scene.container.name), effects);
        }
        if grace_ms == 0 {
            effects.push(Effect::Kill(self.run(scene)));
            return State::Stopping { started_at, kill_at: scene.now, killed: true, again };
        }
        let grace_ms = grace_ms.max(SHORTEST_GRACE_MS);
        effects.push(Effect::Signal { run: self.run(scene), grace_ms });
        State::Stopping { started_at, kill_at: scene.now + grace_ms, killed: false, again }
    }

    /// It is ending already: a shorter grace brings the kill nearer, a longer one changes nothing (TRM-01).
    fn hurry(
        &self,
        scene: &Scene<'_>,
        started_at: Option<Millis>,
        (kill_at, killed): (Millis, bool),
        grace_ms: u64,
        effects: &mut Effects,
    ) -> State {
        let again = false;
        let wanted = if grace_ms == 0 { 0 } else { grace_ms.max(SHORTEST_GRACE_MS) };
        if killed || scene.now + wanted >= kill_at {
            return State::Stopping { started_at, kill_at, killed, again };
        }
        if wanted == 0 {
            effects.push(Effect::Kill(self.run(scene)));
            return State::Stopping { started_at, kill_at: scene.now, killed: true, again };
        }
        effects.push(Effect::Signal { run: self.run(scene), grace_ms: wanted });
        State::Stopping { started_at, kill_at: scene.now + wanted, killed, again }
    }

    /// Its image changed: end this run and begin the next, whatever the restart policy (POD-10).
    fn replace(&mut self, scene: &Scene<'_>, started_at: Option<Millis>, effects: &mut Effects) -> State {
        self.restarts.forget();
        let words = format!("Container {} definition changed, will be restarted", scene.container.name);
        tell(scene, Tone::Normal, "Killing", words, effects);
        self.stop(scene, started_at, scene.pod.termination_grace_ms, true, effects)
    }

    /// `status.containerStatuses[]` (LIF-02).
    pub(crate) fn status(&self, pod: &Pod, container: &Container) -> ContainerStatus {
        let running = match self.state {
            State::Running { started_at } => Some(started_at),
            State::Stopping { started_at, .. } => started_at,
            _ => None,
        };
        let state = match &self.state {
            State::Ended(ended) => ContainerState::Terminated(ended.clone()),
            state => match running {
                Some(started_at) => ContainerState::Running { started_at },
                None => {
                    let (reason, message) = waiting(state, pod, container);
                    ContainerState::Waiting { reason: reason.to_string(), message }
                }
            },
        };
        let last_state = match &self.state {
            State::CrashLoop { ended, .. } => Some(ended.clone()),
            _ => self.last.clone(),
        };
        ContainerStatus {
            name: container.name.clone(),
            state,
            last_state,
            restart_count: self.attempt.saturating_sub(1),
            ready: running.is_some(),
            started: running.is_some(),
            image: container.image.clone(),
            image_id: self.image_id,
            attempt: self.attempt,
        }
    }
}

/// Why a container that is neither running nor over is not running.
fn waiting(state: &State, pod: &Pod, container: &Container) -> Waiting {
    match state {
        State::Misconfigured => ("CreateContainerConfigError", container.config_error.clone().unwrap_or_default()),
        State::PullFailed { failure, .. } => wording::pull_error(failure, &container.image),
        State::PullWaiting { failure, .. } | State::Pulling { after: Some(failure) } => {
            wording::pull_waits(failure, &container.image)
        }
        State::CrashLoop { wait_ms, .. } => wording::crash_loop(*wait_ms, pod, container),
        _ => ("ContainerCreating", String::new()),
    }
}
