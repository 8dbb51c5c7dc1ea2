//! The cells of a pod. What stands under `STATUS` is found by looking at the containers, as `kubectl`'s users know it.

use serde_json::{Value, json};

use super::age;
use super::cells::{count, list, text};
use crate::clock;

const NONE: &str = "<none>";

/// What the columns say of a pod's containers.
struct Summary {
    total: usize,
    ready: usize,
    status: String,
    restarts: Restarts,
}

/// How often containers were started again.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: u64,
    /// When the last one ended that was then started again, in milliseconds since 1970.
    last_ms: u64,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(count(&container["restartCount"]));
        let ended = container["lastState"]["terminated"]["finishedAt"].as_str().and_then(clock::parse_stamp);
        self.last_ms = self.last_ms.max(ended.unwrap_or_default());
    }
}

pub(super) fn cells(name: Value, age: Value, pod: &Value, now_wall_ms: u64) -> Vec<Value> {
    let summary = summary(pod);
    let restarts = match summary.restarts {
        Restarts { count: 0, .. } | Restarts { last_ms: 0, .. } => summary.restarts.count.to_string(),
        Restarts { count, last_ms } => format!("{count} ({} ago)", age::since_ms(last_ms, now_wall_ms)),
    };
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let address = text(&status["podIPs"][0]["ip"], text(&status["podIP"], NONE));
    vec![
        name,
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.status),
        json!(restarts),
        age,
        json!(address),
        json!(text(&spec["nodeName"], NONE)),
        json!(text(&status["nominatedNodeName"], NONE)),
        json!(readiness_gates(pod)),
    ]
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    list(&pod["status"]["conditions"]).iter().find(|condition| condition["type"] == kind)
}

fn is_true(pod: &Value, kind: &str) -> bool {
    condition(pod, kind).is_some_and(|condition| condition["status"] == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let met = gates.iter().filter(|gate| is_true(pod, text(&gate["conditionType"], ""))).count();
    format!("{met}/{}", gates.len())
}

fn summary(pod: &Value) -> Summary {
    let status = &pod["status"];
    let phase = text(&status["phase"], "");
    let mut word = text(&status["reason"], phase).to_owned();
    if condition(pod, "PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut word);
    }
    let sidecars = list(&pod["spec"]["initContainers"]).iter().filter(|container| is_sidecar(container)).count();
    let mut summary = Summary {
        total: list(&pod["spec"]["containers"]).len() + sidecars,
        ready: 0,
        status: word,
        restarts: Restarts::default(),
    };
    let initializing = look_at_init_containers(pod, &mut summary);
    if !initializing || is_true(pod, "Initialized") {
        look_at_containers(pod, &mut summary);
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut summary.status);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut summary.status);
        }
    }
    summary
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// How a container ended: its reason, or its signal, or its exit code.
fn ended(terminated: &Value) -> String {
    match (text(&terminated["reason"], ""), terminated["signal"].as_i64().unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Whether an init container still stands in the way; says so in the summary. Once the pod is initialised, only the
/// sidecars' restarts count.
fn look_at_init_containers(pod: &Value, summary: &mut Summary) -> bool {
    let specs = list(&pod["spec"]["initContainers"]);
    let mut sidecars = Restarts::default();
    for (index, container) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        let sidecar = specs.iter().any(|spec| spec["name"] == container["name"] && is_sidecar(spec));
        summary.restarts.add(container);
        if sidecar {
            sidecars.add(container);
        }
        let state = &container["state"];
        let (terminated, waiting) = (&state["terminated"], text(&state["waiting"]["reason"], ""));
        if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or_default() == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            summary.ready += usize::from(container["ready"] == true);
            continue;
        }
        summary.status = if terminated.is_object() {
            format!("Init:{}", ended(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", specs.len())
        };
        if is_true(pod, "Initialized") {
            summary.restarts = sidecars;
        }
        return true;
    }
    summary.restarts = sidecars;
    false
}

fn look_at_containers(pod: &Value, summary: &mut Summary) {
    let mut running = false;
    // From the last to the first, so that the first one's word stands.
    for container in list(&pod["status"]["containerStatuses"]).iter().rev() {
        summary.restarts.add(container);
        let state = &container["state"];
        let waiting = text(&state["waiting"]["reason"], "");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.status);
        } else if state["terminated"].is_object() {
            summary.status = ended(&state["terminated"]);
        } else if container["ready"] == true && state["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.status == "Completed" && running {
        summary.status = if is_true(pod, "Ready") { "Running" } else { "NotReady" }.to_owned();
    }
}
