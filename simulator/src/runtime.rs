//! A runtime without WebAssembly: a run starts after a while, and ends as its image's name says.

use std::collections::BTreeMap;

use coracle_lifecycle::{Exit, Run};
use coracle_model::PodUid;

use crate::chance::Chance;

/// What a guest does, by its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guest {
    /// Runs until it is told to stop, then ends with 0.
    Server,
    /// Ends by itself with 0.
    Job,
    /// Ends by itself with 1.
    Crasher,
    /// Does not hear the signal.
    Stubborn,
}

impl Guest {
    pub(crate) fn of(image: &str) -> Self {
        match image.split(':').next() {
            Some("job") => Self::Job,
            Some("crasher") => Self::Crasher,
            Some("stubborn") => Self::Stubborn,
            _ => Self::Server,
        }
    }
}

/// The guests of one node.
#[derive(Debug, Default)]
pub(crate) struct Runtime {
    running: BTreeMap<Run, Guest>,
}

impl Runtime {
    /// Starts a run; gives when it says so, and when it ends by itself.
    pub(crate) fn start(&mut self, run: Run, image: &str, chance: &mut Chance) -> (u64, Option<(u64, Exit)>) {
        let guest = Guest::of(image);
        self.running.insert(run, guest);
        let started = 1 + chance.below(50);
        let lifetime = started + 100 + chance.below(5_000);
        let end = match guest {
            Guest::Server | Guest::Stubborn => None,
            Guest::Job => Some((lifetime, Exit::Code(0))),
            Guest::Crasher => Some((lifetime, Exit::Code(1))),
        };
        (started, end)
    }

    /// Whether the guest ends because of the signal, and after how long.
    pub(crate) fn signal(&self, run: &Run, chance: &mut Chance) -> Option<u64> {
        let guest = self.running.get(run)?;
        (*guest != Guest::Stubborn).then(|| 1 + chance.below(1500))
    }

    /// A run ends; false if it had ended before.
    pub(crate) fn end(&mut self, run: &Run) -> bool {
        self.running.remove(run).is_some()
    }

    pub(crate) fn is_running(&self, run: &Run) -> bool {
        self.running.contains_key(run)
    }

    /// Pods of which something runs here.
    pub(crate) fn pods(&self) -> impl Iterator<Item = PodUid> {
        self.running.keys().map(|run| run.pod)
    }

    /// Two runs of one container at one time, which must never be.
    pub(crate) fn doubled(&self) -> Option<&Run> {
        let pairs = self.running.keys().zip(self.running.keys().skip(1));
        pairs.into_iter().find(|(one, two)| one.pod == two.pod && one.container == two.container).map(|(one, _)| one)
    }
}
