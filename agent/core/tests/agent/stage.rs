//! An agent on a stage: a disk, a runtime and a controller made of words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use coracle_agent_core::pressure::{ContainerUse, Eviction, Measured, PodUse, Room};
use coracle_agent_core::{Agent, Effect, Identity, Input, Remembered, RuntimeEvent};
use coracle_lifecycle::{Exit, Run};
use coracle_model::limits::{BLOCK_BYTES, MAX_MESSAGE_BYTES};
use coracle_model::{
    BootId, ClusterId, Container, ContainerState, Digest, InstanceId, Limits, Millis, NodeFacts, NodeImage, Pod,
    PodStatus, PodUid, PullPolicy, ResourceAmounts, RestartPolicy, SessionNumber, Stop,
};
use coracle_wire::Item;
use coracle_wire::artifact::{ArtifactManifest, ArtifactRefusal, ArtifactReply, Block};
use coracle_wire::down::{Ack, Delta, Down, Refuse, Reintroduce, Sync, Welcome};
use coracle_wire::stream::{LogsRequest, StreamData, StreamEnd, StreamHead, StreamOpen, StreamTarget};
use coracle_wire::topic::NodeTopic;
use coracle_wire::up::Up;
use sha2::{Digest as _, Sha256};

const LIMITS: Limits = Limits { pods: 4, streams: 2, pulls: 2, blocks_in_flight: 2, ..Limits::LINUX };

#[derive(Default)]
pub(crate) struct Stage {
    agent: Option<Agent>,
    remembered: Remembered,
    now: Millis,
    names: Vec<String>,
    /// Images whose artifacts the disk has.
    has: BTreeSet<String>,
    images: BTreeMap<Digest, String>,
    runtime: bool,
    disk: bool,
    eviction: Option<Eviction>,
    pub(crate) out: String,
}

impl Stage {
    /// The phases that the agent shows, by pod.
    pub(crate) fn phases(&self) -> Vec<(String, &'static str)> {
        let agent = self.agent.as_ref().expect("started");
        agent.statuses().map(|status| (self.name(status.uid).to_owned(), status.phase.as_str())).collect()
    }

    pub(crate) fn line(&mut self, line: &str) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "runtime" => self.runtime = true,
            "disk" => self.disk = true,
            "evicts" => {
                let (thresholds, transition) = rest.split_once(' ').expect("thresholds and a period");
                let thresholds = thresholds.parse().expect("thresholds");
                self.eviction = Some(Eviction { thresholds, transition_ms: millis(transition) });
            }
            "pinned" => self.remembered.pinned = Some((ClusterId(7), [7; 32])),
            "has" => {
                self.has.insert(rest.to_owned());
            }
            "remember" => {
                let pod = self.pod(rest).expect("a pod that can be read");
                self.remembered.pods.push(pod);
                self.remembered.sequence = 4;
            }
            time => self.at(Millis(millis(time)), rest),
        }
    }

    fn at(&mut self, until: Millis, rest: &str) {
        assert!(until >= self.now, "time goes forward: {rest}");
        while let Some(at) = self.agent.as_ref().and_then(Agent::wake_at).filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.input(Input::Tick);
        }
        self.now = until;
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if verb == "start" {
            return self.begin();
        }
        if verb == "restart" {
            self.out.push_str("  (the agent is another process now)\n");
            return self.begin();
        }
        let words: Vec<&str> = rest.split(' ').filter(|word| !word.is_empty()).collect();
        let input = self.verb(verb, &words);
        self.input(input);
    }

    fn begin(&mut self) {
        let agent = Agent::new(identity(), LIMITS, self.remembered.clone(), self.now);
        self.agent = Some(match self.eviction {
            Some(eviction) => agent.evicting(eviction),
            None => agent,
        });
        self.drain();
    }

    fn verb(&mut self, verb: &str, words: &[&str]) -> Input {
        let session = || SessionNumber(words[0].parse().expect("a session"));
        let message = match verb {
            "connected" => return Input::Connected(session()),
            "disconnected" => return Input::Disconnected,
            "measured" => return Input::Measured(self.measured(words)),
            "images" => return Input::Images(words.iter().map(|word| node_image(word)).collect()),
            "tick" => return Input::Tick,
            "junk" => return Input::Down(vec![1, 2, 3]),
            "started" => return Input::Runtime(RuntimeEvent::Started(self.run(words[0]))),
            "exited" => {
                let exit = Exit::Code(words[1].parse().expect("a code"));
                return Input::Runtime(RuntimeEvent::Exited { run: self.run(words[0]), exit });
            }
            "found" => {
                let digest = (words[1] == "yes").then(|| image_digest(words[0]));
                return Input::ArtifactFound { image: words[0].to_owned(), digest };
            }
            "begun" => {
                let (artifact, complete) = (artifact_digest(words[0]), words.get(1) == Some(&"complete"));
                let have = words[1..].iter().filter_map(|word| word.parse().ok()).collect();
                return Input::ArtifactBegun { artifact, complete, have };
            }
            "finished" => {
                let why = words[1..].join(" ");
                let result = if why == "ok" { Ok(()) } else { Err(why) };
                return Input::ArtifactFinished { artifact: artifact_digest(words[0]), result };
            }
            "below-head" => {
                return Input::StreamHead(StreamHead { id: id(words), status: 200, headers: Vec::new(), credit: 9 });
            }
            "below-data" => return Input::StreamData(StreamData { id: id(words), bytes: vec![1; 3] }),
            "below-end" => return Input::StreamEnd(StreamEnd { id: id(words), error: None }),
            "welcome" => {
                let cluster = ClusterId(words.get(1).map_or(7, |word| word.parse().expect("a cluster")));
                Down::Welcome(Welcome {
                    session: session(),
                    version: 1,
                    cluster,
                    artifact_key: [7; 32],
                    renew_ms: 10_000,
                })
            }
            "refuse" => {
                let instance = InstanceId(words[0].parse().expect("an instance"));
                Down::Refuse(Refuse { instance, reason: "another agent has this name".to_owned() })
            }
            "reintroduce" => Down::Reintroduce(Reintroduce { session: session() }),
            "sync" => self.sync(session(), &words[1..]),
            "delta" => self.delta(session(), &words[1..]),
            "ack" => Down::Ack(Ack { session: session(), sequence: words[1].parse().expect("a sequence") }),
            "artifact" => Down::Artifact(ArtifactReply { image: words[0].to_owned(), result: reply(words) }),
            "block" => Down::Block(block(words)),
            "open" => Down::StreamOpen(StreamOpen {
                session: session(),
                id: words[1].parse().expect("a stream"),
                credit: 9,
                target: StreamTarget::Logs(LogsRequest {
                    uid: PodUid(1),
                    container: "a".to_owned(),
                    follow: true,
                    previous: false,
                    timestamps: false,
                    tail_lines: None,
                    since_ms: None,
                    limit_bytes: None,
                }),
            }),
            "above-data" => Down::StreamData(StreamData { id: id(words), bytes: vec![1; 3] }),
            "above-end" => {
                Down::StreamEnd(StreamEnd { id: id(words), error: words.get(1).map(|word| (*word).to_owned()) })
            }
            _ => panic!("no such verb: {verb}"),
        };
        Input::Down(message.encode().expect("it fits"))
    }

    /// `memory=FREE/ALL disk=FREE/ALL settling`, and for each pod `NAME=MEMORY+DISK`.
    fn measured(&mut self, words: &[&str]) -> Measured {
        let mut measured = Measured::default();
        for word in words {
            let (name, amounts) = word.split_once('=').unwrap_or((word, ""));
            if name == "settling" {
                measured.is_settling = true;
            } else if let Some((free, all)) = amounts.split_once('/') {
                let room = Some(Room { total_bytes: bytes(all), available_bytes: bytes(free) });
                *(if name == "memory" { &mut measured.memory } else { &mut measured.disk }) = room;
            } else {
                let (memory, disk) = amounts.split_once('+').expect("MEMORY+DISK");
                let (memory_bytes, disk_bytes) = (bytes(memory), bytes(disk));
                let containers = vec![ContainerUse { name: "a".to_owned(), memory_bytes, disk_bytes }];
                let usage = PodUse { pod: self.uid(name), memory_bytes, disk_bytes, containers };
                measured.pods.get_or_insert_default().push(usage);
            }
        }
        measured
    }

    fn sync(&mut self, session: SessionNumber, words: &[&str]) -> Down {
        let mut sync = Sync { session, sequence: 0, part: 0, parts: 1, pods: Vec::new() };
        for word in words {
            match word.split_once('=').expect("key=value") {
                ("seq", number) => sync.sequence = number.parse().expect("a number"),
                ("part", part) => {
                    let (part, parts) = part.split_once('/').expect("part/parts");
                    sync.part = part.parse().expect("a number");
                    sync.parts = parts.parse().expect("a number");
                }
                _ => sync.pods.push(self.item(word)),
            }
        }
        Down::Sync(sync)
    }

    fn delta(&mut self, session: SessionNumber, words: &[&str]) -> Down {
        let mut delta = Delta { session, sequence: 0, upserts: Vec::new(), removes: Vec::new() };
        for word in words {
            if let Some(name) = word.strip_prefix('-') {
                delta.removes.push(self.uid(name));
            } else if let Some(number) = word.strip_prefix("seq=") {
                delta.sequence = number.parse().expect("a number");
            } else {
                delta.upserts.push(self.item(word));
            }
        }
        Down::Delta(delta)
    }

    fn input(&mut self, input: Input) {
        self.agent.as_mut().expect("started").handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        let mut answers = Vec::new();
        while let Some(effect) = self.agent.as_mut().expect("started").poll_effect() {
            if let Effect::Publish { topic: NodeTopic::Up, payload } = &effect {
                let agent = self.agent.as_ref().expect("started");
                assert!(agent.is_connected(), "nothing but a birth is said before the welcome");
                assert!(payload.len() <= MAX_MESSAGE_BYTES);
            }
            let text = self.effect(&effect);
            let _ = writeln!(self.out, "  {:?} {text}", self.now);
            self.answer(effect, &mut answers);
        }
        for answer in answers {
            self.input(answer);
        }
    }

    fn answer(&mut self, effect: Effect, answers: &mut Vec<Input>) {
        match effect {
            Effect::Remember(remembered) => self.remembered = remembered,
            Effect::Start { run, .. } if self.runtime => answers.push(Input::Runtime(RuntimeEvent::Started(run))),
            Effect::Kill(run) if self.runtime => {
                answers.push(Input::Runtime(RuntimeEvent::Exited { run, exit: Exit::Killed }));
            }
            Effect::FindArtifact { image } if self.disk => {
                let digest = self.has.contains(&image).then(|| image_digest(&image));
                answers.push(Input::ArtifactFound { image, digest });
            }
            Effect::BeginArtifact { image, manifest } => {
                self.images.insert(manifest.artifact, image.clone());
                if self.disk {
                    let complete = self.has.contains(&image);
                    answers.push(Input::ArtifactBegun { artifact: manifest.artifact, complete, have: Vec::new() });
                }
            }
            Effect::FinishArtifact { image, artifact } if self.disk => {
                self.has.insert(image);
                answers.push(Input::ArtifactFinished { artifact, result: Ok(()) });
            }
            _ => {}
        }
    }

    fn effect(&self, effect: &Effect) -> String {
        match effect {
            Effect::Publish { topic, payload } => {
                format!("{topic:?}: {}", self.up(&Up::decode(payload).expect("what is published can be read")))
            }
            Effect::Reconnect => "reconnect".to_owned(),
            Effect::Remember(it) => {
                let pods: Vec<_> = it.pods.iter().map(|pod| self.name(pod.uid)).collect();
                let finished: Vec<_> = it.finished.iter().map(|status| self.name(status.uid)).collect();
                let pinned = it.pinned.map(|(cluster, _)| cluster.0);
                format!("remember {} {pods:?}, finished {finished:?}, pinned {pinned:?}", it.sequence)
            }
            Effect::Quit(why) => format!("quit: {why}"),
            Effect::Start { run, pod, .. } => format!("start {} of {}", self.run_name(run), pod.containers[0].image),
            Effect::Signal { run, grace_ms } => format!("signal {} {:?}", self.run_name(run), Millis(*grace_ms)),
            Effect::Kill(run) => format!("kill {}", self.run_name(run)),
            Effect::Refresh(pod) => format!("refresh {}", self.name(pod.uid)),
            Effect::TearDown(uid) => format!("tear down {}", self.name(*uid)),
            Effect::TearDownOthers(held) => {
                let held: Vec<_> = held.iter().map(|uid| self.name(*uid)).collect();
                format!("tear down all but {held:?}")
            }
            Effect::Measure => "measure".to_owned(),
            Effect::Survey { reclaim_disk } => format!("survey, reclaim the disk: {reclaim_disk}"),
            Effect::Forget(uid) => format!("forget {}", self.name(*uid)),
            Effect::FindArtifact { image } => format!("find {image}"),
            Effect::BeginArtifact { image, .. } => format!("begin {image}"),
            Effect::WriteBlock { artifact, index, .. } => format!("write {} {index}", self.artifact(*artifact)),
            Effect::FinishArtifact { image, .. } => format!("finish {image}"),
            Effect::StreamOpen(open) => format!("stream {} opens", open.id),
            Effect::StreamData(data) => format!("stream {} gets {} bytes", data.id, data.bytes.len()),
            Effect::StreamCredit(credit) => format!("stream {} may send {} bytes", credit.id, credit.bytes),
            Effect::StreamEnd(end) => format!("stream {} ends {:?}", end.id, end.error),
        }
    }

    fn up(&self, message: &Up) -> String {
        match message {
            Up::Birth(birth) => format!(
                "birth {} holds {} pinned {:?}",
                birth.session,
                birth.holds,
                birth.pinned.map(|cluster| cluster.0)
            ),
            Up::Lease(lease) => format!("lease {} applied {}", lease.session, lease.applied),
            Up::Report(report) => {
                let mut text = format!("report {} #{} applied {}", report.session, report.sequence, report.applied);
                for item in &report.statuses {
                    let status: PodStatus = item.read().expect("a status");
                    let _ = write!(text, " | {} {}", self.name(status.uid), summary(&status));
                }
                let events: Vec<_> = report.events.iter().map(|event| event.reason.as_str()).collect();
                if !events.is_empty() {
                    let _ = write!(text, " | events {}", events.join(" "));
                }
                for (uid, why) in &report.refused {
                    let _ = write!(text, " | refused {}: {why}", self.name(*uid));
                }
                text
            }
            Up::Node(node) => {
                let of = |image: &NodeImage| format!("{:?} {}", image.names, image.size_bytes);
                let images: Vec<_> = node.images.iter().map(of).collect();
                format!(
                    "node {} #{} short of memory {}, of disk {} | {}",
                    node.session,
                    node.sequence,
                    node.memory_pressure,
                    node.disk_pressure,
                    images.join(", ")
                )
            }
            Up::Artifact(request) => format!("what is {}?", request.image),
            Up::Blocks(request) => format!("blocks {} {:?}", self.artifact(request.artifact), request.blocks),
            Up::StreamHead(head) => format!("stream {} head {}", head.id, head.status),
            Up::StreamData(data) => format!("stream {} {} bytes", data.id, data.bytes.len()),
            Up::StreamCredit(credit) => format!("stream {} credit {}", credit.id, credit.bytes),
            Up::StreamEnd(end) => format!("stream {} end {:?}", end.id, end.error),
            Up::Death(death) => format!("death {}", death.session),
        }
    }

    fn artifact(&self, digest: Digest) -> &str {
        self.images.get(&digest).map_or("?", String::as_str)
    }

    fn uid(&mut self, name: &str) -> PodUid {
        let index = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        PodUid(u128::try_from(index).expect("few pods") + 1)
    }

    fn name(&self, uid: PodUid) -> &str {
        &self.names[usize::try_from(uid.0).expect("few pods") - 1]
    }

    fn run(&mut self, text: &str) -> Run {
        let (pod, attempt) = text.split_once('#').expect("pod#attempt");
        Run { pod: self.uid(pod), container: "a".to_owned(), attempt: attempt.parse().expect("a number") }
    }

    fn run_name(&self, run: &Run) -> String {
        format!("{}#{}", self.name(run.pod), run.attempt)
    }

    fn item(&mut self, word: &str) -> Item {
        match self.pod(word) {
            Some(pod) => Item::new(pod.uid, &pod),
            None => Item::new(self.uid(word.split_once('=').expect("name=").0), &0_u8),
        }
    }

    /// `name=image,policy,stop=30s,asks=64Mi,priority=5`; `name=?` is one that cannot be read.
    fn pod(&mut self, word: &str) -> Option<Pod> {
        let (name, rest) = word.split_once('=').expect("name=image");
        if rest == "?" {
            return None;
        }
        let mut parts = rest.split(',');
        let mut container = Container {
            name: "a".to_owned(),
            image: parts.next().expect("an image").to_owned(),
            pull_policy: PullPolicy::IfNotPresent,
            argv: Vec::new(),
            env: Vec::new(),
            working_dir: None,
            ports: Vec::new(),
            limits: ResourceAmounts::default(),
            requests: ResourceAmounts::default(),
            config_error: None,
            stdin_eof: false,
            mounts: Vec::new(),
        };
        let (mut stop, mut restart_policy) = (None, RestartPolicy::Always);
        let (mut count, mut priority) = (1, 0);
        for part in parts {
            if let Some(amount) = part.strip_prefix("asks=") {
                container.requests = ResourceAmounts { memory_bytes: bytes(amount), ..container.requests };
                continue;
            }
            if let Some(number) = part.strip_prefix("priority=") {
                priority = number.parse().expect("a number");
                continue;
            }
            match part {
                "Always" => container.pull_policy = PullPolicy::Always,
                "Never" => container.pull_policy = PullPolicy::Never,
                "job" => restart_policy = RestartPolicy::Never,
                "twins" => count = 2,
                _ => stop = part.strip_prefix("stop=").map(|grace| Stop { grace_ms: millis(grace) }),
            }
        }
        Some(Pod {
            uid: self.uid(name),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            restart_policy,
            termination_grace_ms: 30_000,
            priority,
            containers: vec![container; count],
            stop,
            volumes: Vec::new(),
        })
    }
}

pub(crate) fn identity() -> Identity {
    let amounts = ResourceAmounts { cpu_millis: 4000, memory_bytes: 1 << 30, storage_bytes: 1 << 33 };
    let facts = NodeFacts {
        arch: "arm64".to_owned(),
        os: "linux".to_owned(),
        target: "aarch64-unknown-linux-gnu".to_owned(),
        engine: "e1".to_owned(),
        zone: String::new(),
        labels: Vec::new(),
        capacity: amounts,
        allocatable: amounts,
        interfaces: Vec::new(),
        max_pods: 4,
        agent_version: "0".to_owned(),
        kernel: String::new(),
        os_image: String::new(),
        machine_id: String::new(),
    };
    Identity { instance: InstanceId(5), boot: BootId(6), facts, seed: 1 }
}

fn summary(status: &PodStatus) -> String {
    let container = &status.containers[0];
    let state = match &container.state {
        ContainerState::Waiting { reason, message } if reason == "ContainerCreating" => format!("{reason}{message}"),
        ContainerState::Waiting { reason, message } => format!("{reason} ({message})"),
        ContainerState::Running { .. } => "up".to_owned(),
        ContainerState::Terminated(end) => format!("{} {}", end.reason, end.exit_code),
    };
    let stopped = if status.stopped { " stopped" } else { "" };
    format!("{}{stopped}: {state}", status.phase.as_str())
}

fn bytes(text: &str) -> u64 {
    let bytes = coracle_model::quantity::value(text).expect("a quantity");
    u64::try_from(bytes).expect("no less than nothing")
}

/// `NAME=SIZE`
fn node_image(word: &str) -> NodeImage {
    let (name, size) = word.split_once('=').expect("name=size");
    NodeImage { image: image_digest(name), size_bytes: bytes(size), names: vec![name.to_owned()] }
}

fn id(words: &[&str]) -> u64 {
    words[0].parse().expect("a stream")
}

pub(crate) fn image_digest(image: &str) -> Digest {
    Digest(Sha256::digest(image).into())
}

pub(crate) fn artifact_digest(image: &str) -> Digest {
    Digest(Sha256::digest(format!("artifact of {image}")).into())
}

fn block_bytes(image: &str, index: u32, last: bool) -> Vec<u8> {
    let fill = u8::try_from((image.len() + usize::try_from(index).expect("small")) % 251).expect("a byte");
    vec![fill; if last { 100 } else { BLOCK_BYTES }]
}

/// `ok N`: an artifact of N blocks; `same IMAGE N`: the artifact of another image; or a refusal.
fn reply(words: &[&str]) -> Result<ArtifactManifest, ArtifactRefusal> {
    let why = words[2..].join(" ");
    let (source, count) = match words[1] {
        "ok" | "foreign" => (words[0], words[2]),
        "same" => (words[2], words[3]),
        "busy" => return Err(ArtifactRefusal::Busy(why)),
        "notfound" => return Err(ArtifactRefusal::NotFound(why)),
        "unusable" => return Err(ArtifactRefusal::Unusable(why)),
        "invalid" => return Err(ArtifactRefusal::InvalidName(why)),
        other => panic!("no such reply: {other}"),
    };
    let count: u32 = count.parse().expect("a number of blocks");
    let blocks: Vec<Digest> =
        (0..count).map(|index| Digest(Sha256::digest(block_bytes(source, index, index + 1 == count)).into())).collect();
    Ok(ArtifactManifest {
        image: image_digest(source),
        artifact: artifact_digest(source),
        size: u64::try_from(BLOCK_BYTES).expect("small") * u64::from(count - 1) + 100,
        target: "aarch64-unknown-linux-gnu".to_owned(),
        engine: if words[1] == "foreign" { "e2" } else { "e1" }.to_owned(),
        blocks,
        signature: vec![0; 64],
    })
}

/// `IMAGE INDEX [last|damaged|gone]`
fn block(words: &[&str]) -> Block {
    let index: u32 = words[1].parse().expect("an index");
    let bytes = match words.get(2) {
        Some(&"gone") => Vec::new(),
        Some(&"damaged") => vec![9; 5],
        Some(&"last") => block_bytes(words[0], index, true),
        _ => block_bytes(words[0], index, false),
    };
    Block { artifact: artifact_digest(words[0]), index, bytes }
}

fn millis(text: &str) -> u64 {
    if let Some(number) = text.strip_suffix("ms") {
        return number.parse().expect("milliseconds");
    }
    text.strip_suffix('s').and_then(|number| number.parse::<u64>().ok()).expect("a time such as 5s or 1500ms") * 1000
}
