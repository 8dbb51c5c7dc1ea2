//! What guests cost a node: how well a processor limit holds beside busy neighbours, how fast pods start, what a pod
//! and an idle agent take, and what it costs to follow the log of a guest that floods it.
//!
//! `cargo xtask bench guests [idle] [starts] [limits] [density] [logs] [--idle-seconds N] [--no-build]`: all parts, or
//! those that are named. Each has a controller and an agent of its own. What needs a Kubernetes client is in
//! `tests/python/bench_guests.py`; starts without a controller are in `agent/linux/benches/start.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use super::running::{Running, controller, port};
use super::{build, build_agent, directory, has, machine, number, row};
use crate::process::{output, root, run};
use crate::tools;

/// How long an agent rests before it is watched doing nothing.
const SETTLE: Duration = Duration::from_secs(5);
/// Pods that are started one after another.
const STARTS: &str = "200";

/// A part of the figures: its name, the guests of `workloads/built` that it needs beside the samples, how it is taken.
type Part = (&'static str, &'static [&'static str], fn(&House) -> Result<(), String>);

const PARTS: &[Part] = &[
    ("idle", &[], idle),
    ("starts", &[], |house| house.script("bench.py", &[&house.kubeconfig(), STARTS])),
    ("limits", &["spin"], |house| house.guests(&["limits"])),
    ("density", &[], |house| house.guests(&["density", "samples/sensor:1"])),
    ("density", &["echo-stdin-eof"], |house| house.guests(&["density", "bench/echo-stdin-eof:1"])),
    ("logs", &["misbehave"], |house| house.guests(&["logs"])),
];

/// Builds the shipped programs (not with `--no-build`), measures, prints.
///
/// # Errors
/// What could not be built or started, and what did not come about in time.
pub(super) fn bench(arguments: &[String]) -> Result<(), String> {
    let idle_seconds = number(arguments, "--idle-seconds", 60)?;
    let named = |part: &Part| has(arguments, part.0);
    let are_all = !PARTS.iter().any(named);
    tools::install(&[])?;
    let coracle = build(arguments)?;
    let agent = build_agent(arguments, &coracle)?;
    machine()?;
    for part in PARTS.iter().filter(|part| are_all || named(part)) {
        let house = House::start(&coracle, &agent, idle_seconds)?;
        for guest in part.1 {
            house.push(&coracle, guest)?;
        }
        part.2(&house)?;
    }
    Ok(())
}

/// One controller and one node, in the order in which they are to end.
struct House {
    agent: Running,
    _controller: Running,
    data: PathBuf,
    idle: Duration,
}

impl House {
    fn start(coracle: &Path, agent: &Path, idle_seconds: u32) -> Result<Self, String> {
        let (data, mqtt) = (directory("guests")?, port()?);
        let (controller, _) = controller(coracle, &data.join("controller"), mqtt, true)?;
        let mut command = Command::new(agent);
        command.args(["--broker", &format!("mqtt://127.0.0.1:{mqtt}"), "--node", "node-1"]);
        command.arg("--data-dir").arg(data.join("agent"));
        let (agent, _) = Running::start(&mut command, "ready")?;
        Ok(Self { agent, _controller: controller, data, idle: Duration::from_secs(idle_seconds.into()) })
    }

    fn kubeconfig(&self) -> String {
        self.data.join("controller/admin.kubeconfig").display().to_string()
    }

    /// A guest becomes the image `bench/GUEST:1`.
    fn push(&self, coracle: &Path, guest: &str) -> Result<(), String> {
        let file = root().join(format!("workloads/built/{guest}.wasm")).display().to_string();
        let name = format!("bench/{guest}:1");
        let coracle = coracle.display().to_string();
        output(&coracle, &["image", "push", &file, &name, "--kubeconfig", &self.kubeconfig()]).map(drop)
    }

    fn script(&self, name: &str, words: &[&str]) -> Result<(), String> {
        let python = root().join("target/tools/venv/bin/python").display().to_string();
        let script = root().join("tests/python").join(name).display().to_string();
        run(&python, &[&[&*script][..], words].concat(), &[])
    }

    fn guests(&self, words: &[&str]) -> Result<(), String> {
        let (kubeconfig, id) = (self.kubeconfig(), self.agent.id().to_string());
        self.script("bench_guests.py", &[&[&*kubeconfig, &*id][..], words].concat())
    }
}

/// An agent on which nothing has ever run.
fn idle(house: &House) -> Result<(), String> {
    thread::sleep(SETTLE);
    let (agent, folder) = (&house.agent, house.data.join("agent"));
    let (begun, before) = (SystemTime::now(), (agent.cpu_seconds()?, agent.written_bytes()?, size(&folder)?));
    thread::sleep(house.idle);
    let seconds = house.idle.as_secs();
    let percent = 100.0 * (agent.cpu_seconds()? - before.0) / house.idle.as_secs_f64();
    row("agent idle, PSS", &mut [agent.pss_kb()?], "kB");
    row(&format!("agent idle for {seconds} s, CPU of one core"), &mut [percent], "%");
    row(&format!("agent idle for {seconds} s, written"), &mut [agent.written_bytes()? - before.1], "bytes");
    row(&format!("agent idle for {seconds} s, its directory grew by"), &mut [size(&folder)? - before.2], "bytes");
    row(&format!("agent idle for {seconds} s, files changed"), &mut [changed_since(&folder, begun)?], "files");
    Ok(())
}

/// Every file and directory below, and itself.
fn below(folder: &Path) -> Result<Vec<fs::Metadata>, String> {
    let text = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = vec![fs::metadata(folder).map_err(text)?];
    for entry in fs::read_dir(folder).map_err(text)? {
        let path = entry.map_err(text)?.path();
        if path.is_dir() {
            found.extend(below(&path)?);
        } else {
            found.push(fs::metadata(&path).map_err(text)?);
        }
    }
    Ok(found)
}

#[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^52")]
fn size(folder: &Path) -> Result<f64, String> {
    Ok(below(folder)?.iter().map(fs::Metadata::len).sum::<u64>() as f64)
}

fn changed_since(folder: &Path, moment: SystemTime) -> Result<f64, String> {
    let changed = |facts: &fs::Metadata| facts.modified().is_ok_and(|at| at > moment);
    Ok(below(folder)?.iter().map(|facts| if changed(facts) { 1.0 } else { 0.0 }).sum())
}
