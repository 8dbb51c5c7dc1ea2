//! What can be typed. The words here are the product's interface (DESIGN, "The interface that must not change").

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::image::{ImageCommand, Images};
use crate::scheduler_config::SchedulerConfig;

/// Kubernetes' workloads on edge devices, as WebAssembly, over MQTT.
#[derive(Debug, Parser)]
#[command(name = "coracle", version, about, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// What to log: error, warn, info, debug, or a tracing filter.
    #[arg(long, global = true, default_value = "warn", value_name = "FILTER")]
    pub(crate) log: String,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a whole cluster in this process: controller, broker, store, local agents and a sample workload.
    Up(Up),
    /// Start a controller.
    Controller(Controller),
    /// Start hollow agents: real protocol and lifecycle, no WebAssembly.
    Fleet(Fleet),
    /// Create many pods through the API at once, and say how fast they come to run.
    Load(Load),
    /// Apply a manifest over MQTT and print the outcome of each document.
    Apply(Apply),
    /// Push, pull, list, inspect and remove images.
    #[command(subcommand)]
    Image(ImageCommand),
    /// Run controller and agents in virtual time under seeded faults.
    Simulate(Simulate),
    /// Say where a pod goes and why, or why it goes nowhere.
    ExplainPlacement(ExplainPlacement),
    /// Say where the pods of manifests would go and why, without touching anything.
    SimulatePlacement(SimulatePlacement),
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// How many local agents.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) nodes: u16,
    /// The zones that the agents are spread over.
    #[arg(long, default_value = "zone-a,zone-b", value_delimiter = ',', value_name = "a,b")]
    pub(crate) zones: Vec<String>,
    /// Where state is kept; it survives a restart.
    #[arg(long, default_value = "coracle-data", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Where the Kubernetes API listens.
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDR")]
    pub(crate) api_listen: SocketAddr,
    /// Where the embedded MQTT broker listens.
    #[arg(long, default_value = "127.0.0.1:1883", value_name = "ADDR")]
    pub(crate) mqtt_listen: SocketAddr,
    /// Leave as soon as everything is Running and Ready: 0, or 1 after --timeout.
    #[arg(long)]
    pub(crate) exit_when_ready: bool,
    /// How long to wait for everything to be Ready, in seconds.
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) images: Images,
    #[command(flatten)]
    pub(crate) scheduler: SchedulerConfig,
}

#[derive(Debug, Args)]
pub(crate) struct Controller {
    /// Where state is kept.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// The cluster's name: a level in every MQTT topic.
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub(crate) cluster: String,
    /// Where the Kubernetes API listens.
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDR")]
    pub(crate) api_listen: SocketAddr,
    /// Where the embedded MQTT broker listens.
    #[arg(long, default_value = "127.0.0.1:1883", value_name = "ADDR", conflicts_with = "mqtt_broker")]
    pub(crate) mqtt_listen: SocketAddr,
    /// Use this MQTT broker instead of the embedded one.
    #[arg(long, value_name = "mqtt://H:P")]
    pub(crate) mqtt_broker: Option<String>,
    /// Where the cluster's objects are kept.
    #[arg(long, default_value = "embedded", value_name = "embedded|etcd://H:P")]
    pub(crate) store: String,
    #[command(flatten)]
    pub(crate) images: Images,
    #[command(flatten)]
    pub(crate) scheduler: SchedulerConfig,
}

#[derive(Debug, Args)]
pub(crate) struct Fleet {
    /// The broker.
    #[arg(long, default_value = "mqtt://127.0.0.1:1883", value_name = "mqtt://H:P")]
    pub(crate) broker: String,
    /// How many nodes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) nodes: u32,
    /// The cluster's name.
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub(crate) cluster: String,
    /// The zones that the nodes are spread over.
    #[arg(long, value_delimiter = ',', value_name = "a,b")]
    pub(crate) zones: Vec<String>,
    /// Node 7 is called PREFIX-000007; fleets side by side need different prefixes.
    #[arg(long, default_value = "hollow", value_name = "PREFIX")]
    pub(crate) name_prefix: String,
    /// How many pods a node takes.
    #[arg(long, default_value_t = 110, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pods_per_node: u32,
    /// How long a guest takes to start, and to end: milliseconds, or a range such as 5..50.
    #[arg(long, default_value = "0", value_name = "MS", value_parser = crate::fleet::range)]
    pub(crate) start_ms: std::ops::RangeInclusive<u64>,
    /// The share of runs that fail within a second, from 0 to 1.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub(crate) fail_rate: f64,
    /// Really pull artifacts, once a node; else every image is there already.
    #[arg(long)]
    pub(crate) pull: bool,
    /// How many nodes begin to join in a second.
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) join_rate: u32,
    /// The same seed gives nodes with the same identities.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// How often figures are printed, in seconds.
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) every: u64,
    /// Print figures as JSON, an object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// How many pods.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pods: u32,
    /// Over how many deployments the pods are spread; 0 for pods that stand alone.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) deployments: u32,
    /// How many clients ask at once, each over a connection of its own.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) clients: u16,
    /// What the pods run.
    #[arg(long, default_value = "samples/sensor:1", value_name = "IMAGE")]
    pub(crate) image: String,
    /// Where the pods are created.
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub(crate) namespace: String,
    /// What the names of pods and deployments begin with; loads side by side need different prefixes.
    #[arg(long, default_value = "load", value_name = "PREFIX")]
    pub(crate) name_prefix: String,
    /// The kubeconfig; else $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How long all of it may take, in seconds.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub(crate) timeout: u64,
    /// Leave the pods when all are Running; else they are deleted, and waited for.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print the figures as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// YAML or JSON, one document or several; - for standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: PathBuf,
    /// The broker.
    #[arg(long, default_value = "mqtt://127.0.0.1:1883", value_name = "mqtt://H:P")]
    pub(crate) broker: String,
    /// The cluster's name.
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub(crate) cluster: String,
    /// Delete what the documents name, instead.
    #[arg(long)]
    pub(crate) delete: bool,
    /// How long to wait for the outcome, in seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The seed: the same one gives the same run.
    #[arg(long, value_name = "S")]
    pub(crate) seed: u64,
    /// How many steps of faults before everything is healed.
    #[arg(long, default_value_t = 2000, value_name = "N")]
    pub(crate) steps: u64,
    /// Print what happens.
    #[arg(long)]
    pub(crate) trace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainPlacement {
    /// The pod.
    #[arg(value_name = "POD")]
    pub(crate) pod: String,
    /// Its namespace.
    #[arg(short, long, default_value = "default", value_name = "NAMESPACE")]
    pub(crate) namespace: String,
    /// Tell of this node in any case; may be given several times.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Vec<String>,
    /// Of how many nodes to tell one by one, the best first.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: u16,
    /// Print a table, or the API's answer.
    #[arg(short, long, default_value = "table", value_name = "table|json")]
    pub(crate) output: Output,
    /// The kubeconfig; else $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SimulatePlacement {
    /// Manifests: YAML or JSON, one document or several; - for standard input. May be given several times.
    #[arg(short, long, value_name = "FILE", required = true)]
    pub(crate) filename: Vec<PathBuf>,
    /// The cluster: what `kubectl get nodes -o yaml` prints, with pods and other objects if there are any. Without it, the
    /// live cluster is read, and only read. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) nodes: Vec<PathBuf>,
    /// Print a table, or everything as one JSON object.
    #[arg(short, long, default_value = "table", value_name = "table|json")]
    pub(crate) output: Output,
    /// Of how many nodes to tell for each pod, with -o json.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) limit: u16,
    /// Breaks ties between nodes that are equally good, and makes names: the same seed gives the same answer.
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) scheduler: SchedulerConfig,
    /// The kubeconfig of the live cluster; else $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}
