//! How much may wait to be sent, in bytes; shared by the publishers of a session and the task that sends.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{AcquireError, Notify, Semaphore, TryAcquireError};

/// What may be queued or unacknowledged at once in one session: 8 MiB, each message counted with its overhead.
const WINDOW_BYTES: u32 = 8 * 1024 * 1024;
/// What a message costs beside its own bytes, about.
const OVERHEAD_BYTES: u32 = 256;
/// Messages that fit into an empty window; so a queue of this length is never full before the window is.
pub(crate) const MAX_QUEUED: usize = (WINDOW_BYTES / OVERHEAD_BYTES) as usize;

/// Bytes are taken when a message is queued and given back when the broker has acknowledged it.
#[derive(Debug)]
pub(crate) struct Window {
    free: Semaphore,
    /// Something was acknowledged, or the session is over.
    eased: Notify,
    queued: Mutex<VecDeque<u32>>,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { free: Semaphore::new(WINDOW_BYTES as usize), eased: Notify::new(), queued: Mutex::default() }
    }

    /// What a packet of this size takes of the window.
    pub(crate) const fn charge(packet_bytes: u32) -> u32 {
        packet_bytes.saturating_add(OVERHEAD_BYTES)
    }

    /// Takes `charge` and queues with `send`, in one order for both. `Ok(false)` when `send` could not.
    ///
    /// # Errors
    /// When the window is full, or the session is over.
    pub(crate) fn try_queue(&self, charge: u32, send: impl FnOnce() -> bool) -> Result<bool, TryAcquireError> {
        self.free.try_acquire_many(charge)?.forget();
        Ok(self.queue(charge, send))
    }

    /// As [`Window::try_queue`], but waits for room, in turn.
    ///
    /// # Errors
    /// When the session is over.
    pub(crate) async fn queue_in_turn(&self, charge: u32, send: impl FnOnce() -> bool) -> Result<bool, AcquireError> {
        self.free.acquire_many(charge).await?.forget();
        Ok(self.queue(charge, send))
    }

    fn queue(&self, charge: u32, send: impl FnOnce() -> bool) -> bool {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = send();
        if sent {
            queued.push_back(charge);
        } else {
            self.free.add_permits(charge as usize);
        }
        sent
    }

    /// The oldest queued message was sent; what it was charged is to be given back at its acknowledgement.
    pub(crate) fn sent(&self) -> u32 {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or_default()
    }

    /// A message was acknowledged.
    pub(crate) fn acknowledged(&self, charge: u32) {
        self.free.add_permits(charge as usize);
        self.eased.notify_waiters();
    }

    /// Waits until no more than so many bytes are queued or unacknowledged, or the session is over. It stands in
    /// nobody's way meanwhile.
    pub(crate) async fn below(&self, bytes: usize) {
        loop {
            let eased = self.eased.notified();
            if self.free.is_closed() || WINDOW_BYTES as usize - self.free.available_permits() <= bytes {
                return;
            }
            eased.await;
        }
    }

    /// Waits until all that was queued is acknowledged, or the session is over. Nothing is queued after that.
    pub(crate) async fn idle(&self) {
        if let Ok(everything) = self.free.acquire_many(WINDOW_BYTES).await {
            everything.forget();
        }
    }

    /// The session is over: nothing is queued any more.
    pub(crate) fn close(&self) {
        self.free.close();
        self.eased.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_full_until_something_is_acknowledged() {
        let window = Window::new();
        let charge = Window::charge(1024 * 1024);
        let mut queued = 0;
        while window.try_queue(charge, || true) == Ok(true) {
            queued += 1;
        }
        assert_eq!(queued, 7);
        let sent = window.sent();
        assert_eq!(window.try_queue(charge, || true), Err(TryAcquireError::NoPermits));
        window.acknowledged(sent);
        assert_eq!(window.try_queue(charge, || true), Ok(true));
    }

    #[test]
    fn what_could_not_be_queued_takes_nothing() {
        let window = Window::new();
        for _ in 0..MAX_QUEUED * 2 {
            assert_eq!(window.try_queue(Window::charge(1000), || false), Ok(false));
        }
    }

    #[tokio::test]
    async fn whoever_can_wait_waits_for_the_link_and_keeps_nobody_from_it() {
        let window = Window::new();
        assert_eq!(window.try_queue(1000, || true), Ok(true));
        assert_eq!(window.try_queue(1000, || true), Ok(true));
        let patient = window.below(1000);
        tokio::pin!(patient);
        let is_ready = |patient: std::pin::Pin<&mut _>| std::future::Future::poll(patient, &mut noop()).is_ready();
        assert!(!is_ready(patient.as_mut()));
        assert_eq!(window.try_queue(1000, || true), Ok(true), "it took nothing for itself");
        for _ in 0..2 {
            assert!(!is_ready(patient.as_mut()));
            let charge = window.sent();
            window.acknowledged(charge);
        }
        patient.await;
        window.close();
        window.below(0).await;
    }

    fn noop() -> std::task::Context<'static> {
        std::task::Context::from_waker(std::task::Waker::noop())
    }

    #[test]
    fn a_closed_window_takes_nothing() {
        let window = Window::new();
        window.close();
        assert_eq!(window.try_queue(1, || true), Err(TryAcquireError::Closed));
    }
}
