//! Standard output and standard error: both end in the container's log, each line whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use coracle_model::Limits;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::memory::Account;
use crate::logs::{Output, Writer};

/// The most that a guest writes in one call.
const WRITE_BYTES: usize = 64 * 1024;
/// What the log keeps for a line beside its text.
const LINE_BYTES: u64 = 64;
/// The most that the host ever keeps of a run's output: lines of one byte are mostly overhead, and then there are two
/// lines without an end yet.
const MOST_BYTES: u64 = 2 * Limits::LINUX.log_bytes as u64 + 2 * 16 * 1024;

/// All that one run writes. What the host keeps of it is on the container's account.
#[derive(Debug)]
pub(crate) struct Written {
    account: Arc<Account>,
    bytes: AtomicU64,
    charged_bytes: AtomicU64,
}

impl Written {
    pub(super) fn new(account: &Arc<Account>) -> Arc<Self> {
        Arc::new(Self { account: Arc::clone(account), bytes: AtomicU64::new(0), charged_bytes: AtomicU64::new(0) })
    }

    /// Everything so far, thrown away or not, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: &[u8]) -> StreamResult<()> {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let charged_bytes = self.charged_bytes.load(Ordering::Relaxed);
        let room = MOST_BYTES.saturating_sub(charged_bytes);
        if room == 0 {
            return Ok(());
        }
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let more = (bytes.len() as u64).saturating_add(lines * LINE_BYTES).min(room);
        self.account.take(more).map_err(|error| StreamError::Trap(error.into()))?;
        self.charged_bytes.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }
}

/// One of a run's two streams.
#[derive(Clone)]
pub(super) struct GuestOutput {
    writer: Arc<Mutex<Writer>>,
    written: Arc<Written>,
}

impl GuestOutput {
    pub(super) fn new(output: &Arc<Output>, written: &Arc<Written>) -> Self {
        Self { writer: Arc::new(Mutex::new(output.writer())), written: Arc::clone(written) }
    }
}

impl IsTerminal for GuestOutput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestOutput {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for this, which this build does not offer.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for GuestOutput {
    async fn ready(&mut self) {}
}

impl OutputStream for GuestOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.written.add(&bytes)?;
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tally::Tally;

    // LIF-07
    #[test]
    fn what_the_log_keeps_counts_and_what_it_throws_away_does_not() {
        let account = Account::new(0, 0, &Arc::new(Tally::new(0, None)));
        let written = Written::new(&account);
        let mut out = GuestOutput::new(&Output::new(Limits::LINUX.log_bytes), &written);
        assert!(out.write(Bytes::from_static(b"one\ntw")).is_ok());
        assert_eq!((written.bytes(), account.used_bytes()), (6, 6 + LINE_BYTES));
        for _ in 0..100 {
            assert!(out.write(Bytes::from(vec![b'\n'; WRITE_BYTES])).is_ok());
        }
        assert_eq!((written.bytes(), account.used_bytes()), (6 + 100 * WRITE_BYTES as u64, MOST_BYTES));
    }

    // LIF-07
    #[test]
    fn output_over_the_limit_ends_the_guest() {
        let account = Account::new(1024, 0, &Arc::new(Tally::new(0, None)));
        let mut out = GuestOutput::new(&Output::new(Limits::LINUX.log_bytes), &Written::new(&account));
        assert!(matches!(out.write(Bytes::from(vec![b'x'; 2048])), Err(StreamError::Trap(_))));
        assert!(account.exceeded().is_some());
    }
}
