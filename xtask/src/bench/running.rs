//! Programs of ours while they are measured.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take until it has started.
const PATIENCE: Duration = Duration::from_secs(60);
/// Clock ticks of the kernel in a second, as every Linux on our machines counts processor time.
const TICKS: f64 = 100.0;
/// Where `/proc/PID/stat` has `utime`, counted from behind the name.
const OWN: usize = 11;
/// Where it has `cutime`.
const OF_CHILDREN: usize = 13;

/// A program that is ended when dropped.
pub(super) struct Running {
    child: Child,
    lines: Option<Receiver<String>>,
}

impl Running {
    /// Starts it and waits for the line that says that it is ready; gives the milliseconds that this took.
    ///
    /// # Errors
    /// When it does not start, or ends before.
    pub(super) fn start(command: &mut Command, ready: &str) -> Result<(Self, f64), String> {
        let started = Instant::now();
        let running = Self::spawn(command)?;
        running.said(ready)?;
        Ok((running, started.elapsed().as_secs_f64() * 1000.0))
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn spawn(command: &mut Command) -> Result<Self, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut child = child.map_err(|error| format!("{command:?}: {error}"))?;
        let Some(out) = child.stdout.take() else { return Err("no standard output".to_owned()) };
        let (sender, lines) = channel();
        // Keeps the pipe empty also when nobody listens any more, so that the program never blocks on it.
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _nobody_listens: Result<(), _> = sender.send(line);
            }
        });
        Ok(Self { child, lines: Some(lines) })
    }

    /// Starts a server of somebody else, and waits until it listens on a port of the loopback.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn server(command: &mut Command, port: u16) -> Result<Self, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let running = Self { child: child.map_err(|error| format!("{command:?}: {error}"))?, lines: None };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > deadline {
                return Err(format!("{command:?} does not listen on port {port}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// Waits for a line that holds `text`, and gives it.
    ///
    /// # Errors
    /// When the program ends before, or says nothing for a minute.
    pub(super) fn said(&self, text: &str) -> Result<String, String> {
        let lines = self.lines.as_ref().ok_or("nothing of this program is read")?;
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return Ok(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("process {} did not say \"{text}\" within {PATIENCE:?}", self.child.id()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!(
                        "process {} ended before it said \"{text}\"; its last words are above",
                        self.child.id()
                    ));
                }
            }
        }
    }

    /// The last line that it has said so far, if there are new ones.
    pub(super) fn latest(&self) -> Option<String> {
        self.lines.as_ref()?.try_iter().last()
    }

    /// The process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Bytes that it has caused to be written to disks so far.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn written_bytes(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/io", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let number = text.lines().find_map(|line| line.strip_prefix("write_bytes:")?.trim().parse().ok());
        number.ok_or_else(|| format!("{path} has no write_bytes"))
    }

    /// Proportional set size in kilobytes.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn pss_kb(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| format!("{path} has no Pss"))
    }

    /// Seconds of processor time so far, of all its threads.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn cpu_seconds(&self) -> Result<f64, String> {
        cpu_of_stat(&format!("/proc/{}/stat", self.child.id()), OWN)
    }

    /// Seconds of processor time so far, of its threads of this name.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn cpu_seconds_of(&self, thread: &str) -> Result<f64, String> {
        let folder = format!("/proc/{}/task", self.child.id());
        let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
        let mut sum = 0.0;
        for task in tasks.filter_map(Result::ok).map(|task| task.path()) {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            if name.trim() == thread {
                sum += cpu_of_stat(&task.join("stat").display().to_string(), OWN).unwrap_or_default();
            }
        }
        Ok(sum)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _terminated = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ended = self.child.wait();
    }
}

/// Seconds of processor time of all programs that were started here and have ended.
///
/// # Errors
/// When `/proc` is not there.
pub(super) fn cpu_seconds_of_ended() -> Result<f64, String> {
    cpu_of_stat("/proc/self/stat", OF_CHILDREN)
}

/// User and system time; `first` is the place of the former behind the program's name.
fn cpu_of_stat(path: &str, first: usize) -> Result<f64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let after = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> =
        after.split_whitespace().skip(first).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(fields.iter().sum::<f64>() / TICKS)
}

/// A port that was free a moment ago.
///
/// # Errors
/// When the loopback has none.
pub(super) fn port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

/// A controller on `data`, with its own broker on `mqtt` or with the one that listens there; and the milliseconds until
/// it was ready.
///
/// # Errors
/// When it does not start.
pub(super) fn controller(coracle: &Path, data: &Path, mqtt: u16, own_broker: bool) -> Result<(Running, f64), String> {
    let mut command = Command::new(coracle);
    command.arg("controller").arg("--data-dir").arg(data);
    command.args(["--api-listen", &format!("127.0.0.1:{}", port()?)]);
    if own_broker {
        command.args(["--mqtt-listen", &format!("127.0.0.1:{mqtt}")]);
    } else {
        command.args(["--mqtt-broker", &format!("mqtt://127.0.0.1:{mqtt}")]);
    }
    Running::start(&mut command, "coracle controller ready")
}

/// A number of a JSON object, by its name.
pub(super) fn figure(object: &str, name: &str) -> Option<f64> {
    let after = object.split_once(&format!("\"{name}\":"))?.1;
    let end = after.find([',', '}']).unwrap_or(after.len());
    after[..end].trim().parse().ok()
}
