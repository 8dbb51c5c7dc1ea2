//! Streams of files: they keep their file open, and what is written to them is charged for before it is.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::Handle;
use crate::runtime::memory;

/// A stream to read from.
pub(super) struct Read {
    pub(super) inner: Box<dyn InputStream>,
    pub(super) _handle: Arc<Handle>,
    pub(super) _buffer: memory::Held,
}

#[wasmtime_wasi::async_trait]
impl Pollable for Read {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[wasmtime_wasi::async_trait]
impl InputStream for Read {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.inner.read(size)
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.inner.blocking_read(size).await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

/// A stream to write to.
pub(super) struct Written {
    pub(super) inner: Box<dyn OutputStream>,
    pub(super) handle: Arc<Handle>,
    /// Where the next byte goes; nothing for the end of the file.
    pub(super) position: Option<u64>,
    pub(super) is_full: bool,
    pub(super) _buffer: memory::Held,
}

impl Written {
    fn charge(&mut self, count: usize) -> StreamResult<()> {
        if self.is_full {
            return Err(StreamError::Closed);
        }
        let count = count as u64;
        if self.handle.growing(self.position, count).is_err() {
            self.is_full = true;
            // What a full disk says, and what `filesystem-error-code` tells the guest.
            let error = io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error());
            return Err(StreamError::LastOperationFailed(error.into()));
        }
        self.position = self.position.map(|position| position.saturating_add(count));
        Ok(())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Written {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Written {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.charge(bytes.len())?;
        self.inner.write(bytes)
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.charge(bytes.len())?;
        self.inner.blocking_write_and_flush(bytes).await
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        if self.is_full { Err(StreamError::Closed) } else { self.inner.check_write() }
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}
