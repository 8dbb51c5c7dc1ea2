//! One run of one container, from its start to its exit. It lives as a task on a guest thread.

use std::sync::Arc;

use coracle_agent_core::RuntimeEvent;
use coracle_lifecycle::{Exit, Run};
use coracle_model::Digest;
use tokio::sync::{Notify, mpsc};
use wasmtime::{Error, Trap};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::bindings::CommandPre;

use super::Report;
use super::handler::{self, Incoming};
use super::host::{Host, Surroundings};
use super::machine::{Machine, PrepareError, Program};
use super::meter::Meter;
use crate::artifacts::Stored;

/// What a run needs.
pub(crate) struct Order {
    pub(crate) run: Run,
    pub(crate) image: Digest,
    /// The image's artifact, and the key that must have signed it.
    pub(crate) artifact: Option<(Stored, [u8; 32])>,
    pub(crate) cpu_millis: u64,
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
    let Order { image, artifact, cpu_millis, surroundings, requests, kill, machine, .. } = order;
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
        let meter = Meter::new(cpu_millis, Arc::clone(&machine.ticker));
        match program {
            Program::Command(program) => {
                drop(requests);
                command(&machine, &program, &surroundings, &meter, voice).await
            }
            Program::Handler(program) => {
                voice.started().await;
                handler::serve(&machine.engine, &program, &surroundings, &meter, requests).await
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

async fn command(
    machine: &Machine,
    program: &CommandPre<Host>,
    surroundings: &Surroundings,
    meter: &Meter,
    voice: &Voice,
) -> Exit {
    let mut store = surroundings.store(&machine.engine);
    let instance = meter.measure(program.instantiate_async(&mut store)).await;
    let instance = match instance {
        Ok(instance) => instance,
        Err(_) if surroundings.account.is_exceeded() => return Exit::OutOfMemory,
        Err(error) => return Exit::CannotStart(failure(&error)),
    };
    voice.started().await;
    let outcome = meter.measure(instance.wasi_cli_run().call_run(&mut store)).await;
    match outcome {
        Ok(Ok(())) => Exit::Code(0),
        Ok(Err(())) => Exit::Code(1),
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(I32Exit(code)) => Exit::Code(*code),
            None if surroundings.account.is_exceeded() => Exit::OutOfMemory,
            None => Exit::Trapped(failure(&error)),
        },
    }
}

/// Why a guest failed, for people: the trap, or else the whole chain of causes.
pub(crate) fn failure(error: &Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(trap) => trap.to_string(),
        None => format!("{error:#}"),
    }
}
