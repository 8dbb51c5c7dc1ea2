//! Why pods are where they are, and where others would go: over the API, in `kubectl describe`, and on the command line.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use coracle_tests::cluster::{BrokerKind, Cluster, condition};
use coracle_tests::programs::{built, fail, run, succeed};
use coracle_tests::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A pod that asks for so much cpu; `spec` is a line of YAML more, indented as it stands.
fn pod(name: &str, cpu: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n{spec}  \
         containers:\n  - {{name: main, image: 'samples/sensor:1', resources: {{requests: {{cpu: '{cpu}'}}}}}}\n"
    )
}

fn placement(cluster: &Cluster, pod: &str, query: &str) -> Value {
    let path = format!("/api/v1/namespaces/default/pods/{pod}/placement{query}");
    let answer = succeed(&mut cluster.kubectl(&["get", "--raw", &path]));
    serde_json::from_str(&answer).expect("a placement is JSON")
}

fn scheduled(pod: &Value) -> String {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == "PodScheduled");
    found.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn a_pod_that_fits_nowhere_says_why_in_its_condition_its_event_its_description_and_its_placement() {
    // SCH-04
    let cluster = Cluster::start(BrokerKind::Embedded, 2);
    cluster.apply("huge.yaml", &pod("huge", "1000", ""));
    let huge = cluster.wait_for_pod("huge", "has been decided on", |pod| condition(pod, "PodScheduled") == "False");
    let message = "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 Preemption is not \
        helpful for scheduling.";
    assert_eq!(scheduled(&huge), message);
    let event = wait::until("an event FailedScheduling", || {
        let events = cluster.list(&["events"]);
        let found = events.iter().find(|event| event["reason"] == "FailedScheduling").cloned();
        found.ok_or_else(|| format!("{events:?}"))
    });
    assert_eq!(event["message"], message);
    let described = succeed(&mut cluster.kubectl(&["describe", "pod", "huge"]));
    assert!(described.contains(message), "{described}");

    let answer = placement(&cluster, "huge", "");
    assert_eq!((&answer["kind"], &answer["apiVersion"]), (&json!("PodPlacement"), &json!("coracle.dev/v1")));
    assert_eq!((&answer["state"], &answer["message"]), (&json!("Waiting"), &json!(message)));
    assert_eq!(answer["nodes"], json!({"total": 2, "feasible": 0, "refused": 2}));
    let reason = json!({"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 2});
    assert_eq!(answer["reasons"], json!([reason]));
    assert_eq!(answer["preemption"]["helps"], false);
    assert!(answer.get("chosenNode").is_none());

    let table = succeed(&mut cluster.coracle(&["explain-placement", "huge"]));
    assert!(table.contains("State:    waits for a node\n"), "{table}");
    assert!(table.contains(message), "{table}");
    assert!(table.contains("2      NodeResourcesFit  Insufficient cpu\n"), "{table}");
}

#[test]
fn a_bound_pod_says_where_it_would_go_now_and_stays_where_it_is() {
    // SCH-02
    let cluster = Cluster::start(BrokerKind::Embedded, 2);
    cluster.apply("small.yaml", &pod("small", "100m", ""));
    let before = cluster.wait_for_pod("small", "is ready", |pod| condition(pod, "Ready") == "True");
    let node = before["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    // The other node is the better one from now on.
    let _ = succeed(&mut cluster.kubectl(&["taint", "node", &node, "busy=yes:PreferNoSchedule"]));
    let answer = wait::until("another node would be chosen", || {
        let answer = placement(&cluster, "small", "?limit=1");
        if answer["chosenNode"] == *node { Err(answer.to_string()) } else { Ok(answer) }
    });
    assert_eq!((&answer["state"], &answer["presentNode"]), (&json!("Bound"), &json!(node)));
    let verdicts = answer["verdicts"].as_array().cloned().unwrap_or_default();
    assert_eq!((&verdicts[0]["chosen"], &verdicts[0]["present"]), (&json!(true), &json!(false)));
    assert_eq!((&verdicts[1]["node"], &verdicts[1]["present"]), (&json!(node), &json!(true)));
    for verdict in &verdicts {
        let points = verdict["points"].as_array().cloned().unwrap_or_default();
        let sum: i64 = points.iter().filter_map(|points| points["weighted"].as_i64()).sum();
        assert_eq!(Some(sum), verdict["score"].as_i64());
    }
    let table = succeed(&mut cluster.coracle(&["explain-placement", "small", "--node", &node]));
    assert!(table.contains(&format!("State:    on node {node}\n")), "{table}");
    assert!(table.contains("(if it were free)"), "{table}");
    let after = cluster.get(&["pod", "small"]).unwrap_or_default();
    assert_eq!((&after["spec"]["nodeName"], &after["metadata"]["uid"]), (&json!(node), &before["metadata"]["uid"]));

    // The bounds of the question.
    let refused =
        fail(&mut cluster.kubectl(&["get", "--raw", "/api/v1/namespaces/default/pods/small/placement?limit=501"]));
    assert!(refused.contains("limit is at most 500"), "{refused}");
    let missing = fail(&mut cluster.coracle(&["explain-placement", "nobody"]));
    assert!(missing.contains("pods \"nobody\" not found"), "{missing}");
    let resources = succeed(&mut cluster.kubectl(&["get", "--raw", "/api/v1"]));
    assert!(resources.contains("\"pods/placement\""), "{resources}");
}

#[test]
fn a_what_if_against_a_live_cluster_touches_nothing() {
    let cluster = Cluster::start(BrokerKind::Embedded, 2);
    cluster.apply("there.yaml", &pod("there", "100m", ""));
    let _ = cluster.wait_for_pod("there", "is ready", |pod| condition(pod, "Ready") == "True");
    let mut text = pod("spread", "100m", "  nodeSelector: {topology.kubernetes.io/zone: zone-b}\n");
    text.push_str("---\n");
    text.push_str(&pod("huge", "1000", ""));
    let file = cluster.write("what-if.yaml", &text);
    let revision = || cluster.get(&["pods"]).unwrap_or_default()["metadata"]["resourceVersion"].clone();
    let names = || cluster.list(&["pods"]).iter().map(|pod| pod["metadata"]["name"].clone()).collect::<Vec<_>>();
    let before = names();
    let output = run(cluster.coracle(&["simulate-placement", "-f"]).arg(&file));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("default/spread").contains("node-2"), "{table}");
    assert!(line("default/huge").contains("0/2 nodes are available: 2 Insufficient cpu."), "{table}");
    assert!(table.ends_with("1 of 2 pods placed\n"), "{table}");
    assert_eq!(names(), before);
    assert!(revision().is_string());
    let _ = fail(&mut cluster.kubectl(&["get", "pod", "spread"]));
}

/// A directory with files for a what-if that needs no cluster.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary directory"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.path().join(name);
        std::fs::write(&file, text).expect("the file can be written");
        file
    }

    fn nodes(&self, nodes: &[Value]) -> PathBuf {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": nodes});
        self.write("nodes.json", &list.to_string())
    }
}

fn simulate(manifests: &Path, nodes: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(built("coracle"));
    command.arg("simulate-placement").arg("-f").arg(manifests).arg("--nodes").arg(nodes).args(words);
    run(command.env_remove("KUBECONFIG").env("HOME", "nowhere"))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn node(name: &str, zone: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone},
        },
        "status": {"capacity": {"cpu": cpu, "memory": "4Gi", "pods": "110"}},
    })
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
      containers: [{name: c, image: 'samples/hello:1', resources: {requests: {cpu: 500m}}}]
";

#[test]
fn a_what_if_over_a_file_of_nodes_places_every_pod_and_says_why() {
    // TSC-01
    let files = Files::new();
    let nodes = files.nodes(&[node("a1", "a", "4"), node("a2", "a", "4"), node("b1", "b", "4")]);
    let web = files.write("web.yaml", WEB);
    let output = simulate(&web, &nodes, &["-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let forecast: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&forecast["kind"], &forecast["complete"]), (&json!("PlacementForecast"), &json!(true)));
    let pods = forecast["pods"].as_array().cloned().unwrap_or_default();
    let in_b = pods.iter().filter(|pod| pod["node"] == "b1").count();
    assert_eq!((pods.len(), in_b), (4, 2), "{forecast:#}");
    assert!(pods.iter().all(|pod| pod["placement"]["chosenNode"] == pod["node"]));
    // The same seed gives the same answer to the letter; the table tells the same.
    assert_eq!(simulate(&web, &nodes, &["-o", "json"]).stdout, output.stdout);
    let table = said(&simulate(&web, &nodes, &[]));
    assert!(table.starts_with("POD ") && table.ends_with("4 of 4 pods placed\n"), "{table}");
    for pod in &pods {
        let name = format!("shop/{}", pod["name"].as_str().unwrap_or_default());
        let line = table.lines().find(|line| line.starts_with(&name)).unwrap_or_default();
        assert!(
            line.contains(pod["node"].as_str().unwrap_or("-")) && line.contains("TaintToleration 100x3"),
            "{table}"
        );
    }
}

#[test]
fn a_what_if_says_whom_a_pod_of_higher_priority_would_cost() {
    // PRI-04
    let files = Files::new();
    let mut low = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "low"}, "spec": {"nodeName": "a1"}});
    low["spec"]["containers"] = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]);
    let nodes = files.nodes(&[node("a1", "a", "1"), low]);
    let class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n---\n";
    let high = format!("{class}{}", pod("high", "1", "  priorityClassName: high\n"));
    let output = simulate(&files.write("high.yaml", &high), &nodes, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let table = said(&output);
    assert!(table.contains("default/low (priority 0) on node a1 would be preempted by default/high\n"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("default/high  a1")), "{table}");
}

#[test]
fn bad_manifests_and_bad_nodes_are_named_with_file_and_document() {
    let files = Files::new();
    let nodes = files.nodes(&[node("a1", "a", "1")]);
    let text = format!("{}---\n{}", pod("good", "1", ""), WEB.replace("maxSkew: 1", "maxSkew: 0"));
    let file = files.write("bad.yaml", &text);
    let output = simulate(&file, &nodes, &[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{}", said(&output));
    let errors = said(&output);
    assert!(errors.contains("bad.yaml: document 2 (Deployment web): Deployment.apps \"web\" is invalid"), "{errors}");
    assert!(errors.contains("spec.template.spec.topologySpreadConstraints[0].maxSkew: Invalid value"), "{errors}");
    for (text, expected) in [
        ("kind: [", "broken.yaml: document 1, line 1"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containerz: []}\n",
            "unknown field \"spec.containerz\"",
        ),
    ] {
        let output = simulate(&files.write("broken.yaml", text), &nodes, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
    let good = files.write("good.yaml", &pod("good", "1", ""));
    let broken = files.nodes(&[node("a1", "a", "much")]);
    let output = simulate(&good, &broken, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("nodes.json: document 1 (Node a1): Node \"a1\" is invalid"), "{}", said(&output));
    let output = simulate(&good, Path::new("no-such-file"), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("failed to read no-such-file"), "{}", said(&output));
}
