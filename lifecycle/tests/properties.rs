//! What holds whatever happens, in whatever order.

use std::collections::{BTreeMap, BTreeSet};

use coracle_lifecycle::{Effect, Event, Exit, ImageFailure, Lifecycle, Run};
use coracle_model::{
    Container, Digest, Limits, Millis, Phase, Pod, PodStatus, PodUid, PullPolicy, ResourceAmounts, RestartPolicy, Stop,
    Volume, VolumeFile, VolumeSource,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Happening {
    Desired {
        pod: u8,
        policy: u8,
        image: u8,
        stop: Option<u64>,
        volume: u8,
    },
    Removed(u8),
    Evicted(u8),
    Image {
        pod: u8,
        container: u8,
        attempt: u32,
        ok: bool,
    },
    Started {
        pod: u8,
        container: u8,
        attempt: u32,
    },
    Exited {
        pod: u8,
        container: u8,
        attempt: u32,
        how: u8,
    },
    /// The runtime answers the oldest effect that waits for it.
    Answer {
        how: u8,
    },
    Wait(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let (pod, container, attempt) = (0_u8..3, 0_u8..2, 0_u32..5);
    prop_oneof![
        3 => (pod.clone(), 0_u8..3, 0_u8..2, proptest::option::weighted(0.2, 0_u64..40_000), 0_u8..4)
            .prop_map(|(pod, policy, image, stop, volume)| Happening::Desired { pod, policy, image, stop, volume }),
        1 => pod.clone().prop_map(Happening::Removed),
        1 => pod.clone().prop_map(Happening::Evicted),
        1 => (pod.clone(), container.clone(), attempt.clone(), any::<bool>())
            .prop_map(|(pod, container, attempt, ok)| Happening::Image { pod, container, attempt, ok }),
        1 => (pod.clone(), container.clone(), attempt.clone())
            .prop_map(|(pod, container, attempt)| Happening::Started { pod, container, attempt }),
        2 => (pod, container, attempt, any::<u8>())
            .prop_map(|(pod, container, attempt, how)| Happening::Exited { pod, container, attempt, how }),
        8 => any::<u8>().prop_map(|how| Happening::Answer { how }),
        4 => prop_oneof![0_u64..3_000, 0_u64..700_000].prop_map(Happening::Wait),
    ]
}

fn pod(number: u8, policy: u8, image: u8, stop: Option<u64>, volume: u8) -> Pod {
    let container = |name: &str| Container {
        name: name.to_owned(),
        image: format!("image:{image}"),
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
    Pod {
        uid: PodUid(u128::from(number)),
        namespace: "default".to_owned(),
        name: format!("pod-{number}"),
        restart_policy: [RestartPolicy::Always, RestartPolicy::OnFailure, RestartPolicy::Never][usize::from(policy)],
        termination_grace_ms: 30_000,
        priority: 0,
        containers: vec![container("a"), container("b")],
        stop: stop.map(|grace_ms| Stop { grace_ms }),
        volumes: vec![Volume { name: "v".to_owned(), source: source(volume) }],
    }
}

fn source(number: u8) -> VolumeSource {
    match number {
        0 => VolumeSource::Unavailable("configmap \"c\" not found".to_owned()),
        1 => VolumeSource::EmptyDir { in_memory: false, size_limit_bytes: 0 },
        _ => VolumeSource::Files(vec![VolumeFile { path: "a".to_owned(), bytes: vec![number], mode: 0o644 }]),
    }
}

fn run(pod: u8, container: u8, attempt: u32) -> Run {
    Run { pod: PodUid(u128::from(pod)), container: ["a", "b"][usize::from(container)].to_owned(), attempt }
}

fn exit(how: u8) -> Exit {
    match how % 6 {
        0 | 1 => Exit::Code(0),
        2 => Exit::Code(1),
        3 => Exit::Trapped("unreachable".to_owned()),
        4 => Exit::OutOfMemory,
        _ => Exit::CannotStart("no component".to_owned()),
    }
}

/// A lifecycle, a runtime that answers late, and what must never be seen.
struct World {
    lifecycle: Lifecycle,
    now: Millis,
    asked: Vec<Effect>,
    /// Runs that were started and whose end has not been said.
    live: BTreeSet<Run>,
    seen: BTreeMap<PodUid, PodStatus>,
}

impl World {
    fn new() -> Self {
        Self {
            lifecycle: Lifecycle::new(Limits::LINUX),
            now: Millis::ZERO,
            asked: Vec::new(),
            live: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    fn event(&mut self, event: Event) {
        if let Event::Exited { run, .. } | Event::MountFailed { run, .. } = &event {
            self.live.remove(run);
        }
        self.lifecycle.handle(self.now, event);
        while let Some(effect) = self.lifecycle.poll_effect() {
            match &effect {
                Effect::Start { run, .. } => {
                    let same = |live: &&Run| live.pod == run.pod && live.container == run.container;
                    assert!(self.live.iter().find(same).is_none(), "two runs of one container: {run:?}");
                    self.live.insert(run.clone());
                    self.asked.push(effect);
                }
                Effect::EnsureImage { .. } | Effect::Kill(_) => self.asked.push(effect),
                Effect::StatusChanged(uid) => self.status_changed(*uid),
                Effect::Forget(uid) => {
                    assert!(self.live.iter().all(|run| run.pod != *uid), "forgotten while it runs");
                    assert_eq!(self.lifecycle.status(*uid), None);
                    self.seen.remove(uid);
                }
                Effect::TearDown(uid) => {
                    assert!(self.live.iter().all(|run| run.pod != *uid), "volumes freed while it runs");
                }
                Effect::Signal { .. } | Effect::Tell(_) | Effect::Refresh(_) => {}
            }
        }
    }

    fn status_changed(&mut self, uid: PodUid) {
        // Two changes may be drained at once; the second then shows nothing new.
        let Some(status) = self.lifecycle.status(uid).cloned() else { return };
        if let Some(before) = self.seen.get(&uid) {
            assert!(status.phase >= before.phase, "the phase went back");
            assert!(!before.phase.is_terminal() || status.phase == before.phase, "one end became another");
            assert!(!before.stopped || status.stopped, "a stopped pod runs again");
            for (now, before) in status.containers.iter().zip(&before.containers) {
                assert!(now.restart_count >= before.restart_count, "a restart was forgotten");
            }
        }
        assert_eq!(status.stopped, status.phase.is_terminal());
        assert!(!status.stopped || status.reason != "Evicted" || status.phase == Phase::Failed);
        if status.stopped {
            assert!(self.live.iter().all(|run| run.pod != uid), "stopped while it runs");
        }
        self.seen.insert(uid, status);
    }

    fn answer(&mut self, how: u8) {
        if self.asked.is_empty() {
            return;
        }
        match self.asked.remove(0) {
            Effect::EnsureImage { run, .. } => {
                let failed = Err(ImageFailure::Pull("no".to_owned()));
                self.event(Event::Image {
                    run,
                    result: if how.is_multiple_of(4) { failed } else { Ok(Digest([1; 32])) },
                });
            }
            Effect::Start { run, .. } if how.is_multiple_of(5) => {
                self.event(Event::MountFailed { run, volume: "v".to_owned(), why: "no space".to_owned() });
            }
            Effect::Start { run, .. } if how.is_multiple_of(8) => self.event(Event::Exited { run, exit: exit(how) }),
            Effect::Start { run, .. } if self.live.contains(&run) => self.event(Event::Started(run)),
            Effect::Kill(run) if self.live.contains(&run) => self.event(Event::Exited { run, exit: Exit::Killed }),
            _ => {}
        }
    }

    /// Lets time pass, waking the lifecycle when it wants to be woken.
    fn wait(&mut self, ms: u64) {
        let until = self.now + ms;
        while let Some(at) = self.lifecycle.wake_at().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.event(Event::Tick);
        }
        self.now = until;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Desired { pod: number, policy, image, stop, volume } => {
                self.event(Event::Desired(pod(number, policy, image, stop, volume)));
            }
            Happening::Evicted(number) => {
                self.event(Event::Evicted { pod: PodUid(u128::from(number)), message: "too much".to_owned() });
            }
            Happening::Removed(number) => self.event(Event::Removed(PodUid(u128::from(number)))),
            Happening::Image { pod, container, attempt, ok } => {
                let result = if ok { Ok(Digest([1; 32])) } else { Err(ImageFailure::NeverPull) };
                self.event(Event::Image { run: run(pod, container, attempt), result });
            }
            Happening::Started { pod, container, attempt } => self.event(Event::Started(run(pod, container, attempt))),
            Happening::Exited { pod, container, attempt, how } => {
                self.event(Event::Exited { run: run(pod, container, attempt), exit: exit(how) });
            }
            Happening::Answer { how } => self.answer(how),
            Happening::Wait(ms) => self.wait(ms),
        }
    }
}

proptest! {
    // LIF-01, LIF-02, TRM-06
    #[test]
    fn phases_and_restart_counts_never_go_back_and_nothing_runs_twice(
        happenings in proptest::collection::vec(happening(), 1..120),
    ) {
        let mut world = World::new();
        for happening in happenings {
            world.happen(happening);
        }
    }

    // TRM-02, TRM-06, LIF-09
    #[test]
    fn after_the_grace_everything_is_stopped(
        happenings in proptest::collection::vec(happening(), 1..80),
        grace in 0_u64..40_000,
    ) {
        let mut world = World::new();
        for happening in happenings {
            world.happen(happening);
        }
        for number in 0..3 {
            if let Some(mut form) = world.lifecycle.pod(PodUid(number)).cloned() {
                form.stop = Some(Stop { grace_ms: grace });
                world.event(Event::Desired(form));
            }
        }
        world.wait(grace.max(2_000));
        while !world.asked.is_empty() {
            world.answer(1);
        }
        for (uid, status) in &world.seen {
            prop_assert!(status.stopped, "{uid} still runs: {status:?}");
            prop_assert!(matches!(status.phase, Phase::Succeeded | Phase::Failed));
        }
        prop_assert!(world.live.is_empty());
        for number in 0..3 {
            world.event(Event::Removed(PodUid(number)));
        }
        prop_assert!(world.lifecycle.is_empty());
        prop_assert_eq!(world.lifecycle.wake_at(), None);
    }
}

// LIF-04: what has completed before the agent was restarted is not run a second time.
#[test]
fn a_pod_that_had_ended_is_restored_and_not_run_again() {
    let mut world = World::new();
    let job = pod(1, 2, 0, None, 1);
    world.event(Event::Desired(job.clone()));
    for container in 0..2 {
        world.event(Event::Image { run: run(1, container, 1), result: Ok(Digest([1; 32])) });
        world.event(Event::Started(run(1, container, 1)));
        world.now = Millis(5000);
        world.event(Event::Exited { run: run(1, container, 1), exit: Exit::Code(0) });
    }
    let status = world.lifecycle.status(job.uid).cloned().expect("a status");
    assert_eq!(status.phase, Phase::Succeeded);

    let mut restarted = World::new();
    restarted.now = Millis(10);
    restarted.lifecycle.restore(restarted.now, job.clone(), status);
    assert_eq!(restarted.lifecycle.poll_effect(), Some(Effect::StatusChanged(job.uid)));
    restarted.event(Event::Desired(job.clone()));
    assert!(restarted.asked.is_empty());
    let shown = restarted.lifecycle.status(job.uid).expect("a status");
    assert_eq!(shown.phase, Phase::Succeeded);
    assert_eq!(shown.accepted_at, Millis::ZERO);
    assert!(shown.conditions.iter().all(|condition| condition.changed_at <= Millis(10)));
}
