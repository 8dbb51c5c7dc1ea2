//! One run of one container, from its start to its exit. It lives as a task on a guest thread.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use coracle_agent_core::RuntimeEvent;
use coracle_lifecycle::{Exit, Run};
use coracle_model::Digest;
use tokio::sync::{Notify, mpsc};
use wasmtime::component::ResourceTableError;
use wasmtime::{Error, Store, Trap};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::bindings::{Command, CommandPre};

use super::Report;
use super::handler::{self, Incoming};
use super::host::{Host, MAX_HANDLES, Surroundings};
use super::machine::{Machine, PrepareError, Program};
use super::meter::Meter;
use crate::artifacts::Stored;

/// What a run needs.
pub(crate) struct Order {
    pub(crate) run: Run,
    pub(crate) image: Digest,
    /// The image's artifact, and the key that must have signed it.
    pub(crate) artifact: Option<(Stored, [u8; 32])>,
    pub(crate) surroundings: Surroundings,
    pub(crate) requests: mpsc::Receiver<Incoming>,
    pub(crate) kill: Arc<Notify>,
    pub(crate) machine: Arc<Machine>,
}

/// With what a run speaks of itself.
pub(crate) struct Voice {
    pub(crate) run: Run,
    pub(crate) reports: mpsc::Sender<Report>,
}

impl Voice {
    /// Without a receiver the agent is ending, and every run with it; so nothing here can fail.
    pub(crate) async fn say(&self, report: Report) {
        let _ = self.reports.send(report).await;
    }

    /// The guest is about to execute its first instruction.
    async fn started(&self) {
        self.say(Report::Event(RuntimeEvent::Started(self.run.clone()))).await;
    }
}

/// Runs it.
pub(crate) async fn run(order: Order, voice: &Voice) -> Exit {
    let Order { image, artifact, surroundings, requests, kill, machine, .. } = order;
    let work = async {
        let program = match prepare(&machine, image, artifact.as_ref()).await {
            Ok(program) => program,
            Err(error) => {
                if let (PrepareError::Proof(_) | PrepareError::Load(_), Some((stored, _))) = (&error, &artifact) {
                    voice.say(Report::Damaged(stored.artifact())).await;
                }
                return Exit::CannotStart(error.to_string());
            }
        };
        match program {
            Program::Command(program) => {
                drop(requests);
                command(&machine, &program, &surroundings, voice).await
            }
            Program::Handler(program) => {
                voice.started().await;
                handler::serve(&machine, &program, &surroundings, requests).await
            }
        }
    };
    // Every tick of the epoch comes back to here, so that even a loop that calls nothing ends with its grace period.
    tokio::select! {
        biased;
        () = kill.notified() => Exit::Killed,
        exit = work => exit,
    }
}

async fn prepare(
    machine: &Arc<Machine>,
    image: Digest,
    artifact: Option<&(Stored, [u8; 32])>,
) -> Result<Program, PrepareError> {
    if let Some(program) = machine.ready(image) {
        return Ok(program);
    }
    let (stored, key) = artifact.cloned().ok_or(PrepareError::Absent)?;
    let machine = Arc::clone(machine);
    // On a thread of its own: other guests go on while the file is read.
    let prepared = tokio::task::spawn_blocking(move || machine.prepare(&stored, &key)).await;
    prepared.unwrap_or_else(|error| Err(PrepareError::Engine(error.to_string())))
}

async fn command(machine: &Machine, program: &CommandPre<Host>, surroundings: &Surroundings, voice: &Voice) -> Exit {
    let meter = &surroundings.meter;
    let mut store = match surroundings.store(machine, 0) {
        Ok(store) => store,
        Err(error) => return error.exit(),
    };
    let instance = match instantiate(program, &mut store, meter, voice).await {
        Ok(instance) => instance,
        Err(error) => return end_of(&error, surroundings).unwrap_or_else(|| Exit::CannotStart(failure(&error))),
    };
    match meter.measure(instance.wasi_cli_run().call_run(&mut store)).await {
        Ok(Ok(())) => Exit::Code(0),
        Ok(Err(())) => Exit::Code(1),
        Err(error) => end_of(&error, surroundings).unwrap_or_else(|| Exit::Trapped(failure(&error))),
    }
}

/// Makes the instance, and says when the guest runs. That is once it is made, or earlier: a start function runs while it
/// is being made, and one that is still at it after its first turn may never end.
async fn instantiate(
    program: &CommandPre<Host>,
    store: &mut Store<Host>,
    meter: &Arc<Meter>,
    voice: &Voice,
) -> wasmtime::Result<Command> {
    let mut making = pin!(meter.measure(program.instantiate_async(store)));
    let first_turn = poll_fn(|context| match making.as_mut().poll(context) {
        Poll::Pending if !making.has_had_a_turn() => Poll::Pending,
        polled => Poll::Ready(polled),
    })
    .await;
    if let Poll::Ready(Err(error)) = first_turn {
        return Err(error);
    }
    voice.started().await;
    match first_turn {
        Poll::Ready(made) => made,
        Poll::Pending => making.await,
    }
}

/// How a guest ended that an error has ended; nothing if the error was not of its own making.
fn end_of(error: &Error, surroundings: &Surroundings) -> Option<Exit> {
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return Some(Exit::Code(*code));
    }
    if let Some(exceeded) = surroundings.account.exceeded() {
        return Some(exceeded.exit());
    }
    error.downcast_ref::<Trap>().map(|trap| Exit::Trapped(trap.to_string()))
}

/// Why a guest failed, for people: the trap, or else the whole chain of causes.
pub(crate) fn failure(error: &Error) -> String {
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trap.to_string();
    }
    match error.downcast_ref() {
        Some(ResourceTableError::Full) => format!("it held more than {MAX_HANDLES} handles of the host at once"),
        _ => format!("{error:#}"),
    }
}
