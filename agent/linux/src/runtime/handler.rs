//! Containers that answer HTTP: each request has an instance of its own, so one that traps harms no other. The
//! container is running until it is asked to stop; then it finishes what it has begun and ends with exit code 0.

use std::sync::Arc;
use std::time::SystemTime;

use coracle_lifecycle::Exit;
use coracle_model::limits::STREAM_CREDIT_BYTES;
use http::Request;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use wasmtime::Store;
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use super::fate::Fate;
use super::guest::failure;
use super::host::{Host, Surroundings};
use super::machine::Machine;
use crate::serving::RequestBody;

/// Requests that one container works on at the same time; more wait.
const MAX_REQUESTS: usize = 32;

/// What waits of the bodies of one request and its answer, about, in bytes: the controller may send so much before the
/// guest takes it, and of the answer one piece waits for the one before it.
const BODIES_BYTES: u64 = STREAM_CREDIT_BYTES as u64 + 2 * 64 * 1024;

/// The answer of a guest, or why there is none.
pub(crate) type Answered = Result<http::Response<HyperOutgoingBody>, String>;

/// A request on its way to a guest.
pub(crate) struct Incoming {
    pub(crate) request: Request<RequestBody>,
    pub(crate) answer: oneshot::Sender<Answered>,
}

/// Serves until the pod is asked to stop.
pub(crate) async fn serve(
    machine: &Arc<Machine>,
    program: &ProxyPre<Host>,
    surroundings: &Surroundings,
    mut requests: mpsc::Receiver<Incoming>,
) -> Exit {
    let mut hearing = surroundings.hearing.clone();
    let mut working: JoinSet<()> = JoinSet::new();
    let mut open = true;
    while open || !working.is_empty() {
        tokio::select! {
            () = hearing.rung(), if open => {
                open = false;
                requests.close();
            }
            incoming = requests.recv(), if open && has_room(surroundings, working.len()) => match incoming {
                Some(incoming) => {
                    let work = answer(Arc::clone(machine), program.clone(), surroundings.clone(), incoming);
                    working.spawn(surroundings.meter.measure(work));
                }
                None => open = false,
            },
            Some(_) = working.join_next() => {
                if let Some(exceeded) = surroundings.account.exceeded() {
                    return exceeded.exit();
                }
            }
        }
    }
    Exit::Code(0)
}

/// Whether one more request can be worked on. Where memory is short they wait; a single one must do with what there is.
fn has_room(surroundings: &Surroundings, working: usize) -> bool {
    working == 0 || (working < MAX_REQUESTS && surroundings.account.has_room_for_another())
}

async fn answer(machine: Arc<Machine>, program: ProxyPre<Host>, surroundings: Surroundings, incoming: Incoming) {
    let Incoming { request, mut answer } = incoming;
    let mut store = match surroundings.store(&machine, BODIES_BYTES) {
        Ok(store) => store,
        Err(error) => {
            let error = wasmtime::Error::from(error);
            let _ = answer.send(Err(failure(&error)));
            return tell(&surroundings, Err(error));
        }
    };
    let (out, mut outcome) = oneshot::channel();
    let fate = Fate::default();
    let work = call(&mut store, &program, request, out);
    tokio::pin!(work);
    // The guest may go on after it has answered: the body is still to come.
    let (said, ended) = tokio::select! {
        biased;
        said = &mut outcome => (said.ok(), None),
        ended = &mut work => (outcome.try_recv().ok(), Some(ended)),
        // Nobody waits for it any more, so a guest that never answers does not keep its place.
        () = answer.closed() => return,
    };
    let answered = match (said, &ended) {
        (Some(said), _) => said.map(|said| fate.bind(said)).map_err(|code| describe(&code)),
        (None, None) => Err("it dropped the request".to_owned()),
        (None, Some(Ok(()))) => Err("it ended without an answer".to_owned()),
        (None, Some(Err(error))) => Err(failure(error)),
    };
    let _ = answer.send(answered);
    let ended = match ended {
        Some(ended) => ended,
        None => work.await,
    };
    if let Err(error) = &ended {
        fate.is_failure(failure(error));
    }
    tell(&surroundings, ended);
}

async fn call(
    store: &mut Store<Host>,
    program: &ProxyPre<Host>,
    request: Request<RequestBody>,
    out: oneshot::Sender<Result<http::Response<HyperOutgoingBody>, ErrorCode>>,
) -> wasmtime::Result<()> {
    let request = store.data_mut().http().new_incoming_request(Scheme::Http, request)?;
    let out = store.data_mut().http().new_response_outparam(out)?;
    let proxy = program.instantiate_async(&mut *store).await?;
    proxy.wasi_http_incoming_handler().call_handle(store, request, out).await
}

fn tell(surroundings: &Surroundings, ended: wasmtime::Result<()>) {
    if let Err(error) = ended {
        let line = format!("coracle: a request was ended: {}", failure(&error));
        surroundings.output.append(SystemTime::now(), line.as_bytes());
    }
}

fn describe(code: &ErrorCode) -> String {
    format!("it answered with the error {code:?}")
}
