//! When pods are measured: not at all while none has a limit, and never so often that it costs a noticeable part of a
//! processor.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Subject, Verdict, survey};

/// How often (Kubernetes: `localStorageCapacityIsolation` looks every 10 s).
const PERIOD: Duration = Duration::from_secs(10);
/// A survey that takes long is followed by a pause of so many times its length.
const PAUSE: u32 = 100;

/// What is to be done next.
#[derive(Debug)]
pub enum Turn {
    /// It is time to look.
    Due,
    /// One has looked.
    Over(Vec<Verdict>),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Surveyor {
    due_at: Option<Instant>,
    running: Option<(JoinHandle<Vec<Verdict>>, Instant)>,
}

impl Surveyor {
    /// There is something to look at, if `wanted`.
    pub fn arm(&mut self, wanted: bool) {
        match (wanted, self.due_at) {
            (true, None) if self.running.is_none() => self.due_at = Some(Instant::now() + PERIOD),
            (false, Some(_)) => self.due_at = None,
            _ => {}
        }
    }

    /// Looks, on a thread that may take its time.
    pub fn begin(&mut self, subjects: Vec<Subject>) {
        self.due_at = None;
        let work = tokio::task::spawn_blocking(move || survey(&subjects));
        self.running = Some((work, Instant::now()));
    }

    /// Waits for the next turn; for ever while nothing is to be done. It may be dropped at any time.
    pub async fn next(&mut self) -> Turn {
        if let Some((work, began)) = &mut self.running {
            // A survey that failed has found nothing; the next one looks again.
            let verdicts = work.await.unwrap_or_default();
            let pause = PERIOD.max(began.elapsed() * PAUSE);
            self.running = None;
            self.due_at = Some(Instant::now() + pause);
            return Turn::Over(verdicts);
        }
        match self.due_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.due_at = None;
        Turn::Due
    }
}
