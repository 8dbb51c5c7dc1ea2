//! The clock that takes the processor away from guests: a thread that moves the engine's epoch every ten milliseconds
//! while a guest computes, and sleeps while none does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// How long a guest computes before the next one has its turn.
const TICK: Duration = Duration::from_millis(10);

#[derive(Default)]
struct State {
    /// Guests that are computing at this moment.
    computing: AtomicUsize,
    /// The thread is parked, or about to be.
    parked: AtomicBool,
    stopped: AtomicBool,
}

/// Owns the thread; dropping it ends the thread.
pub(crate) struct Ticker {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
    waker: Thread,
}

impl Ticker {
    /// Starts the thread, parked.
    pub(crate) fn start(engine: Engine) -> io::Result<Self> {
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new()
            .name("coracle-epoch".into())
            .stack_size(64 * 1024)
            .spawn(move || tick(&engine, &shared))?;
        let waker = thread.thread().clone();
        Ok(Self { state, thread: Some(thread), waker })
    }

    /// A guest computes until the guard is dropped.
    pub(crate) fn computing(&self) -> Computing<'_> {
        // The order, computing before parked here and parked before computing in the thread, is what makes it
        // impossible that both sides miss each other.
        self.state.computing.fetch_add(1, Ordering::SeqCst);
        if self.state.parked.load(Ordering::SeqCst) {
            self.waker.unpark();
        }
        Computing { state: &self.state }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        self.waker.unpark();
        if let Some(thread) = self.thread.take() {
            // It has nothing that could panic; and if it did, there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// See [`Ticker::computing`].
pub(crate) struct Computing<'a> {
    state: &'a State,
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.state.computing.fetch_sub(1, Ordering::SeqCst);
    }
}

fn tick(engine: &Engine, state: &State) {
    while !state.stopped.load(Ordering::SeqCst) {
        if state.computing.load(Ordering::SeqCst) == 0 {
            state.parked.store(true, Ordering::SeqCst);
            if state.computing.load(Ordering::SeqCst) == 0 && !state.stopped.load(Ordering::SeqCst) {
                thread::park();
            }
            state.parked.store(false, Ordering::SeqCst);
        }
        // Also after waking: a guest that computes for less than a tick, as most do, costs no more than this.
        thread::park_timeout(TICK);
        engine.increment_epoch();
    }
}
