//! Streams through the link: logs, and HTTP to a guest. The controller opens them; both ends grant credit in bytes,
//! so a slow reader slows its writer and nobody else.

use alloc::string::String;
use alloc::vec::Vec;

use coracle_model::{NodeUsage, PodUid, SessionNumber};
use serde::{Deserialize, Serialize};

/// Open a stream to a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamOpen {
    /// The session.
    pub session: SessionNumber,
    /// Chosen by the controller, unique in the session.
    pub id: u64,
    /// Bytes that the agent may send before it needs [`StreamCredit`].
    pub credit: u32,
    /// What is wanted.
    pub target: StreamTarget,
}

/// What a stream is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamTarget {
    /// A container's output (POD-11).
    Logs(LogsRequest),
    /// One HTTP request to a guest's handler; its body follows as [`StreamData`], its end as [`StreamEnd`].
    Http(HttpRequest),
    /// What the containers of the node use now: after the head one [`coracle_model::NodeUsage`] in postcard, in
    /// pieces like everything else.
    Usage,
}

/// `GET /log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsRequest {
    /// The pod.
    pub uid: PodUid,
    /// `container`
    pub container: String,
    /// `follow`: stay until the container ends.
    pub follow: bool,
    /// `previous`: of the run before this one.
    pub previous: bool,
    /// `timestamps`: RFC 3339 before every line.
    pub timestamps: bool,
    /// `tailLines`
    pub tail_lines: Option<u64>,
    /// `sinceSeconds`, in milliseconds before now.
    pub since_ms: Option<u64>,
    /// `limitBytes`
    pub limit_bytes: Option<u64>,
}

/// The head of an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// The pod.
    pub uid: PodUid,
    /// The port in the pod's own port space; 0 for the first that the pod names.
    pub port: u16,
    /// `GET`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// In order; values are bytes.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// The agent's first word on a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHead {
    /// The stream.
    pub id: u64,
    /// HTTP status; 200 for logs that exist.
    pub status: u16,
    /// HTTP headers; empty for logs.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Bytes of the request body, counted from its first, that the controller may send before it needs
    /// [`StreamCredit`]. It may send [`coracle_model::limits::STREAM_CREDIT_BYTES`] before it has heard this, since a
    /// guest may want to read a request before it answers.
    pub credit: u32,
}

/// A piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamData {
    /// The stream.
    pub id: u64,
    /// At most [`coracle_model::limits::STREAM_CHUNK_BYTES`].
    pub bytes: Vec<u8>,
}

/// The other end may send more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCredit {
    /// The stream.
    pub id: u64,
    /// This many bytes more.
    pub bytes: u32,
}

/// This end has no more to say. From the agent it ends the stream; from the controller, without an error it ends the
/// request body, with one it cancels the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEnd {
    /// The stream.
    pub id: u64,
    /// Why it ended before its time.
    pub error: Option<String>,
}

/// What a stream of [`StreamTarget::Usage`] carries after its head.
#[must_use]
pub fn encode_usage(usage: &NodeUsage) -> Vec<u8> {
    // Writing into memory cannot fail: every sequence here has a known length.
    postcard::to_allocvec(usage).unwrap_or_default()
}

/// Reads it; `None` when the bytes are something else. What follows the last known field is ignored.
#[must_use]
pub fn decode_usage(bytes: &[u8]) -> Option<NodeUsage> {
    postcard::take_from_bytes(bytes).ok().map(|(usage, _newer)| usage)
}
