//! `cargo xtask workloads`: keeps the committed guest programs in `workloads/built` equal to their sources.
//!
//! Comes in: the guests' sources. Goes out: one `.wasm` a guest and `built/SOURCES`, which records what each was built
//! from, so that `--check` needs no WebAssembly toolchain while nothing changed. `sources.rs` is the record,
//! `toolchain.rs` the recipe for what is written in Rust and `text.rs` for what is written in WebAssembly's text form.

mod sources;
mod text;
mod toolchain;

use sources::{Entry, Record};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask workloads [--check]";

/// What a crate becomes.
#[derive(Clone, Copy)]
enum Kind {
    /// A library of exported functions that `wasm-component-ld` links into a component with no WASI adapter.
    Component,
    /// A plain program for WASI preview 1, a core module; the controller makes it a component.
    Program,
}

/// A guest that is written in Rust.
#[derive(Clone, Copy)]
struct Crate {
    /// The package, which is also the folder.
    package: &'static str,
    kind: Kind,
    /// Compile-time variables that make two guests of one package.
    variables: &'static [(&'static str, &'static str)],
}

/// What a guest is written in.
#[derive(Clone, Copy)]
enum Source {
    Rust(Crate),
    /// WebAssembly's text form, in `text/NAME.wat`: what no compiler would make.
    Text,
}

/// One file in `workloads/built`.
#[derive(Clone, Copy)]
struct Guest {
    /// The file's name without its ending.
    name: &'static str,
    source: Source,
}

const fn component(name: &'static str, package: &'static str, version: &'static [(&str, &str)]) -> Guest {
    Guest { name, source: Source::Rust(Crate { package, kind: Kind::Component, variables: version }) }
}

const fn program(name: &'static str, package: &'static str) -> Guest {
    Guest { name, source: Source::Rust(Crate { package, kind: Kind::Program, variables: &[] }) }
}

const fn text(name: &'static str) -> Guest {
    Guest { name, source: Source::Text }
}

const GUESTS: &[Guest] = &[
    component("hello-1", "hello", &[("CORACLE_HELLO_VERSION", "1")]),
    component("hello-2", "hello", &[("CORACLE_HELLO_VERSION", "2")]),
    component("sensor-1", "sensor", &[]),
    program("job-1", "job"),
    program("files", "files"),
    program("echo-stdin-eof", "echo-stdin-eof"),
    program("stubborn", "stubborn"),
    program("spin", "spin"),
    program("trap", "trap"),
    program("grow", "grow"),
    program("misbehave", "misbehave"),
    component("bad-handler", "bad-handler", &[]),
    text("recursion"),
    text("deep"),
    text("out-of-bounds"),
    text("tables"),
    text("huge-table"),
    text("huge-memory"),
    text("start-loop"),
    text("start-trap"),
    text("no-entry"),
    text("no-start"),
    text("other-world"),
    text("missing-import"),
    text("wrong-import"),
    text("foreign-module"),
];

/// Runs the command with the arguments after its name.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    // The crate's folder is known at compile time and its parent is the checkout, wherever the command is called.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask must be inside the checkout")?;
    let folder = root.join("workloads");
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => rebuild(&folder),
        ["--check"] => check(&folder),
        _ => Err(format!("unexpected argument; {USAGE}")),
    }
}

fn build(folder: &Path, guest: &Guest) -> Result<Vec<u8>, String> {
    match &guest.source {
        Source::Rust(parts) => toolchain::build(folder, parts),
        Source::Text => text::build(folder, guest.name),
    }
}

/// Builds every guest and writes the files and the record.
fn rebuild(folder: &Path) -> Result<(), String> {
    toolchain::ensure()?;
    let mut entries = Vec::new();
    for guest in GUESTS {
        let sources = sources::hash(folder, guest)?;
        let bytes = build(folder, guest)?;
        write(&built_file(folder, guest), &bytes)?;
        println!("workloads: {:<14} {:>7} bytes", guest.name, bytes.len());
        entries.push(Entry { name: guest.name.to_string(), sources, file: sources::sha256(&bytes) });
    }
    remove_strangers(folder)?;
    write(&folder.join("built/SOURCES"), Record { entries }.to_text().as_bytes())?;
    test_on_host(folder)
}

/// Fails when a committed file is not what its sources would give, and leaves fresh ones in place for whatever runs
/// after it. The record is left alone, so the check goes on failing until somebody builds on purpose.
fn check(folder: &Path) -> Result<(), String> {
    let record = Record::read(&folder.join("built/SOURCES"))?;
    let mut outdated = Vec::new();
    for guest in GUESTS {
        match record.find(guest.name) {
            Some(entry) if entry.sources == sources::hash(folder, guest)? => verify(folder, guest, entry)?,
            _ => outdated.push(guest),
        }
    }
    if let Some(stranger) = strangers(folder)?.first() {
        return Err(format!("{} belongs to no guest; `cargo xtask workloads` removes it", stranger.display()));
    }
    if !outdated.is_empty() {
        if outdated.iter().any(|guest| matches!(guest.source, Source::Rust(_))) {
            toolchain::ensure()?;
        }
        for guest in &outdated {
            let bytes = build(folder, guest)?;
            write(&built_file(folder, guest), &bytes)?;
        }
    }
    test_on_host(folder)?;
    if outdated.is_empty() {
        println!("workloads: {} up to date", GUESTS.len());
        return Ok(());
    }
    let names: Vec<_> = outdated.iter().map(|guest| format!("workloads/built/{}.wasm", guest.name)).collect();
    Err(format!(
        "older than the sources: {}; run `cargo xtask workloads`, which builds and records them, and commit the result",
        names.join(", ")
    ))
}

/// The committed file must be the one that was recorded with its sources.
fn verify(folder: &Path, guest: &Guest, entry: &Entry) -> Result<(), String> {
    let path = built_file(folder, guest);
    let bytes = fs::read(&path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    if sources::sha256(&bytes) == entry.file {
        return Ok(());
    }
    Err(format!("{} is not the file that SOURCES records; run `cargo xtask workloads`", path.display()))
}

/// Tests the guests' logic, which knows nothing of WASI, with the machine's own compiler.
fn test_on_host(folder: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--locked"]).current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    run_quietly(&mut command, "test the guests' logic")
}

/// Runs a program and shows what it said only when it failed.
fn run_quietly(command: &mut Command, purpose: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("failed to {purpose}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    eprint!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("failed to {purpose}: {}", output.status))
}

fn built_file(folder: &Path, guest: &Guest) -> PathBuf {
    folder.join("built").join(guest.name).with_extension("wasm")
}

/// Files in `built` that no guest explains, for example those of a guest that was renamed.
fn strangers(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let built = folder.join("built");
    let entries = fs::read_dir(&built).map_err(|error| format!("failed to read {}: {error}", built.display()))?;
    let known = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name == "SOURCES") || GUESTS.iter().any(|g| built_file(folder, g) == *path)
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| !known(path)).collect())
}

fn remove_strangers(folder: &Path) -> Result<(), String> {
    for path in strangers(folder)? {
        fs::remove_file(&path).map_err(|error| format!("failed to remove {}: {error}", path.display()))?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    written.map_err(|error| format!("failed to write {}: {error}", path.display()))
}
