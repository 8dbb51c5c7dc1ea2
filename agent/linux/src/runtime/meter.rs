//! Measures the processor time of guests around every turn that they get, and lets them wait for their turns.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Sleep;

use super::epoch::Ticker;
use super::turns::{Answer, CpuUsage, Member, Ticket, Turns};

/// The turns of one agent's guest threads.
pub(crate) struct Schedule {
    turns: Mutex<Turns<Waker>>,
    started: Instant,
}

impl Schedule {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self { turns: Mutex::new(Turns::new(threads)), started: Instant::now() })
    }

    fn turns(&self) -> MutexGuard<'_, Turns<Waker>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The processor time of one container, shared by all that computes in its name.
pub(crate) struct Meter {
    schedule: Arc<Schedule>,
    member: Member,
    ticker: Arc<Ticker>,
    /// What others compute on the container's behalf, in nanoseconds; on its account at the end of its next turn.
    elsewhere_ns: AtomicU64,
}

impl Meter {
    /// For a container with this `limits.cpu` and `requests.cpu` (thousandths of a core; zero for none).
    pub(crate) fn new(
        schedule: Arc<Schedule>,
        ticker: Arc<Ticker>,
        limit_millis: u64,
        request_millis: u64,
    ) -> Arc<Self> {
        let member = schedule.turns().join(limit_millis, request_millis, schedule.now_ns());
        Arc::new(Self { schedule, member, ticker, elsewhere_ns: AtomicU64::new(0) })
    }

    /// Runs `future`, which is a guest's work, on this container's account.
    pub(crate) fn measure<F: Future>(self: &Arc<Self>, future: F) -> Measured<F> {
        let ticket = self.schedule.turns().ticket();
        let bell = Arc::new(Bell { rung: AtomicBool::new(false), task: Mutex::new(Waker::noop().clone()) });
        let waker = Waker::from(Arc::clone(&bell));
        let future = Box::pin(future);
        Measured { meter: Arc::clone(self), ticket, future, bell, waker, pause: None, has_had_a_turn: false }
    }

    /// Adds what another thread computes for the container, about.
    pub(crate) fn charge_elsewhere(&self, used_ns: u64) {
        self.elsewhere_ns.fetch_add(used_ns, Ordering::Relaxed);
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> CpuUsage {
        self.schedule.turns().usage(self.member)
    }

    fn ask(&self, ticket: Ticket, waker: &Waker) -> Answer {
        let now_ns = self.schedule.now_ns();
        let (answer, wake) = self.schedule.turns().ask(self.member, ticket, now_ns, waker.clone());
        wake.into_iter().for_each(Waker::wake);
        answer
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.schedule.turns().leave(self.member);
    }
}

/// See [`Meter::measure`].
pub(crate) struct Measured<F> {
    meter: Arc<Meter>,
    ticket: Ticket,
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    /// Rings the bell.
    waker: Waker,
    pause: Option<Pin<Box<Sleep>>>,
    has_had_a_turn: bool,
}

impl<F> Measured<F> {
    /// Whether it has computed at all.
    pub(crate) const fn has_had_a_turn(&self) -> bool {
        self.has_had_a_turn
    }
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
            match this.meter.ask(this.ticket, context.waker()) {
                Answer::Go => break,
                Answer::Wait => return Poll::Pending,
                Answer::Pause(wait_ns) => {
                    this.pause = Some(Box::pin(tokio::time::sleep(Duration::from_nanos(wait_ns))));
                }
            }
        }
        this.has_had_a_turn = true;
        this.bell.prepare(context.waker());
        let mut turn = Turn::begin(&this.meter);
        let outcome = this.future.as_mut().poll(&mut Context::from_waker(&this.waker));
        if outcome.is_pending() && this.bell.rung.load(Ordering::SeqCst) {
            turn.again = Some((this.ticket, context.waker().clone()));
        }
        outcome
    }
}

impl<F> Drop for Measured<F> {
    fn drop(&mut self) {
        let now_ns = self.meter.schedule.now_ns();
        let wake = self.meter.schedule.turns().give_up(self.meter.member, self.ticket, now_ns);
        wake.into_iter().for_each(Waker::wake);
    }
}

/// Wakes the task, and knows that it did: a guest whose bell has rung by the end of its turn was only interrupted.
struct Bell {
    rung: AtomicBool,
    task: Mutex<Waker>,
}

impl Bell {
    fn prepare(&self, task: &Waker) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(task);
        self.rung.store(false, Ordering::SeqCst);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        task.wake();
    }
}

/// A guest computes; also where the host panics on its behalf, its turn ends with this.
struct Turn<'a> {
    meter: &'a Meter,
    before: Duration,
    again: Option<(Ticket, Waker)>,
    _computing: super::epoch::Computing<'a>,
}

impl<'a> Turn<'a> {
    fn begin(meter: &'a Meter) -> Self {
        Self { meter, _computing: meter.ticker.computing(), before: processor_time(), again: None }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let used = processor_time().saturating_sub(self.before);
        let elsewhere_ns = self.meter.elsewhere_ns.swap(0, Ordering::Relaxed);
        let used_ns = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX).saturating_add(elsewhere_ns);
        let schedule = &self.meter.schedule;
        let now_ns = schedule.now_ns();
        let wake = schedule.turns().end(self.meter.member, now_ns, used_ns, self.again.take());
        wake.into_iter().for_each(Waker::wake);
    }
}

/// What this thread has computed so far. A turn never changes its thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
