//! `coracle-agent`: makes a Linux machine a node of a Coracle cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coracle_agent::{AgentConfig, AgentError, Thresholds};
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
    /// Below what the node is short of memory or of room on its disk, and evicts pods: memory.available and
    /// nodefs.available, each with a quantity or a percentage. What is not named is not watched [default: 100Mi or a
    /// sixteenth of the memory, 10% or 5Gi of the disk, whichever is less]
    #[arg(long, value_name = "SIGNAL<AMOUNT,...>")]
    eviction_hard: Option<Thresholds>,
    /// How long a shortage must be over before the node no longer says so, such as 5m0s
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = milliseconds)]
    eviction_pressure_transition_period: u64,
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

fn milliseconds(text: &str) -> Result<u64, String> {
    let duration: Option<jiff::SignedDuration> = text.parse().ok();
    let milliseconds = duration.and_then(|duration| u64::try_from(duration.as_millis()).ok());
    milliseconds.ok_or_else(|| "want a duration such as 30s or 5m0s".to_owned())
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
    let Arguments { broker, node, cluster, zone, labels, data_dir, .. } = arguments;
    let line = format!("coracle-agent ready: node {node} broker {broker} data {}", data_dir.display());
    let config = AgentConfig {
        broker,
        node,
        cluster,
        zone,
        labels,
        data_dir,
        eviction_hard: arguments.eviction_hard,
        eviction_transition_ms: arguments.eviction_pressure_transition_period,
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_for_a_kubelet() {
        for (text, want) in [("5m0s", 300_000), ("30s", 30_000), ("1h30m", 5_400_000), ("250ms", 250), ("0s", 0)] {
            assert_eq!(milliseconds(text), Ok(want), "{text}");
        }
        for text in ["", "5", "-5m", "five minutes", "5m0"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }

    // PRI-09
    #[test]
    fn thresholds_are_flags_of_a_kubelet() {
        let with = |flag: &str| {
            let usual = ["coracle-agent", "--broker", "mqtt://localhost", "--node", "a", "--data-dir", "d"];
            Arguments::try_parse_from(usual.into_iter().chain([flag]))
        };
        let hard = |flag: &str| with(flag).map(|arguments| arguments.eviction_hard).map_err(|error| error.to_string());
        assert!(hard("--eviction-hard=memory.available<64Mi,nodefs.available<7.5%").is_ok_and(|it| it.is_some()));
        assert_eq!(hard("--eviction-hard="), Ok(Some(Thresholds::default())));
        let wrong = hard("--eviction-hard=imagefs.available<5%");
        assert!(wrong.is_err_and(|error| error.contains("want memory.available or nodefs.available")));
    }
}
