//! `coracle`: the program that people type.
//!
//! *In:* arguments. *Out:* a controller, a whole cluster in one process, or one request to either.
//! *Must never know:* how anything works; each command calls one crate.
//! *Tested:* end to end, as a user would.

mod apply;
mod arguments;
mod client;
mod controller;
mod explain_placement;
mod fleet;
mod image;
mod kubeconfig;
mod load;
mod open_files;
mod scheduler_config;
mod simulate;
mod simulate_placement;
mod table;
mod up;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use coracle_controller::images;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == images::CHILD_ARGUMENT) {
        return images::child_main(words);
    }
    let arguments = Arguments::parse();
    start_log(&arguments.log);
    let outcome = match arguments.command {
        Command::Up(options) => up::run(options),
        Command::Controller(options) => controller::run(options),
        Command::Fleet(options) => fleet::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Apply(options) => apply::run(&options),
        Command::Image(command) => image::run(&command),
        Command::Simulate(options) => simulate::run(&options),
        Command::ExplainPlacement(options) => explain_placement::run(&options),
        Command::SimulatePlacement(options) => Ok(simulate_placement::run(&options)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("coracle: {}", chain(error.as_ref()));
        ExitCode::FAILURE
    })
}

/// What a command ends with: an exit code, or an error that is shown with its chain.
type Outcome = Result<ExitCode, Failure>;

/// Any error.
type Failure = Box<dyn Error + Send + Sync>;

/// An error and everything behind it, in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let cause = source.to_string();
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        next = source.source();
    }
    text
}

/// The log goes to standard error; standard output is for what was asked.
fn start_log(filter: &str) {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_else(|error| {
        eprintln!("coracle: --log {filter}: {error}; using \"warn\"");
        tracing_subscriber::EnvFilter::new("warn")
    });
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
}

/// Waits for Ctrl-C or SIGTERM.
async fn asked_to_stop() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// The runtime of a server: two threads serve a board and a desk alike.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
