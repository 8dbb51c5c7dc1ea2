//! Serves the controller's streams: logs, HTTP to guests, and what they use. Each is a task that sends no faster than the
//! controller grants, and waits while the link is busy; none can hold up another or the driver. A reader of logs that
//! waits holds no lines, so hundreds of them cost little more than one.

mod reading;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use coracle_agent_core::Input;
use coracle_model::limits::{Limits, STREAM_CHUNK_BYTES, STREAM_CREDIT_BYTES};
use coracle_model::{Millis, NodeUsage};
use coracle_wire::stream::{
    HttpRequest, LogsRequest, StreamCredit, StreamData, StreamEnd, StreamHead, StreamOpen, StreamTarget, encode_usage,
};
use http::header::{HOST, HeaderName, HeaderValue};
use http_body_util::BodyExt as _;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use wasmtime_wasi_http::Error;

use self::reading::{Piece, Reading};
use crate::logs::{Logs, Output};
use crate::runtime::{Answered, Incoming, Runtime};
use crate::serving::RequestBody;

/// Pieces of a request body that may wait for the guest, whatever their size.
const MAX_WAITING_PIECES: usize = 256;
/// How long a follower rests after a small piece, so that the lines of a flood travel together.
const FOLLOWER_REST: Duration = Duration::from_millis(20);

struct Open {
    credit: Arc<Semaphore>,
    body: Option<mpsc::Sender<Bytes>>,
    task: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The streams of one session.
pub struct Streams {
    open: HashMap<u64, Open>,
    inputs: mpsc::Sender<Input>,
    logs: Arc<Logs>,
    limit: usize,
}

impl Streams {
    /// What streams say comes out of `inputs`.
    #[must_use]
    pub fn new(inputs: mpsc::Sender<Input>, logs: Arc<Logs>, limits: &Limits) -> Self {
        Self { open: HashMap::new(), inputs, logs, limit: limits.streams }
    }

    /// The controller opens one; `now` is the agent's clock.
    pub fn open(&mut self, open: StreamOpen, runtime: &Runtime, now: Millis) {
        let StreamOpen { id, credit, target, .. } = open;
        let credit = Arc::new(Semaphore::new(usize::try_from(credit).unwrap_or(0)));
        let voice = Voice { id, credit: Arc::clone(&credit), inputs: self.inputs.clone() };
        let refused = (self.open.len() >= self.limit).then(|| "too many streams are open on this node".to_owned());
        let (task, body) = match (refused, target) {
            (Some(reason), _) => (tokio::spawn(voice.end(Some(reason))), None),
            (None, StreamTarget::Logs(request)) => {
                let output = self.logs.find(request.uid, &request.container, request.previous);
                (tokio::spawn(serve_logs(voice, request, output)), None)
            }
            (None, StreamTarget::Usage) => (tokio::spawn(serve_usage(voice, runtime.usage(now))), None),
            (None, StreamTarget::Http(request)) => {
                let listener = runtime.listener(request.uid, request.port);
                let (sender, pieces) = mpsc::channel(MAX_WAITING_PIECES);
                (tokio::spawn(serve_http(voice, request, listener, pieces)), Some(sender))
            }
        };
        self.open.insert(id, Open { credit, body, task: task.abort_handle() });
    }

    /// Bytes of a request's body.
    pub fn data(&mut self, data: StreamData) {
        let Some(stream) = self.open.get(&data.id) else { return };
        let Some(body) = &stream.body else { return };
        if let Err(mpsc::error::TrySendError::Full(_)) = body.try_send(data.bytes.into()) {
            self.open.remove(&data.id);
            let voice = Voice { id: data.id, credit: Arc::new(Semaphore::new(0)), inputs: self.inputs.clone() };
            tokio::spawn(voice.end(Some("more was sent than was granted".to_owned())));
        }
    }

    /// The controller grants more.
    pub fn credit(&self, credit: StreamCredit) {
        if let Some(stream) = self.open.get(&credit.id) {
            let room = Semaphore::MAX_PERMITS - stream.credit.available_permits();
            stream.credit.add_permits(usize::try_from(credit.bytes).unwrap_or(0).min(room));
        }
    }

    /// The controller's end is over: of the request's body, or of everything.
    pub fn end(&mut self, end: &StreamEnd) {
        if end.error.is_some() {
            self.open.remove(&end.id);
        } else if self.open.get_mut(&end.id).is_some_and(|stream| stream.body.take().is_none()) {
            // There was no body to end, or it had ended: nothing of it is wanted any more.
            self.open.remove(&end.id);
        }
    }

    /// This side's end was said.
    pub fn ended(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// The session is over, and all its streams with it.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

/// With what a stream's task speaks to the controller.
struct Voice {
    id: u64,
    credit: Arc<Semaphore>,
    inputs: mpsc::Sender<Input>,
}

impl Voice {
    async fn say(&self, input: Input) {
        // Without a receiver the agent is ending, and every stream with it.
        let _ = self.inputs.send(input).await;
    }

    async fn head(&self, status: u16, headers: Vec<(String, Vec<u8>)>, credit: u32) {
        self.say(Input::StreamHead(StreamHead { id: self.id, status, headers, credit })).await;
    }

    /// Waits for credit and for a place in the queue; how much may be sent. Nothing is held meanwhile.
    async fn place(&self) -> Option<(usize, mpsc::Permit<'_, Input>)> {
        let some = self.credit.acquire().await.ok()?;
        let place = self.inputs.reserve().await.ok()?;
        drop(some);
        Some((self.credit.available_permits().min(STREAM_CHUNK_BYTES), place))
    }

    /// Takes the credit for a piece that fits what [`Voice::place`] has said.
    fn spend(&self, bytes: usize) {
        // Nobody else takes from this semaphore, so what was available is still there.
        if let Ok(permits) = self.credit.try_acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX)) {
            permits.forget();
        }
    }

    /// Sends bytes, in pieces as they are granted.
    async fn data(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Ok(first) = self.credit.acquire().await else { return };
            first.forget();
            let more = self.credit.available_permits().min(bytes.len() - 1).min(STREAM_CHUNK_BYTES - 1);
            // Nobody else takes from this semaphore, so what is available stays so.
            let taken = match self.credit.try_acquire_many(u32::try_from(more).unwrap_or(0)) {
                Ok(permits) => {
                    permits.forget();
                    more + 1
                }
                Err(_) => 1,
            };
            let (piece, rest) = bytes.split_at(taken);
            self.say(Input::StreamData(StreamData { id: self.id, bytes: piece.to_vec() })).await;
            bytes = rest;
        }
    }

    async fn end(self, error: Option<String>) {
        self.say(Input::StreamEnd(StreamEnd { id: self.id, error })).await;
    }
}

async fn serve_logs(voice: Voice, request: LogsRequest, output: Option<Arc<Output>>) {
    let Some(output) = output else {
        let run = if request.previous { "previous terminated container" } else { "container" };
        let reason = format!("{run} \"{}\" of pod {} has no output on this node", request.container, request.uid);
        return voice.end(Some(reason)).await;
    };
    voice.head(200, Vec::new(), 0).await;
    let since = request.since_ms.and_then(|since| SystemTime::now().checked_sub(Duration::from_millis(since)));
    let mut reading = Reading::new(&request, since, &output);
    // The agent is ending when there is no place any more.
    while let Some((most, place)) = voice.place().await {
        match reading.next(&output, most) {
            Piece::Bytes(bytes) => {
                let rests = request.follow && bytes.len() < STREAM_CHUNK_BYTES / 2;
                voice.spend(bytes.len());
                place.send(Input::StreamData(StreamData { id: voice.id, bytes }));
                if rests {
                    tokio::time::sleep(FOLLOWER_REST).await;
                }
            }
            Piece::Later(number) => {
                drop(place);
                output.wait(number).await;
            }
            Piece::End => break,
        }
    }
    voice.end(None).await;
}

async fn serve_usage(voice: Voice, usage: NodeUsage) {
    voice.head(200, Vec::new(), 0).await;
    voice.data(&encode_usage(&usage)).await;
    voice.end(None).await;
}

async fn serve_http(
    voice: Voice,
    request: HttpRequest,
    listener: Option<mpsc::Sender<Incoming>>,
    pieces: mpsc::Receiver<Bytes>,
) {
    let port = request.port;
    let body = RequestBody { stream: voice.id, pieces, grants: voice.inputs.clone(), owed: 0 };
    let request = match lift(request, body) {
        Ok(request) => request,
        Err(error) => return voice.end(Some(format!("the request is malformed: {error}"))).await,
    };
    let answered = match listener {
        Some(listener) => send(&listener, request).await,
        None => None,
    };
    let response = match answered {
        Some(Ok(response)) => response,
        Some(Err(reason)) => return voice.end(Some(format!("the container failed to answer: {reason}"))).await,
        None => {
            let reason = format!("connection refused: no container of the pod answers on port {port}");
            return voice.end(Some(reason)).await;
        }
    };
    let (parts, mut body) = response.into_parts();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    voice.head(parts.status.as_u16(), headers, STREAM_CREDIT_BYTES).await;
    while let Some(frame) = body.frame().await {
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(bytes)) => voice.data(&bytes).await,
            // Trailers have no place in a stream.
            Ok(Err(_)) => {}
            Err(error) => {
                let why = match error {
                    Error::InternalError(Some(why)) => why,
                    other => format!("{other:?}"),
                };
                return voice.end(Some(format!("the container broke its answer off: {why}"))).await;
            }
        }
    }
    voice.end(None).await;
}

/// Nothing if the container does not answer requests, or no longer.
async fn send(listener: &mpsc::Sender<Incoming>, request: http::Request<RequestBody>) -> Option<Answered> {
    let (answer, outcome) = oneshot::channel();
    listener.send(Incoming { request, answer }).await.ok()?;
    outcome.await.ok()
}

fn lift(request: HttpRequest, body: RequestBody) -> Result<http::Request<RequestBody>, http::Error> {
    let path = if request.path.is_empty() { "/".to_owned() } else { request.path };
    let mut lifted = http::Request::builder().method(request.method.as_str()).uri(path);
    let mut has_host = false;
    for (name, value) in request.headers {
        let name: HeaderName = name.parse()?;
        has_host |= name == HOST;
        lifted = lifted.header(name, HeaderValue::from_bytes(&value)?);
    }
    if !has_host {
        lifted = lifted.header(HOST, request.uid.to_string());
    }
    lifted.body(body)
}
