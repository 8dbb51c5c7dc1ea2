//! `coracle-agent`: makes a Linux machine a node of a Coracle cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coracle_agent::{AgentConfig, AgentError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

/// Makes this machine a node: connects to a broker and runs the pods that the controller gives it.
#[derive(Debug, Parser)]
#[command(name = "coracle-agent", version)]
struct Arguments {
    /// The broker; plaintext is accepted on this machine only
    #[arg(long, value_name = "mqtt://HOST:PORT")]
    broker: String,
    /// The name of the node
    #[arg(long, value_name = "NAME")]
    node: String,
    /// The name of the cluster
    #[arg(long, value_name = "NAME", default_value = "default")]
    cluster: String,
    /// The zone of the node (topology.kubernetes.io/zone)
    #[arg(long, value_name = "ZONE", default_value = "")]
    zone: String,
    /// A label of the node; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Where this agent keeps what outlives it
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// A token to join a cluster with TLS
    #[arg(long, value_name = "TOKEN")]
    join_token: Option<String>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("want key=value, such as room=kitchen".to_owned()),
    }
}

/// Descriptors of the operating system that this process asks for, where it may have more than the usual 1024: guests
/// open files of their volumes.
const DESCRIPTORS: u64 = 65_536;

fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let current = Some(limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS)));
    // Where it is refused, guests have fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    raise_descriptor_limit();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    if arguments.join_token.is_some() {
        eprintln!("coracle-agent: --join-token: joining with a token is not in this build");
        return ExitCode::FAILURE;
    }
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coracle-agent: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), AgentError> {
    let Arguments { broker, node, cluster, zone, labels, data_dir, join_token: _ } = arguments;
    let line = format!("coracle-agent ready: node {node} broker {broker} data {}", data_dir.display());
    let config = AgentConfig { broker, node, cluster, zone, labels, data_dir };
    coracle_agent::run_blocking(config, || println!("{line}"), asked_to_stop())
}

/// SIGTERM or SIGINT.
async fn asked_to_stop() {
    let wait = async |kind| match signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(error) => {
            tracing::error!(%error, "failed to listen for a signal");
            std::future::pending().await
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
