//! `cargo xtask bench`: the figures of `docs/benchmarks.md`, from the shipped programs on this machine.
//!
//! Prints one row a figure: median, least and most. Everything runs on loopback, in a directory under the target
//! directory, and is ended by pid. `bench` measures a small house, `bench guests` what guests cost a node,
//! `bench fleet` a house of many hollow nodes, and `bench kills` counts acknowledged writes that are lost to kills.

mod fleet;
mod guests;
mod house;
mod kills;
mod running;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::process::{output, root, run};

/// Builds in release (not with `--no-build`), measures, prints.
///
/// # Errors
/// What could not be built or started.
pub(crate) fn bench(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first() {
        Some((first, rest)) if first == "fleet" => fleet::bench(rest),
        Some((first, rest)) if first == "guests" => guests::bench(rest),
        Some((first, rest)) if first == "kills" => kills::bench(rest),
        _ => house::bench(arguments),
    }
}

/// Where the built programs are.
fn target() -> PathBuf {
    std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from)
}

/// Builds `coracle` in release, unless the arguments say that it has been built.
fn build(arguments: &[String]) -> Result<PathBuf, String> {
    if !has(arguments, "--no-build") {
        run("cargo", &["build", "--release", "--locked", "--package", "coracle"], &[])?;
    }
    built("release/coracle")
}

/// Builds the agent as it is shipped, unless the arguments say that it has been built. It must be of the same source as
/// the controller: two builds that speak differently would wait for each other.
fn build_agent(arguments: &[String], coracle: &Path) -> Result<PathBuf, String> {
    if !has(arguments, "--no-build") {
        run("cargo", &["build", "--profile", "agent", "--locked", "--package", "coracle-agent"], &[])?;
    }
    let agent = built("agent/coracle-agent")?;
    for program in [coracle, &agent] {
        if let Some(newer) = newer_source(program)? {
            println!("note: {} is older than {newer}; leave out --no-build to build it anew", program.display());
        }
    }
    Ok(agent)
}

fn built(name: &str) -> Result<PathBuf, String> {
    let program = target().join(name);
    if program.exists() {
        Ok(program)
    } else {
        Err(format!("{} is not built; leave out --no-build", program.display()))
    }
}

/// A source that cargo read for this program (it notes them beside it) and that has changed since.
fn newer_source(program: &Path) -> Result<Option<String>, String> {
    let told = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let notes = program.with_extension("d");
    let when = |path: &Path| fs::metadata(path).and_then(|facts| facts.modified());
    let made = when(program).map_err(|error| told(program, error))?;
    let notes = fs::read_to_string(&notes).map_err(|error| told(&notes, error))?;
    let sources = notes.split_whitespace().skip(1);
    // One that is gone was renamed, which is a change too.
    Ok(sources.filter(|source| when(Path::new(source)).map_or(true, |then| then > made)).map(ToOwned::to_owned).next())
}

fn has(arguments: &[String], flag: &str) -> bool {
    arguments.iter().any(|argument| argument == flag)
}

/// The number that follows a flag.
fn number(arguments: &[String], flag: &str, default: u32) -> Result<u32, String> {
    let Some(at) = arguments.iter().position(|argument| argument == flag) else { return Ok(default) };
    let text = arguments.get(at + 1).map(String::as_str).unwrap_or_default();
    text.parse().map_err(|_| format!("{flag} {text:?}: want a number"))
}

/// An empty directory for data and logs.
fn directory(name: &str) -> Result<PathBuf, String> {
    let directory = target().join("bench").join(name);
    let _earlier = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(directory)
}

fn machine() -> Result<(), String> {
    let cpu = output("sh", &["-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2"])?;
    let kernel = output("uname", &["-r"])?;
    let rustc = output("rustc", &["--version"])?;
    let commit = output("git", &["describe", "--always", "--dirty"]).unwrap_or_else(|_| "no git".to_owned());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("machine:{} x {cores}, kernel {}, {}", cpu.trim_end(), kernel.trim(), rustc.trim());
    println!("commit {}; load before: {}", commit.trim(), load.trim());
    Ok(())
}

fn row(what: &str, values: &mut [f64], unit: &str) {
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return };
    let median = values[values.len() / 2];
    let digits = if median.abs() < 10.0 { 2 } else { 1 };
    println!("| {what} | {median:.digits$} {unit} | {least:.digits$} to {most:.digits$} | n={} |", values.len());
}
