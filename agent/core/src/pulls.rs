//! Images that containers wait for: found on disk, or pulled from the controller block by block.
//!
//! *In:* what the lifecycle asks for, what the disk and the controller answer. *Out:* questions to both, blocks to keep,
//! and one answer for every run that waits.
//! *Must never know:* what the bytes mean; the shell checks signature and engine at the end.
//! *Tested:* as transcripts of whole sessions.
//!
//! Runs that wait for one image share one pull. A pull that needs the controller waits for a session, and goes on where it
//! was in the next one. With `imagePullPolicy: Always` the controller is asked at every start what the name means; when
//! there is no session, what is on disk is used (decision 11: offline first).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use coracle_lifecycle::{Event, ImageFailure, Run};
use coracle_model::limits::{BLOCK_BYTES, MAX_ARTIFACT_BYTES, RESEND_MS};
use coracle_model::{Digest, Limits, Millis, NodeFacts, PodUid, PullPolicy};
use coracle_wire::artifact::{ArtifactManifest, ArtifactRefusal, ArtifactReply, ArtifactRequest, Block, BlockRequest};
use coracle_wire::up::Up;

use crate::interface::Effect;
use crate::outbox::{Moment, Outbox, shorten};

mod fetch;
mod pace;

use fetch::{Fetch, Verdict};
use pace::Pace;

/// A controller that is busy is asked again after this many milliseconds.
const BUSY_MS: u64 = 2_000;
/// An artifact that the controller lost is asked for anew after this many milliseconds.
const GONE_MS: u64 = 1_000;
/// How often a question is repeated, [`RESEND_MS`] apart, before the pull fails.
const MOST_TRIES: u32 = 24;
/// How many damaged blocks a pull survives.
const MOST_DAMAGED: u32 = 8;
/// The longest text of a failure that is shown.
const LONGEST_WHY_BYTES: usize = 1024;

/// One image that somebody waits for.
#[derive(Debug)]
struct Pull {
    waiting: BTreeMap<Run, PullPolicy>,
    /// What the disk has for this name; known after [`Step::Finding`].
    on_disk: Option<Digest>,
    step: Step,
}

/// How far a pull is.
#[derive(Debug)]
enum Step {
    /// The disk was asked.
    Finding,
    /// Too many pulls are under way.
    Queued,
    /// The controller is asked what the name means.
    Asking { again_at: Millis, tries: u32 },
    /// Another pull brings the same artifact.
    Following(ArtifactManifest),
    /// The disk prepares.
    Beginning(ArtifactManifest),
    /// Blocks are on their way.
    Fetching(Fetch),
    /// The disk checks the whole.
    Finishing(ArtifactManifest),
}

impl Step {
    /// The artifact that this step works on, alone.
    fn artifact(&self) -> Option<Digest> {
        match self {
            Self::Beginning(manifest) | Self::Finishing(manifest) => Some(manifest.artifact),
            Self::Fetching(fetch) => Some(fetch.manifest.artifact),
            Self::Finding | Self::Queued | Self::Asking { .. } | Self::Following(_) => None,
        }
    }
}

/// All pulls of a node.
#[derive(Debug)]
pub(crate) struct Pulls {
    pulls: BTreeMap<String, Pull>,
    /// Which image a run waits for.
    by_run: BTreeMap<Run, String>,
    /// Those under way, at most [`Limits::pulls`].
    active: BTreeSet<String>,
    queue: VecDeque<String>,
    pace: Pace,
    limits: Limits,
    target: String,
    engine: String,
}

impl Pulls {
    pub(crate) fn new(limits: Limits, facts: &NodeFacts) -> Self {
        Self {
            pulls: BTreeMap::new(),
            by_run: BTreeMap::new(),
            active: BTreeSet::new(),
            queue: VecDeque::new(),
            pace: Pace::new(&limits),
            limits,
            target: facts.target.clone(),
            engine: facts.engine.clone(),
        }
    }

    /// A run wants its image. A run that wanted another one before no longer does.
    pub(crate) fn ensure(&mut self, run: Run, image: String, policy: PullPolicy, moment: Moment, out: &mut Outbox) {
        if self.by_run.get(&run).is_some_and(|before| *before != image) {
            self.give_up(&run);
        }
        self.by_run.insert(run.clone(), image.clone());
        match self.pulls.get_mut(&image) {
            None => {
                let waiting = BTreeMap::from([(run, policy)]);
                self.pulls.insert(image.clone(), Pull { waiting, on_disk: None, step: Step::Finding });
                out.effect(Effect::FindArtifact { image });
            }
            Some(pull) => {
                pull.waiting.insert(run, policy);
                if !matches!(pull.step, Step::Finding) {
                    self.settle(&image, moment, out);
                    self.advance(moment, out);
                }
            }
        }
    }

    /// Nobody needs the images of this pod any more.
    pub(crate) fn forget(&mut self, uid: PodUid) {
        let first = Run { pod: uid, container: String::new(), attempt: 0 };
        let runs: Vec<Run> =
            self.by_run.range(first..).map(|(run, _)| run).take_while(|run| run.pod == uid).cloned().collect();
        for run in runs {
            self.give_up(&run);
        }
    }

    fn give_up(&mut self, run: &Run) {
        let Some(image) = self.by_run.remove(run) else { return };
        if let Some(pull) = self.pulls.get_mut(&image) {
            pull.waiting.remove(run);
        }
    }

    /// The disk's answer to [`Effect::FindArtifact`].
    pub(crate) fn found(&mut self, image: &str, digest: Option<Digest>, moment: Moment, out: &mut Outbox) {
        let Some(pull) = self.pulls.get_mut(image) else { return };
        if !matches!(pull.step, Step::Finding) {
            return;
        }
        pull.on_disk = digest;
        pull.step = Step::Queued;
        self.settle(image, moment, out);
        if self.pulls.contains_key(image) {
            if !self.queue.iter().any(|queued| queued == image) {
                self.queue.push_back(image.to_string());
            }
            self.advance(moment, out);
        }
    }

    /// Answers those whom the disk alone can answer. A pull that nobody waits for any more ends, unless the disk is at
    /// work for it.
    fn settle(&mut self, image: &str, moment: Moment, out: &mut Outbox) {
        let Some(pull) = self.pulls.get_mut(image) else { return };
        let on_disk = pull.on_disk;
        let answer = |policy: &PullPolicy| match (policy, on_disk) {
            (PullPolicy::IfNotPresent | PullPolicy::Never, Some(digest)) => Some(Ok(digest)),
            (PullPolicy::Always, Some(digest)) if moment.session.is_none() => Some(Ok(digest)),
            (PullPolicy::Never, None) => Some(Err(ImageFailure::NeverPull)),
            (PullPolicy::Always | PullPolicy::IfNotPresent, _) => None,
        };
        let answered: Vec<_> =
            pull.waiting.iter().filter_map(|(run, policy)| Some((run.clone(), answer(policy)?))).collect();
        for (run, result) in answered {
            pull.waiting.remove(&run);
            self.by_run.remove(&run);
            if result.is_ok() {
                out.tell(&run, "Pulled", format!("Container image \"{image}\" already present on machine"));
            }
            out.verdict(Event::Image { run, result });
        }
        self.drop_unwanted(image);
    }

    /// Ends a pull that nobody waits for; whether it was one. What the disk has of it stays there. While the disk is at
    /// work for it, it goes on.
    fn drop_unwanted(&mut self, image: &str) -> bool {
        let unwanted = self.pulls.get(image).is_some_and(|pull| {
            let idle = !matches!(pull.step, Step::Finding | Step::Beginning(_) | Step::Finishing(_));
            pull.waiting.is_empty() && idle
        });
        if unwanted {
            self.remove(image);
        }
        unwanted
    }

    /// Gives artifacts that are free to those that follow, and free places to those that queue.
    fn advance(&mut self, moment: Moment, out: &mut Outbox) {
        for image in self.active.iter().cloned().collect::<Vec<String>>() {
            if let Some(Step::Following(manifest)) = self.pulls.get(&image).map(|pull| &pull.step) {
                self.begin(&image, manifest.clone(), out);
            }
        }
        while self.active.len() < self.limits.pulls {
            let Some(image) = self.queue.pop_front() else { return };
            if self.drop_unwanted(&image) {
                continue;
            }
            let Some(pull) = self.pulls.get_mut(&image) else { continue };
            if !matches!(pull.step, Step::Queued) {
                continue;
            }
            pull.step = Step::Asking { again_at: moment.now + RESEND_MS, tries: 1 };
            for run in pull.waiting.keys() {
                out.tell(run, "Pulling", format!("Pulling image \"{image}\""));
            }
            self.active.insert(image.clone());
            ask(image, moment, out);
        }
    }

    /// The controller's answer.
    pub(crate) fn replied(&mut self, reply: ArtifactReply, moment: Moment, out: &mut Outbox) {
        let image = reply.image;
        if self.drop_unwanted(&image) {
            return self.advance(moment, out);
        }
        let Some(pull) = self.pulls.get_mut(&image) else { return };
        let Step::Asking { again_at, tries } = &mut pull.step else { return };
        match reply.result {
            Ok(manifest) => match self.misfit(&manifest) {
                Some(why) => self.fail(&image, &ImageFailure::Pull(why), moment, out),
                None => self.begin(&image, manifest, out),
            },
            Err(ArtifactRefusal::Busy(_)) => {
                *again_at = moment.now + BUSY_MS;
                *tries = 1;
            }
            Err(ArtifactRefusal::InvalidName(why)) => self.fail(&image, &ImageFailure::InvalidName(why), moment, out),
            Err(ArtifactRefusal::NotFound(why) | ArtifactRefusal::Unusable(why)) => {
                self.fail(&image, &ImageFailure::Pull(why), moment, out);
            }
        }
    }

    /// Why an artifact cannot be for this node.
    fn misfit(&self, manifest: &ArtifactManifest) -> Option<String> {
        if manifest.target != self.target || manifest.engine != self.engine {
            return Some(format!(
                "the artifact is for {} (engine {}), and this node is {} (engine {})",
                manifest.target, manifest.engine, self.target, self.engine
            ));
        }
        let largest = u64::try_from(MAX_ARTIFACT_BYTES).unwrap_or(u64::MAX);
        if manifest.size == 0 || manifest.size > largest {
            return Some(format!("the artifact has {} bytes; 1 to {largest} are possible", manifest.size));
        }
        let blocks = usize::try_from(manifest.size).unwrap_or(usize::MAX).div_ceil(BLOCK_BYTES);
        let found = manifest.blocks.len();
        (found != blocks).then(|| format!("the artifact names {found} blocks where its size makes {blocks}"))
    }

    fn begin(&mut self, image: &str, manifest: ArtifactManifest, out: &mut Outbox) {
        let taken = self.pulls.values().any(|other| other.step.artifact() == Some(manifest.artifact));
        let Some(pull) = self.pulls.get_mut(image) else { return };
        if taken {
            pull.step = Step::Following(manifest);
            return;
        }
        out.effect(Effect::BeginArtifact { image: image.to_string(), manifest: manifest.clone() });
        pull.step = Step::Beginning(manifest);
    }

    /// The disk's answer to [`Effect::BeginArtifact`].
    pub(crate) fn begun(&mut self, artifact: Digest, complete: bool, have: &[u32], moment: Moment, out: &mut Outbox) {
        let Some(image) = self.working_on(artifact) else { return };
        let Some(pull) = self.pulls.get_mut(&image) else { return };
        let Step::Beginning(manifest) = &pull.step else { return };
        if complete {
            let digest = manifest.image;
            return self.done(&image, digest, moment, out);
        }
        pull.step = Step::Fetching(Fetch::new(manifest.clone(), have, moment.now));
        self.fetch(&image, moment, out);
    }

    /// Asks for more blocks, or finishes.
    fn fetch(&mut self, image: &str, moment: Moment, out: &mut Outbox) {
        if self.drop_unwanted(image) {
            return self.advance(moment, out);
        }
        let room = self.pace.allowed().saturating_sub(self.on_their_way());
        let Some(pull) = self.pulls.get_mut(image) else { return };
        let Step::Fetching(fetch) = &mut pull.step else { return };
        if fetch.is_whole() {
            let artifact = fetch.manifest.artifact;
            out.effect(Effect::FinishArtifact { image: image.to_string(), artifact });
            pull.step = Step::Finishing(fetch.manifest.clone());
            return;
        }
        let Some(session) = moment.session else { return };
        let blocks = fetch.next(self.limits.blocks_in_flight, room, moment.now);
        if !blocks.is_empty() {
            out.up(&Up::Blocks(BlockRequest { session, artifact: fetch.manifest.artifact, blocks }));
        }
    }

    /// Blocks on their way, of all pulls.
    fn on_their_way(&self) -> usize {
        let pulls = self.active.iter().filter_map(|image| self.pulls.get(image));
        pulls.map(|pull| if let Step::Fetching(fetch) = &pull.step { fetch.on_their_way() } else { 0 }).sum()
    }

    /// Gives the room that a block or a whole pull has left to those that have something to fetch.
    fn fetch_others(&mut self, moment: Moment, out: &mut Outbox) {
        for image in self.active.iter().cloned().collect::<Vec<String>>() {
            if self.on_their_way() >= self.pace.allowed() {
                return;
            }
            if matches!(self.pulls.get(&image).map(|pull| &pull.step), Some(Step::Fetching(_))) {
                self.fetch(&image, moment, out);
            }
        }
    }

    /// A block came.
    pub(crate) fn block(&mut self, block: Block, moment: Moment, out: &mut Outbox) {
        let Some(image) = self.working_on(block.artifact) else { return };
        let Some(pull) = self.pulls.get_mut(&image) else { return };
        let Step::Fetching(fetch) = &mut pull.step else { return };
        match fetch.judge(&block, moment.now) {
            Verdict::Unasked => {}
            Verdict::Gone => {
                pull.step = Step::Asking { again_at: moment.now + GONE_MS, tries: 1 };
                self.fetch_others(moment, out);
            }
            Verdict::Damaged(times) if times > MOST_DAMAGED => {
                let why = format!("block {} of the artifact came damaged {times} times", block.index);
                self.fail(&image, &ImageFailure::Pull(why), moment, out);
            }
            Verdict::Damaged(_) => self.fetch(&image, moment, out),
            Verdict::Good(took_ms) => {
                self.pace.arrived(took_ms);
                let Block { artifact, index, bytes } = block;
                out.effect(Effect::WriteBlock { artifact, index, bytes });
                self.fetch(&image, moment, out);
                self.fetch_others(moment, out);
            }
        }
    }

    /// The disk's answer to [`Effect::FinishArtifact`].
    pub(crate) fn finished(&mut self, artifact: Digest, result: Result<(), String>, moment: Moment, out: &mut Outbox) {
        let Some(image) = self.working_on(artifact) else { return };
        match (self.pulls.get(&image).map(|pull| &pull.step), result) {
            (Some(Step::Finishing(manifest)), Ok(())) => {
                let digest = manifest.image;
                self.done(&image, digest, moment, out);
            }
            // Also before its end: the disk may find at once that the artifact is nothing for this node, or be full.
            (Some(_), Err(why)) => self.fail(&image, &ImageFailure::Pull(why), moment, out),
            (_, Ok(())) | (None, Err(_)) => {}
        }
    }

    fn done(&mut self, image: &str, digest: Digest, moment: Moment, out: &mut Outbox) {
        self.answer(image, &Ok(digest), moment, out);
    }

    fn fail(&mut self, image: &str, failure: &ImageFailure, moment: Moment, out: &mut Outbox) {
        let mut failure = failure.clone();
        match &mut failure {
            ImageFailure::Pull(why) | ImageFailure::InvalidName(why) => shorten(why, LONGEST_WHY_BYTES),
            ImageFailure::NeverPull => {}
        }
        self.answer(image, &Err(failure), moment, out);
    }

    /// Answers everyone and ends the pull; then its place and its artifact are free for others.
    fn answer(&mut self, image: &str, result: &Result<Digest, ImageFailure>, moment: Moment, out: &mut Outbox) {
        let Some(pull) = self.remove(image) else { return };
        for run in pull.waiting.into_keys() {
            if result.is_ok() {
                out.tell(&run, "Pulled", format!("Successfully pulled image \"{image}\""));
            }
            out.verdict(Event::Image { run, result: result.clone() });
        }
        self.advance(moment, out);
        self.fetch_others(moment, out);
    }

    fn remove(&mut self, image: &str) -> Option<Pull> {
        self.active.remove(image);
        let pull = self.pulls.remove(image)?;
        for run in pull.waiting.keys() {
            self.by_run.remove(run);
        }
        Some(pull)
    }

    fn working_on(&self, artifact: Digest) -> Option<String> {
        let works = |image: &&String| self.pulls.get(*image).and_then(|pull| pull.step.artifact()) == Some(artifact);
        self.active.iter().find(works).cloned()
    }

    /// There is no session any more: those who can live with what is on disk get it, the rest waits.
    pub(crate) fn suspend(&mut self, moment: Moment, out: &mut Outbox) {
        for pull in self.pulls.values_mut() {
            if let Step::Fetching(fetch) = &mut pull.step {
                fetch.suspend();
            }
        }
        let images: Vec<String> = self.pulls.keys().cloned().collect();
        for image in images {
            if !matches!(self.pulls.get(&image).map(|pull| &pull.step), Some(Step::Finding)) {
                self.settle(&image, moment, out);
            }
        }
        self.advance(moment, out);
    }

    /// A session begins: what waited for one goes on.
    pub(crate) fn resume(&mut self, moment: Moment, out: &mut Outbox) {
        for image in self.active.iter().cloned().collect::<Vec<String>>() {
            if self.drop_unwanted(&image) {
                continue;
            }
            match self.pulls.get_mut(&image).map(|pull| &mut pull.step) {
                Some(Step::Asking { again_at, tries }) => {
                    (*again_at, *tries) = (moment.now + RESEND_MS, 1);
                    ask(image, moment, out);
                }
                Some(Step::Fetching(fetch)) => {
                    fetch.resume(moment.now);
                    self.fetch(&image, moment, out);
                }
                _ => {}
            }
        }
        self.advance(moment, out);
    }

    /// Asks again where no answer came.
    pub(crate) fn tick(&mut self, moment: Moment, out: &mut Outbox) {
        if moment.session.is_none() {
            return;
        }
        for image in self.active.iter().cloned().collect::<Vec<String>>() {
            if self.drop_unwanted(&image) {
                self.advance(moment, out);
                continue;
            }
            let Some(pull) = self.pulls.get_mut(&image) else { continue };
            match &mut pull.step {
                Step::Asking { again_at, tries } if *again_at <= moment.now => {
                    if *tries >= MOST_TRIES {
                        let why = "the controller does not answer".to_string();
                        self.fail(&image, &ImageFailure::Pull(why), moment, out);
                    } else {
                        (*again_at, *tries) = (moment.now + RESEND_MS, *tries + 1);
                        ask(image, moment, out);
                    }
                }
                Step::Fetching(fetch) if fetch.again_at <= moment.now => {
                    if fetch.on_their_way() > 0 {
                        self.pace.slow_down();
                    }
                    fetch.lose_patience(moment.now);
                    self.fetch(&image, moment, out);
                }
                _ => {}
            }
        }
    }

    /// When [`Pulls::tick`] has something to do, as long as there is a session.
    pub(crate) fn wake_at(&self) -> Option<Millis> {
        let steps = self.active.iter().filter_map(|image| self.pulls.get(image)).map(|pull| &pull.step);
        steps
            .filter_map(|step| match step {
                Step::Asking { again_at, .. } => Some(*again_at),
                Step::Fetching(fetch) => Some(fetch.again_at),
                _ => None,
            })
            .min()
    }
}

fn ask(image: String, moment: Moment, out: &mut Outbox) {
    if let Some(session) = moment.session {
        out.up(&Up::Artifact(ArtifactRequest { session, image }));
    }
}
