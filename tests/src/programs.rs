//! Our own programs, as cargo built them, and processes that end with the test that started them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::wait;

/// The built program `name`, beside the test's own executable.
///
/// # Panics
/// When it was not built; the message holds the line to type.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.parent().and_then(Path::parent).expect("target/<profile>/deps/<test>");
    let program = profile.join(name);
    assert!(program.exists(), "{name} is not built; run: cargo build -p coracle -p coracle-agent");
    program
}

/// The root of the repository.
///
/// # Panics
/// When the crate lies somewhere else than in `tests/`.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository").to_owned()
}

/// A port that was free a moment ago.
///
/// # Panics
/// When the loopback has none.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    listener.local_addr().expect("it has an address").port()
}

/// A process of ours; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    name: String,
}

impl Process {
    /// Starts a program whose output goes to a file in `dir`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(name: &str, command: &mut Command, dir: &Path) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = fs::OpenOptions::new().create(true).append(true).open(&log).expect("the log can be made");
        let errors = file.try_clone().expect("the log has a second handle");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { child, log, name: name.to_owned() }
    }

    /// Waits until a line of its output holds `text`, and gives the line.
    ///
    /// # Panics
    /// When it ends or stays silent instead; the message holds all it said.
    #[must_use]
    pub fn said(&mut self, text: &str) -> String {
        let what = format!("{} says \"{text}\"", self.name);
        wait::until(&what, || {
            let line = lines(&self.log).into_iter().find(|line| line.contains(text));
            let ended = self.child.try_wait().ok().flatten();
            match (line, ended) {
                (Some(line), _) => Ok(line),
                (None, Some(status)) => panic!("{what}: it ended with {status}:\n{}", self.output()),
                (None, None) => Err(self.output()),
            }
        })
    }

    /// Everything that it has said.
    #[must_use]
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        signal(self.pid(), "TERM");
    }

    /// Sends SIGSTOP: it does nothing any more, and time goes on.
    pub fn freeze(&self) {
        signal(self.pid(), "STOP");
    }

    /// Sends SIGCONT.
    pub fn thaw(&self) {
        signal(self.pid(), "CONT");
    }

    /// The memory that it holds (resident set), in kilobytes; 0 once it has ended.
    #[must_use]
    pub fn memory_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// Sends SIGKILL and waits for the end.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn kill(&mut self) {
        signal(self.pid(), "KILL");
        let _ended = self.child.wait().expect("it can be waited for");
    }

    /// Waits for the end and gives the exit code; -1 when it was ended by a signal.
    ///
    /// # Panics
    /// When it goes on running.
    #[must_use]
    pub fn ended(&mut self) -> i32 {
        let what = format!("{} ends", self.name);
        let log = self.log.clone();
        wait::until(&what, || match self.child.try_wait() {
            Ok(Some(status)) => Ok(status.code().unwrap_or(-1)),
            _ => Err(fs::read_to_string(&log).unwrap_or_default()),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::File::open(path).map(|file| BufReader::new(file).lines().map_while(Result::ok).collect()).unwrap_or_default()
}

fn signal(pid: u32, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(status.is_ok(), "kill is not there");
}

/// Runs a command to its end.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn run(command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{shown}: {error}"))
}

/// Runs a command that is to succeed, and gives its standard output.
///
/// # Panics
/// When it fails; the message holds everything that it said.
#[must_use]
pub fn succeed(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let output = run(command);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}: {}\n{out}{errors}", output.status);
    out.into_owned()
}

/// Runs a command that is to fail, and gives its standard error.
///
/// # Panics
/// When it succeeds.
#[must_use]
pub fn fail(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let output = run(command);
    assert!(!output.status.success(), "{shown} succeeded:\n{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}
