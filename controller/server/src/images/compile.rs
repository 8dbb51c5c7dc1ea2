//! Compiles an image for a target, in a child process of its own: Cranelift on somebody's input takes what memory and
//! time it likes, and the controller must neither grow by it nor wait for it (DESIGN, decision 7).
//!
//! The [`child`] is this program again, run as `PROGRAM __compile TARGET DIGEST`: the image comes on its standard input,
//! machine code goes to its standard output, which is a file, and the reason of a refusal to its standard error. So
//! neither passes through the controller's memory. With `--describe` for a target it only says what the image is.
//!
//! Two children run at once, however many processors there are, since they stand behind everything else; and one image
//! has one of them at most, so that no image can keep all others waiting.

mod child;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coracle_model::Digest;
use coracle_model::limits::MAX_ARTIFACT_BYTES;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::{OwnedMutexGuard, Semaphore};

pub use self::child::child_main;
#[cfg(test)]
pub(super) use self::child::compile;
use super::describe::Description;

/// The hidden first argument that makes a program a compiler.
pub const CHILD_ARGUMENT: &str = "__compile";
/// Address space of the child, in bytes.
const CHILD_MEMORY_BYTES: u64 = 2 << 30;
/// Processor time of the child, in seconds.
const CHILD_CPU_S: u64 = 60;
/// What the clock on the wall may show until the child is killed: it waits for everybody else who wants the processor.
const CHILD_WALL: Duration = Duration::from_secs(600);
/// Children at once that compile, and as many more that describe, which is a matter of a moment.
const CHILDREN: usize = 2;
/// Stands for a target: the image is not compiled.
const DESCRIBE: &str = "--describe";
/// What may be said about an image, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 512 * 1024;
/// What is kept of a refusal's text.
const MAX_REASON_BYTES: usize = 2048;
/// The child's exit code for "the image is not usable", with the reason on its standard error.
const REFUSED: u8 = 3;
/// The child's exit code for everything else that it can say something about.
const TROUBLED: u8 = 4;

/// Why an image was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The image is at fault: the same again would end the same.
    #[error("{reason}")]
    Refused {
        /// What the compiler says.
        reason: String,
        /// Whether it would say so on any machine, or only had too little time or memory here.
        lasting: bool,
    },
    /// Somebody killed it: the system for want of memory, or a person. The same again may well succeed.
    #[error("{reason}")]
    Killed {
        /// Which of them is likely.
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
    /// In memory.
    Bytes(Bytes),
}

/// Starts children, a few at a time.
#[derive(Debug)]
pub(super) struct Compiler {
    program: PathBuf,
    wall: Duration,
    compiling: Semaphore,
    describing: Semaphore,
    /// One lock for each image that is compiled, or waits for it.
    turns: Mutex<BTreeMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
}

impl Compiler {
    pub(super) fn new(program: PathBuf) -> Self {
        Self {
            program,
            wall: CHILD_WALL,
            compiling: Semaphore::new(CHILDREN),
            describing: Semaphore::new(CHILDREN),
            turns: Mutex::default(),
        }
    }

    /// Compiles the image with this digest for a target; the machine code goes into `output`.
    pub(super) async fn compile(
        &self,
        source: impl AsyncFnOnce() -> io::Result<Source>,
        image: Digest,
        target: &str,
        output: File,
    ) -> Result<(), CompileError> {
        let _turn = self.turn(image).await;
        // Nobody closes the semaphore; were it closed, children without a bound would still be right, only many.
        let _place = self.compiling.acquire().await.ok();
        let source = source().await.map_err(failed("open the image for"))?;
        self.run(source, image, target, output.into(), 0).await.map(drop)
    }

    /// Says what the image with this digest is.
    pub(super) async fn describe(&self, source: Source, image: Digest) -> Result<Description, CompileError> {
        let _place = self.describing.acquire().await.ok();
        let said = self.run(source, image, DESCRIBE, Stdio::piped(), MAX_DESCRIPTION_BYTES).await?;
        serde_json::from_slice(&said).map_err(|error| failed("understand")(error.into()))
    }

    async fn turn(&self, image: Digest) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock();
            // A count of one is the map's own.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(image).or_default())
        };
        turn.lock_owned().await
    }

    /// One child from start to end; what it says on its standard output, if that is a pipe, up to so many bytes.
    async fn run(
        &self,
        source: Source,
        image: Digest,
        target: &str,
        output: Stdio,
        most_output: usize,
    ) -> Result<Vec<u8>, CompileError> {
        let (input, bytes) = match source {
            Source::File(file) => (Stdio::from(file), None),
            Source::Bytes(bytes) => (Stdio::piped(), Some(bytes)),
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
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let feed = async move {
            if let (Some(mut stdin), Some(bytes)) = (stdin, bytes) {
                // A child that ended early has said why on its standard error.
                let _: io::Result<()> = stdin.write_all(&bytes).await;
            }
        };
        let (said, words) = (first_bytes(stdout, most_output), first_bytes(stderr, MAX_REASON_BYTES));
        let work = async { tokio::join!(child.wait(), feed, said, words) };
        let Ok((status, (), said, words)) = tokio::time::timeout(self.wall, work).await else {
            let wall_s = self.wall.as_secs();
            let reason = format!("compiling takes longer than {wall_s} s on this machine, which is the limit");
            return Err(CompileError::Refused { reason, lasting: false });
        };
        verdict(status.map_err(failed("wait for"))?, String::from_utf8_lossy(&words).trim())?;
        Ok(said)
    }
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> CompileError {
    move |source| CompileError::Process { action, source }
}

/// What a child's end means.
fn verdict(status: ExitStatus, words: &str) -> Result<(), CompileError> {
    if status.success() {
        return Ok(());
    }
    let memory_mib = CHILD_MEMORY_BYTES >> 20;
    let artifact_mib = MAX_ARTIFACT_BYTES >> 20;
    let (lasting, reason) = match (status.code(), status.signal()) {
        (Some(code), _) if code == i32::from(REFUSED) => (true, words.to_owned()),
        (Some(code), _) if code == i32::from(TROUBLED) => (false, words.to_owned()),
        (_, Some(libc::SIGXFSZ)) => {
            (true, format!("the machine code is larger than {artifact_mib} MiB, which is the limit"))
        }
        (_, Some(libc::SIGXCPU)) => {
            (false, format!("compiling takes more than {CHILD_CPU_S} s of processor time, which is the limit"))
        }
        (_, Some(libc::SIGKILL)) => {
            return Err(CompileError::Killed {
                reason: format!("the compiler was killed, perhaps for want of memory (it may have {memory_mib} MiB)"),
            });
        }
        (_, Some(libc::SIGABRT | libc::SIGSEGV)) => (
            false,
            format!("the compiler broke down, most likely for want of memory (it may have {memory_mib} MiB): {words}"),
        ),
        _ => (false, format!("the compiler failed ({status}): {words}")),
    };
    Err(CompileError::Refused { reason, lasting })
}

/// Reads to the end, so that the writer never blocks, and keeps the beginning.
async fn first_bytes(stream: Option<impl AsyncRead + Unpin>, most: usize) -> Vec<u8> {
    let Some(mut stream) = stream else { return Vec::new() };
    let mut kept = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(count) = stream.read(&mut buffer).await
        && count > 0
    {
        let room = most - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
    kept
}
