//! Performs effects: the one task that owns the core, feeds it what happens and does what it says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coracle_agent_core::pressure::Eviction;
use coracle_agent_core::{Agent, Effect, Identity, Input, Remembered, RuntimeEvent};
use coracle_lifecycle::Run;
use coracle_model::{Digest, Limits, Millis, Pod, PodUid};
use tokio::sync::mpsc;

use crate::artifacts::{ArtifactError, Artifacts};
use crate::disk::DataDir;
use crate::logs::Logs;
use crate::runtime::{Report, Runtime, Start};
use crate::streams::Streams;
use crate::uplink::{News, Uplink, chain};
use crate::volumes::{MountError, Surveyor, Turn, Verdict, Volumes};

mod shortage;

/// What guests may report before the driver has read it; they wait then.
const MAX_REPORTS: usize = 1024;
/// What streams may say before the driver has read it; they wait then.
const MAX_STREAM_INPUTS: usize = 64;
/// What guests get to end by themselves when the agent stops, in milliseconds.
const STOP_GRACE_MS: u64 = 2000;
/// More than the core ever waits with a write, in milliseconds.
const WRITES_WAIT_MS: u64 = 5000;
/// How soon what the disk did not take is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(10);
/// For killed guests to be gone.
const KILL_WAIT: Duration = Duration::from_secs(1);

/// Why the driver came to its end by itself.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

/// See the module.
pub(crate) struct Driver {
    agent: Agent,
    disk: DataDir,
    artifacts: Artifacts,
    volumes: Volumes,
    surveyor: Surveyor,
    logs: Arc<Logs>,
    runtime: Runtime,
    reports: mpsc::Receiver<Report>,
    streams: Streams,
    stream_inputs: mpsc::Receiver<Input>,
    uplink: Uplink,
    artifact_key: Option<[u8; 32]>,
    /// What the disk did not take, and when it is tried again.
    unwritten: Option<(Remembered, Instant)>,
    /// What the core knows of the artifacts on the disk; nothing at first.
    told_images: Option<u64>,
    /// Held by everyone who removes what a pod left.
    removing: Arc<()>,
    started: Instant,
}

impl Driver {
    /// Everything is open; nothing has happened yet.
    pub(crate) fn new(
        identity: Identity,
        eviction: Eviction,
        disk: DataDir,
        artifacts: Artifacts,
        remembered: Remembered,
        uplink: Uplink,
    ) -> Self {
        let limits = Limits::LINUX;
        let logs = Logs::new(&limits);
        let (report, reports) = mpsc::channel(MAX_REPORTS);
        let (stream_input, stream_inputs) = mpsc::channel(MAX_STREAM_INPUTS);
        let allocatable_bytes = identity.facts.allocatable.memory_bytes;
        let artifact_key = remembered.pinned.map(|(_, key)| key);
        let mut artifacts = artifacts;
        artifacts.want(images_of(&remembered));
        let volumes = Volumes::remembered(disk.path(), identity.instance, &remembered);
        Self {
            agent: Agent::new(identity, limits, remembered, Millis::ZERO).evicting(eviction),
            disk,
            artifacts,
            volumes,
            surveyor: Surveyor::default(),
            runtime: Runtime::new(report, allocatable_bytes),
            reports,
            streams: Streams::new(stream_input, Arc::clone(&logs), &limits),
            stream_inputs,
            logs,
            uplink,
            artifact_key,
            unwritten: None,
            told_images: None,
            removing: Arc::default(),
            started: Instant::now(),
        }
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Runs until `stop`, or until the controller says that this agent must not run.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), Refused> {
        tokio::pin!(stop);
        let mut outcome = self.feed(Input::Tick).await;
        while outcome.is_ok() {
            self.write_again();
            let wake = self.agent.wake_at().map(|at| self.started + Duration::from_millis(at.0));
            let wake = wake.into_iter().chain(self.unwritten.as_ref().map(|(_, at)| *at)).min();
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let room = self.uplink.room();
            let stream_inputs = &mut self.stream_inputs;
            outcome = tokio::select! {
                biased;
                () = &mut stop => break,
                Some(report) = self.reports.recv() => self.report(report).await,
                news = self.uplink.next() => self.news(news).await,
                () = sleep => self.feed(Input::Tick).await,
                turn = self.surveyor.next() => self.survey(turn).await,
                Some(input) = async { room.await; stream_inputs.recv().await } => {
                    if let Input::StreamEnd(end) = &input {
                        self.streams.ended(end.id);
                    }
                    self.feed(input).await
                }
            };
        }
        self.stop().await;
        outcome
    }

    async fn news(&mut self, news: News) -> Result<(), Refused> {
        match news {
            News::WantsNumber => {
                let (number, refused) = self.disk.next_session();
                if let Some(error) = refused {
                    tracing::error!(error = chain(&error), session = %number, "failed to count the next session on the disk");
                }
                self.uplink.connect(number);
                Ok(())
            }
            News::Up(number) => self.feed(Input::Connected(number)).await,
            News::Down(payload) => self.feed(Input::Down(payload)).await,
            News::Broken => self.disconnected().await,
        }
    }

    async fn disconnected(&mut self) -> Result<(), Refused> {
        self.streams.clear();
        // What they had to say was for the session that is over.
        while self.stream_inputs.try_recv().is_ok() {}
        self.feed(Input::Disconnected).await
    }

    async fn report(&mut self, report: Report) -> Result<(), Refused> {
        match report {
            Report::Event(event) => {
                if let RuntimeEvent::Exited { run, .. } = &event {
                    self.runtime.ended(run);
                }
                self.feed(Input::Runtime(event)).await
            }
            Report::Damaged(artifact) => {
                tracing::error!(%artifact, "an artifact is damaged and is thrown away");
                self.artifacts.discard(artifact);
                Ok(())
            }
        }
    }

    /// Change, then drain: one input, and every effect that follows from it.
    async fn feed(&mut self, input: Input) -> Result<(), Refused> {
        let mut next = Some(input);
        let mut answers = std::collections::VecDeque::new();
        while let Some(input) = next.take() {
            let now = self.now();
            self.agent.handle(now, input);
            while let Some(effect) = self.agent.poll_effect() {
                if let Some(answer) = self.perform(effect).await? {
                    answers.push_back(answer);
                }
            }
            next = answers.pop_front().or_else(|| self.images());
        }
        Ok(())
    }

    /// The images on the disk, if the core has not heard of them as they are.
    fn images(&mut self) -> Option<Input> {
        let version = Some(self.artifacts.version());
        (std::mem::replace(&mut self.told_images, version) != version).then(|| Input::Images(self.artifacts.images()))
    }

    /// Does it. Some effects have an answer.
    async fn perform(&mut self, effect: Effect) -> Result<Option<Input>, Refused> {
        match effect {
            Effect::Publish { topic, payload } => {
                if !self.uplink.publish(topic, payload) {
                    tracing::warn!("the broker takes nothing; connecting anew");
                    return Ok(self.reconnect());
                }
            }
            Effect::Reconnect => return Ok(self.reconnect()),
            Effect::Remember(remembered) => self.remember(remembered),
            Effect::Quit(reason) => return Err(Refused(reason)),
            Effect::Start { run, pod, image } => return Ok(self.start(run, &pod, image).await),
            Effect::Refresh(pod) => {
                self.volumes.refresh(&pod);
                self.surveyor.arm(self.volumes.wants_survey());
            }
            Effect::TearDown(pod) => self.tear_down(pod),
            Effect::TearDownOthers(held) => {
                let rubbish = self.volumes.tear_down_others(&held);
                self.remove(rubbish);
            }
            Effect::Measure => return Ok(Some(Input::Measured(self.measure(false)))),
            Effect::Survey { reclaim_disk } => {
                if reclaim_disk {
                    self.reclaim_disk();
                }
                return Ok(Some(Input::Measured(self.measure(true))));
            }
            Effect::Signal { run, grace_ms } => self.runtime.signal(&run, grace_ms),
            Effect::Kill(run) => self.runtime.kill(&run).await,
            Effect::Forget(pod) => {
                self.logs.forget(pod);
                self.tear_down(pod);
            }
            Effect::FindArtifact { .. }
            | Effect::BeginArtifact { .. }
            | Effect::WriteBlock { .. }
            | Effect::FinishArtifact { .. } => return Ok(self.artifact(effect)),
            Effect::StreamOpen(open) => self.streams.open(open, &self.runtime, self.now()),
            Effect::StreamData(data) => self.streams.data(data),
            Effect::StreamCredit(credit) => self.streams.credit(credit),
            Effect::StreamEnd(end) => self.streams.end(&end),
        }
        Ok(None)
    }

    fn remember(&mut self, remembered: Remembered) {
        self.artifact_key = remembered.pinned.map(|(_, key)| key);
        self.artifacts.want(images_of(&remembered));
        match self.disk.remember(&remembered) {
            Ok(()) => {
                if self.unwritten.take().is_some() {
                    tracing::info!("the disk takes the desired set again");
                }
            }
            Err(error) => {
                // Pods go on; a restart before the disk takes it would begin with what it took last.
                tracing::error!(error = chain(&error), "failed to remember the desired set; trying again");
                self.unwritten = Some((remembered, Instant::now() + WRITE_AGAIN));
            }
        }
    }

    /// What the disk did not take is still to be remembered.
    fn write_again(&mut self) {
        if self.unwritten.as_ref().is_some_and(|(_, at)| *at <= Instant::now())
            && let Some((remembered, _)) = self.unwritten.clone()
        {
            self.remember(remembered);
        }
    }

    fn reconnect(&mut self) -> Option<Input> {
        let was_up = self.uplink.reconnect();
        self.streams.clear();
        while self.stream_inputs.try_recv().is_ok() {}
        was_up.then_some(Input::Disconnected)
    }

    async fn start(&mut self, run: Run, pod: &Pod, image: Digest) -> Option<Input> {
        let Some(container) = pod.containers.iter().find(|container| container.name == run.container) else {
            // The core makes runs from the very pod that it passes along.
            tracing::error!(pod = %pod.uid, container = run.container, "a run without its container");
            return None;
        };
        let preopens = match self.volumes.lay_out(pod, container) {
            Ok(preopens) => preopens,
            Err(MountError { volume, why }) => {
                return Some(Input::Runtime(RuntimeEvent::MountFailed { run, volume, why }));
            }
        };
        self.surveyor.arm(self.volumes.wants_survey());
        let artifact = self.artifacts.of_image(image).zip(self.artifact_key);
        let output = self.logs.begin(pod.uid, &run.container);
        self.runtime.start(Start { run, pod, container, image, artifact, output, preopens }).await;
        None
    }

    fn tear_down(&mut self, pod: PodUid) {
        let rubbish = self.volumes.tear_down(pod);
        self.remove(rubbish);
        self.surveyor.arm(self.volumes.wants_survey());
    }

    /// Looks what pods have written, and ends those that wrote more than they may (PRI-09).
    async fn survey(&mut self, turn: Turn) -> Result<(), Refused> {
        match turn {
            Turn::Due => {
                self.volumes.catch_up();
                self.surveyor.begin(self.volumes.subjects());
            }
            Turn::Over(verdicts) => {
                self.surveyor.arm(self.volumes.wants_survey());
                for Verdict { pod, message } in verdicts {
                    self.feed(Input::Evict { pod, message }).await?;
                }
            }
        }
        Ok(())
    }

    fn artifact(&mut self, effect: Effect) -> Option<Input> {
        let key = self.artifact_key.as_ref();
        let failed = |artifact, error: &ArtifactError| Input::ArtifactFinished { artifact, result: Err(chain(error)) };
        match effect {
            Effect::FindArtifact { image } => {
                let digest = self.artifacts.find(&image, key);
                Some(Input::ArtifactFound { image, digest })
            }
            Effect::BeginArtifact { image, manifest } => {
                let artifact = manifest.artifact;
                Some(match self.artifacts.begin(&image, manifest, key) {
                    Ok(begun) => Input::ArtifactBegun { artifact, complete: begun.complete, have: begun.have },
                    Err(error) => failed(artifact, &error),
                })
            }
            Effect::WriteBlock { artifact, index, bytes } => {
                self.artifacts.write_block(artifact, index, &bytes).err().map(|error| failed(artifact, &error))
            }
            Effect::FinishArtifact { image, artifact } => {
                let result = self.artifacts.finish(&image, artifact, key);
                if result.is_ok() {
                    self.artifacts.sweep(|image| self.runtime.is_running(image));
                }
                Some(Input::ArtifactFinished { artifact, result: result.map_err(|error| chain(&error)) })
            }
            _ => None,
        }
    }

    /// The agent goes, its pods stay desired: guests are asked to end, then ended, and the controller hears goodbye.
    /// The core is told nothing of it, so it starts them again next time.
    async fn stop(mut self) {
        self.remember_at_last();
        self.runtime.signal_all(STOP_GRACE_MS);
        self.wait_for_guests(Duration::from_millis(STOP_GRACE_MS)).await;
        self.runtime.kill_all();
        self.wait_for_guests(KILL_WAIT).await;
        self.streams.clear();
        self.volumes.close();
        self.uplink.close().await;
    }

    /// What the core would write a little later is written now, as if that time had come. Whatever else would be due
    /// then is not done: this agent ends.
    fn remember_at_last(&mut self) {
        let later = self.now() + WRITES_WAIT_MS;
        self.agent.handle(later, Input::Tick);
        while let Some(effect) = self.agent.poll_effect() {
            if let Effect::Remember(remembered) = effect {
                self.remember(remembered);
            }
        }
        if let Some((remembered, _)) = self.unwritten.clone() {
            self.remember(remembered);
        }
    }

    async fn wait_for_guests(&mut self, longest: Duration) {
        let deadline = tokio::time::Instant::now() + longest;
        while !self.runtime.is_idle() {
            match tokio::time::timeout_at(deadline, self.reports.recv()).await {
                Ok(Some(Report::Event(RuntimeEvent::Exited { run, .. }))) => self.runtime.ended(&run),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }
}

/// The images that the desired set names.
fn images_of(remembered: &Remembered) -> impl Iterator<Item = String> {
    remembered.pods.iter().flat_map(|pod| &pod.containers).map(|container| container.image.clone())
}
