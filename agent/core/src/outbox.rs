//! What the parts of the core want: effects for the shell, words for the lifecycle, events for people.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};

use coracle_lifecycle::{Event, Run};
use coracle_model::{Millis, PodEvent, SessionNumber};
use coracle_wire::topic::NodeTopic;
use coracle_wire::up::Up;

use crate::interface::Effect;

/// The longest message of an event (Kubernetes' bound).
const LONGEST_MESSAGE_BYTES: usize = 1024;

/// When it is, and whether there is a session in which something may be said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Millis,
    /// The session, once the controller has welcomed it.
    pub(crate) session: Option<SessionNumber>,
}

/// Collects while one input is handled.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: VecDeque<Effect>,
    verdicts: VecDeque<Event>,
    events: VecDeque<PodEvent>,
    unsendable: u64,
}

impl Outbox {
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Publishes a message on `up`.
    pub(crate) fn up(&mut self, message: &Up) {
        self.publish(NodeTopic::Up, message);
    }

    /// Publishes a message. One that is too large to travel is counted and dropped; whoever makes large ones cuts them
    /// up first.
    pub(crate) fn publish(&mut self, topic: NodeTopic, message: &Up) {
        match message.encode() {
            Ok(payload) => self.effect(Effect::Publish { topic, payload }),
            Err(_) => self.unsendable = self.unsendable.saturating_add(1),
        }
    }

    /// Something that the lifecycle is to hear.
    pub(crate) fn verdict(&mut self, event: Event) {
        self.verdicts.push_back(event);
    }

    /// Tells people something good about the container of a run.
    pub(crate) fn tell(&mut self, run: &Run, reason: &str, message: String) {
        self.event(PodEvent {
            uid: run.pod,
            container: run.container.clone(),
            warning: false,
            reason: reason.to_string(),
            message,
        });
    }

    pub(crate) fn event(&mut self, mut event: PodEvent) {
        shorten(&mut event.message, LONGEST_MESSAGE_BYTES);
        self.events.push_back(event);
    }

    pub(crate) fn pop_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(crate) fn pop_verdict(&mut self) -> Option<Event> {
        self.verdicts.pop_front()
    }

    pub(crate) fn pop_event(&mut self) -> Option<PodEvent> {
        self.events.pop_front()
    }

    /// How many effects wait.
    pub(crate) fn len(&self) -> usize {
        self.effects.len()
    }

    /// Throws away what waits: the program ends.
    pub(crate) fn clear(&mut self) {
        self.effects.clear();
        self.verdicts.clear();
        self.events.clear();
    }

    /// Messages that were too large to travel.
    pub(crate) const fn unsendable(&self) -> u64 {
        self.unsendable
    }
}

/// Cuts a text to a bound, and says so.
pub(crate) fn shorten(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes.saturating_sub(4)));
        *text = format!("{text} …");
    }
}
