//! Logs, HTTP to a guest and a node's usage, for the API: readers that wait, around the [`table`] that knows the rules.
//!
//! A message of a stream that cannot be queued breaks the stream rather than be lost out of its middle.

mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coracle_link::Publisher;
use coracle_model::NodeUsage;
use coracle_wire::down::Down;
use coracle_wire::stream::{HttpRequest, LogsRequest, StreamTarget, decode_usage};
use coracle_wire::topic::{self, NodeTopic};
use coracle_wire::up::Up;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use self::table::{Head, Read, Table};
use super::peers::{Offering, Peers};

/// For the agent's first word on a stream.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// What is kept of the text with which an agent refuses.
const REFUSAL_BYTES: usize = 4096;
/// An HTTP status that is no refusal.
const OK: u16 = 200;
/// What it means when an agent ends a stream instead of answering: there are no such logs.
const NO_LOGS: u16 = 404;
/// What it means when an agent ends a stream instead of answering: nobody there takes requests.
const NO_ANSWER: u16 = 502;
/// What it means when an agent ends a stream instead of answering: it does not measure.
const NO_USAGE: u16 = 501;
/// The largest usage that is read: some hundred bytes for each container that a node may have.
const MAX_USAGE_BYTES: usize = 8 * 1024 * 1024;

/// Why there is no stream, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The node has no session.
    #[error("node \"{0}\" is not connected")]
    NotConnected(String),
    /// The agent refused, with an HTTP status.
    #[error("the node refused with status {status}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// The agent's words.
        message: String,
    },
    /// It ended before its time.
    #[error("the stream broke: {0}")]
    Broken(String),
}

/// Opens streams to pods.
#[derive(Clone)]
pub struct Streams(Arc<Shared>);

struct Shared {
    cluster: String,
    peers: Arc<Mutex<Peers>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    table: Table,
    readers: BTreeMap<u64, Arc<Notify>>,
    /// The way out, while there is one.
    link: Option<Publisher>,
}

/// What a stream yields, until it is dropped; that tells the agent to stop.
pub struct StreamReader {
    id: u64,
    shared: Arc<Shared>,
    wake: Arc<Notify>,
    over: bool,
}

impl Streams {
    pub(crate) fn new(cluster: String, peers: Arc<Mutex<Peers>>) -> Self {
        Self(Arc::new(Shared { cluster, peers, state: Mutex::default() }))
    }

    /// A container's output (POD-11).
    ///
    /// # Errors
    /// When the node is not connected, has no such output, or says nothing for 10 s.
    pub async fn logs(&self, node: &str, request: LogsRequest) -> Result<StreamReader, StreamError> {
        let mut reader = self.open(node, StreamTarget::Logs(request), None)?;
        let (status, _headers) = reader.head(NO_LOGS).await?;
        if status == OK {
            return Ok(reader);
        }
        Err(StreamError::Refused { status, message: reader.refusal().await })
    }

    /// One HTTP request to a guest: status, headers and body of its answer, whatever the status is.
    ///
    /// # Errors
    /// When the node is not connected, nobody there takes the request, or no answer begins within 10 s.
    pub async fn http(
        &self,
        node: &str,
        request: HttpRequest,
        body: Bytes,
    ) -> Result<(u16, Vec<(String, Vec<u8>)>, StreamReader), StreamError> {
        let mut reader = self.open(node, StreamTarget::Http(request), Some(body))?;
        let (status, headers) = reader.head(NO_ANSWER).await?;
        Ok((status, headers, reader))
    }

    /// How many of the connected nodes offer all of these interfaces.
    #[must_use]
    pub fn offering(&self, imports: &[String]) -> Offering {
        self.0.peers.lock().count(imports)
    }

    /// What the containers of a node use at this moment.
    ///
    /// # Errors
    /// When the node is not connected, does not measure, or says nothing for 10 s.
    pub async fn usage(&self, node: &str) -> Result<NodeUsage, StreamError> {
        let mut reader = self.open(node, StreamTarget::Usage, None)?;
        let (status, _headers) = reader.head(NO_USAGE).await?;
        if status != OK {
            return Err(StreamError::Refused { status, message: reader.refusal().await });
        }
        let mut bytes = Vec::new();
        while let Some(piece) = reader.next().await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() > MAX_USAGE_BYTES {
                return Err(StreamError::Broken(format!("a usage of more than {MAX_USAGE_BYTES} bytes")));
            }
        }
        decode_usage(&bytes).ok_or_else(|| StreamError::Broken("the usage cannot be read".to_owned()))
    }

    fn open(&self, node: &str, target: StreamTarget, body: Option<Bytes>) -> Result<StreamReader, StreamError> {
        let shared = &self.0;
        let session = shared.peers.lock().session(node).ok_or_else(|| StreamError::NotConnected(node.to_owned()))?;
        let mut state = shared.state.lock();
        if state.link.is_none() {
            return Err(StreamError::NotConnected(node.to_owned()));
        }
        let (id, downs) = state
            .table
            .open(node, session, target, body)
            .map_err(|_| StreamError::Broken("too many streams are open, try again later".to_owned()))?;
        let wake = Arc::new(Notify::new());
        state.readers.insert(id, Arc::clone(&wake));
        // From here on the reader's drop cleans up.
        let reader = StreamReader { id, shared: Arc::clone(shared), wake, over: false };
        let sent = shared.send(&state, node, downs);
        drop(state);
        sent.map_err(StreamError::Broken).map(|()| reader)
    }

    /// The link is there.
    pub(crate) fn connected(&self, link: Publisher) {
        self.0.state.lock().link = Some(link);
    }

    /// The link is gone, and what was on its way with it.
    pub(crate) fn disconnected(&self) {
        let mut state = self.0.state.lock();
        state.link = None;
        state.fail_all(None, "the controller lost its connection to the broker");
    }

    /// The session that a node's streams were in is over.
    pub(crate) fn ended(&self, node: &str) {
        self.0.state.lock().fail_all(Some(node), "the node is no longer connected");
    }

    /// An agent said something about a stream.
    pub(crate) fn hear(&self, node: &str, up: Up) {
        let mut state = self.0.state.lock();
        let heard = state.table.hear(node, up);
        let Some(id) = heard.wake else { return };
        if let Err(why) = self.0.send(&state, node, heard.downs) {
            state.table.fail(id, &why);
        }
        state.wake(id);
    }
}

impl State {
    fn wake(&self, id: u64) {
        if let Some(reader) = self.readers.get(&id) {
            reader.notify_one();
        }
    }

    fn fail_all(&mut self, node: Option<&str>, why: &str) {
        for id in self.table.fail_all(node, why) {
            self.wake(id);
        }
    }
}

impl Shared {
    /// Queues messages for a node, in order; all or an error.
    fn send(&self, state: &State, node: &str, downs: Vec<Down>) -> Result<(), String> {
        if downs.is_empty() {
            return Ok(());
        }
        let Some(link) = &state.link else { return Err("the link is gone".to_owned()) };
        let topic = topic::node(&self.cluster, node, NodeTopic::Down);
        for down in downs {
            let payload = down.encode().map_err(|error| error.to_string())?;
            link.publish(&topic, payload).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl StreamReader {
    /// Waits for the next bytes; `None` at the end, and for ever after it or after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Bytes, StreamError>> {
        while !self.over {
            let read = {
                let mut state = self.shared.state.lock();
                let read = state.table.read(self.id);
                if let Read::Data(_, Some(_)) = &read { self.grant(&mut state, read) } else { read }
            };
            match read {
                Read::Pending => self.wake.notified().await,
                Read::Data(bytes, _) => return Some(Ok(bytes)),
                Read::End => self.over = true,
                Read::Failed(why) => {
                    self.over = true;
                    return Some(Err(StreamError::Broken(why)));
                }
            }
        }
        None
    }

    /// Sends the grant that comes with the bytes.
    fn grant(&self, state: &mut State, read: Read) -> Read {
        let Read::Data(bytes, Some(grant)) = read else { return read };
        let node = state.table.node(self.id).unwrap_or_default().to_owned();
        if let Err(why) = self.shared.send(state, &node, vec![grant]) {
            state.table.fail(self.id, &why);
        }
        Read::Data(bytes, None)
    }

    /// Waits for the agent's first word. `refused` is the status that an end instead of it stands for.
    async fn head(&mut self, refused: u16) -> Result<(u16, Vec<(String, Vec<u8>)>), StreamError> {
        let waiting = async {
            loop {
                let head = self.shared.state.lock().table.head(self.id);
                match head {
                    Head::Pending => self.wake.notified().await,
                    Head::Said(status, headers) => return Ok((status, headers)),
                    Head::Refused(message) => return Err(StreamError::Refused { status: refused, message }),
                    Head::Failed(why) => return Err(StreamError::Broken(why)),
                }
            }
        };
        let late = || StreamError::Broken("the node did not answer within 30 s".to_owned());
        let head = timeout(HEAD_TIMEOUT, waiting).await.map_err(|_| late())??;
        // Bytes may have come together with the head, and their wake was used up.
        self.wake.notify_one();
        Ok(head)
    }

    /// The text of an answer that is no stream.
    async fn refusal(&mut self) -> String {
        let mut text = Vec::new();
        let reading = async {
            while let Some(Ok(bytes)) = self.next().await {
                text.extend_from_slice(&bytes);
                if text.len() >= REFUSAL_BYTES {
                    break;
                }
            }
        };
        // What has come by then is the message.
        let _: Result<(), _> = timeout(HEAD_TIMEOUT, reading).await;
        text.truncate(REFUSAL_BYTES);
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.readers.remove(&self.id);
        if let Some((node, down)) = state.table.close(self.id)
            && let Err(why) = self.shared.send(&state, &node, vec![down])
        {
            // The agent finds out when it is out of credit, or at its next session.
            tracing::debug!(node, why, "an agent was not told that its stream is closed");
        }
    }
}

#[cfg(test)]
mod tests;
