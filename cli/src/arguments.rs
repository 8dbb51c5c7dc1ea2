//! What can be typed. The words here are the product's interface (DESIGN, "The interface that must not change").

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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
    /// Apply a manifest over MQTT and print the outcome of each document.
    Apply(Apply),
    /// Push and list images.
    #[command(subcommand)]
    Image(ImageCommand),
    /// Run controller and agents in virtual time under seeded faults.
    Simulate(Simulate),
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

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Push a WebAssembly file (component, or wasip1 module) under a name.
    Push(Push),
    /// List the images that the controller has.
    List(Api),
}

#[derive(Debug, Args)]
pub(crate) struct Push {
    /// The file.
    #[arg(value_name = "FILE.wasm")]
    pub(crate) file: PathBuf,
    /// The name under which pods ask for it.
    #[arg(value_name = "NAME:TAG")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) api: Api,
}

#[derive(Debug, Args)]
pub(crate) struct Api {
    /// The kubeconfig; else $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
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
