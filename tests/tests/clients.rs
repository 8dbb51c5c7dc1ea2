//! Clients that nobody here wrote: two kubectls, mosquitto_pub, Mosquitto itself, and the Python client.

use std::process::Command;

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{fail, run, succeed};
use coracle_tests::tools::{KUBECTLS, tool};
use coracle_tests::wait;
use serde_json::Value;

const WEB: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: hello
        image: samples/hello:1
        ports: [{name: http, containerPort: 8080}]
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
";

const SENSOR: &str = r"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: sensor}
spec:
  selector: {matchLabels: {app: sensor}}
  template:
    metadata: {labels: {app: sensor}}
    spec:
      containers: [{name: sensor, image: 'samples/sensor:1'}]
";

/// Every command of a first day, with one kubectl.
fn a_first_day(version: &str) {
    let cluster = Cluster::start(BrokerKind::Embedded, 2);
    let kubectl = |words: &[&str]| succeed(&mut cluster.kubectl_of(version, words));
    let web = cluster.write("web.yaml", WEB).display().to_string();
    let sensor = cluster.write("sensor.yaml", SENSOR).display().to_string();
    assert!(kubectl(&["apply", "-f", &web]).contains("deployment.apps/web created"));
    assert!(kubectl(&["apply", "-f", &web]).contains("deployment.apps/web unchanged"));
    assert!(kubectl(&["apply", "-f", &sensor]).contains("daemonset.apps/sensor created"));
    assert!(kubectl(&["rollout", "status", "deployment/web"]).contains("successfully rolled out"));
    let _ = kubectl(&["rollout", "status", "daemonset/sensor"]);
    let _ = cluster.wait_for_ready_pods("app=web", 2);

    for (kind, columns) in [
        ("nodes", "NAME STATUS ROLES AGE VERSION"),
        ("pods", "NAME READY STATUS RESTARTS AGE"),
        ("deployments", "NAME READY UP-TO-DATE AVAILABLE AGE"),
        ("replicasets", "NAME DESIRED CURRENT READY AGE"),
        ("daemonsets", "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE"),
        ("namespaces", "NAME STATUS AGE"),
        ("events", "LAST SEEN TYPE REASON OBJECT MESSAGE"),
    ] {
        let shown = kubectl(&["get", kind]);
        let head: Vec<&str> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(head.join(" "), columns, "{version}");
        let _ = kubectl(&["get", kind, "-o", "wide"]);
        assert!(kubectl(&["get", kind, "-o", "yaml"]).contains("apiVersion: v1"));
    }
    for (kind, name) in [("pod", ""), ("node", "node-1"), ("deployment", "web"), ("daemonset", "sensor")] {
        let shown = if name.is_empty() { kubectl(&["describe", kind]) } else { kubectl(&["describe", kind, name]) };
        assert!(shown.contains("Name:"), "{shown}");
    }
    assert_eq!(kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().count(), 2);
    assert_eq!(kubectl(&["get", "pods", "-l", "app in (sensor),app!=web", "-o", "name"]).lines().count(), 2);
    assert_eq!(kubectl(&["get", "pods", "--field-selector", "spec.nodeName=nowhere", "-o", "name"]).lines().count(), 0);

    assert!(kubectl(&["scale", "deployment/web", "--replicas=3"]).contains("scaled"));
    let _ = cluster.wait_for_ready_pods("app=web", 3);
    assert!(kubectl(&["set", "image", "deployment/web", "hello=samples/hello:2"]).contains("image updated"));
    assert!(kubectl(&["rollout", "status", "deployment/web"]).contains("successfully rolled out"));
    let pods = cluster.wait_for_ready_pods("app=web", 3);
    let page = format!(
        "/api/v1/namespaces/default/pods/{}:8080/proxy/",
        pods[0]["metadata"]["name"].as_str().unwrap_or_default()
    );
    assert!(kubectl(&["get", "--raw", &page]).contains("hello:2"));
    let _ = kubectl(&["wait", "--for=condition=Available", "deployment/web", "--timeout=30s"]);
    let _ = kubectl(&["rollout", "undo", "deployment/web"]);
    let _ = kubectl(&["rollout", "status", "deployment/web"]);
    assert!(kubectl(&["label", "node", "node-1", "disk=ssd"]).contains("labeled"));
    assert_eq!(kubectl(&["get", "nodes", "-l", "disk=ssd", "-o", "name"]).trim(), "node/node-1");
    assert!(kubectl(&["cordon", "node-2"]).contains("cordoned"));
    assert!(kubectl(&["get", "nodes"]).contains("Ready,SchedulingDisabled"));
    assert!(kubectl(&["uncordon", "node-2"]).contains("uncordoned"));
    let sensors = cluster.list(&["pods", "-l", "app=sensor"]);
    let name = sensors[0]["metadata"]["name"].as_str().unwrap_or_default();
    wait::until("the sensor prints", || {
        let text = kubectl(&["logs", name, "--tail=2"]);
        if text.lines().count() == 2 { Ok(()) } else { Err(text) }
    });
    let _ = kubectl(&["delete", "-f", &web]);
    let _ = kubectl(&["delete", "daemonset", "sensor"]);
    wait::until("what was owned goes with its owner", || {
        // GC-03
        let left = cluster.list(&["pods,replicasets"]);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    let errors = fail(&mut cluster.kubectl_of(version, &["get", "pod", "nobody"]));
    assert!(errors.contains("Error from server (NotFound): pods \"nobody\" not found"), "{errors}");
}

#[test]
fn kubectl_1_20_does_a_first_day() {
    // API-01, API-04, API-05, DEP-09
    a_first_day(KUBECTLS[0]);
}

#[test]
fn a_current_kubectl_does_a_first_day() {
    // API-01, API-04, API-05, DEP-09
    a_first_day(KUBECTLS[1]);
}

/// What a current kubectl says in protobuf, and an old one in JSON.
fn creations(version: &str) {
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let kubectl = |words: &[&str]| succeed(&mut cluster.kubectl_of(version, words));
    for (words, said) in [
        ("create namespace team", "namespace/team created"),
        (
            "create configmap settings --from-literal=mode=fast --from-literal=empty= -n team",
            "configmap/settings created",
        ),
        ("create secret generic key --from-literal=token=s3cret", "secret/key created"),
        ("create deployment made --image=samples/hello:1 --replicas=2 --port=8080", "deployment.apps/made created"),
        (
            "create deployment dry --image=samples/hello:1 --dry-run=server",
            "deployment.apps/dry created (server dry run)",
        ),
    ] {
        let shown = kubectl(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(shown.trim(), said, "{version}: {words}");
    }
    let settings = cluster.get(&["configmap", "settings", "-n", "team"]).expect("created");
    assert_eq!(settings["data"], serde_json::json!({"mode": "fast", "empty": ""}));
    assert_eq!(cluster.get(&["secret", "key"]).expect("created")["data"]["token"], "czNjcmV0");
    let _ = cluster.wait_for_ready_pods("app=made", 2);
    // Nothing of what nobody has set is stored; what both of them send is the same.
    let made = cluster.get(&["deployment", "made"]).expect("created");
    let container = &made["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["ports"], serde_json::json!([{"containerPort": 8080, "protocol": "TCP"}]));
    for field in ["hostNetwork", "nodeName", "priorityClassName", "tolerations", "automountServiceAccountToken"] {
        assert_eq!(made["spec"]["template"]["spec"].get(field), None, "{version}: {field}");
    }
    assert!(cluster.get(&["deployment", "dry"]).is_none());
    let errors = fail(&mut cluster.kubectl_of(version, &["create", "configmap", "settings", "-n", "team"]));
    assert!(errors.contains("AlreadyExists") || errors.contains("already exists"), "{errors}");
    let errors = fail(&mut cluster.kubectl_of(version, &["create", "configmap", "Wrong_1"]));
    assert!(errors.contains("metadata.name"), "{errors}");

    assert_eq!(kubectl(&["auth", "can-i", "create", "deployments.apps"]).trim(), "yes");
    assert_eq!(kubectl(&["auth", "can-i", "get", "/metrics"]).trim(), "yes");
    assert!(kubectl(&["auth", "can-i", "--list"]).contains("*.*"));
    wait::until("kubectl top shows every pod and its node", || {
        let pods = run(&mut cluster.kubectl_of(version, &["top", "pod", "-l", "app=made", "--containers"]));
        let nodes = run(&mut cluster.kubectl_of(version, &["top", "node"]));
        let text = format!("{}{}", String::from_utf8_lossy(&pods.stdout), String::from_utf8_lossy(&nodes.stdout));
        let shown = text.matches("made-").count() == 2 && text.contains("CPU(cores)") && text.contains("node-1");
        if shown { Ok(()) } else { Err(format!("{text}{}", String::from_utf8_lossy(&pods.stderr))) }
    });
}

#[test]
fn what_an_old_kubectl_creates_is_there() {
    // API-01
    creations(KUBECTLS[0]);
}

#[test]
fn what_a_current_kubectl_creates_in_protobuf_is_there() {
    // API-01
    creations(KUBECTLS[1]);
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let who = succeed(&mut cluster.kubectl(&["auth", "whoami"]));
    assert!(who.contains("kubernetes-admin") && who.contains("system:masters"), "{who}");
    let page =
        |path: &str| succeed(&mut cluster.kubectl(&["get", "--raw", &format!("/api/v1/nodes/node-1/proxy/{path}")]));
    let summary: Value = serde_json::from_str(&page("stats/summary")).expect("JSON");
    assert_eq!(summary["node"]["nodeName"], "node-1");
    assert!(page("metrics/cadvisor").contains("# TYPE container_cpu_cfs_throttled_periods_total counter"));
    assert!(page("metrics/resource").contains("\nnode_memory_working_set_bytes "));
    let errors = fail(&mut cluster.kubectl(&["get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes/nobody"]));
    assert!(errors.contains("not found"), "{errors}");
}

#[test]
fn bad_manifests_are_refused_with_the_field_and_nothing_is_stored() {
    // POD-05, API-01
    let cluster = Cluster::start(BrokerKind::Embedded, 0);
    for (manifest, words) in [
        (WEB.replace("matchLabels: {app: web}", "matchLabels: {app: other}"), "spec.template.metadata.labels"),
        (WEB.replace("replicas: 2", "replicas: two"), "replicas"),
        (WEB.replace("name: web,", "name: Web_1,"), "metadata.name"),
        (WEB.replace("image: samples/hello:1", "imagee: samples/hello:1"), "imagee"),
        (WEB.replace("replicas: 2", "replicas: -1"), "spec.replicas"),
    ] {
        let file = cluster.write("bad.yaml", &manifest);
        let errors = fail(cluster.kubectl(&["apply", "-f"]).arg(&file));
        assert!(errors.contains(words), "{words} is missing in: {errors}");
    }
    assert!(cluster.list(&["deployments"]).is_empty());
    // Validation on kubectl's side would first ask for kinds that somebody defined, which this build has none of.
    let file = cluster.write("bad.yaml", &WEB.replace("kind: Deployment", "kind: Deploymint"));
    let errors = fail(cluster.kubectl(&["apply", "--validate=false", "-f"]).arg(&file));
    assert!(errors.contains("no matches for kind \"Deploymint\" in version \"apps/v1\""), "{errors}");
    let anonymous = format!("https://{}/api/v1/pods", cluster.api);
    let answer = succeed(Command::new("curl").args(["-sk", &anonymous]));
    let answer: Value = serde_json::from_str(&answer).expect("a Status");
    assert_eq!(answer["code"], 401);
    assert_eq!(answer["kind"], "Status");
}

#[test]
fn a_manifest_over_mqtt_is_applied_and_its_outcome_comes_back() {
    // EDGE-03, EDGE-04
    let cluster = Cluster::start(BrokerKind::Mosquitto, 1);
    let port = cluster.broker.rsplit(':').next().unwrap_or_default().to_owned();
    let publish = |topic: &str, text: &str| {
        let file = cluster.write("published", text);
        let mut command = Command::new(tool("mosquitto_pub"));
        command.args(["-h", "127.0.0.1", "-p", &port, "-V", "5", "-q", "1", "-t", topic, "-f"]).arg(file);
        let _ = succeed(&mut command);
    };
    let exchange = |topic: &str, text: &str| -> Value {
        let mut listener = Command::new(tool("mosquitto_sub"));
        listener.args(["-h", "127.0.0.1", "-p", &port, "-V", "5", "-q", "1", "-C", "1", "-W", "60"]);
        listener.args(["-t", "coracle/default/manifests/result"]);
        let listening = listener.stdout(std::process::Stdio::piped()).spawn().expect("mosquitto_sub starts");
        // The result topic keeps nothing, so the question is asked again until somebody heard the answer.
        let answer = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| listening.wait_with_output());
            while !waiting.is_finished() {
                publish(topic, text);
                std::thread::sleep(std::time::Duration::from_millis(500));
            }
            waiting.join().expect("a thread").expect("an answer")
        });
        serde_json::from_slice(&answer.stdout).expect("the outcome is JSON")
    };
    let answer = exchange("coracle/default/manifests/apply", &format!("{WEB}---{SENSOR}"));
    assert_eq!(answer["results"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(answer["results"][0]["name"], "web");
    let _ = cluster.wait_for_ready_pods("app=web", 2);
    let _ = cluster.wait_for_ready_pods("app=sensor", 1);
    // A bad document is refused with its field; the good one beside it stands.
    let bad = WEB.replace("replicas: 2", "replicas: -2").replace("web", "bad");
    let answer = exchange(
        "coracle/default/manifests/apply",
        &format!("{bad}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: beside}}\n"),
    );
    assert_eq!(answer["results"][0]["outcome"], "refused", "{answer}");
    assert!(
        answer["results"][0]["causes"][0]["field"].as_str().unwrap_or_default().contains("spec.replicas"),
        "{answer}"
    );
    assert!(cluster.get(&["deployment", "bad"]).is_none());
    assert!(cluster.get(&["configmap", "beside"]).is_some());
    let answer = exchange("coracle/default/manifests/apply", "a: [1,\n  b: }");
    assert!(answer["error"].as_str().is_some_and(|error| !error.is_empty()), "{answer}");
    let answer =
        exchange("coracle/default/manifests/delete", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: beside}\n");
    assert!(answer["results"][0]["outcome"].is_string(), "{answer}");
    assert!(cluster.get(&["configmap", "beside"]).is_none());
    // The same through our own command, on the response topic.
    let file = cluster.write("config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\n");
    let mut apply = cluster.coracle(&["apply", "--broker", &cluster.broker, "-f"]);
    assert_eq!(succeed(apply.arg(&file)).trim(), "configmap/mine created");
    let mut again = cluster.coracle(&["apply", "--broker", &cluster.broker, "-f"]);
    assert_eq!(succeed(again.arg(&file)).trim(), "configmap/mine unchanged");
    let broken = cluster.write("broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}\n");
    let mut refused = cluster.coracle(&["apply", "--broker", &cluster.broker, "-f"]);
    assert!(fail(refused.arg(broken)).contains("metadata.name"));
}

#[test]
fn garbage_on_every_topic_harms_nobody() {
    // EDGE-03: whatever arrives from outside is hostile. Mosquitto lets anybody publish anywhere.
    let cluster = Cluster::start(BrokerKind::Mosquitto, 1);
    cluster.apply("web.yaml", WEB);
    let before = cluster.wait_for_ready_pods("app=web", 2);
    let port = cluster.broker.rsplit(':').next().unwrap_or_default().to_owned();
    let large = "x".repeat(1_500_000);
    let garbage: [&[u8]; 5] =
        [b"", b"\x00", b"garbage", b"\x01\x03\x05\x00\x00\x00\xff\xff\xff\xff\xff", large.as_bytes()];
    for topic in ["n/node-1/birth", "n/node-1/death", "n/node-1/up", "n/node-1/down", "n/NO+NODE/up", "manifests/apply"]
    {
        let topic = format!("coracle/default/{}", topic.replace('+', "_"));
        for payload in garbage {
            let file = cluster.dir().join("garbage");
            std::fs::write(&file, payload).expect("a file");
            let mut command = Command::new(tool("mosquitto_pub"));
            command.args(["-h", "127.0.0.1", "-p", &port, "-V", "5", "-q", "1", "-t", &topic, "-f"]).arg(file);
            let _whether_it_fits = run(&mut command);
        }
    }
    // An agent of another version would say as little that can be read; whoever waits for its node looks here.
    assert!(cluster.controller.output().contains("an agent cannot join"), "{}", cluster.controller.output());
    let _ = succeed(&mut cluster.kubectl(&["scale", "deployment/web", "--replicas=3"]));
    let after = cluster.wait_for_ready_pods("app=web", 3);
    for pod in &before {
        let same = after.iter().find(|other| other["metadata"]["uid"] == pod["metadata"]["uid"]);
        let restarts = same.map(|pod| pod["status"]["containerStatuses"][0]["restartCount"].clone());
        assert_eq!(restarts, Some(Value::from(0)), "healthy work was disturbed");
    }
}

#[test]
fn the_python_client_creates_watches_and_deletes() {
    // API-03
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let script = coracle_tests::programs::root().join("tests/python/client.py");
    let python = coracle_tests::programs::root().join("target/tools/venv/bin/python");
    assert!(python.exists(), "the Python clients are not installed; run: cargo xtask tools");
    let output = succeed(Command::new(python).arg(script).arg(cluster.kubeconfig()));
    assert!(output.contains("all good"), "{output}");
}
