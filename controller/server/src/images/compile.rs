//! Compiles an image for a target, in a child process of its own: Cranelift on somebody's input takes what memory and
//! time it likes, and the controller must neither grow by it nor wait for it (DESIGN, decision 7).
//!
//! The child is this program again, run as `PROGRAM __compile TARGET DIGEST`: the image comes on its standard input,
//! machine code goes to its standard output, which is a file, and the reason of a refusal to its standard error. So
//! neither passes through the controller's memory.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use coracle_model::Digest;
use coracle_model::limits::{MAX_ARTIFACT_BYTES, MAX_IMAGE_BYTES};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::adapt::{Form, adapt, form};
use super::digest_of;

/// The hidden first argument that makes a program a compiler.
pub const CHILD_ARGUMENT: &str = "__compile";
/// Address space of the child, in bytes.
const CHILD_MEMORY_BYTES: u64 = 2 << 30;
/// Processor time of the child, in seconds.
const CHILD_CPU_S: u64 = 60;
/// What the clock on the wall may show until the child is killed.
const CHILD_WALL: Duration = Duration::from_secs(120);
/// Children at once, if the machine has so many processors.
const CHILDREN: usize = 2;
/// What is kept of a refusal's text.
const MAX_REASON_BYTES: usize = 2048;
/// The child's exit code for "the image is not usable", with the reason on its standard error.
const REFUSED: u8 = 3;

/// Why an image was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The image is at fault: the same again would end the same.
    #[error("{reason}")]
    Refused {
        /// What the compiler says.
        reason: String,
    },
    /// The machine is at fault, and a later try may succeed.
    #[error("{action} the compiler's process")]
    Process {
        /// What was being done.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Where the WebAssembly comes from.
pub(super) enum Source {
    /// An open file.
    File(File),
    /// Built in.
    BuiltIn(&'static [u8]),
}

/// Starts children, a few at a time.
#[derive(Debug)]
pub(super) struct Compiler {
    program: PathBuf,
    wall: Duration,
    places: Semaphore,
}

impl Compiler {
    pub(super) fn new(program: PathBuf) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { program, wall: CHILD_WALL, places: Semaphore::new(processors.min(CHILDREN)) }
    }

    /// Compiles the image with this digest for a target; the machine code goes into `output`.
    pub(super) async fn compile(
        &self,
        source: impl AsyncFnOnce() -> io::Result<Source>,
        image: Digest,
        target: &str,
        output: File,
    ) -> Result<(), CompileError> {
        let failed = |action| move |source| CompileError::Process { action, source };
        // Nobody closes the semaphore; were it closed, children without a bound would still be right, only many.
        let _place = self.places.acquire().await.ok();
        let (input, built_in) = match source().await.map_err(failed("open the image for"))? {
            Source::File(file) => (Stdio::from(file), None),
            Source::BuiltIn(bytes) => (Stdio::piped(), Some(bytes)),
        };
        let mut child = Command::new(&self.program)
            .args([CHILD_ARGUMENT, target, &image.to_string()])
            .env_clear()
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed("start"))?;
        let stdin = child.stdin.take();
        let stderr = child.stderr.take();
        let feed = async move {
            if let (Some(mut stdin), Some(bytes)) = (stdin, built_in) {
                // A child that ended early has said why on its standard error.
                let _: io::Result<()> = stdin.write_all(bytes).await;
            }
        };
        let work = async { tokio::join!(child.wait(), feed, first_bytes(stderr)) };
        let Ok((status, (), words)) = tokio::time::timeout(self.wall, work).await else {
            let wall_s = self.wall.as_secs();
            return Err(refused(format!("compiling takes longer than {wall_s} s on this machine, which is the limit")));
        };
        verdict(status.map_err(failed("wait for"))?, words.trim())
    }
}

fn refused(reason: String) -> CompileError {
    CompileError::Refused { reason }
}

/// What a child's end means.
fn verdict(status: ExitStatus, words: &str) -> Result<(), CompileError> {
    if status.success() {
        return Ok(());
    }
    let memory_mib = CHILD_MEMORY_BYTES >> 20;
    let artifact_mib = MAX_ARTIFACT_BYTES >> 20;
    Err(refused(match (status.code(), status.signal()) {
        (Some(code), _) if code == i32::from(REFUSED) => words.to_owned(),
        (_, Some(libc::SIGXCPU)) => {
            format!("compiling takes more than {CHILD_CPU_S} s of processor time, which is the limit")
        }
        (_, Some(libc::SIGXFSZ)) => format!("the machine code is larger than {artifact_mib} MiB, which is the limit"),
        (_, Some(libc::SIGABRT | libc::SIGKILL | libc::SIGSEGV)) => {
            format!("the compiler broke down, most likely for want of memory (it may have {memory_mib} MiB): {words}")
        }
        _ => format!("the compiler failed ({status}): {words}"),
    }))
}

/// Reads to the end, so that the writer never blocks, and keeps the beginning.
async fn first_bytes(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut kept = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(count) = stream.read(&mut buffer).await
        && count > 0
    {
        let room = MAX_REASON_BYTES - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// The child. `arguments` are those behind [`CHILD_ARGUMENT`]: a target and the digest of the image. Call it first of
/// all in `main`, before any runtime or thread is started.
#[must_use]
pub fn child_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match child(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            // Nobody is left to be told when this fails; the exit code still says it.
            let _: io::Result<()> = io::stderr().write_all(reason.as_bytes());
            ExitCode::from(REFUSED)
        }
    }
}

fn child(arguments: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    let arguments: Option<Vec<_>> = arguments.into_iter().map(|argument| argument.into_string().ok()).collect();
    let (target, image) = match arguments.as_deref() {
        Some([target, image]) => (target.as_str(), image.parse::<Digest>().map_err(|error| error.to_string())?),
        _ => return Err(format!("{CHILD_ARGUMENT} is for the controller's own use: want a target and a digest")),
    };
    limit_this_process().map_err(|error| format!("the compiler's limits cannot be set: {error}"))?;
    let mut wasm = Vec::new();
    let most = MAX_IMAGE_BYTES as u64 + 1;
    io::stdin()
        .lock()
        .take(most)
        .read_to_end(&mut wasm)
        .map_err(|error| format!("the image cannot be read: {error}"))?;
    if digest_of(&wasm) != image {
        return Err(format!("the stored image is damaged: it no longer has the digest {image}; push it again"));
    }
    // A bug in a library that somebody's file brings to light is a refusal of that file, and its text is of no use to
    // whoever pushed it.
    std::panic::set_hook(Box::new(|_| {}));
    let compiled = std::panic::catch_unwind(|| compile(wasm, target));
    let artifact = compiled.map_err(|_| "the compiler cannot cope with this file".to_owned())??;
    let mut output = io::stdout().lock();
    let written = output.write_all(&artifact).and_then(|()| output.flush());
    written.map_err(|error| format!("the machine code cannot be written: {error}"))
}

/// Adapter and Cranelift, with the configuration that the agents have.
pub(super) fn compile(wasm: Vec<u8>, target: &str) -> Result<Vec<u8>, String> {
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

/// Memory and time of this whole process, for good. It writes no file larger than an artifact, and leaves no core dump.
fn limit_this_process() -> io::Result<()> {
    for (resource, most) in [
        (libc::RLIMIT_AS, CHILD_MEMORY_BYTES),
        (libc::RLIMIT_CPU, CHILD_CPU_S),
        (libc::RLIMIT_FSIZE, MAX_ARTIFACT_BYTES as u64),
        (libc::RLIMIT_CORE, 0),
    ] {
        // On 32-bit boards the number is narrower, and so is everything that it could limit.
        let most = libc::rlim_t::try_from(most).unwrap_or(libc::RLIM_INFINITY);
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        #[expect(unsafe_code, reason = "the standard library has no way to limit a process")]
        // SAFETY: `limit` is a valid rlimit that outlives the call, and the call keeps no pointer to it.
        let result = unsafe { libc::setrlimit(resource, &raw const limit) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
