//! One hollow node: the task that owns a real core, feeds it what happens and does as it says, as far as that shows from
//! outside.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use coracle_agent_core::{Agent, Effect, Identity, Input, Remembered, RuntimeEvent};
use coracle_lifecycle::Run;
use coracle_model::{BootId, InstanceId, Limits, Millis, NodeFacts, Pod, SessionNumber};
use coracle_wire::stream::StreamEnd;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::chance::Chance;
use crate::disk::Disk;
use crate::figures::Tally;
use crate::guests::{Guests, Happening};
use crate::uplink::{News, Uplink};
use crate::{Refused, Settings};

/// When the fleet began: what its nodes' clocks and sessions are counted from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) instant: Instant,
    pub(crate) session: SessionNumber,
}

/// See the module.
pub(crate) struct Node {
    agent: Agent,
    guests: Guests,
    disk: Disk,
    uplink: Uplink,
    tally: Arc<Tally>,
    started: Instant,
    /// As it stands in the tally.
    joined: bool,
    /// As it stands in the tally.
    pods_running: usize,
}

impl Node {
    /// Node `number` of the fleet, from 1. It connects at `joins_at`.
    pub(crate) fn new(
        number: u32,
        settings: &Arc<Settings>,
        tally: Arc<Tally>,
        origin: Origin,
        joins_at: Instant,
        mut chance: Chance,
    ) -> Self {
        let name = format!("{}-{number:06}", settings.name_prefix);
        let instance = InstanceId(chance.identity());
        let boot = BootId(chance.identity());
        let facts = facts(settings, number);
        let identity = Identity { instance, boot, facts, seed: chance.next() };
        let seed = chance.next();
        let (shared, counts) = (Arc::clone(settings), Arc::clone(&tally));
        Self {
            agent: Agent::new(identity, Limits::LINUX, Remembered::default(), Millis::ZERO),
            guests: Guests::new(settings.start_ms.clone(), settings.fail_per_mille, chance),
            disk: Disk::new(settings.pulls),
            uplink: Uplink::new(shared, counts, name, instance, origin.session, joins_at, seed),
            tally,
            started: origin.instant,
            joined: false,
            pods_running: 0,
        }
    }

    /// Runs until `stop` turns true, or until the controller says that this node must not run.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), Refused> {
        let stopping = stop.wait_for(|stopping| *stopping);
        tokio::pin!(stopping);
        let mut outcome = self.feed(Input::Tick);
        while outcome.is_ok() {
            let wake_at = [self.agent.wake_at(), self.guests.wake_at()].into_iter().flatten().min();
            let wake = async {
                match wake_at {
                    Some(at) => tokio::time::sleep_until(self.started + Duration::from_millis(at.0)).await,
                    None => std::future::pending().await,
                }
            };
            outcome = tokio::select! {
                biased;
                // A sender that is gone means the end as well.
                _ = &mut stopping => break,
                news = self.uplink.next() => self.news(news),
                () = wake => self.tick(),
            };
        }
        self.joined(false);
        self.tally.pods_running.remove(self.pods_running);
        let node = self.uplink.node().to_owned();
        match outcome {
            Ok(()) => {
                self.uplink.close().await;
                Ok(())
            }
            Err(reason) => {
                self.tally.refused.add(1);
                self.uplink.reconnect();
                Err(Refused { node, reason })
            }
        }
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn news(&mut self, news: News) -> Result<(), String> {
        self.feed(match news {
            News::Up(number) => Input::Connected(number),
            News::Down(payload) => Input::Down(payload),
            News::Broken => Input::Disconnected,
        })
    }

    fn tick(&mut self) -> Result<(), String> {
        let now = self.now();
        while let Some(event) = self.guests.due(now) {
            self.feed(Input::Runtime(match event {
                Happening::Started(run) => {
                    self.tally.starts.add(1);
                    RuntimeEvent::Started(run)
                }
                Happening::Ended(run, exit) => {
                    self.tally.ends.add(1);
                    RuntimeEvent::Exited { run, exit }
                }
            }))?;
        }
        if self.agent.wake_at().is_some_and(|at| at <= now) {
            self.feed(Input::Tick)?;
        }
        Ok(())
    }

    /// Change, then drain: one input, and every effect that follows from it. An error is why the node must not run.
    fn feed(&mut self, input: Input) -> Result<(), String> {
        let mut answers = VecDeque::from([input]);
        while let Some(input) = answers.pop_front() {
            let now = self.now();
            self.agent.handle(now, input);
            while let Some(effect) = self.agent.poll_effect() {
                answers.extend(self.perform(effect, now)?);
            }
        }
        self.joined(self.agent.is_synced());
        self.count_pods();
        Ok(())
    }

    fn perform(&mut self, effect: Effect, now: Millis) -> Result<Option<Input>, String> {
        let answer = match effect {
            Effect::Publish { topic, payload } => {
                if self.uplink.publish(topic, payload) {
                    None
                } else {
                    self.uplink.reconnect().then_some(Input::Disconnected)
                }
            }
            Effect::Reconnect => self.uplink.reconnect().then_some(Input::Disconnected),
            Effect::Quit(reason) => return Err(reason),
            Effect::Start { run, pod, .. } => {
                self.start(run, &pod, now);
                None
            }
            Effect::Signal { run, .. } => {
                self.guests.signal(run, now);
                None
            }
            Effect::Kill(run) => {
                self.guests.kill(run, now);
                None
            }
            Effect::FindArtifact { image } => Some(self.disk.find(image)),
            Effect::BeginArtifact { image, manifest } => Some(self.disk.begin(image, &manifest)),
            Effect::WriteBlock { bytes, .. } => {
                self.tally.artifact_bytes.add(bytes.len());
                None
            }
            Effect::FinishArtifact { artifact, .. } => {
                self.tally.artifacts_pulled.add(1);
                Some(self.disk.finish(artifact))
            }
            Effect::StreamOpen(open) => {
                let error = Some("a hollow node has no guests to speak with".to_owned());
                Some(Input::StreamEnd(StreamEnd { id: open.id, error }))
            }
            // What is written to the disk, and what frees it: there is none.
            _ => None,
        };
        Ok(answer)
    }

    fn start(&mut self, run: Run, pod: &Pod, now: Millis) {
        // The core makes runs from the very pod that it passes along.
        if let Some(container) = pod.containers.iter().find(|container| container.name == run.container) {
            self.guests.start(run, container, now);
        }
    }

    fn joined(&mut self, joined: bool) {
        match (self.joined, joined) {
            (false, true) => self.tally.joined.add(1),
            (true, false) => self.tally.joined.remove(1),
            _ => {}
        }
        self.joined = joined;
    }

    fn count_pods(&mut self) {
        let pods = self.guests.pods_running();
        self.tally.pods_running.add(pods.saturating_sub(self.pods_running));
        self.tally.pods_running.remove(self.pods_running.saturating_sub(pods));
        self.pods_running = pods;
    }
}

fn facts(settings: &Settings, number: u32) -> NodeFacts {
    let place = usize::try_from(number - 1).unwrap_or_default() % settings.zones.len().max(1);
    let zone = settings.zones.get(place).cloned().unwrap_or_default();
    NodeFacts { zone, ..settings.facts.clone() }
}
