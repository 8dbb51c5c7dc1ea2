//! What a guest finds around it: its arguments and environment, its directories, clocks, random numbers, its output and
//! its end. No network; what the pod does not name does not exist.

use std::sync::Arc;

use coracle_lifecycle::Exit;
use coracle_model::{Container, Pod};
use http::{Request, Response};
use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{
    FieldMap, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use super::filesystem::{Files, MAX_DESCRIPTORS};
use super::machine::Machine;
use super::memory::{Account, Holding, OutOfMemory};
use super::meter::Meter;
use super::output::{GuestOutput, Written};
use super::preopen::Preopen;
use super::tally::Tally;
use super::termination::{Hearing, Stdin};
use crate::logs::Output;

/// What the host does for one guest at once, in bytes of lists and texts that pass between the two.
const HOSTCALL_FUEL: usize = 2 * 1024 * 1024;
/// Random bytes in one call.
const MAX_RANDOM_BYTES: u64 = 1024 * 1024;
/// Handles (streams, pollables, requests) that one guest may hold.
pub(super) const MAX_HANDLES: usize = 4096;
/// Handles that one guest may make by itself, of resources of its own.
const MAX_OWN_HANDLES: usize = 8192;
/// What the host keeps for a handle, about, in bytes.
const HANDLE_BYTES: u64 = 256;
/// The most that the headers of one request or answer may take, in bytes; each set of them counts as full.
const HEADERS_BYTES: usize = 16 * 1024;
/// The largest piece of an answer that waits for the one before it to leave, in bytes.
const ANSWER_PIECE_BYTES: usize = 64 * 1024;
/// What an instance takes beside its stack, its memories and its tables, about, in bytes.
const INSTANCE_BYTES: u64 = 64 * 1024;

/// The host's side of one instance.
pub(crate) struct Host {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    outgoing: NoOutgoing,
    pub(super) table: ResourceTable,
    pub(super) hearing: Hearing,
    holding: Holding,
    files: Files,
}

/// What all containers of a node share.
#[derive(Debug)]
pub(crate) struct Node {
    /// Memory, in bytes.
    pub(super) memory: Arc<Tally>,
    /// Descriptors of the operating system.
    pub(super) descriptors: Arc<Tally>,
}

/// Why a guest has no store. Nothing of it has run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    #[error("no more files can be opened on this node, and its volumes need some")]
    Descriptors,
    #[error("the volume at {guest_path} cannot be opened: {reason}")]
    Volume { guest_path: String, reason: String },
}

impl StoreError {
    /// How the container ends.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Memory(error) => error.exit(),
            Self::Descriptors | Self::Volume { .. } => Exit::CannotStart(self.to_string()),
        }
    }
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
    pub(super) meter: Arc<Meter>,
    pub(super) written: Arc<Written>,
    pub(super) descriptors: Arc<Tally>,
    out: GuestOutput,
    err: GuestOutput,
    pub(super) preopens: Vec<Preopen>,
}

impl Surroundings {
    pub(crate) fn new(
        (pod, container): (&Pod, &Container),
        hearing: Hearing,
        output: Arc<Output>,
        preopens: Vec<Preopen>,
        meter: Arc<Meter>,
        node: &Node,
    ) -> Self {
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
        let account = Account::new(container.limits.memory_bytes, container.requests.memory_bytes, &node.memory);
        let written = Written::new(&account);
        Self {
            arguments,
            environment,
            working_dir: container.working_dir.clone(),
            stdin_eof: container.stdin_eof,
            hearing,
            account,
            meter,
            descriptors: Arc::new(Tally::new(MAX_DESCRIPTORS, Some(Arc::clone(&node.descriptors)))),
            out: GuestOutput::new(&output, &written),
            err: GuestOutput::new(&output, &written),
            written,
            output,
            preopens,
        }
    }

    /// A store for one instance that takes so many bytes beside what every instance takes. Guests are preempted at
    /// every tick of the epoch, and what the host holds for them is counted then.
    pub(crate) fn store(&self, machine: &Machine, more_bytes: u64) -> Result<Store<Host>, StoreError> {
        let base_bytes = INSTANCE_BYTES + machine.footprint.stack_bytes + more_bytes;
        let holding = Holding::new(Arc::clone(&self.account), base_bytes, machine.footprint.reservation_bytes)?;
        let files = Files::new(&self.preopens, &self.descriptors, &self.account, &self.meter);
        let files = files.ok_or(StoreError::Descriptors)?;
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(HEADERS_BYTES);
        let host = Host {
            wasi: self.wasi()?,
            http,
            outgoing: NoOutgoing,
            table,
            hearing: self.hearing.clone(),
            holding,
            files,
        };
        let mut store = Store::new(&machine.engine, host);
        store.limiter(|host| &mut host.holding);
        store.set_hostcall_fuel(HOSTCALL_FUEL);
        store.set_max_component_handles(MAX_OWN_HANDLES);
        store.epoch_deadline_callback(|mut context| {
            context.data_mut().settle()?;
            Ok(UpdateDeadline::Yield(1))
        });
        store.set_epoch_deadline(1);
        Ok(store)
    }

    fn wasi(&self) -> Result<WasiCtx, StoreError> {
        let mut wasi = WasiCtx::builder();
        wasi.args(&self.arguments).envs(&self.environment).stdout(self.out.clone()).stderr(self.err.clone());
        wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false).max_random_size(MAX_RANDOM_BYTES);
        if !self.stdin_eof {
            wasi.stdin(Stdin(self.hearing.clone()));
        }
        if let Some(working_dir) = &self.working_dir {
            wasi.initial_cwd(working_dir);
        }
        for Preopen { host_path, guest_path, read_only, .. } in &self.preopens {
            let permissions = if *read_only { FsPerms::ReadOnly } else { FsPerms::ReadWrite };
            wasi.preopened_dir(host_path, guest_path, permissions)
                .map_err(|error| StoreError::Volume { guest_path: guest_path.clone(), reason: format!("{error:#}") })?;
        }
        Ok(wasi.build())
    }
}

impl Host {
    /// Counts what the host holds for the guest beside memories, tables and streams of files.
    fn settle(&mut self) -> Result<(), OutOfMemory> {
        let bytes = self
            .table
            .iter_mut()
            .map(|entry| HANDLE_BYTES + if entry.is::<FieldMap>() { HEADERS_BYTES as u64 } else { 0 });
        let bytes = bytes.sum();
        self.holding.settle(bytes)
    }

    pub(super) fn filesystem_and_files(&mut self) -> (WasiFilesystemCtxView<'_>, &mut Files) {
        // wasmtime's own accessor would borrow all of this.
        let Self { wasi, table, files, .. } = self;
        (WasiFilesystemCtxView { ctx: wasi.filesystem(), table }, files)
    }
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

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        ANSWER_PIECE_BYTES
    }
}
