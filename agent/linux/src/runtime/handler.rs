//! Containers that answer HTTP: each request has an instance of its own, so one that traps harms no other. The
//! container is running until it is asked to stop; then it finishes what it has begun and ends with exit code 0.

use std::time::SystemTime;

use coracle_lifecycle::Exit;
use http::Request;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use wasmtime::Engine;
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use super::guest::failure;
use super::host::{Host, Surroundings};
use super::meter::Meter;
use crate::serving::RequestBody;

/// Requests that one container works on at the same time; more wait.
const MAX_REQUESTS: usize = 32;

/// The answer of a guest, or why there is none.
pub(crate) type Answered = Result<http::Response<HyperOutgoingBody>, String>;

/// A request on its way to a guest.
pub(crate) struct Incoming {
    pub(crate) request: Request<RequestBody>,
    pub(crate) answer: oneshot::Sender<Answered>,
}

/// Serves until the pod is asked to stop.
pub(crate) async fn serve(
    engine: &Engine,
    program: &ProxyPre<Host>,
    surroundings: &Surroundings,
    meter: &Meter,
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
            incoming = requests.recv(), if open && working.len() < MAX_REQUESTS => match incoming {
                Some(incoming) => {
                    let work = answer(engine.clone(), program.clone(), surroundings.clone(), incoming);
                    working.spawn(meter.measure(work));
                }
                None => open = false,
            },
            Some(_) = working.join_next() => {
                if surroundings.account.is_exceeded() {
                    return Exit::OutOfMemory;
                }
            }
        }
    }
    Exit::Code(0)
}

async fn answer(engine: Engine, program: ProxyPre<Host>, surroundings: Surroundings, incoming: Incoming) {
    let Incoming { request, answer } = incoming;
    let (out, mut outcome) = oneshot::channel();
    let work = call(&engine, &program, &surroundings, request, out);
    tokio::pin!(work);
    // The guest may go on after it has answered: the body is still to come.
    let early = tokio::select! {
        biased;
        said = &mut outcome => Some(said),
        ended = &mut work => {
            let said = outcome.try_recv().map_err(|_| ());
            let _ = answer.send(match (said, &ended) {
                (Ok(said), _) => said.map_err(|code| describe(&code)),
                (Err(()), Ok(())) => Err("it ended without an answer".to_owned()),
                (Err(()), Err(error)) => Err(failure(error)),
            });
            tell(&surroundings, ended);
            return;
        }
    };
    let _ = match early {
        Some(Ok(said)) => answer.send(said.map_err(|code| describe(&code))),
        _ => answer.send(Err("it dropped the request".to_owned())),
    };
    tell(&surroundings, work.await);
}

async fn call(
    engine: &Engine,
    program: &ProxyPre<Host>,
    surroundings: &Surroundings,
    request: Request<RequestBody>,
    out: oneshot::Sender<Result<http::Response<HyperOutgoingBody>, ErrorCode>>,
) -> wasmtime::Result<()> {
    let mut store = surroundings.store(engine);
    let request = store.data_mut().http().new_incoming_request(Scheme::Http, request)?;
    let out = store.data_mut().http().new_response_outparam(out)?;
    let proxy = program.instantiate_async(&mut store).await?;
    proxy.wasi_http_incoming_handler().call_handle(&mut store, request, out).await
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
