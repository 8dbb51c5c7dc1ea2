//! Streams between the controller and the shell: who may open one, and how many there may be.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;

use coracle_model::SessionNumber;
use coracle_wire::stream::{StreamData, StreamEnd, StreamHead, StreamOpen};
use coracle_wire::up::Up;

use crate::interface::Effect;
use crate::outbox::Outbox;

/// The streams of one session.
#[derive(Debug)]
pub(crate) struct Streams {
    open: BTreeSet<u64>,
    limit: usize,
}

impl Streams {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { open: BTreeSet::new(), limit }
    }

    /// The controller opens one.
    pub(crate) fn opened(&mut self, stream: StreamOpen, welcome: Option<SessionNumber>, out: &mut Outbox) {
        if welcome != Some(stream.session) || self.open.contains(&stream.id) {
            return;
        }
        if self.open.len() >= self.limit {
            let error = Some(format!("the node has {} streams open, and no more may be", self.limit));
            out.up(&Up::StreamEnd(StreamEnd { id: stream.id, error }));
            return;
        }
        self.open.insert(stream.id);
        out.effect(Effect::StreamOpen(stream));
    }

    /// Something on a stream, in either direction; dropped when the stream is not open.
    pub(crate) fn pass(&self, id: u64, pass: impl FnOnce(&mut Outbox), out: &mut Outbox) {
        if self.open.contains(&id) {
            pass(out);
        }
    }

    /// The controller's end: a request's body is over, or, with an error, the whole stream.
    pub(crate) fn ended_above(&mut self, end: StreamEnd, out: &mut Outbox) {
        if self.open.contains(&end.id) {
            if end.error.is_some() {
                self.open.remove(&end.id);
            }
            out.effect(Effect::StreamEnd(end));
        }
    }

    /// The shell's end: the stream is over.
    pub(crate) fn ended_below(&mut self, end: StreamEnd, out: &mut Outbox) {
        if self.open.remove(&end.id) {
            out.up(&Up::StreamEnd(end));
        }
    }

    /// The session is gone, and every stream with it.
    pub(crate) fn lose(&mut self, out: &mut Outbox) {
        for id in core::mem::take(&mut self.open) {
            let error = Some("the session with the controller ended".to_string());
            out.effect(Effect::StreamEnd(StreamEnd { id, error }));
        }
    }

    pub(crate) fn head(&self, head: StreamHead, out: &mut Outbox) {
        self.pass(head.id, |out| out.up(&Up::StreamHead(head)), out);
    }

    pub(crate) fn data(&self, data: StreamData, out: &mut Outbox) {
        self.pass(data.id, |out| out.up(&Up::StreamData(data)), out);
    }
}
