//! A small house: how fast a controller starts, what it and an agent take, how fast one pod after another runs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::running::{Running, controller, port};
use super::{build, build_agent, directory, machine, row};
use crate::process::{root, run};
use crate::tools;

/// How often the controller is started to time it.
const STARTS: usize = 9;
/// How long a cluster is left alone before its memory is read.
const IDLE: Duration = Duration::from_secs(20);

/// Builds in release (not with `--no-build`), measures, prints.
///
/// # Errors
/// What could not be built or started.
pub(super) fn bench(arguments: &[String]) -> Result<(), String> {
    tools::install(&[])?;
    let coracle = build(arguments)?;
    let agent = build_agent(arguments, &coracle)?;
    let directory = directory("house")?;
    machine()?;
    row("agent binary, stripped", &mut [size_of(&agent)?], "bytes");
    row("coracle binary", &mut [size_of(&coracle)?], "bytes");
    controller_starts(&coracle, &directory)?;
    cluster(&coracle, &agent, &directory)
}

#[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^52")]
fn size_of(path: &Path) -> Result<f64, String> {
    fs::metadata(path).map(|facts| facts.len() as f64).map_err(|error| format!("{}: {error}", path.display()))
}

fn controller_starts(coracle: &Path, directory: &Path) -> Result<(), String> {
    let data = directory.join("starts");
    let mut fresh = Vec::new();
    let mut again = Vec::new();
    for number in 0..STARTS {
        let new = data.join(number.to_string());
        fresh.push(controller(coracle, &new, port()?, true)?.1);
        again.push(controller(coracle, &new, port()?, true)?.1);
    }
    row("controller ready after start, new directory (makes keys)", &mut fresh, "ms");
    row("controller ready after start", &mut again, "ms");
    Ok(())
}

/// One controller and one agent: idle, then pods one after another.
fn cluster(coracle: &Path, agent: &Path, directory: &Path) -> Result<(), String> {
    let data = directory.join("cluster");
    let mqtt = port()?;
    let (controller, _) = controller(coracle, &data.join("controller"), mqtt, true)?;
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
