//! Every bad guest of `workloads` at once on one node, beside good neighbours that must not feel it (LIF-10, EDGE-09).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use coracle_tests::cluster::{BrokerKind, Cluster, condition};
use coracle_tests::programs::{fail, root, run, succeed};
use coracle_tests::wait;
use serde_json::Value;

/// Between two looks at the neighbours.
const PACE: Duration = Duration::from_millis(500);

/// What one must see of a bad guest.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// The container's `terminated` state: reason, exit code, and words of the message.
    Ended(&'static str, i64, &'static str),
    /// It never runs: refused at the push, for want of an image that suits the node, or at the start; these words say
    /// why.
    Refused(&'static str),
    /// It runs on.
    Runs,
}

/// A manifest in `workloads`, the built file that is its image, and what one must see.
struct Bad {
    manifest: &'static str,
    file: &'static str,
    seen: Seen,
}

const fn bad(manifest: &'static str, file: &'static str, seen: Seen) -> Bad {
    Bad { manifest, file, seen }
}

const NO_ENTRY: &str = "it exports neither wasi:cli/run nor wasi:http/incoming-handler, so there is nothing to run";
const OVER: &str = "the container wanted more memory than its limit of 8388608 bytes";

const BAD: &[Bad] = &[
    bad("misbehave/exit", "misbehave", Seen::Ended("Error", 3, "exited with code 3")),
    bad("misbehave/exit-255", "misbehave", Seen::Ended("Error", 255, "exited with code 255")),
    bad("misbehave/exit-259", "misbehave", Seen::Ended("Error", 3, "exited with code 3")),
    bad("misbehave/noise", "misbehave", Seen::Ended("Completed", 0, "")),
    bad("text/deep", "deep", Seen::Ended("Completed", 0, "")),
    bad("trap/manifest", "trap", Seen::Ended("Error", 134, "wasm trap: wasm `unreachable` instruction executed")),
    bad("text/out-of-bounds", "out-of-bounds", Seen::Ended("Error", 134, "wasm trap: out of bounds memory access")),
    bad("text/start-trap", "start-trap", Seen::Ended("Error", 134, "wasm trap: integer divide by zero")),
    bad("text/recursion", "recursion", Seen::Ended("Error", 134, "wasm trap: call stack exhausted")),
    bad("misbehave/overflow", "misbehave", Seen::Ended("Error", 134, "wasm trap: out of bounds memory access")),
    bad("grow/manifest", "grow", Seen::Ended("OOMKilled", 137, OVER)),
    bad("text/tables", "tables", Seen::Ended("OOMKilled", 137, OVER)),
    bad("text/huge-table", "huge-table", Seen::Ended("OOMKilled", 137, OVER)),
    bad("text/huge-memory", "huge-memory", Seen::Ended("OOMKilled", 137, OVER)),
    bad("text/no-entry", "no-entry", Seen::Ended("StartError", 128, NO_ENTRY)),
    bad("text/no-start", "no-start", Seen::Ended("StartError", 128, NO_ENTRY)),
    bad("text/other-world", "other-world", Seen::Ended("StartError", 128, NO_ENTRY)),
    bad("text/missing-import", "missing-import", Seen::Refused("acme:gpio/pins@1.0.0")),
    bad("text/wrong-import", "wrong-import", Seen::Ended("StartError", 128, "wasi:cli/environment@0.2.12")),
    bad("text/foreign-module", "foreign-module", Seen::Refused("the core module cannot be made a component")),
    bad("spin/manifest", "spin", Seen::Runs),
    bad("stubborn/manifest", "stubborn", Seen::Runs),
    bad("text/start-loop", "start-loop", Seen::Runs),
    bad("misbehave/flood", "misbehave", Seen::Runs),
    bad("misbehave/sleep", "misbehave", Seen::Runs),
    bad("misbehave/deaf", "misbehave", Seen::Runs),
    bad("misbehave/calls", "misbehave", Seen::Runs),
    bad("bad-handler/manifest", "bad-handler", Seen::Runs),
];

const GOOD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: good-sensor}
spec:
  containers: [{name: sensor, image: 'samples/sensor:1'}]
---
apiVersion: v1
kind: Pod
metadata: {name: good-web}
spec:
  containers: [{name: hello, image: 'samples/hello:1'}]
";
const GOOD_PODS: [&str; 2] = ["good-sensor", "good-web"];

impl Bad {
    fn manifest(&self) -> PathBuf {
        root().join("workloads").join(self.manifest).with_extension("yaml")
    }

    /// The pod's name: that of the file, or of the folder where the file has no name of its own.
    fn pod(&self) -> &'static str {
        let name = self.manifest.strip_suffix("/manifest").unwrap_or(self.manifest);
        name.rsplit('/').next().unwrap_or(name)
    }

    fn is_seen(&self, pod: &Value) -> bool {
        let status = &pod["status"]["containerStatuses"][0];
        let says = |message: &Value, words: &str| message.as_str().unwrap_or_default().contains(words);
        match self.seen {
            Seen::Ended(reason, code, words) => ["state", "lastState"].iter().any(|state| {
                let ended = &status[state]["terminated"];
                ended["reason"] == reason && ended["exitCode"] == code && says(&ended["message"], words)
            }),
            Seen::Refused(words) => ["waiting", "terminated"].iter().any(|state| {
                let state = &status["state"][state];
                let reason = state["reason"].as_str().unwrap_or_default();
                ["ErrImagePull", "ImagePullBackOff", "StartError"].contains(&reason) && says(&state["message"], words)
            }),
            Seen::Runs => !status["state"]["running"].is_null() && status["restartCount"] == 0,
        }
    }
}

/// The neighbours and the node, looked at again and again until told to stop; gives what was wrong.
fn watch(cluster: &Cluster, stop: Receiver<()>) -> Vec<String> {
    let mut wrong = Vec::new();
    loop {
        let answered = run(&mut cluster.kubectl(&["get", "--raw", "/api/v1/namespaces/default/pods/good-web/proxy/"]));
        if !String::from_utf8_lossy(&answered.stdout).starts_with("hello:1") {
            wrong.push(format!("good-web answered {answered:?}"));
        }
        for name in GOOD_PODS {
            let pod = cluster.get(&["pod", name]).unwrap_or_default();
            let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
            if condition(&pod, "Ready") != "True" || restarts != 0 {
                wrong.push(format!("{name} has {}", pod["status"]));
            }
        }
        let node = cluster.get(&["node", "node-1"]).unwrap_or_default();
        if condition(&node, "Ready") != "True" {
            wrong.push(format!("node-1 has {}", node["status"]["conditions"]));
        }
        if stop.recv_timeout(PACE) != Err(RecvTimeoutError::Timeout) {
            return wrong;
        }
    }
}

/// The number of the sensor's last reading.
fn readings(cluster: &Cluster) -> u64 {
    let last = succeed(&mut cluster.kubectl(&["logs", "good-sensor", "--tail=1"]));
    let line: Value = serde_json::from_str(&last).unwrap_or_default();
    line["reading"].as_u64().unwrap_or_default()
}

fn renewed(cluster: &Cluster) -> String {
    let lease = cluster.get(&["lease", "node-1", "-n", "kube-node-lease"]).unwrap_or_default();
    lease["spec"]["renewTime"].as_str().unwrap_or_default().to_owned()
}

/// The sensor prints on and the agent renews its lease.
fn wait_for_progress(cluster: &Cluster) {
    let (reading, lease) = (readings(cluster), renewed(cluster));
    wait::until("the sensor prints on", || {
        let now = readings(cluster);
        if now > reading { Ok(()) } else { Err(format!("reading {now}")) }
    });
    wait::until("the agent renews its lease", || {
        let now = renewed(cluster);
        if now > lease { Ok(()) } else { Err(now) }
    });
}

/// Pushes a built file under its own name; says why when it is refused.
fn push(cluster: &Cluster, file: &str) -> Result<(), String> {
    let path = root().join("workloads/built").join(file).with_extension("wasm");
    let output = run(cluster.coracle(&["image", "push"]).arg(path).arg(format!("workloads/{file}:1")));
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Pushes what all images are made of, and gives the bad guests that were not refused then.
fn push_all(cluster: &Cluster) -> Vec<&'static Bad> {
    let mut taken: BTreeMap<&str, bool> = BTreeMap::new();
    for bad in BAD {
        taken.entry(bad.file).or_insert_with(|| match (push(cluster, bad.file), bad.seen) {
            (Ok(()), _) => true,
            (Err(why), Seen::Refused(words)) if why.contains(words) => false,
            (Err(why), seen) => panic!("{} was refused, want {seen:?}: {why}", bad.file),
        });
    }
    BAD.iter().filter(|bad| taken[bad.file]).collect()
}

/// Applies all manifests and waits until each guest shows what it must.
fn see_all(cluster: &Cluster, guests: &[&Bad]) {
    let mut apply = cluster.kubectl(&["apply"]);
    for bad in guests {
        apply.arg("-f").arg(bad.manifest());
    }
    let _ = succeed(&mut apply);
    for bad in guests {
        let _ = cluster.wait_for_pod(bad.pod(), &format!("shows {:?}", bad.seen), |pod| bad.is_seen(pod));
    }
}

/// What is no component at all does not even become an image.
fn push_what_is_none(cluster: &Cluster) {
    let trap = std::fs::read(root().join("workloads/built/trap.wasm")).expect("it is built");
    let random: Vec<u8> = (0..4096_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for (name, bytes, words) in [
        ("random", &random[..], "the file is no WebAssembly"),
        ("empty", &[], "the file is empty"),
        ("cut", &trap[..7], "the file is cut off"),
        ("half", &trap[..trap.len() / 2], "the image is not valid WebAssembly"),
        ("text", b"(module)", "the file is WebAssembly in text form"),
    ] {
        let file = cluster.dir().join(name);
        std::fs::write(&file, bytes).expect("the file can be written");
        let errors = fail(cluster.coracle(&["image", "push"]).arg(file).arg(format!("test/{name}:1")));
        assert!(errors.contains(words), "{name}: {errors}");
    }
}

/// Requests that go wrong in every way, and a good one after each.
fn ask_the_bad_handler(cluster: &Cluster) {
    let proxy = "/api/v1/namespaces/default/pods/bad-handler/proxy";
    for (path, words) in [
        ("/trap", "wasm trap: wasm `unreachable` instruction executed"),
        ("/nothing", "it ended without an answer"),
        ("/half", ""),
        ("/never", ""),
        ("/spin", ""),
    ] {
        let errors = fail(&mut cluster.kubectl(&["get", "--request-timeout=2s", "--raw", &format!("{proxy}{path}")]));
        assert!(errors.contains(words), "{path}: {errors}");
        assert_eq!(succeed(&mut cluster.kubectl(&["get", "--raw", &format!("{proxy}/")])), "still here\n");
    }
    // It fails behind its answer, which stands.
    for (path, answer) in [("/twice", "once\n"), ("/", "still here\n")] {
        assert_eq!(succeed(&mut cluster.kubectl(&["get", "--raw", &format!("{proxy}{path}")])), answer);
    }
}

#[test]
fn bad_guests_say_what_is_wrong_and_neither_their_neighbours_nor_the_agent_feel_them() {
    // LIF-07, LIF-10, TRM-03, EDGE-09
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let agent = cluster.agents[0].pid();
    cluster.apply("good.yaml", GOOD);
    for name in GOOD_PODS {
        let _ = cluster.wait_for_pod(name, "is ready", |pod| condition(pod, "Ready") == "True");
    }
    push_what_is_none(&cluster);
    let guests = push_all(&cluster);
    let (stop, stopped) = channel();
    let wrong = thread::scope(|scope| {
        let watched = &cluster;
        let watcher = scope.spawn(move || watch(watched, stopped));
        // Dropped when this closure panics, so that the watcher ends too.
        let stop = stop;
        see_all(&cluster, &guests);
        wait_for_progress(&cluster);
        ask_the_bad_handler(&cluster);
        let mut delete = cluster.kubectl(&["delete", "pod", "--grace-period=2", "--wait=false"]);
        let _ = succeed(delete.args(guests.iter().map(|bad| bad.pod())));
        wait::until("all bad guests are gone", || {
            let left: Vec<_> = cluster.list(&["pods"]).iter().map(|pod| pod["metadata"]["name"].clone()).collect();
            if left == GOOD_PODS { Ok(()) } else { Err(format!("{left:?}")) }
        });
        wait_for_progress(&cluster);
        drop(stop);
        watcher.join().unwrap_or_else(|_| panic!("the watcher has failed"))
    });
    assert!(wrong.is_empty(), "{} times something was wrong: {wrong:#?}", wrong.len());
    assert!(PathBuf::from(format!("/proc/{agent}")).exists(), "the agent has ended");
}
