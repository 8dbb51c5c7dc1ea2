//! Everything that will happen, in the order of its time, and a network that loses, doubles, delays and reorders.

use std::collections::BTreeMap;

use coracle_lifecycle::{Exit, Run};
use coracle_model::SessionNumber;

use crate::chance::Chance;

/// Something that will happen.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// An agent's message reaches the controller.
    Up { node: usize, payload: Vec<u8> },
    /// A controller's message reaches an agent, if it is still in the session that it was sent to.
    Down { node: usize, session: SessionNumber, payload: Vec<u8> },
    /// An agent tries to connect.
    Connect { node: usize },
    /// A guest runs.
    Started { node: usize, run: Run, boot: u64 },
    /// A guest is over.
    Exited { node: usize, run: Run, exit: Exit, boot: u64 },
    /// An agent that crashed starts again.
    AgentStarts { node: usize },
    /// The controller that crashed starts again.
    ControllerStarts,
    /// A node is no longer cut off.
    Reunited { node: usize },
    /// The disk of a node has room again, and its memory.
    NodeHasRoom { node: usize },
    /// An agent that stood still goes on.
    NodeGoesOn { node: usize },
    /// The disk of the controller has room again.
    ControllerHasRoom,
    /// The controller, which stood still, goes on.
    ControllerGoesOn,
}

/// How bad the network is, in cases of a thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) doubling: u64,
    pub(crate) longest_delay_ms: u64,
}

impl Weather {
    pub(crate) const FAIR: Self = Self { loss: 0, doubling: 0, longest_delay_ms: 20 };

    pub(crate) const fn of(chance: &mut Chance) -> Self {
        Self { loss: chance.below(150), doubling: chance.below(100), longest_delay_ms: 1 + chance.below(800) }
    }
}

/// What will happen, and when.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    coming: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
}

impl Agenda {
    pub(crate) fn at(&mut self, time: u64, happening: Happening) {
        self.sequence += 1;
        self.coming.insert((time, self.sequence), happening);
    }

    /// Sends a message through the weather.
    pub(crate) fn send(&mut self, now: u64, weather: Weather, chance: &mut Chance, message: &Happening) {
        let copies = if chance.per_mille(weather.loss) { 0 } else { 1 + u64::from(chance.per_mille(weather.doubling)) };
        for _ in 0..copies {
            let delay = 1 + chance.below(weather.longest_delay_ms);
            self.at(now + delay, message.clone());
        }
    }

    /// When the next thing happens.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.coming.keys().next().map(|(time, _)| *time)
    }

    /// The next thing, if its time has come.
    pub(crate) fn due(&mut self, now: u64) -> Option<Happening> {
        let entry = self.coming.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}
