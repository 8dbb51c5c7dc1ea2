//! `cargo xtask bench`: the figures of `docs/benchmarks.md`, from the shipped programs on this machine.
//!
//! Prints one row a figure: median, least and most. Everything runs on loopback, in a directory under `target/`, and is
//! ended by pid.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{output, root, run};
use crate::tools;

/// How often the controller is started to time it.
const STARTS: usize = 9;
/// How long a cluster is left alone before its memory is read.
const IDLE: Duration = Duration::from_secs(20);

/// Builds in release (not with `--no-build`), measures, prints.
///
/// # Errors
/// What could not be built or started.
pub(crate) fn bench(arguments: &[String]) -> Result<(), String> {
    tools::install(&[])?;
    if !arguments.iter().any(|argument| argument == "--no-build") {
        run("cargo", &["build", "--release", "--locked", "--package", "coracle"], &[])?;
        run("cargo", &["build", "--profile", "agent", "--locked", "--package", "coracle-agent"], &[])?;
    }
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from);
    let (coracle, agent) = (target.join("release/coracle"), target.join("agent/coracle-agent"));
    let directory = target.join("bench");
    let _earlier = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    machine()?;
    row("agent binary, stripped", &mut [size_of(&agent)?], "bytes");
    row("coracle binary", &mut [size_of(&coracle)?], "bytes");
    controller_starts(&coracle, &directory)?;
    cluster(&coracle, &agent, &directory)
}

fn machine() -> Result<(), String> {
    let cpu = output("sh", &["-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2"])?;
    let kernel = output("uname", &["-r"])?;
    let rustc = output("rustc", &["--version"])?;
    println!("machine:{} x {}, kernel {}, {}", cpu.trim(), cores(), kernel.trim(), rustc.trim());
    Ok(())
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn row(what: &str, values: &mut [f64], unit: &str) {
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return };
    let median = values[values.len() / 2];
    println!("| {what} | {median:.1} {unit} | {least:.1} to {most:.1} | n={} |", values.len());
}

#[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^52")]
fn size_of(path: &Path) -> Result<f64, String> {
    fs::metadata(path).map(|facts| facts.len() as f64).map_err(|error| format!("{}: {error}", path.display()))
}

/// A program of ours that is ended when dropped.
struct Running(Child);

impl Running {
    /// Starts it and waits for the line that says that it is ready; gives the milliseconds that this took.
    fn start(command: &mut Command, ready: &str) -> Result<(Self, f64), String> {
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut running = Self(child.map_err(|error| format!("{command:?}: {error}"))?);
        let Some(out) = running.0.stdout.take() else { return Err("no standard output".to_owned()) };
        let mut lines = BufReader::new(out).lines();
        if !lines.by_ref().map_while(Result::ok).any(|line| line.contains(ready)) {
            return Err(format!("{command:?} ended before it was ready"));
        }
        let took = started.elapsed().as_secs_f64() * 1000.0;
        // Keep the pipe empty, so that the program never blocks on it.
        thread::spawn(move || lines.for_each(drop));
        Ok((running, took))
    }

    /// Proportional set size in kilobytes.
    fn pss_kb(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/smaps_rollup", self.0.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| format!("{path} has no Pss"))
    }

    /// CPU seconds so far.
    fn cpu_seconds(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/stat", self.0.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let after = text.rsplit(')').next().unwrap_or_default();
        let fields: Vec<f64> =
            after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        Ok(fields.iter().sum::<f64>() / 100.0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _terminated = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ended = self.0.wait();
    }
}

fn port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

fn controller(coracle: &Path, data: &Path, mqtt: u16) -> Result<(Running, f64), String> {
    let mut command = Command::new(coracle);
    command.arg("controller").arg("--data-dir").arg(data);
    command.args(["--api-listen", &format!("127.0.0.1:{}", port()?)]);
    command.args(["--mqtt-listen", &format!("127.0.0.1:{mqtt}")]);
    Running::start(&mut command, "coracle controller ready")
}

fn controller_starts(coracle: &Path, directory: &Path) -> Result<(), String> {
    let data = directory.join("starts");
    let mut fresh = Vec::new();
    let mut again = Vec::new();
    for number in 0..STARTS {
        let new = data.join(number.to_string());
        fresh.push(controller(coracle, &new, port()?)?.1);
        again.push(controller(coracle, &new, port()?)?.1);
    }
    row("controller ready after start, new directory (makes keys)", &mut fresh, "ms");
    row("controller ready after start", &mut again, "ms");
    Ok(())
}

/// One controller and one agent: idle, then pods one after another.
fn cluster(coracle: &Path, agent: &Path, directory: &Path) -> Result<(), String> {
    let data = directory.join("cluster");
    let mqtt = port()?;
    let (controller, _) = controller(coracle, &data.join("controller"), mqtt)?;
    let mut command = Command::new(agent);
    command.args(["--broker", &format!("mqtt://127.0.0.1:{mqtt}"), "--node", "node-1"]);
    command.arg("--data-dir").arg(data.join("agent"));
    let (agent, _) = Running::start(&mut command, "ready")?;
    let before = (controller.cpu_seconds()?, agent.cpu_seconds()?);
    thread::sleep(IDLE);
    let after = (controller.cpu_seconds()?, agent.cpu_seconds()?);
    row("controller idle, PSS, with its broker, one node", &mut [controller.pss_kb()?], "kB");
    row("agent idle, PSS", &mut [agent.pss_kb()?], "kB");
    let percent = |before: f64, after: f64| 100.0 * (after - before) / IDLE.as_secs_f64();
    row("controller idle, CPU of one core", &mut [percent(before.0, after.0)], "%");
    row("agent idle, CPU of one core", &mut [percent(before.1, after.1)], "%");
    let python = root().join("target/tools/venv/bin/python").display().to_string();
    let script = root().join("tests/python/bench.py").display().to_string();
    let kubeconfig = data.join("controller/admin.kubeconfig").display().to_string();
    run(&python, &[&script, &kubeconfig], &[])?;
    row("controller after the pods, PSS", &mut [controller.pss_kb()?], "kB");
    row("agent after the pods, PSS", &mut [agent.pss_kb()?], "kB");
    Ok(())
}
