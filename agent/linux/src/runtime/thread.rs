//! A thread for guests.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use coracle_agent_core::RuntimeEvent;
use coracle_lifecycle::Exit;
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::Report;
use super::guest::{self, Order, Voice};

/// Starts that wait for the thread's attention.
const MAX_ORDERS: usize = 64;
/// Wasm runs on stacks of its own; this one is for the host's side.
const STACK_BYTES: usize = 1024 * 1024;
/// A thread that reads artifacts goes when it had nothing to do for so long.
const BLOCKING_IDLE: Duration = Duration::from_secs(1);

/// Ends with its last guest dropped when this is dropped.
pub(super) struct GuestThread {
    orders: mpsc::Sender<Order>,
}

impl GuestThread {
    pub(super) fn start(number: usize, reports: mpsc::Sender<Report>) -> io::Result<Self> {
        let (orders, mut receiver) = mpsc::channel::<Order>(MAX_ORDERS);
        let runtime = Builder::new_current_thread()
            .enable_time()
            // Look for kills, timers and new guests after every turn of a guest, since a turn may take a whole tick.
            .event_interval(1)
            .global_queue_interval(1)
            .thread_keep_alive(BLOCKING_IDLE)
            .thread_stack_size(STACK_BYTES)
            .build()?;
        let work = async move {
            while let Some(order) = receiver.recv().await {
                tokio::spawn(attend(order, reports.clone()));
            }
        };
        thread::Builder::new()
            .name(format!("coracle-guest-{number}"))
            .stack_size(STACK_BYTES)
            .spawn(move || runtime.block_on(work))?;
        Ok(Self { orders })
    }

    /// Whether the thread took it.
    pub(super) async fn send(&self, order: Order) -> bool {
        self.orders.send(order).await.is_ok()
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
struct CatchUnwind<F>(std::pin::Pin<Box<F>>);

impl<F: Future> Future for CatchUnwind<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        let future = &mut self.0;
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(_) => std::task::Poll::Ready(None),
        }
    }
}
