//! The engine of one agent and the images that are ready to start. It is made when the first guest starts: an idle
//! agent has none.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use coracle_engine::{Footprint, LoadError, ProofError, TargetError, Verified};
use coracle_model::Digest;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Engine, Error};
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi_http::p2::bindings::ProxyPre;

use super::epoch::Ticker;
use super::host::Host;
use super::imports;
use crate::artifacts::Stored;

/// Images that stay ready to start although nothing runs them.
const MAX_READY: usize = 32;

/// Why an image cannot be started (`StartError`).
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error("the engine cannot be set up: {0}")]
    Engine(String),
    #[error("the image's artifact is not on this node")]
    Absent,
    #[error("the image's artifact is refused: {0}")]
    Proof(#[from] ProofError),
    #[error("the image's artifact cannot be loaded: {0}")]
    Load(#[from] LoadError),
    #[error("{0}")]
    Link(String),
    #[error("it exports neither wasi:cli/run nor wasi:http/incoming-handler, so there is nothing to run")]
    NoEntry,
}

impl From<TargetError> for PrepareError {
    fn from(error: TargetError) -> Self {
        Self::Engine(error.to_string())
    }
}

impl From<io::Error> for PrepareError {
    fn from(error: io::Error) -> Self {
        Self::Engine(error.to_string())
    }
}

/// What kind of program an image is. Both forms are linked already, so a start only makes an instance.
#[derive(Clone)]
pub(crate) enum Program {
    /// It runs once, from `wasi:cli/run`.
    Command(CommandPre<Host>),
    /// It answers requests, each in an instance of its own.
    Handler(ProxyPre<Host>),
}

/// See the module.
pub(crate) struct Machine {
    pub(super) engine: Engine,
    pub(super) ticker: Arc<Ticker>,
    pub(super) footprint: Footprint,
    linker: Linker<Host>,
    /// The latest at the end.
    ready: Mutex<Vec<(Digest, Program)>>,
}

impl Machine {
    pub(crate) fn new() -> Result<Self, PrepareError> {
        let config = coracle_engine::config(coracle_engine::host_target())?;
        let text = |error: Error| PrepareError::Engine(format!("{error:#}"));
        let engine = Engine::new(&config).map_err(text)?;
        let linker = imports::linker(&engine).map_err(text)?;
        let footprint = Footprint::of(coracle_engine::host_target())?;
        let ticker = Arc::new(Ticker::start(engine.clone())?);
        Ok(Self { engine, ticker, footprint, linker, ready: Mutex::default() })
    }

    /// The program of an image, if it has been started before.
    pub(crate) fn ready(&self, image: Digest) -> Option<Program> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let at = ready.iter().position(|(digest, _)| *digest == image)?;
        let entry = ready.remove(at);
        let program = entry.1.clone();
        ready.push(entry);
        Some(program)
    }

    /// Reads, checks, loads and links an artifact; takes milliseconds, and more for a large one.
    pub(crate) fn prepare(&self, stored: &Stored, key: &[u8; 32]) -> Result<Program, PrepareError> {
        let proof = stored.prove(key)?;
        let program = self.program(&proof)?;
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.retain(|(digest, _)| *digest != proof.image());
        if ready.len() >= MAX_READY {
            ready.remove(0);
        }
        ready.push((proof.image(), program.clone()));
        Ok(program)
    }

    fn program(&self, proof: &Verified) -> Result<Program, PrepareError> {
        let component = coracle_engine::load(&self.engine, proof)?;
        let exports = |interface: &str| exports(&component, &self.engine, interface);
        let text = |error: Error| PrepareError::Link(format!("{error:#}"));
        let is_handler = exports("wasi:http/incoming-handler@0.2.");
        if !is_handler && !exports("wasi:cli/run@0.2.") {
            return Err(PrepareError::NoEntry);
        }
        let instance: InstancePre<Host> = self.linker.instantiate_pre(&component).map_err(text)?;
        Ok(if is_handler {
            Program::Handler(ProxyPre::new(instance).map_err(text)?)
        } else {
            Program::Command(CommandPre::new(instance).map_err(text)?)
        })
    }
}

fn exports(component: &Component, engine: &Engine, interface: &str) -> bool {
    component.component_type().exports(engine).any(|(name, _)| name.starts_with(interface))
}
