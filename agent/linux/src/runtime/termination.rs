//! The termination signal as guests see it: the WIT interface `coracle:lifecycle/termination`, and end-of-file on
//! standard input for everybody else (TRM-03).

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::sync::watch;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::cli::{IsTerminal, StdinStream};
use wasmtime_wasi::p2::{DynPollable, InputStream, Pollable, StreamError, StreamResult, subscribe};

use super::host::Host;

/// Must be the interface that `workloads/wit/coracle-lifecycle/termination.wit` describes.
const INTERFACE: &str = "coracle:lifecycle/termination@0.1.0";

/// The end of the grace period, once the pod was asked to stop; the agent's side.
#[derive(Debug)]
pub(crate) struct Bell(watch::Sender<Option<Instant>>);

/// The guest's side.
#[derive(Clone, Debug)]
pub(crate) struct Hearing(watch::Receiver<Option<Instant>>);

/// A pair of both.
pub(crate) fn bell() -> (Bell, Hearing) {
    let (sender, receiver) = watch::channel(None);
    (Bell(sender), Hearing(receiver))
}

impl Bell {
    /// Asks to stop within `grace`; a later, shorter grace replaces an earlier one.
    pub(crate) fn ring(&self, grace: Duration) {
        let deadline = Instant::now().checked_add(grace);
        self.0.send_if_modified(|current| {
            let earlier = deadline.filter(|deadline| current.is_none_or(|current| *deadline < current));
            if earlier.is_some() {
                *current = earlier;
            }
            earlier.is_some()
        });
    }
}

impl Hearing {
    pub(crate) fn is_rung(&self) -> bool {
        self.0.borrow().is_some()
    }

    fn remaining_grace_ms(&self) -> Option<u64> {
        let deadline = (*self.0.borrow())?;
        let left = deadline.saturating_duration_since(Instant::now());
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// Waits until the pod is asked to stop.
    pub(crate) async fn rung(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            // The agent gave this run up without asking it to stop; it will be killed.
            std::future::pending::<()>().await;
        }
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Hearing {
    async fn ready(&mut self) {
        self.rung().await;
    }
}

/// Offers the interface to guests that import it.
pub(crate) fn add_to_linker(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(INTERFACE)?;
    interface
        .func_wrap("requested", |store: StoreContextMut<'_, Host>, (): ()| Ok((store.data().hearing.is_rung(),)))?;
    interface.func_wrap("remaining-grace-ms", |store: StoreContextMut<'_, Host>, (): ()| {
        Ok((store.data().hearing.remaining_grace_ms(),))
    })?;
    interface.func_wrap("subscribe", |mut store: StoreContextMut<'_, Host>, (): ()| {
        let host = store.data_mut();
        let hearing = host.table.push(host.hearing.clone())?;
        let pollable: Resource<DynPollable> = subscribe(&mut host.table, hearing)?;
        Ok((pollable,))
    })
}

/// Standard input that has nothing to say and ends when the pod is asked to stop.
pub(crate) struct Stdin(pub(crate) Hearing);

impl IsTerminal for Stdin {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for Stdin {
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        // Only WASI 0.3 asks for this, which this build does not offer.
        Box::new(tokio::io::empty())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(OpenUntilRung(self.0.clone()))
    }
}

struct OpenUntilRung(Hearing);

#[wasmtime_wasi::async_trait]
impl Pollable for OpenUntilRung {
    async fn ready(&mut self) {
        self.0.rung().await;
    }
}

impl InputStream for OpenUntilRung {
    fn read(&mut self, _size: usize) -> StreamResult<Bytes> {
        if self.0.is_rung() { Err(StreamError::Closed) } else { Ok(Bytes::new()) }
    }
}
