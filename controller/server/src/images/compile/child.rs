//! The compiler's process: limits first, then somebody's file.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use coracle_model::Digest;
use coracle_model::limits::{MAX_ARTIFACT_BYTES, MAX_IMAGE_BYTES};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setpriority_process, setrlimit,
};

use super::{CHILD_ARGUMENT, CHILD_CPU_S, CHILD_MEMORY_BYTES, DESCRIBE, REFUSED, TROUBLED};
use crate::images::adapt::{Form, adapt, form};
use crate::images::describe::describe;
use crate::images::digest_of;

/// What a process that has ignored the signal for too much processor time gets on top, in seconds.
const CPU_GRACE_S: u64 = 5;
/// The child comes after everything else that wants the processor.
const NICENESS: i32 = 10;

/// The child. `arguments` are those behind [`CHILD_ARGUMENT`]: a target, or `--describe`, and the digest of the image.
/// Call it first of all in `main`, before any runtime or thread is started.
#[must_use]
pub fn child_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match child(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let (code, reason) = match failure {
                Failure::Image(reason) => (REFUSED, reason),
                Failure::Machine(reason) => (TROUBLED, reason),
            };
            // Nobody is left to be told when this fails; the exit code still says it.
            let _: io::Result<()> = io::stderr().write_all(reason.as_bytes());
            ExitCode::from(code)
        }
    }
}

/// Why nothing came of it.
enum Failure {
    /// The image is at fault.
    Image(String),
    /// Something else is: another time it may be better.
    Machine(String),
}

fn child(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let arguments: Option<Vec<_>> = arguments.into_iter().map(|argument| argument.into_string().ok()).collect();
    let (target, image) = match arguments.as_deref() {
        Some([target, image]) => {
            (target.as_str(), image.parse::<Digest>().map_err(|error| Failure::Machine(error.to_string()))?)
        }
        _ => {
            let text = format!("{CHILD_ARGUMENT} is for the controller's own use: want a target and a digest");
            return Err(Failure::Machine(text));
        }
    };
    limit_this_process().map_err(|error| Failure::Machine(format!("the compiler's limits cannot be set: {error}")))?;
    let mut wasm = Vec::new();
    let most = MAX_IMAGE_BYTES as u64 + 1;
    io::stdin()
        .lock()
        .take(most)
        .read_to_end(&mut wasm)
        .map_err(|error| Failure::Machine(format!("the image cannot be read: {error}")))?;
    if digest_of(&wasm) != image {
        let text = format!("the stored image is damaged: it no longer has the digest {image}; push it again");
        return Err(Failure::Machine(text));
    }
    // A bug in a library that somebody's file brings to light is a refusal of that file, and its text is of no use to
    // whoever pushed it.
    std::panic::set_hook(Box::new(|_| {}));
    let work = || match target {
        DESCRIBE => describe(wasm).and_then(|found| serde_json::to_vec(&found).map_err(|error| error.to_string())),
        target => compile(wasm, target),
    };
    let made = std::panic::catch_unwind(work);
    let made = made.unwrap_or_else(|_| Err("the compiler cannot cope with this file".to_owned()));
    let made = made.map_err(Failure::Image)?;
    let mut output = io::stdout().lock();
    let written = output.write_all(&made).and_then(|()| output.flush());
    written.map_err(|error| Failure::Machine(format!("what was made cannot be written: {error}")))
}

/// Adapter and Cranelift, with the configuration that the agents have.
pub(in crate::images) fn compile(wasm: Vec<u8>, target: &str) -> Result<Vec<u8>, String> {
    let config = coracle_engine::config(target).map_err(|error| error.to_string())?;
    let engine = wasmtime::Engine::new(&config).map_err(|error| format!("no compiler for {target}: {error:#}"))?;
    let invalid = |error: wasmtime::Error| {
        format!("the image is not valid WebAssembly, or it needs a feature that no agent has: {error:#}")
    };
    if form(&wasm).map_err(|error| error.to_string())? == Form::Module {
        wasmtime::Module::validate(&engine, &wasm).map_err(invalid)?;
    }
    let component = adapt(wasm).map_err(|error| error.to_string())?;
    engine.precompile_component(&component).map_err(invalid)
}

/// Memory and time of this whole process, for good; what was limited more narrowly from outside stays so. It writes no
/// file larger than an artifact, and leaves no core dump. Everything else on the machine goes before it: for the
/// processor, and, should memory run out all the same, it is the one that the kernel ends. It does not outlive whoever
/// started it.
fn limit_this_process() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Without a `/proc` the kernel chooses by size, which is most likely the same choice.
    let _: io::Result<()> = std::fs::write("/proc/self/oom_score_adj", "1000");
    for (resource, most, beyond) in [
        (Resource::As, CHILD_MEMORY_BYTES, 0),
        // At the first limit comes a signal of its own, at the second one that any process may get.
        (Resource::Cpu, CHILD_CPU_S, CPU_GRACE_S),
        (Resource::Fsize, MAX_ARTIFACT_BYTES as u64, 0),
        (Resource::Core, 0, 0),
    ] {
        let found = getrlimit(resource);
        let within = |most: u64, found: Option<u64>| Some(found.map_or(most, |found| found.min(most)));
        let limit = Rlimit { current: within(most, found.current), maximum: within(most + beyond, found.maximum) };
        setrlimit(resource, limit)?;
    }
    Ok(setpriority_process(None, NICENESS)?)
}
