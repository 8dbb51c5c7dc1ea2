//! Every open stream: who may still send how much, what has arrived, how it ended. Pure: messages in, messages out.
//!
//! The invariant that bounds the controller's memory: what is buffered of a stream, and what its agent may still send,
//! are together never more than its window. The more streams are open, the smaller is the window of the next one, so that
//! all together stay under 100 MiB, however slowly they are read.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes, BytesMut};
use coracle_model::SessionNumber;
use coracle_model::limits::{Limits, STREAM_CHUNK_BYTES, STREAM_CREDIT_BYTES};
use coracle_wire::down::Down;
use coracle_wire::stream::{StreamCredit, StreamData, StreamEnd, StreamHead, StreamOpen, StreamTarget};
use coracle_wire::up::Up;

/// Streams that are open at once, to all nodes together.
const MAX_STREAMS: usize = 4096;

/// The windows of streams, by how many are open: below so many, this many bytes.
const WINDOWS: &[(usize, u32)] = &[(64, STREAM_CREDIT_BYTES), (512, 64 * 1024), (MAX_STREAMS, 16 * 1024)];

/// Too many streams are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The agent's first word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// Not yet.
    Pending,
    /// Here it is.
    Said(u16, Vec<(String, Vec<u8>)>),
    /// The agent ended the stream instead.
    Refused(String),
    /// The stream ended before.
    Failed(String),
}

/// How a stream ended.
#[derive(Debug)]
enum End {
    /// The agent had no more to say.
    Whole,
    /// The agent broke it off.
    Agent(String),
    /// It was broken off here.
    Here(String),
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Nothing yet.
    Pending,
    /// Bytes, and a message for the agent if it is time to grant more.
    Data(Bytes, Option<Down>),
    /// It ended as it should.
    End,
    /// It ended before its time.
    Failed(String),
}

/// What became of something that an agent said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The stream whose reader has something to look at.
    pub(crate) wake: Option<u64>,
    /// To be sent to the agent.
    pub(crate) downs: Vec<Down>,
}

#[derive(Debug)]
struct Stream {
    node: String,
    head: Head,
    head_heard: bool,
    /// Bytes that may be buffered or granted at once.
    window: u32,
    /// Bytes that the agent may still send.
    granted: u32,
    /// Bytes that were read and not yet granted again.
    owed: u32,
    buffer: BytesMut,
    ended: Option<End>,
    body: Bytes,
    body_ended: bool,
    /// Bytes of the body that may be sent and that were sent, both from its first.
    may_send: u64,
    sent: u64,
}

/// The streams.
#[derive(Debug, Default)]
pub(crate) struct Table {
    last_id: u64,
    streams: BTreeMap<u64, Stream>,
}

impl Table {
    /// Opens a stream. The messages are to be sent in order; a body is one of an HTTP request, and may be empty.
    ///
    /// # Errors
    /// When too many are open, in all or on this node.
    pub(crate) fn open(
        &mut self,
        node: &str,
        session: SessionNumber,
        target: StreamTarget,
        body: Option<Bytes>,
    ) -> Result<(u64, Vec<Down>), TooMany> {
        let on_node = self.streams.values().filter(|stream| stream.node == node).count();
        let window = WINDOWS.iter().find(|(open, _)| self.streams.len() < *open).map(|(_, window)| *window);
        let window = window.filter(|_| on_node < Limits::LINUX.streams).ok_or(TooMany)?;
        self.last_id += 1;
        let id = self.last_id;
        let mut stream = Stream {
            node: node.to_owned(),
            head: Head::Pending,
            head_heard: false,
            window,
            granted: window,
            owed: 0,
            buffer: BytesMut::new(),
            ended: None,
            body_ended: body.is_none(),
            body: body.unwrap_or_default(),
            may_send: u64::from(STREAM_CREDIT_BYTES),
            sent: 0,
        };
        let mut downs = vec![Down::StreamOpen(StreamOpen { session, id, credit: window, target })];
        stream.send_body(id, &mut downs);
        self.streams.insert(id, stream);
        Ok((id, downs))
    }

    /// An agent said something about a stream. What is about no stream of its own is ignored: it may have been on its way
    /// when the stream was closed.
    pub(crate) fn hear(&mut self, node: &str, up: Up) -> Heard {
        let id = match &up {
            Up::StreamHead(StreamHead { id, .. })
            | Up::StreamData(StreamData { id, .. })
            | Up::StreamCredit(StreamCredit { id, .. })
            | Up::StreamEnd(StreamEnd { id, .. }) => *id,
            _ => return Heard::default(),
        };
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.node == node && stream.ended.is_none())
        else {
            return Heard::default();
        };
        let mut downs = Vec::new();
        if let Err(wrong) = stream.hear(id, up, &mut downs) {
            stream.ended = Some(End::Here(format!("the agent broke the rules of streams: {wrong}")));
            downs = vec![Down::StreamEnd(StreamEnd { id, error: Some(wrong.to_owned()) })];
        }
        Heard { wake: Some(id), downs }
    }

    /// The head, once.
    pub(crate) fn head(&mut self, id: u64) -> Head {
        let Some(stream) = self.streams.get_mut(&id) else { return Head::Failed("the stream is closed".to_owned()) };
        match (std::mem::replace(&mut stream.head, Head::Pending), &stream.ended) {
            (Head::Pending, Some(End::Whole)) => Head::Failed("the stream ended before it began".to_owned()),
            (Head::Pending, Some(End::Agent(why))) => Head::Refused(why.clone()),
            (Head::Pending, Some(End::Here(why))) => Head::Failed(why.clone()),
            (head, _) => head,
        }
    }

    /// What has arrived.
    pub(crate) fn read(&mut self, id: u64) -> Read {
        let Some(stream) = self.streams.get_mut(&id) else { return Read::End };
        if stream.buffer.is_empty() {
            return match &stream.ended {
                None => Read::Pending,
                Some(End::Whole) => Read::End,
                Some(End::Agent(why) | End::Here(why)) => Read::Failed(why.clone()),
            };
        }
        let bytes = stream.buffer.split().freeze();
        stream.owed += u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let grant = (stream.ended.is_none() && stream.owed >= stream.window / 2).then(|| {
            stream.granted += stream.owed;
            Down::StreamCredit(StreamCredit { id, bytes: std::mem::take(&mut stream.owed) })
        });
        Read::Data(bytes, grant)
    }

    /// The node of a stream.
    pub(crate) fn node(&self, id: u64) -> Option<&str> {
        self.streams.get(&id).map(|stream| stream.node.as_str())
    }

    /// Forgets a stream. If its agent does not know yet that it is over, there is a message for that node.
    pub(crate) fn close(&mut self, id: u64) -> Option<(String, Down)> {
        let stream = self.streams.remove(&id)?;
        let end = StreamEnd { id, error: Some("nobody reads any more".to_owned()) };
        stream.ended.is_none().then_some((stream.node, Down::StreamEnd(end)))
    }

    /// A stream is over because of us.
    pub(crate) fn fail(&mut self, id: u64, why: &str) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.ended.get_or_insert_with(|| End::Here(why.to_owned()));
        }
    }

    /// All streams of one node are over, or of all; returns which.
    pub(crate) fn fail_all(&mut self, node: Option<&str>, why: &str) -> Vec<u64> {
        let mut failed = Vec::new();
        for (id, stream) in &mut self.streams {
            if node.is_none_or(|node| stream.node == node) && stream.ended.is_none() {
                stream.ended = Some(End::Here(why.to_owned()));
                failed.push(*id);
            }
        }
        failed
    }
}

impl Stream {
    fn hear(&mut self, id: u64, up: Up, downs: &mut Vec<Down>) -> Result<(), &'static str> {
        match up {
            Up::StreamHead(_) if self.head_heard => return Err("a second head"),
            Up::StreamHead(head) => {
                self.head_heard = true;
                self.head = Head::Said(head.status, head.headers);
                self.may_send = self.may_send.max(u64::from(head.credit));
                self.send_body(id, downs);
            }
            Up::StreamData(_) if !self.head_heard => return Err("data before the head"),
            Up::StreamData(data) => {
                let length = u32::try_from(data.bytes.len()).unwrap_or(u32::MAX);
                self.granted = self.granted.checked_sub(length).ok_or("more data than was granted")?;
                self.buffer.extend_from_slice(&data.bytes);
            }
            Up::StreamCredit(credit) => {
                self.may_send = self.may_send.saturating_add(u64::from(credit.bytes));
                self.send_body(id, downs);
            }
            Up::StreamEnd(end) => self.ended = Some(end.error.map_or(End::Whole, End::Agent)),
            _ => {}
        }
        Ok(())
    }

    /// Sends as much of the request's body as the agent takes, and its end.
    fn send_body(&mut self, id: u64, downs: &mut Vec<Down>) {
        if self.body_ended {
            return;
        }
        while self.body.has_remaining() && self.may_send > self.sent {
            let allowed = usize::try_from(self.may_send - self.sent).unwrap_or(usize::MAX);
            let chunk = self.body.split_to(self.body.len().min(STREAM_CHUNK_BYTES).min(allowed));
            self.sent += chunk.len() as u64;
            downs.push(Down::StreamData(StreamData { id, bytes: chunk.into() }));
        }
        if !self.body.has_remaining() {
            self.body_ended = true;
            downs.push(Down::StreamEnd(StreamEnd { id, error: None }));
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
