//! Measures and limits the processor time of a guest, around every turn that it gets.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Sleep;

use super::epoch::Ticker;
use super::quota::Quota;

/// The processor time of one container, shared by all that computes in its name.
#[derive(Clone)]
pub(crate) struct Meter {
    quota: Option<Arc<Mutex<Quota>>>,
    ticker: Arc<Ticker>,
    started: Instant,
}

impl Meter {
    /// For a container with this limit (thousandths of a core; zero for none).
    pub(crate) fn new(cpu_millis: u64, ticker: Arc<Ticker>) -> Self {
        let quota = Quota::new(cpu_millis, 0).map(|quota| Arc::new(Mutex::new(quota)));
        Self { quota, ticker, started: Instant::now() }
    }

    /// Runs `future`, which is a guest's work, on this container's account.
    pub(crate) fn measure<F: Future>(&self, future: F) -> Measured<F> {
        Measured { meter: self.clone(), future: Box::pin(future), pause: None }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn pause(&self) -> Option<Duration> {
        let quota = self.quota.as_ref()?;
        let wait = quota.lock().unwrap_or_else(PoisonError::into_inner).ready_in_ns(self.now_ns());
        (wait > 0).then_some(Duration::from_nanos(wait))
    }

    fn charge(&self, used: Duration) {
        if let Some(quota) = &self.quota {
            let used_ns = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
            quota.lock().unwrap_or_else(PoisonError::into_inner).charge(self.now_ns(), used_ns);
        }
    }
}

/// See [`Meter::measure`].
pub(crate) struct Measured<F> {
    meter: Meter,
    future: Pin<Box<F>>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        loop {
            if let Some(pause) = &mut this.pause {
                std::task::ready!(pause.as_mut().poll(context));
                this.pause = None;
            }
            match this.meter.pause() {
                Some(wait) => this.pause = Some(Box::pin(tokio::time::sleep(wait))),
                None => break,
            }
        }
        let computing = this.meter.ticker.computing();
        if this.meter.quota.is_none() {
            return this.future.as_mut().poll(context);
        }
        let before = processor_time();
        let outcome = this.future.as_mut().poll(context);
        let used = processor_time().saturating_sub(before);
        drop(computing);
        this.meter.charge(used);
        outcome
    }
}

/// What this thread has computed so far. A turn never changes its thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
