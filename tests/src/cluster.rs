//! A cluster of real processes for one test: a controller, a broker, agents, and clients that know where they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::programs::{Process, built, free_port, run, succeed};
use crate::{tools, wait};

/// The name of a file that a test may write with [`Cluster::start_in`]: how the controller schedules.
pub const SCHEDULER_CONFIG: &str = "scheduler.yaml";

/// The name of a file that a test may write with [`Cluster::start_in`]: what every agent is started with beside the usual,
/// an argument a line. Without it, agents never take their machine to be short of anything.
pub const AGENT_FLAGS: &str = "agent.flags";

/// Processes and their directory; everything ends when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// The controller.
    pub controller: Process,
    /// The agents, in the order in which they were started.
    pub agents: Vec<Process>,
    /// `mqtt://…`
    pub broker: String,
    /// `127.0.0.1:PORT` of the API.
    pub api: String,
    /// How the controller is started, also the next time.
    pub more: More,
    mosquitto: Option<Process>,
    dir: TempDir,
}

/// What a controller is started with beside the usual.
#[derive(Clone, Debug, Default)]
pub struct More {
    /// Arguments behind `coracle controller`.
    pub arguments: Vec<String>,
    /// Variables and their values.
    pub environment: Vec<(&'static str, String)>,
}

/// Whose broker carries the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerKind {
    /// Our own.
    Embedded,
    /// Eclipse Mosquitto.
    Mosquitto,
}

impl Cluster {
    /// A controller and `agents` agents, `node-1` in `zone-a`, `node-2` in `zone-b`, and so on in turn.
    ///
    /// # Panics
    /// When a part does not come up.
    #[must_use]
    pub fn start(broker: BrokerKind, agents: usize) -> Self {
        Self::start_in(broker, agents, |_| {})
    }

    /// As [`Self::start`], after something was prepared in the directory in which `controller/` and `node-1/` will be.
    ///
    /// # Panics
    /// When a part does not come up.
    #[must_use]
    pub fn start_in(broker: BrokerKind, agents: usize, prepare: impl FnOnce(&Path)) -> Self {
        Self::start_with(broker, agents, |dir| {
            prepare(dir);
            More::default()
        })
    }

    /// As [`Self::start_in`]; what was prepared also says how the controller is started.
    ///
    /// # Panics
    /// When a part does not come up.
    #[must_use]
    pub fn start_with(broker: BrokerKind, agents: usize, prepare: impl FnOnce(&Path) -> More) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let more = prepare(dir.path());
        let port = free_port();
        let mosquitto = (broker == BrokerKind::Mosquitto).then(|| mosquitto(dir.path(), port));
        let url = format!("mqtt://127.0.0.1:{port}");
        let api = format!("127.0.0.1:{}", free_port());
        let controller = controller(dir.path(), broker, &url, &api, &more);
        let mut cluster = Self { controller, agents: Vec::new(), broker: url, api, mosquitto, more, dir };
        for number in 1..=agents {
            let zone = ["zone-a", "zone-b"][(number - 1) % 2];
            cluster.add_agent(&format!("node-{number}"), zone);
        }
        cluster.wait_for_nodes(agents);
        cluster
    }

    /// Starts one more agent.
    pub fn add_agent(&mut self, node: &str, zone: &str) {
        self.agents.push(agent(self.dir.path(), &self.broker, node, zone));
    }

    /// Starts one more agent, which reaches the broker at another address: that of a link which a test makes worse.
    pub fn add_agent_over(&mut self, broker: &str, node: &str, zone: &str) {
        self.agents.push(agent(self.dir.path(), broker, node, zone));
    }

    /// Kills Mosquitto as a power cut would. [`Self::start_mosquitto_again`] starts it on the same port.
    ///
    /// # Panics
    /// When the broker is another one.
    pub fn kill_mosquitto(&mut self) {
        self.mosquitto.as_mut().expect("this cluster has Mosquitto").kill();
    }

    /// Starts Mosquitto after [`Self::kill_mosquitto`].
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_mosquitto_again(&mut self) {
        let port = self.broker.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let log = self.dir.path().join("mosquitto.log");
        let _ = std::fs::rename(&log, self.dir.path().join("mosquitto-before.log"));
        self.mosquitto = Some(mosquitto(self.dir.path(), port));
    }

    /// What Mosquitto has said.
    #[must_use]
    pub fn mosquitto_output(&self) -> String {
        self.mosquitto.as_ref().map(Process::output).unwrap_or_default()
    }

    /// A directory of this test's own.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Kills the controller as a power cut would, and starts it anew on the same directory.
    pub fn kill_and_restart_controller(&mut self) {
        self.controller.kill();
        self.start_controller_again();
    }

    /// Starts the controller anew on the same directory; the old one must have ended.
    pub fn start_controller_again(&mut self) {
        let broker = if self.mosquitto.is_some() { BrokerKind::Mosquitto } else { BrokerKind::Embedded };
        self.controller = controller(self.dir.path(), broker, &self.broker, &self.api, &self.more);
    }

    /// Kills an agent and starts it anew on the same directory.
    pub fn kill_and_restart_agent(&mut self, number: usize) {
        self.agents[number - 1].kill();
        let node = format!("node-{number}");
        let zone = ["zone-a", "zone-b"][(number - 1) % 2];
        self.agents[number - 1] = agent(self.dir.path(), &self.broker, &node, zone);
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("controller/admin.kubeconfig")
    }

    /// A kubectl command of one of [`tools::KUBECTLS`].
    #[must_use]
    pub fn kubectl_of(&self, version: &str, words: &[&str]) -> Command {
        let mut command = Command::new(tools::tool(version));
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(words);
        command.env("HOME", self.dir.path()).env_remove("KUBECONFIG");
        command
    }

    /// A command of the current kubectl.
    #[must_use]
    pub fn kubectl(&self, words: &[&str]) -> Command {
        self.kubectl_of(tools::KUBECTLS[1], words)
    }

    /// `coracle WORDS…`
    #[must_use]
    pub fn coracle(&self, words: &[&str]) -> Command {
        let mut command = Command::new(built("coracle"));
        command.args(words).env("KUBECONFIG", self.kubeconfig()).env("HOME", self.dir.path());
        command
    }

    /// An object as JSON; `None` when it is not there.
    #[must_use]
    pub fn get(&self, words: &[&str]) -> Option<Value> {
        let output = run(self.kubectl(&["get", "-o", "json"]).args(words));
        output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("kubectl prints JSON"))
    }

    /// The items of a list.
    #[must_use]
    pub fn list(&self, words: &[&str]) -> Vec<Value> {
        let list = self.get(words).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Writes a manifest into the test's directory and applies it with kubectl.
    pub fn apply(&self, name: &str, manifest: &str) -> String {
        let file = self.write(name, manifest);
        succeed(self.kubectl(&["apply", "-f"]).arg(file))
    }

    /// Writes a file into the test's directory.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        std::fs::write(&file, text).expect("the file can be written");
        file
    }

    /// Waits until so many nodes are Ready.
    pub fn wait_for_nodes(&self, count: usize) {
        wait::until(&format!("{count} nodes are Ready"), || {
            let nodes = self.list(&["nodes"]);
            let ready = nodes.iter().filter(|node| condition(node, "Ready") == "True").count();
            if ready == count { Ok(()) } else { Err(self.evidence(&nodes)) }
        });
    }

    /// Waits until exactly so many pods with these labels exist, none of them ending, and all are Ready.
    #[must_use]
    pub fn wait_for_ready_pods(&self, selector: &str, count: usize) -> Vec<Value> {
        wait::until(&format!("{count} pods with {selector} are Ready"), || {
            let pods = self.list(&["pods", "-l", selector]);
            let ready = pods.iter().filter(|pod| condition(pod, "Ready") == "True").count();
            let ending = pods.iter().any(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
            if ready == count && pods.len() == count && !ending { Ok(pods.clone()) } else { Err(self.evidence(&pods)) }
        })
    }

    /// Waits until a pod satisfies `look`.
    #[must_use]
    pub fn wait_for_pod(&self, name: &str, what: &str, look: impl Fn(&Value) -> bool) -> Value {
        wait::until(&format!("pod {name} {what}"), || match self.get(&["pod", name]) {
            Some(pod) if look(&pod) => Ok(pod),
            Some(pod) => Err(self.evidence(&[pod])),
            None => Err("no such pod".to_owned()),
        })
    }

    fn evidence(&self, objects: &[Value]) -> String {
        let mut text = String::new();
        for object in objects {
            text.push_str(&format!("{} {}\n", object["metadata"]["name"], object["status"]));
        }
        text.push_str("controller:\n");
        text.push_str(&self.controller.output());
        for agent in &self.agents {
            text.push_str("agent:\n");
            text.push_str(&agent.output());
        }
        text
    }
}

/// The status of a condition; empty when the object has none of that type.
#[must_use]
pub fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}

fn controller(dir: &Path, broker: BrokerKind, url: &str, api: &str, more: &More) -> Process {
    let mut command = Command::new(built("coracle"));
    command.args(["--log", "info", "controller", "--api-listen", api]).arg("--data-dir").arg(dir.join("controller"));
    match broker {
        BrokerKind::Embedded => command.args(["--mqtt-listen", url.trim_start_matches("mqtt://")]),
        BrokerKind::Mosquitto => command.args(["--mqtt-broker", url]),
    };
    let configuration = dir.join(SCHEDULER_CONFIG);
    if configuration.exists() {
        command.arg("--scheduler-config").arg(configuration);
    }
    command.args(&more.arguments).envs(more.environment.iter().cloned());
    let log = dir.join("controller.log");
    // The log of an earlier start stays readable under another name.
    let _ = std::fs::rename(&log, dir.join("controller-before.log"));
    let mut process = Process::start("controller", &mut command, dir);
    let _ready = process.said("coracle controller ready");
    process
}

fn agent(dir: &Path, broker: &str, node: &str, zone: &str) -> Process {
    let mut command = Command::new(built("coracle-agent"));
    command.args(["--broker", broker, "--node", node, "--zone", zone]).arg("--data-dir").arg(dir.join(node));
    // How full the machine of the tests is must not matter.
    let more = std::fs::read_to_string(dir.join(AGENT_FLAGS)).unwrap_or_else(|_| "--eviction-hard=".to_owned());
    command.args(more.lines());
    Process::start(node, &mut command, dir)
}

/// Debian's Mosquitto on a port of its own.
fn mosquitto(dir: &Path, port: u16) -> Process {
    let config = dir.join("mosquitto.conf");
    let text = format!("listener {port} 127.0.0.1\nallow_anonymous true\nmax_packet_size 2097152\n");
    std::fs::write(&config, text).expect("the configuration can be written");
    let mut command = Command::new(tools::tool("mosquitto"));
    let mut process = Process::start("mosquitto", command.arg("-c").arg(config), dir);
    let _ready = process.said("running");
    process
}
