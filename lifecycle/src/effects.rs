//! The queue of what is to be done, and the few words in which people are told.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};

use coracle_model::{PodEvent, PodUid};

use crate::event::Effect;

/// Effects that wait for the shell, in order.
#[derive(Debug)]
pub(crate) struct Effects {
    queue: VecDeque<Effect>,
    limit: usize,
}

/// Whether people should worry: an event's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Normal,
    Warning,
}

impl Effects {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { queue: VecDeque::new(), limit }
    }

    pub(crate) fn pop(&mut self) -> Option<Effect> {
        self.queue.pop_front()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= self.limit
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.queue.push_back(effect);
    }

    /// Tells people something about a container (LIF-12). What people are told is the first to give way when the
    /// shell does not keep up.
    pub(crate) fn tell(&mut self, uid: PodUid, container: &str, tone: Tone, reason: &str, message: String) {
        if self.is_full() {
            return;
        }
        self.push(Effect::Tell(PodEvent {
            uid,
            container: container.to_string(),
            warning: tone == Tone::Warning,
            reason: reason.to_string(),
            message,
        }));
    }
}
