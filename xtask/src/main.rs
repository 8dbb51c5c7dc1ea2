//! `cargo xtask`: one entry for developers.
//!
//! Comes in: a command and its arguments. Goes out: an exit code and, on failure, one sentence. It compiles before
//! anything else, so it knows none of the house's crates and stays with the standard library; each command is a module
//! and a row in `COMMANDS`.

mod bench;
mod process;
mod test;
mod tools;
mod workloads;

use std::process::ExitCode;

/// What `cargo xtask NAME` runs.
struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const COMMANDS: &[Command] = &[
    Command { name: "bench", about: "the figures of docs/benchmarks.md, on this machine", run: bench::bench },
    Command { name: "test", about: "format, build, tests, clippy and docs: all that must hold", run: test::test },
    Command { name: "tools", about: "install the brokers and clients that the tests need", run: tools::install },
    Command {
        name: "workloads",
        about: "build the guest programs into workloads/built; --check tests them and fails when one is out of date",
        run: workloads::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(command) = arguments.first().and_then(|name| COMMANDS.iter().find(|command| command.name == name)) else {
        print_usage(arguments.first());
        return ExitCode::from(2);
    };
    match (command.run)(&arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {}: {message}", command.name);
            ExitCode::FAILURE
        }
    }
}

fn print_usage(unknown: Option<&String>) {
    if let Some(name) = unknown {
        eprintln!("xtask: there is no command {name:?}");
    }
    eprintln!("usage: cargo xtask COMMAND");
    for command in COMMANDS {
        eprintln!("  {:<12} {}", command.name, command.about);
    }
}
