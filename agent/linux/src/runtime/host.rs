//! What a guest finds around it: its arguments and environment, clocks, random numbers, its output and its end.
//! No files and no network; what the pod does not name does not exist.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use coracle_model::{Container, Pod};
use http::{Request, Response};
use tokio::io::AsyncWrite;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

use super::memory::{Account, Holding};
use super::termination::{self, Hearing, Stdin};
use crate::logs::{Output, Writer};

/// What the host does for one guest at once, in bytes of lists and texts that pass between the two.
const HOSTCALL_FUEL: usize = 16 * 1024 * 1024;
/// Random bytes in one call.
const MAX_RANDOM_BYTES: u64 = 1024 * 1024;
/// Handles (streams, pollables, requests) that one guest may hold.
const MAX_HANDLES: usize = 16 * 1024;

/// The host's side of one instance.
pub(crate) struct Host {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    outgoing: NoOutgoing,
    pub(super) table: ResourceTable,
    pub(super) hearing: Hearing,
    holding: Holding,
}

/// Everything that instances of one container have in common.
#[derive(Clone)]
pub(crate) struct Surroundings {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    working_dir: Option<String>,
    stdin_eof: bool,
    pub(super) hearing: Hearing,
    pub(super) account: Arc<Account>,
    pub(super) output: Arc<Output>,
    out: GuestOutput,
    err: GuestOutput,
}

impl Surroundings {
    pub(crate) fn new(pod: &Pod, container: &Container, hearing: Hearing, output: Arc<Output>) -> Self {
        let mut arguments = container.argv.clone();
        if arguments.is_empty() {
            arguments.push(container.name.clone());
        }
        // The host name of a pod is its name (POD-03), and every container runtime says so here.
        let mut environment = vec![("HOSTNAME".to_owned(), pod.name.clone())];
        for variable in &container.env {
            environment.retain(|(name, _)| *name != variable.name);
            environment.push((variable.name.clone(), variable.value.clone()));
        }
        Self {
            arguments,
            environment,
            working_dir: container.working_dir.clone(),
            stdin_eof: container.stdin_eof,
            hearing,
            account: Account::new(container.limits.memory_bytes),
            out: GuestOutput::new(&output),
            err: GuestOutput::new(&output),
            output,
        }
    }

    /// A store for one instance. Guests are preempted at every tick of the epoch.
    pub(crate) fn store(&self, engine: &Engine) -> Store<Host> {
        let mut wasi = WasiCtx::builder();
        wasi.args(&self.arguments).envs(&self.environment).stdout(self.out.clone()).stderr(self.err.clone());
        wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false).max_random_size(MAX_RANDOM_BYTES);
        if !self.stdin_eof {
            wasi.stdin(Stdin(self.hearing.clone()));
        }
        if let Some(working_dir) = &self.working_dir {
            wasi.initial_cwd(working_dir);
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        let host = Host {
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            outgoing: NoOutgoing,
            table,
            hearing: self.hearing.clone(),
            holding: Holding::new(Arc::clone(&self.account)),
        };
        let mut store = Store::new(engine, host);
        store.limiter(|host| &mut host.holding);
        store.set_hostcall_fuel(HOSTCALL_FUEL);
        store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Yield(1)));
        store.set_epoch_deadline(1);
        store
    }
}

/// Everything that guests may import.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    termination::add_to_linker(&mut linker)?;
    Ok(linker)
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for Host {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.outgoing }
    }
}

/// Guests have no network yet, so no request leaves them.
struct NoOutgoing;

type Answer = (Response<WasiBody>, Box<dyn Future<Output = Result<(), wasmtime_wasi_http::Error>> + Send>);

impl WasiHttpHooks for NoOutgoing {
    fn send_request(
        &mut self,
        _request: Request<WasiBody>,
        _options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<(), wasmtime_wasi_http::Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answer, wasmtime_wasi_http::Error>> + Send> {
        Box::new(std::future::ready(Err(ErrorCode::HttpRequestDenied.into())))
    }
}

/// Standard output or standard error: both end in the container's log, each line whole.
#[derive(Clone)]
struct GuestOutput(Arc<Mutex<Writer>>);

/// The most that a guest writes in one call.
const WRITE_BYTES: usize = 64 * 1024;

impl GuestOutput {
    fn new(output: &Arc<Output>) -> Self {
        Self(Arc::new(Mutex::new(output.writer())))
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}
