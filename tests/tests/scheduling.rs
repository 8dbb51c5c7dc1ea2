//! Where pods go, as somebody with kubectl sees it: spread, kept apart, made room for, held back, and told why not.

use std::process::Command;

use coracle_tests::cluster::{BrokerKind, Cluster, SCHEDULER_CONFIG, condition};
use coracle_tests::programs::{built, root, run, succeed};
use coracle_tests::wait;
use serde_json::Value;

/// A cluster whose nodes are in two zones in turn, with an image that waits.
fn start(agents: usize) -> Cluster {
    with_image(Cluster::start(BrokerKind::Embedded, agents))
}

fn with_image(cluster: Cluster) -> Cluster {
    let file = root().join("workloads/built/files.wasm");
    let _ = succeed(cluster.coracle(&["image", "push"]).arg(file).arg("test/files:1"));
    cluster
}

/// A Deployment whose pods wait; `spec` is lines of YAML of the pods' spec.
fn deployment(name: &str, replicas: usize, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec:\n{spec}      terminationGracePeriodSeconds: 2\n      containers:\n      - {{name: main, image: 'test/files:1', args: [wait]}}\n"
    )
}

/// A pod that waits and asks for so much of a node's processor.
fn asking(name: &str, class: &str, millis: u64) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  \
         priorityClassName: {class}\n  terminationGracePeriodSeconds: 5\n  containers:\n  - name: main\n    \
         image: test/files:1\n    args: [wait]\n    resources: {{requests: {{cpu: {millis}m}}}}\n"
    )
}

fn class(name: &str, value: i64, more: &str) -> String {
    format!(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n{more}---\n"
    )
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

/// What a node can give, in thousandths of a processor.
fn allocatable(cluster: &Cluster, node: &str) -> u64 {
    let node = cluster.get(&["node", node]).unwrap_or_default();
    let text = node["status"]["allocatable"]["cpu"].as_str().unwrap_or_default();
    match text.strip_suffix('m') {
        Some(millis) => millis.parse().unwrap_or_default(),
        None => text.parse::<u64>().unwrap_or_default() * 1000,
    }
}

fn why_pending(pod: &Value) -> String {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == "PodScheduled");
    found.map(|found| found["message"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

fn events_of(cluster: &Cluster, name: &str, reason: &str) -> Vec<String> {
    let all = cluster.list(&["events"]);
    let about = |event: &&Value| event["involvedObject"]["name"] == name && event["reason"] == reason;
    all.iter().filter(about).map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn replicas_spread_over_zones_and_keep_apart_on_hosts_and_one_too_many_says_why() {
    // SCH-01, SCH-04, SCH-05, TSC-03
    let cluster = start(4);
    let spread = "topologySpreadConstraints:\n- maxSkew: 1\n  topologyKey: topology.kubernetes.io/zone\n  \
                  whenUnsatisfiable: DoNotSchedule\n  labelSelector: {matchLabels: {app: even}}";
    cluster.apply("even.yaml", &deployment("even", 4, spread));
    let pods = cluster.wait_for_ready_pods("app=even", 4);
    let zone_a = pods.iter().filter(|pod| ["node-1", "node-3"].contains(&node_of(pod))).count();
    assert_eq!(zone_a, 2, "{pods:#?}");

    let apart = "affinity:\n  podAntiAffinity:\n    requiredDuringSchedulingIgnoredDuringExecution:\n    \
                 - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: apart}}}";
    cluster.apply("apart.yaml", &deployment("apart", 5, apart));
    let pods = wait::until("four of five have a node, and one says why not", || {
        let pods = cluster.list(&["pods", "-l", "app=apart"]);
        let waiting = pods.iter().find(|pod| node_of(pod).is_empty()).map(why_pending).unwrap_or_default();
        let placed = pods.iter().filter(|pod| !node_of(pod).is_empty()).count();
        if placed == 4 && !waiting.is_empty() { Ok(pods) } else { Err(format!("{pods:#?}")) }
    });
    let mut nodes: Vec<&str> = pods.iter().map(node_of).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["", "node-1", "node-2", "node-3", "node-4"]);
    let waiting = pods.iter().find(|pod| node_of(pod).is_empty()).unwrap_or(&pods[0]);
    assert_eq!(condition(waiting, "PodScheduled"), "False");
    let why = why_pending(waiting);
    assert!(why.starts_with("0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules."), "{why}");
    let name = waiting["metadata"]["name"].as_str().unwrap_or_default();
    assert_eq!(events_of(&cluster, name, "FailedScheduling"), [why]);

    // Room appears: the pod is tried again by itself.
    let mut cluster = cluster;
    cluster.add_agent("node-5", "zone-a");
    let pod = cluster.wait_for_pod(name, "is Ready", |pod| condition(pod, "Ready") == "True");
    assert_eq!(node_of(&pod), "node-5");
}

#[test]
fn a_more_important_pod_gets_the_room_of_a_lesser_one_which_ends_gracefully() {
    // PRI-01, PRI-02, PRI-04, PRI-06
    let cluster = start(1);
    let classes =
        [class("low", 10, ""), class("patient", 1000, "preemptionPolicy: Never\n"), class("high", 1000, "")].concat();
    cluster.apply("classes.yaml", &classes);
    let most = allocatable(&cluster, "node-1") * 6 / 10;
    assert!(most > 0);
    cluster.apply("low.yaml", &asking("low", "low", most));
    let low = cluster.wait_for_pod("low", "is Ready", |pod| condition(pod, "Ready") == "True");
    assert_eq!(low["spec"]["priority"], 10);

    cluster.apply("patient.yaml", &asking("patient", "patient", most));
    let patient = cluster.wait_for_pod("patient", "says why it waits", |pod| !why_pending(pod).is_empty());
    let why = why_pending(&patient);
    assert!(why.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{why}");
    assert!(why.contains("not eligible due to preemptionPolicy=Never."), "{why}");
    assert!(cluster.get(&["pod", "low"]).is_some_and(|low| low["metadata"]["deletionTimestamp"].is_null()));
    let _ = succeed(&mut cluster.kubectl(&["delete", "pod", "patient"]));

    cluster.apply("high.yaml", &asking("high", "high", most));
    let high = cluster.wait_for_pod("high", "is Ready", |pod| condition(pod, "Ready") == "True");
    assert_eq!((node_of(&high), &high["spec"]["priority"]), ("node-1", &Value::from(1000)));
    assert!(cluster.get(&["pod", "low"]).is_none(), "nobody makes a bare pod again");
    let told = events_of(&cluster, "low", "Preempted");
    let uid = high["metadata"]["uid"].as_str().unwrap_or_default();
    assert_eq!(told, [format!("Preempted by pod {uid} on node node-1")]);
}

#[test]
fn priority_classes_are_as_kubernetes_has_them() {
    // PRI-01, PRI-02
    let cluster = Cluster::start(BrokerKind::Embedded, 0);
    let table = succeed(&mut cluster.kubectl(&["get", "priorityclasses"]));
    for (name, value) in [("system-cluster-critical", "2000000000"), ("system-node-critical", "2000001000")] {
        assert!(table.lines().any(|line| line.starts_with(name) && line.contains(value)), "{table}");
    }
    cluster.apply("default.yaml", &class("usual", -5, "globalDefault: true\n"));
    let refused = |text: &str| {
        let file = cluster.write("refused.yaml", text);
        let output = run(cluster.kubectl(&["apply", "-f"]).arg(file));
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&class("second", 1, "globalDefault: true\n")).contains("already marked as default"));
    assert!(refused(&class("too-much", 1_000_000_001, "")).contains("value"));
    assert!(refused(&class("system-own", 1, "")).contains("reserved"));
    assert!(refused(&asking("lost", "no-such", 1)).contains("no PriorityClass with name no-such was found"));
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: plain}\nspec: {containers: [{name: c, image: 'i:1'}]}\n";
    cluster.apply("plain.yaml", pod);
    let plain = cluster.get(&["pod", "plain"]).unwrap_or_default();
    let spec = &plain["spec"];
    assert_eq!((&spec["priorityClassName"], &spec["priority"]), (&Value::from("usual"), &Value::from(-5)));
}

#[test]
fn a_budget_holds_a_drain_back_until_there_are_enough_elsewhere() {
    // PDB-01, SCH-03
    let cluster = start(2);
    cluster.apply("web.yaml", &deployment("web", 2, "topologySpreadConstraints: []"));
    let _ = cluster.wait_for_ready_pods("app=web", 2);
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {minAvailable: 2, \
                  selector: {matchLabels: {app: web}}}\n";
    cluster.apply("budget.yaml", budget);
    wait::until("the budget is counted", || {
        let status = cluster.get(&["pdb", "web"]).unwrap_or_default()["status"].take();
        if status["currentHealthy"] == 2 && status["disruptionsAllowed"] == 0 {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
    let output = run(&mut cluster.kubectl(&["drain", "node-1", "--timeout=3s"]));
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{words}");
    let _ = succeed(&mut cluster.kubectl(&["patch", "pdb", "web", "-p", "{\"spec\": {\"minAvailable\": 1}}"]));
    let _ = succeed(&mut cluster.kubectl(&["drain", "node-1", "--timeout=60s"]));
    let pods = cluster.wait_for_ready_pods("app=web", 2);
    assert!(pods.iter().all(|pod| node_of(pod) == "node-2"), "{pods:#?}");
}

#[test]
fn a_gated_pod_waits_for_its_gates() {
    // SCH-03
    let cluster = start(1);
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: gated}\nspec:\n  schedulingGates: [{name: example.com/ready}]\n  \
               terminationGracePeriodSeconds: 2\n  containers: [{name: c, image: 'test/files:1', args: [wait]}]\n";
    cluster.apply("gated.yaml", pod);
    let table = succeed(&mut cluster.kubectl(&["get", "pod", "gated"]));
    assert!(table.contains("SchedulingGated"), "{table}");
    let patch = "[{\"op\": \"remove\", \"path\": \"/spec/schedulingGates\"}]";
    let _ = succeed(&mut cluster.kubectl(&["patch", "pod", "gated", "--type=json", "-p", patch]));
    let _ = cluster.wait_for_pod("gated", "is Ready", |pod| condition(pod, "Ready") == "True");
}

const PROFILES: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  disablePreemption: true
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}
";

#[test]
fn profiles_of_a_configuration_place_each_their_own_pods() {
    // SCH-02, SCH-03, PRI-10
    let cluster = with_image(Cluster::start_in(BrokerKind::Embedded, 3, |dir| {
        std::fs::write(dir.join(SCHEDULER_CONFIG), PROFILES).expect("the file can be written");
    }));
    let packed = |name: &str, class: &str, millis: u64| {
        asking(name, class, millis).replace("spec:\n", "spec:\n  schedulerName: packing\n")
    };
    cluster.apply("classes.yaml", &[class("low", 10, ""), class("high", 1000, "")].concat());
    let all = allocatable(&cluster, "node-1");
    let mut nodes = Vec::new();
    for name in ["one", "two", "three"] {
        cluster.apply("packed.yaml", &packed(name, "low", all / 5));
        nodes.push(node_of(&cluster.wait_for_pod(name, "has a node", |pod| !node_of(pod).is_empty())).to_owned());
    }
    assert!(nodes.iter().all(|node| *node == nodes[0]), "the default would have spread them: {nodes:?}");

    for (name, millis) in [("fill-one", all * 9 / 10), ("fill-two", all * 9 / 10)] {
        cluster.apply("fill.yaml", &asking(name, "low", millis));
        let _ = cluster.wait_for_pod(name, "has a node", |pod| !node_of(pod).is_empty());
    }
    cluster.apply("polite.yaml", &packed("polite", "high", all * 8 / 10));
    let polite = cluster.wait_for_pod("polite", "says why it waits", |pod| !why_pending(pod).is_empty());
    assert!(why_pending(&polite).starts_with("0/3 nodes are available: 3 Insufficient cpu."), "{polite:#}");
    let pods = cluster.list(&["pods"]);
    assert!(pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null()), "nobody had to go: {pods:#?}");

    let foreign = asking("foreign", "low", 1).replace("spec:\n", "spec:\n  schedulerName: somebody-else\n");
    cluster.apply("foreign.yaml", &foreign);
    wait::until("the pod of a scheduler that is not there says so", || {
        let told = events_of(&cluster, "foreign", "FailedScheduling");
        let names = |text: &String| text.contains("somebody-else") && text.contains("packing");
        if told.len() == 1 && told.iter().all(names) { Ok(()) } else { Err(format!("{told:?}")) }
    });
}

#[test]
fn a_configuration_with_mistakes_stops_the_start_and_names_them() {
    // PRI-10
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let file = dir.path().join("wrong.yaml");
    let wrong =
        PROFILES.replace("  disablePreemption: true", "  plugins: {score: {enabled: [{name: Luck, weight: 101}]}}");
    std::fs::write(&file, wrong).expect("the file can be written");
    let mut command = Command::new(built("coracle"));
    command.arg("controller").arg("--data-dir").arg(dir.path().join("data")).arg("--scheduler-config").arg(&file);
    let output = run(&mut command);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(words.contains("profiles[1].plugins.score.enabled[0]") && words.contains("\"Luck\""), "{words}");
}
