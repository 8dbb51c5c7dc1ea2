//! Holds publishers back while the controller is behind.
//!
//! A broker acknowledges a message when it has queued it, and throws the oldest away when a queue is full, so a burst that
//! the controller takes a second to read would lose messages without anybody noticing. Here each message to the
//! controller is counted until the controller has acknowledged it, and when too many are, a publisher's connection waits
//! before its next one is queued: TCP carries that back to the agent.
//!
//! The count is not trusted for ever. It starts anew with every session of the controller, and when nothing has moved for
//! a while.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Messages on their way to the controller.
const OPEN_MESSAGES: usize = 8192;
/// When a publisher has waited this long, the count is taken to be wrong.
const PATIENCE: Duration = Duration::from_secs(5);

/// The valve.
#[derive(Debug, Default)]
pub(crate) struct Valve {
    /// Messages that were let through and not acknowledged; `None` while no controller is connected.
    open: Mutex<Option<usize>>,
    moved: Notify,
}

impl Valve {
    /// A controller connected, or left.
    pub(crate) fn reset(&self, connected: bool) {
        *self.open.lock() = connected.then_some(0);
        self.moved.notify_waiters();
    }

    /// Waits until one more message may be queued.
    pub(crate) async fn enter(&self) {
        if self.try_enter() {
            return;
        }
        let waiting = async {
            loop {
                let moved = self.moved.notified();
                tokio::pin!(moved);
                moved.as_mut().enable();
                if self.try_enter() {
                    return;
                }
                moved.await;
            }
        };
        if timeout(PATIENCE, waiting).await.is_err() {
            tracing::debug!("the controller acknowledges nothing; publishers are no longer held back");
            self.reset(true);
        }
    }

    fn try_enter(&self) -> bool {
        match &mut *self.open.lock() {
            None => true,
            Some(open) if *open < OPEN_MESSAGES => {
                *open += 1;
                true
            }
            Some(_) => false,
        }
    }

    /// A message was acknowledged, or has gone another way.
    pub(crate) fn leave(&self) {
        if let Some(open) = &mut *self.open.lock() {
            *open = open.saturating_sub(1);
        }
        self.moved.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::poll;

    use super::*;

    async fn full() -> Valve {
        let valve = Valve::default();
        valve.reset(true);
        for _ in 0..OPEN_MESSAGES {
            valve.enter().await;
        }
        valve
    }

    #[tokio::test]
    async fn one_acknowledgement_lets_one_publisher_through() {
        let valve = full().await;
        let (mut first, mut second) = (Box::pin(valve.enter()), Box::pin(valve.enter()));
        assert_eq!((poll!(&mut first), poll!(&mut second)), (Poll::Pending, Poll::Pending));
        valve.leave();
        first.await;
        assert_eq!(poll!(&mut second), Poll::Pending);
        valve.leave();
        second.await;
    }

    #[tokio::test]
    async fn nobody_is_held_back_when_no_controller_is_there_to_acknowledge() {
        let valve = full().await;
        let mut waiting = Box::pin(valve.enter());
        assert_eq!(poll!(&mut waiting), Poll::Pending);
        valve.reset(false);
        waiting.await;
        for _ in 0..OPEN_MESSAGES * 2 {
            valve.enter().await;
        }
    }

    #[tokio::test]
    async fn more_acknowledgements_than_messages_do_not_open_it_further() {
        let valve = Valve::default();
        valve.reset(true);
        valve.leave();
        for _ in 0..OPEN_MESSAGES {
            valve.enter().await;
        }
        valve.moved.notify_one();
        let mut waiting = Box::pin(valve.enter());
        assert_eq!(poll!(&mut waiting), Poll::Pending);
    }
}
