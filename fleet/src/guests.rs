//! Guests that only say that they run. Pure: times in, events out.
//!
//! `samples/job` ends as its arguments say, a run that was drawn to fail ends with 1, and everything else runs until its
//! signal.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use coracle_lifecycle::{Exit, Run};
use coracle_model::{Container, Millis, PodUid};

use crate::chance::Chance;

/// The image whose arguments are read.
const JOB: &str = "samples/job:";
/// What a job runs for unless it says, in milliseconds.
const JOB_MS: u64 = 1000;
/// A run that was drawn to fail has done so after this, in milliseconds.
const LATEST_FAILURE_MS: u64 = 1000;

/// What a guest does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    Started(Run),
    Ended(Run, Exit),
}

/// The guests of one node.
#[derive(Debug)]
pub(crate) struct Guests {
    start_ms: RangeInclusive<u64>,
    fail_per_mille: u64,
    chance: Chance,
    /// Whether it has said that it runs.
    runs: BTreeMap<Run, bool>,
    /// What comes, by its time and the order in which it was decided.
    agenda: BTreeMap<(Millis, u64), Happening>,
    decided: u64,
    pods_running: usize,
}

impl Guests {
    pub(crate) const fn new(start_ms: RangeInclusive<u64>, fail_per_mille: u64, chance: Chance) -> Self {
        Self {
            start_ms,
            fail_per_mille,
            chance,
            runs: BTreeMap::new(),
            agenda: BTreeMap::new(),
            decided: 0,
            pods_running: 0,
        }
    }

    /// Pods of which a container runs.
    pub(crate) const fn pods_running(&self) -> usize {
        self.pods_running
    }

    pub(crate) fn start(&mut self, run: Run, container: &Container, now: Millis) {
        let started = now + self.delay();
        if let Some((lasts_ms, code)) = self.end_of(container) {
            self.decide(started + lasts_ms, Happening::Ended(run.clone(), Exit::Code(code)));
        }
        self.runs.insert(run.clone(), false);
        self.decide(started, Happening::Started(run));
    }

    /// Every guest is a good citizen and ends soon.
    pub(crate) fn signal(&mut self, run: Run, now: Millis) {
        let at = now + self.delay();
        self.decide(at, Happening::Ended(run, Exit::Code(0)));
    }

    pub(crate) fn kill(&mut self, run: Run, now: Millis) {
        self.decide(now, Happening::Ended(run, Exit::Killed));
    }

    /// The next thing that has happened by `now`.
    pub(crate) fn due(&mut self, now: Millis) -> Option<Happening> {
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            let event = entry.remove();
            let happens = match &event {
                Happening::Started(run) => self.started(run),
                Happening::Ended(run, _) => self.ended(run),
            };
            if happens {
                return Some(event);
            }
        }
        None
    }

    /// When [`Guests::due`] has something.
    pub(crate) fn wake_at(&self) -> Option<Millis> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    fn delay(&mut self) -> u64 {
        self.chance.between(*self.start_ms.start(), *self.start_ms.end())
    }

    fn decide(&mut self, at: Millis, event: Happening) {
        self.decided += 1;
        self.agenda.insert((at, self.decided), event);
    }

    /// After how many milliseconds of running it ends by itself, and how.
    fn end_of(&mut self, container: &Container) -> Option<(u64, i32)> {
        if self.chance.per_mille(self.fail_per_mille) {
            return Some((self.chance.between(1, LATEST_FAILURE_MS), 1));
        }
        container.image.starts_with(JOB).then(|| job(&container.argv))
    }

    fn started(&mut self, run: &Run) -> bool {
        let first = !self.is_running(run.pod);
        match self.runs.get_mut(run) {
            Some(runs) if !*runs => *runs = true,
            _ => return false,
        }
        self.pods_running += usize::from(first);
        true
    }

    /// Whether it was there to end.
    fn ended(&mut self, run: &Run) -> bool {
        let Some(ran) = self.runs.remove(run) else { return false };
        self.pods_running -= usize::from(ran && !self.is_running(run.pod));
        true
    }

    fn is_running(&self, pod: PodUid) -> bool {
        let first = Run { pod, container: String::new(), attempt: 0 };
        self.runs.range(first..).take_while(|(run, _)| run.pod == pod).any(|(_, runs)| *runs)
    }
}

/// What the arguments of `samples/job` say: seconds to run, exit code. A name may stand before them.
fn job(argv: &[String]) -> (u64, i32) {
    let numbers: Vec<f64> = argv.iter().filter_map(|word| word.parse().ok()).take(2).collect();
    let seconds = numbers.first().copied().filter(|seconds| (0.0..1e9).contains(seconds));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1e12")]
    let lasts_ms = seconds.map_or(JOB_MS, |seconds| (seconds * 1000.0) as u64);
    #[expect(clippy::cast_possible_truncation, reason = "as Linux does with an exit code, it is cut")]
    let code = numbers.get(1).map_or(0, |code| *code as i32 & 0xff);
    (lasts_ms, code)
}

#[cfg(test)]
mod tests {
    use coracle_model::{PullPolicy, ResourceAmounts};

    use super::*;

    fn container(image: &str, argv: &[&str]) -> Container {
        Container {
            name: "c".to_owned(),
            image: image.to_owned(),
            pull_policy: PullPolicy::IfNotPresent,
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: Vec::new(),
            working_dir: None,
            ports: Vec::new(),
            limits: ResourceAmounts::default(),
            requests: ResourceAmounts::default(),
            config_error: None,
            stdin_eof: false,
            mounts: Vec::new(),
        }
    }

    fn run(pod: u128, container: &str) -> Run {
        Run { pod: PodUid(pod), container: container.to_owned(), attempt: 1 }
    }

    fn guests(fail_per_mille: u64) -> Guests {
        Guests::new(10..=10, fail_per_mille, Chance::new(7))
    }

    #[test]
    fn a_server_starts_after_its_delay_and_runs_until_its_signal() {
        let mut guests = guests(0);
        guests.start(run(1, "c"), &container("a:1", &[]), Millis(0));
        assert_eq!((guests.wake_at(), guests.due(Millis(9))), (Some(Millis(10)), None));
        assert_eq!(guests.due(Millis(10)), Some(Happening::Started(run(1, "c"))));
        assert_eq!((guests.pods_running(), guests.wake_at()), (1, None));
        guests.signal(run(1, "c"), Millis(100));
        guests.kill(run(1, "c"), Millis(100));
        let exit = |exit| Some(Happening::Ended(run(1, "c"), exit));
        assert_eq!(guests.due(Millis(100)), exit(Exit::Killed));
        assert_eq!((guests.due(Millis(200)), guests.pods_running()), (None, 0));
    }

    #[test]
    fn a_job_ends_as_its_arguments_say() {
        for (argv, ends_at, code) in
            [(&["job", "5", "3"][..], 5010, 3), (&["0.25"][..], 260, 0), (&[][..], 1010, 0), (&["x", "y"][..], 1010, 0)]
        {
            let mut guests = guests(0);
            guests.start(run(1, "c"), &container("samples/job:1", argv), Millis(0));
            assert!(guests.due(Millis(10)).is_some());
            assert_eq!(guests.wake_at(), Some(Millis(ends_at)), "{argv:?}");
            let exit = Happening::Ended(run(1, "c"), Exit::Code(code));
            assert_eq!(guests.due(Millis(ends_at)), Some(exit), "{argv:?}");
        }
    }

    #[test]
    fn a_run_that_is_drawn_to_fail_starts_and_ends_with_one() {
        let mut guests = guests(1000);
        guests.start(run(1, "c"), &container("a:1", &[]), Millis(0));
        assert_eq!(guests.due(Millis(2000)), Some(Happening::Started(run(1, "c"))));
        let exit = Happening::Ended(run(1, "c"), Exit::Code(1));
        assert_eq!(guests.due(Millis(2000)), Some(exit));
    }

    #[test]
    fn a_pod_runs_while_one_of_its_containers_does() {
        let mut guests = guests(0);
        for (pod, name) in [(1, "a"), (1, "b"), (2, "a")] {
            guests.start(run(pod, name), &container("a:1", &[]), Millis(0));
        }
        while guests.due(Millis(10)).is_some() {}
        assert_eq!(guests.pods_running(), 2);
        guests.kill(run(1, "a"), Millis(20));
        while guests.due(Millis(20)).is_some() {}
        assert_eq!(guests.pods_running(), 2);
        guests.kill(run(1, "b"), Millis(30));
        while guests.due(Millis(30)).is_some() {}
        assert_eq!(guests.pods_running(), 1);
    }
}
