//! Whole pod lives as text: what happens stands at the left margin, what the lifecycle does about it is indented
//! below. `CORACLE_BLESS=1 cargo test -p coracle-lifecycle --test transcripts` writes the indented lines anew; read the
//! difference before keeping it.
//!
//! ```text
//! auto                                        the runtime answers by itself: images are there, starts succeed
//! 0s desired web restart=Always a=hello:1     also grace=30s stop=30s, and a=hello:1,Never a=hello:1,config=why
//!                                             volumes: empty=NAME files=NAME:CONTENT missing=NAME:why_not
//! 5s exited web/a#1 code 1                    also trap WHY, killed, oom, cannot WHY
//! 9s image web/a#2 ok                         also pull WHY, never, invalid WHY
//! 10s started web/a#2
//! 10s unmounted web/a#2 NAME WHY              a volume could not be laid out
//! 15s evicted web WHY
//! 20s removed web
//! 60s tick                                    time passes; every line lets it pass, too
//! 60s conditions web                          shows them
//! ```

use std::fmt::Write as _;
use std::path::Path;

use coracle_lifecycle::{Effect, Event, Exit, ImageFailure, Lifecycle, Run};
use coracle_model::{
    Container, ContainerState, Digest, Limits, Millis, Pod, PodUid, PullPolicy, ResourceAmounts, RestartPolicy, Stop,
    Volume, VolumeFile, VolumeSource,
};

#[test]
fn every_transcript_is_as_it_is_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let bless = std::env::var_os("CORACLE_BLESS").is_some();
    let mut wrong = String::new();
    for path in paths {
        let written = std::fs::read_to_string(&path).expect("a text");
        let played = play(&written);
        if bless {
            std::fs::write(&path, &played).expect("writable");
        } else if played != written {
            let _ = writeln!(wrong, "{} plays as:\n{played}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The text with its indented lines made anew.
fn play(script: &str) -> String {
    let mut stage = Stage::new();
    for line in script.lines().filter(|line| !line.starts_with(' ')) {
        stage.out.push_str(line);
        stage.out.push('\n');
        if !line.is_empty() && !line.starts_with('#') {
            stage.line(line);
        }
    }
    stage.out
}

struct Stage {
    lifecycle: Lifecycle,
    now: Millis,
    names: Vec<String>,
    auto: bool,
    out: String,
}

impl Stage {
    fn new() -> Self {
        let lifecycle = Lifecycle::new(Limits::LINUX);
        Self { lifecycle, now: Millis::ZERO, names: Vec::new(), auto: false, out: String::new() }
    }

    fn line(&mut self, line: &str) {
        if line == "auto" {
            self.auto = true;
            return;
        }
        let (time, rest) = line.split_once(' ').expect("a time, then a verb");
        let until = Millis(millis(time));
        assert!(until >= self.now, "time goes forward: {line}");
        while let Some(at) = self.lifecycle.wake_at().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.event(Event::Tick);
        }
        self.now = until;
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match verb {
            "desired" => {
                let pod = self.pod(rest);
                self.event(Event::Desired(pod));
            }
            "removed" => {
                let uid = self.uid(rest);
                self.event(Event::Removed(uid));
            }
            "tick" => self.event(Event::Tick),
            "conditions" => self.conditions(rest),
            "image" => {
                let (run, how) = rest.split_once(' ').expect("a run and a result");
                let run = self.run(run);
                self.event(Event::Image { run, result: image_result(how) });
            }
            "started" => {
                let run = self.run(rest);
                self.event(Event::Started(run));
            }
            "unmounted" => {
                let mut words = rest.splitn(3, ' ');
                let mut word = || words.next().expect("a run, a volume and why").to_owned();
                let run = self.run(&word());
                self.event(Event::MountFailed { run, volume: word(), why: word() });
            }
            "evicted" => {
                let (name, message) = rest.split_once(' ').expect("a pod and why");
                let pod = self.uid(name);
                self.event(Event::Evicted { pod, message: message.to_owned() });
            }
            "exited" => {
                let (run, how) = rest.split_once(' ').expect("a run and an exit");
                let run = self.run(run);
                self.event(Event::Exited { run, exit: exit(how) });
            }
            _ => panic!("no such verb: {line}"),
        }
    }

    fn event(&mut self, event: Event) {
        self.lifecycle.handle(self.now, event);
        let mut answers = Vec::new();
        while let Some(effect) = self.lifecycle.poll_effect() {
            let text = self.effect(&effect);
            let _ = writeln!(self.out, "  {:?} {text}", self.now);
            match effect {
                Effect::EnsureImage { run, .. } if self.auto => {
                    answers.push(Event::Image { run, result: Ok(Digest([1; 32])) });
                }
                Effect::Start { run, .. } if self.auto => answers.push(Event::Started(run)),
                Effect::Kill(run) if self.auto => answers.push(Event::Exited { run, exit: Exit::Killed }),
                _ => {}
            }
        }
        for answer in answers {
            self.event(answer);
        }
    }

    fn effect(&self, effect: &Effect) -> String {
        match effect {
            Effect::EnsureImage { run, image, policy } => format!("ensure {} {image} {policy:?}", self.run_name(run)),
            Effect::Start { run, .. } => format!("start {}", self.run_name(run)),
            Effect::Signal { run, grace_ms } => format!("signal {} {:?}", self.run_name(run), Millis(*grace_ms)),
            Effect::Kill(run) => format!("kill {}", self.run_name(run)),
            Effect::Refresh(uid) => format!("refresh {}", self.name(*uid)),
            Effect::TearDown(uid) => format!("tear down {}", self.name(*uid)),
            Effect::StatusChanged(uid) => self.status(*uid),
            Effect::Tell(event) => format!(
                "tell {}/{} {} {}: {}",
                self.name(event.uid),
                event.container,
                if event.warning { "Warning" } else { "Normal" },
                event.reason,
                event.message
            ),
            Effect::Forget(uid) => format!("forget {}", self.name(*uid)),
        }
    }

    fn status(&self, uid: PodUid) -> String {
        let status = self.lifecycle.status(uid).expect("a status that changed is there");
        let mut text = format!("status {} {}", self.name(uid), status.phase.as_str());
        if status.stopped {
            text.push_str(" stopped");
        }
        if !status.reason.is_empty() {
            let _ = write!(text, " {}: {}", status.reason, status.message);
        }
        for container in &status.containers {
            let _ = write!(text, " | {} ", container.name);
            match &container.state {
                ContainerState::Waiting { reason, message } if message.is_empty() => text.push_str(reason),
                ContainerState::Waiting { reason, message } => {
                    let _ = write!(text, "{reason}: {message}");
                }
                ContainerState::Running { .. } => text.push_str("Running"),
                ContainerState::Terminated(end) => {
                    let _ = write!(text, "{}({})", end.reason, end.exit_code);
                    if !end.message.is_empty() {
                        let _ = write!(text, " {}", end.message);
                    }
                }
            }
            if container.restart_count > 0 {
                let _ = write!(text, ", restarts {}", container.restart_count);
            }
            if let Some(last) = &container.last_state {
                let _ = write!(text, ", last {}({})", last.reason, last.exit_code);
            }
        }
        text
    }

    fn conditions(&mut self, name: &str) {
        let uid = self.uid(name);
        let status = self.lifecycle.status(uid).expect("a known pod");
        for condition in &status.conditions {
            let line = format!(
                "  {}={} since {:?} {} {}",
                condition.kind.as_str(),
                condition.status.as_str(),
                condition.changed_at,
                condition.reason,
                condition.message
            );
            self.out.push_str(line.trim_end());
            self.out.push('\n');
        }
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
        let (pod, rest) = text.split_once('/').expect("pod/container#attempt");
        let (container, attempt) = rest.split_once('#').expect("container#attempt");
        Run { pod: self.uid(pod), container: container.to_owned(), attempt: attempt.parse().expect("a number") }
    }

    fn run_name(&self, run: &Run) -> String {
        format!("{}/{}#{}", self.name(run.pod), run.container, run.attempt)
    }

    fn pod(&mut self, text: &str) -> Pod {
        let (name, rest) = text.split_once(' ').expect("a pod and its containers");
        let mut pod = Pod {
            uid: self.uid(name),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            restart_policy: RestartPolicy::Always,
            termination_grace_ms: 30_000,
            priority: 0,
            containers: Vec::new(),
            stop: None,
            volumes: Vec::new(),
        };
        for word in rest.split(' ') {
            let (key, value) = word.split_once('=').expect("key=value");
            match key {
                "restart" => pod.restart_policy = restart_policy(value),
                "grace" => pod.termination_grace_ms = millis(value),
                "stop" => pod.stop = Some(Stop { grace_ms: millis(value) }),
                "empty" | "files" | "missing" => pod.volumes.push(volume(key, value)),
                container => pod.containers.push(self::container(container, value)),
            }
        }
        pod
    }
}

fn volume(kind: &str, text: &str) -> Volume {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let source = match kind {
        "empty" => VolumeSource::EmptyDir { in_memory: false, size_limit_bytes: 0 },
        "missing" => VolumeSource::Unavailable(rest.replace('_', " ")),
        _ => VolumeSource::Files(vec![VolumeFile { path: "key".to_owned(), bytes: rest.into(), mode: 0o644 }]),
    };
    Volume { name: name.to_owned(), source }
}

fn container(name: &str, text: &str) -> Container {
    let mut parts = text.split(',');
    let mut container = Container {
        name: name.to_owned(),
        image: parts.next().expect("an image").to_owned(),
        pull_policy: PullPolicy::IfNotPresent,
        argv: Vec::new(),
        env: Vec::new(),
        working_dir: None,
        ports: Vec::new(),
        limits: ResourceAmounts { cpu_millis: 0, memory_bytes: 65_536, storage_bytes: 0 },
        requests: ResourceAmounts::default(),
        config_error: None,
        stdin_eof: false,
        mounts: Vec::new(),
    };
    for part in parts {
        match part {
            "Always" => container.pull_policy = PullPolicy::Always,
            "Never" => container.pull_policy = PullPolicy::Never,
            _ => container.config_error = part.strip_prefix("config=").map(|why| why.replace('_', " ")),
        }
    }
    container
}

fn restart_policy(text: &str) -> RestartPolicy {
    match text {
        "Always" => RestartPolicy::Always,
        "OnFailure" => RestartPolicy::OnFailure,
        "Never" => RestartPolicy::Never,
        _ => panic!("no restart policy: {text}"),
    }
}

fn image_result(text: &str) -> Result<Digest, ImageFailure> {
    let (word, why) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "ok" => Ok(Digest([1; 32])),
        "pull" => Err(ImageFailure::Pull(why.to_owned())),
        "never" => Err(ImageFailure::NeverPull),
        "invalid" => Err(ImageFailure::InvalidName(why.to_owned())),
        _ => panic!("no result of a pull: {text}"),
    }
}

fn exit(text: &str) -> Exit {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "code" => Exit::Code(rest.parse().expect("a number")),
        "trap" => Exit::Trapped(rest.to_owned()),
        "killed" => Exit::Killed,
        "oom" => Exit::OutOfMemory,
        "cannot" => Exit::CannotStart(rest.to_owned()),
        _ => panic!("no way to end: {text}"),
    }
}

/// `5s`, `1500ms`.
fn millis(text: &str) -> u64 {
    if let Some(number) = text.strip_suffix("ms") {
        return number.parse().expect("milliseconds");
    }
    text.strip_suffix('s').and_then(|number| number.parse::<u64>().ok()).expect("a time such as 5s or 1500ms") * 1000
}
