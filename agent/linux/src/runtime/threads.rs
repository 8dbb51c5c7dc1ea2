//! The threads for guests.

use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use coracle_agent_core::RuntimeEvent;
use coracle_lifecycle::Exit;
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::Report;
use super::guest::{self, Order, Voice};
use super::meter::Schedule;

/// Guests of one node rarely fill more cores than this, and each thread is memory.
const MAX_THREADS: usize = 4;
/// Threads that read and write files for guests, and load artifacts: a slow disk holds up nobody who does not use it.
const MAX_DISK_THREADS: usize = 4;
/// Wasm runs on stacks of its own; this one is for the host's side.
const STACK_BYTES: usize = 1024 * 1024;
/// A disk thread goes when it had nothing to do for so long.
const DISK_IDLE: Duration = Duration::from_secs(1);

/// They end, with every guest dropped, when this is dropped.
pub(super) struct GuestThreads {
    runtime: Option<tokio::runtime::Runtime>,
    pub(super) schedule: Arc<Schedule>,
}

impl GuestThreads {
    /// One a core, up to a bound.
    pub(super) fn start() -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let runtime = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("coracle-guest")
            .thread_stack_size(STACK_BYTES)
            .max_blocking_threads(MAX_DISK_THREADS)
            .thread_keep_alive(DISK_IDLE)
            .enable_time()
            // Look for kills, timers and new guests after every turn of a guest, since a turn may take a whole tick.
            .event_interval(1)
            .global_queue_interval(1)
            .build()?;
        Ok(Self { runtime: Some(runtime), schedule: Schedule::new(count) })
    }

    /// Follows a run to its end.
    pub(super) fn attend(&self, order: Order, reports: mpsc::Sender<Report>) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(attend(order, reports));
        }
    }
}

impl Drop for GuestThreads {
    fn drop(&mut self) {
        // Without waiting: whoever drops this may be a task, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Follows a run to its end, and says so whatever happens.
async fn attend(order: Order, reports: mpsc::Sender<Report>) {
    let run = order.run.clone();
    let output = Arc::clone(&order.surroundings.output);
    let voice = Voice { run: run.clone(), reports };
    let exit = CatchUnwind(Box::pin(guest::run(order, &voice))).await;
    let exit = exit.unwrap_or_else(|| Exit::Trapped("the agent failed while it ran this guest".to_owned()));
    output.end();
    voice.say(Report::Event(RuntimeEvent::Exited { run, exit })).await;
}

/// A panic of the host on behalf of one guest ends that guest, and no other.
struct CatchUnwind<F>(Pin<Box<F>>);

impl<F: Future> Future for CatchUnwind<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        }
    }
}
