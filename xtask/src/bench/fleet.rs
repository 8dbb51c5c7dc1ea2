//! Many hollow nodes: pods a second through the whole house, until they are bound and until they run, processor time and
//! memory a node and a pod, what an idle fleet costs, and what it takes to bring an artifact to all.
//!
//! `cargo xtask bench fleet [--nodes N] [--pods N] [--deployments N] [--clients N] [--runs N] [--mosquitto] [--artifact]
//! [--no-build]`

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::running::{Running, controller, cpu_seconds_of_ended, figure, port};
use super::{build, directory, has, machine, number, row};
use crate::process::output;

/// How long everything rests before memory is read.
const SETTLE: Duration = Duration::from_secs(5);
/// Over how long the cost of doing nothing is measured: three leases of every node.
const IDLE: Duration = Duration::from_secs(30);
/// How long the nodes may take to join, and the artifact to arrive.
const PATIENCE: Duration = Duration::from_secs(180);
/// What the pods run, where it does not matter.
const IMAGE: &str = "samples/sensor:1";
/// An image of our own, and the data in it.
const ARTIFACT_IMAGE: &str = "bench/artifact:1";
const ARTIFACT_BYTES: usize = 1024 * 1024;

/// What is measured.
struct Plan {
    coracle: PathBuf,
    nodes: u32,
    pods: u32,
    /// 0 for pods that stand alone.
    deployments: u32,
    clients: u32,
    runs: u32,
    /// Mosquitto carries the link, so that the controller is measured without a broker.
    mosquitto: bool,
}

/// Builds in release (not with `--no-build`), measures, prints.
///
/// # Errors
/// What could not be built or started, and what did not come about in time.
pub(super) fn bench(arguments: &[String]) -> Result<(), String> {
    let plan = Plan {
        nodes: number(arguments, "--nodes", 500)?,
        pods: number(arguments, "--pods", 5000)?,
        deployments: number(arguments, "--deployments", 0)?,
        clients: number(arguments, "--clients", 64)?,
        runs: number(arguments, "--runs", 3)?,
        mosquitto: has(arguments, "--mosquitto"),
        coracle: build(arguments)?,
    };
    machine()?;
    let broker = if plan.mosquitto { "Mosquitto" } else { "the embedded broker" };
    let shape = if plan.deployments == 0 {
        format!("{} clients that create pods", plan.clients)
    } else {
        format!("{} deployments", plan.deployments)
    };
    println!("{} hollow nodes, {} pods by {shape}, over {broker}; all on this machine", plan.nodes, plan.pods);
    if has(arguments, "--artifact") {
        return artifact(&plan);
    }
    let mut rows = Rows::default();
    for run in 1..=plan.runs {
        once(&plan, run == plan.runs, &mut rows)?;
    }
    rows.print();
    Ok(())
}

/// Figures by their names, in the order in which they were first measured.
#[derive(Default)]
struct Rows(Vec<(String, &'static str, Vec<f64>)>);

impl Rows {
    fn add(&mut self, what: &str, unit: &'static str, value: f64) {
        match self.0.iter_mut().find(|(name, ..)| name == what) {
            Some((_, _, values)) => values.push(value),
            None => self.0.push((what.to_owned(), unit, vec![value])),
        }
    }

    fn print(&mut self) {
        for (what, unit, values) in &mut self.0 {
            row(what, values, unit);
        }
    }
}

/// The processes of one run, in the order in which they are to end.
struct House {
    fleet: Option<Running>,
    controller: Running,
    broker: Option<Running>,
    mqtt: u16,
    kubeconfig: PathBuf,
}

impl House {
    fn start(plan: &Plan) -> Result<Self, String> {
        let data = directory("fleet")?;
        let mqtt = port()?;
        let broker = if plan.mosquitto { Some(mosquitto(&data, mqtt)?) } else { None };
        let folder = data.join("controller");
        let (controller, _) = controller(&plan.coracle, &folder, mqtt, !plan.mosquitto)?;
        Ok(Self { fleet: None, controller, broker, mqtt, kubeconfig: folder.join("admin.kubeconfig") })
    }

    /// Gives the seconds until all nodes had joined.
    fn join(&mut self, plan: &Plan, more: &[&str]) -> Result<f64, String> {
        let mut command = Command::new(&plan.coracle);
        command.args(["fleet", "--json", "--every", "1", "--join-rate", "2000", "--zones", "zone-a,zone-b,zone-c"]);
        command.args(["--broker", &format!("mqtt://127.0.0.1:{}", self.mqtt)]);
        command.args(["--nodes", &plan.nodes.to_string()]).args(more);
        let fleet = Running::spawn(&mut command)?;
        let deadline = Instant::now() + PATIENCE;
        let joined = loop {
            let line = fleet.said("\"event\":")?;
            if line.contains("\"joined\",") || line.contains("\"event\":\"joined\"") {
                break line;
            }
            if Instant::now() > deadline {
                return Err(format!("not all nodes have joined within {PATIENCE:?}: {line}"));
            }
        };
        self.fleet = Some(fleet);
        figure(&joined, "seconds").ok_or_else(|| format!("no seconds in {joined}"))
    }

    /// Processor seconds by component.
    fn cpu(&self) -> Result<Vec<(&'static str, f64)>, String> {
        let all = self.controller.cpu_seconds()?;
        let inside = self.controller.cpu_seconds_of("mqtt-broker")?;
        let mut found = vec![("controller", all - inside)];
        match &self.broker {
            Some(broker) => found.push(("Mosquitto", broker.cpu_seconds()?)),
            None => found.push(("embedded broker", inside)),
        }
        if let Some(fleet) = &self.fleet {
            found.push(("fleet", fleet.cpu_seconds()?));
        }
        found.push(("clients", cpu_seconds_of_ended()?));
        Ok(found)
    }

    fn load(&self, plan: &Plan, image: &str) -> Result<String, String> {
        let program = plan.coracle.display().to_string();
        let kubeconfig = self.kubeconfig.display().to_string();
        let text = |number: u32| number.to_string();
        let (pods, deployments, clients) = (text(plan.pods), text(plan.deployments), text(plan.clients));
        let words = ["load", "--json", "--keep", "--kubeconfig", &kubeconfig, "--pods", &pods];
        let more = ["--image", image, "--deployments", &deployments, "--clients", &clients];
        output(&program, &[&words[..], &more].concat())
    }

    /// Pushes a program that does nothing, with [`ARTIFACT_BYTES`] of data in it.
    fn push(&self, plan: &Plan) -> Result<(), String> {
        let mut state = 7_u32;
        let data: String = (0..ARTIFACT_BYTES)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                format!("\\{:02x}", state >> 24)
            })
            .collect();
        let module = format!(
            r#"(module (memory (export "memory") 32) (func (export "_start")) (data (i32.const 65536) "{data}"))"#
        );
        let file = self.kubeconfig.with_file_name("artifact.wasm");
        let bytes = wat::parse_str(module).map_err(|error| error.to_string())?;
        std::fs::write(&file, bytes).map_err(|error| format!("{}: {error}", file.display()))?;
        let (file, kubeconfig) = (file.display().to_string(), self.kubeconfig.display().to_string());
        let words = ["image", "push", &file, ARTIFACT_IMAGE, "--kubeconfig", &kubeconfig];
        output(&plan.coracle.display().to_string(), &words).map(drop)
    }
}

fn mosquitto(data: &Path, port: u16) -> Result<Running, String> {
    let config = data.join("mosquitto.conf");
    let text = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nmax_packet_size 2097152\nmax_queued_messages 100000\n\
         max_inflight_messages 256\nset_tcp_nodelay true\n"
    );
    std::fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let program = ["/usr/sbin/mosquitto", "mosquitto"].into_iter().find(|path| Path::new(path).exists());
    Running::server(Command::new(program.unwrap_or("mosquitto")).arg("-c").arg(config), port)
}

fn once(plan: &Plan, is_last: bool, rows: &mut Rows) -> Result<(), String> {
    let mut house = House::start(plan)?;
    let (nodes, pods) = (f64::from(plan.nodes), f64::from(plan.pods));
    thread::sleep(SETTLE);
    let empty = house.controller.pss_kb()?;
    rows.add("controller, no nodes, PSS", "kB", empty);
    rows.add("all nodes joined", "s", house.join(plan, &[])?);
    thread::sleep(SETTLE);
    let joined = house.controller.pss_kb()?;
    rows.add("controller with the nodes, PSS", "kB", joined);
    rows.add("controller, PSS a node", "kB", (joined - empty) / nodes);
    if let Some(fleet) = &house.fleet {
        rows.add("fleet, PSS a node", "kB", fleet.pss_kb()? / nodes);
    }
    let before = house.cpu()?;
    let figures = house.load(plan, IMAGE)?;
    let after = house.cpu()?;
    for (name, what, unit) in [
        ("boundPerSecond", "create -> durable -> bound and durable", "pods/s"),
        ("podsPerSecond", "create -> durable -> bound -> MQTT -> Running is durable", "pods/s"),
        ("answeredP50Ms", "create answered, p50", "ms"),
        ("answeredP99Ms", "create answered, p99", "ms"),
        ("boundP50Ms", "create -> bound in the watch, p50", "ms"),
        ("boundP99Ms", "create -> bound in the watch, p99", "ms"),
        ("runningP50Ms", "create -> Running in the watch, p50", "ms"),
        ("runningP99Ms", "create -> Running in the watch, p99", "ms"),
    ] {
        rows.add(what, unit, figure(&figures, name).ok_or_else(|| format!("no {name} in {figures}"))?);
    }
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        rows.add(&format!("processor time of the {name}, a pod"), "us", 1e6 * (after - before) / pods);
    }
    thread::sleep(SETTLE);
    let full = house.controller.pss_kb()?;
    rows.add("controller with nodes and pods, PSS", "kB", full);
    rows.add("controller, PSS a pod", "kB", (full - joined) / pods);
    if is_last {
        idle(&house, rows)?;
    }
    Ok(())
}

/// Nothing changes; every node renews its lease.
fn idle(house: &House, rows: &mut Rows) -> Result<(), String> {
    let before = house.cpu()?;
    thread::sleep(IDLE);
    let after = house.cpu()?;
    let servers = before.iter().zip(&after).filter(|((name, _), _)| *name != "clients");
    for ((name, before), (_, after)) in servers {
        rows.add(&format!("idle, {name}"), "CPU s a minute", (after - before) * 60.0 / IDLE.as_secs_f64());
    }
    Ok(())
}

/// One pod a node, and its artifact has to be brought to every one first.
fn artifact(plan: &Plan) -> Result<(), String> {
    let plan = Plan { pods: plan.nodes, deployments: 1, coracle: plan.coracle.clone(), ..*plan };
    let mut house = House::start(&plan)?;
    house.push(&plan)?;
    let joined = house.join(&plan, &["--pull", "--pods-per-node", "1"])?;
    row("all nodes joined", &mut [joined], "s");
    let before = house.cpu()?;
    let figures = house.load(&plan, ARTIFACT_IMAGE)?;
    let after = house.cpu()?;
    thread::sleep(Duration::from_secs(2));
    let said = house.fleet.as_ref().and_then(Running::latest).ok_or("the fleet says nothing")?;
    let count = |name| figure(&said, name).ok_or_else(|| format!("no {name} in {said}"));
    let (pulled, bytes, down) = (count("artifactsPulled")?, count("artifactBytes")?, count("downBytes")?);
    row("artifact", &mut [bytes / pulled], "bytes");
    row("nodes that pulled it", &mut [pulled], "nodes");
    row("until all run it", &mut [figure(&figures, "seconds").unwrap_or_default()], "s");
    row("bytes to nodes for a byte of artifact", &mut [down / bytes], "");
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        row(&format!("processor time of the {name}"), &mut [after - before], "s");
    }
    Ok(())
}
