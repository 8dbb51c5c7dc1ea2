//! Disks without room, each a small one of the test's own.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use coracle_tests::cluster::{BrokerKind, Cluster, condition};
use coracle_tests::namespaces::{Corner, enter, left_out, small_disk};
use coracle_tests::programs::{fail, root, run, succeed};
use coracle_tests::wait;
use serde_json::Value;

use super::{nobody_was_given_up, note, pod, ready_since, runs, web};

/// Fills the disk of a directory up to its last page; gives the file that does it.
fn fill(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("filler");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("a file");
    for size in [1024 * 1024, 4096] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
    path
}

/// Leaves so many bytes of a filler.
fn shrink(filler: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(filler).expect("the filler");
    file.set_len(fs::metadata(filler).expect("the filler").len().saturating_sub(bytes))
        .expect("it can be made shorter");
}

fn lease(cluster: &Cluster, node: &str) -> String {
    let lease = cluster.get(&["lease", node, "-n", "kube-node-lease"]).unwrap_or_default();
    lease["spec"]["renewTime"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_controller_whose_disk_is_full_reads_and_hears_and_writes_nothing() {
    // EDGE-05, SAF-01
    const NAME: &str = "full_disk::a_controller_whose_disk_is_full_reads_and_hears_and_writes_nothing";
    match enter(NAME, &["--mount"]) {
        Corner::Done => return,
        Corner::Refused(why) => return left_out(NAME, &why),
        Corner::Inside => {}
    }
    let mut cluster = Cluster::start_in(BrokerKind::Embedded, 1, |dir| small_disk(&dir.join("controller"), 96));
    cluster.apply("web.yaml", &web(2));
    let before = runs(&cluster.wait_for_ready_pods("app=web", 2));
    note(&cluster, "before").expect("there is room");
    // It ends while nothing can be written.
    cluster.apply("job.yaml", &pod("job", "samples/job:1", "'6', '0'"));
    let _ = cluster.wait_for_pod("job", "runs", |pod| pod["status"]["phase"] == "Running");
    let ready = ready_since(&cluster, "node-1");
    let filler = fill(&cluster.dir().join("controller"));

    let refusal = wait::until("a write is refused", || match note(&cluster, "during") {
        Err(refusal) => Ok(refusal),
        Ok(()) => {
            let _ = run(&mut cluster.kubectl(&["delete", "configmap", "during"]));
            Err("it was stored".to_owned())
        }
    });
    assert!(refusal.contains("controller is full: 0 MiB are free"), "{refusal}");
    let file = cluster.write("refused.yaml", &pod("refused", "samples/job:1", "'0', '0'"));
    let refusal = fail(cluster.kubectl(&["apply", "-f"]).arg(file));
    assert!(refusal.contains("Error from server (InsufficientStorage)") && refusal.contains("is full"), "{refusal}");
    let image = root().join("workloads/built/trap.wasm");
    let refusal = fail(cluster.coracle(&["image", "push"]).arg(image).arg("test/refused:1"));
    assert!(refusal.contains("is full"), "{refusal}");
    // Reading, a dry run and logs go on.
    assert!(cluster.get(&["configmap", "before"]).is_some());
    let _ = succeed(&mut cluster.kubectl(&["create", "configmap", "dry", "--dry-run=server"]));
    let name = before_name(&cluster);
    let _ = succeed(&mut cluster.kubectl(&["logs", &name]));
    // Leases are renewed, several times over.
    let mut seen = vec![lease(&cluster, "node-1")];
    wait::until("leases are renewed", || {
        let now = lease(&cluster, "node-1");
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        if seen.len() > 5 { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    assert_eq!(ready_since(&cluster, "node-1"), ready);
    // A controller that is killed now starts on the full disk, and can be read.
    cluster.kill_and_restart_controller();
    assert!(cluster.get(&["configmap", "before"]).is_some());
    assert!(note(&cluster, "again").is_err());
    let state = cluster.get(&["pod", "job"]).unwrap_or_default();
    assert_eq!(state["status"]["phase"], "Running", "what could not be made durable is not shown");

    fs::remove_file(filler).expect("room again");
    wait::until("a write is taken again", || note(&cluster, "after"));
    let _ =
        cluster.wait_for_pod("job", "has ended, as was said meanwhile", |pod| pod["status"]["phase"] == "Succeeded");
    assert_eq!(before, runs(&cluster.wait_for_ready_pods("app=web", 2)), "healthy work was disturbed");
    assert!(cluster.get(&["configmap", "before"]).is_some());
    nobody_was_given_up(&cluster);
}

fn before_name(cluster: &Cluster) -> String {
    let pods = cluster.list(&["pods", "-l", "app=web"]);
    pods[0]["metadata"]["name"].as_str().expect("a name").to_owned()
}

#[test]
fn an_agent_whose_disk_is_full_keeps_its_pods_and_its_controller() {
    // EDGE-05
    const NAME: &str = "full_disk::an_agent_whose_disk_is_full_keeps_its_pods_and_its_controller";
    match enter(NAME, &["--mount"]) {
        Corner::Done => return,
        Corner::Refused(why) => return left_out(NAME, &why),
        Corner::Inside => {}
    }
    let mut cluster = Cluster::start_in(BrokerKind::Embedded, 1, |dir| small_disk(&dir.join("node-1"), 24));
    cluster.apply("web.yaml", &web(2));
    let before = runs(&cluster.wait_for_ready_pods("app=web", 2));
    let filler = fill(&cluster.dir().join("node-1"));
    // An image that is not there cannot be pulled, and the pod says where the fault is.
    cluster.apply("job.yaml", &pod("job", "samples/job:1", "'0', '0'"));
    let waiting = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let failed = cluster.wait_for_pod("job", "cannot be pulled", |pod| waiting(pod)["reason"] == "ErrImagePull");
    let message = waiting(&failed)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("disk") && message.contains("No space left"), "{message}");
    // What needs no image starts and stops.
    let _ = succeed(&mut cluster.kubectl(&["scale", "deployment/web", "--replicas=3"]));
    let three = runs(&cluster.wait_for_ready_pods("app=web", 3));
    assert!(before.iter().all(|run| three.contains(run)), "{before:?} {three:?}");
    // The link breaks: sessions are counted all the same.
    cluster.kill_and_restart_controller();
    cluster.wait_for_nodes(1);
    let _ = succeed(&mut cluster.kubectl(&["scale", "deployment/web", "--replicas=2"]));
    let two = runs(&cluster.wait_for_ready_pods("app=web", 2));
    assert!(two.iter().all(|run| three.contains(run)), "{two:?} {three:?}");
    // Even an agent that is killed comes back on a full disk.
    cluster.kill_and_restart_agent(1);
    let again = cluster.wait_for_ready_pods("app=web", 2);
    let uids = |runs: &[(String, String, u64)]| runs.iter().map(|(uid, ..)| uid.clone()).collect::<Vec<_>>();
    assert_eq!(uids(&two), uids(&runs(&again)), "the same pods, started anew");
    assert_eq!(condition(&cluster.list(&["nodes"])[0], "Ready"), "True");

    fs::remove_file(filler).expect("room again");
    let _ = cluster.wait_for_pod("job", "is pulled and ends", |pod| pod["status"]["phase"] == "Succeeded");
    nobody_was_given_up(&cluster);
}

#[test]
fn a_controller_whose_disk_has_little_room_drops_events_first() {
    const NAME: &str = "full_disk::a_controller_whose_disk_has_little_room_drops_events_first";
    match enter(NAME, &["--mount"]) {
        Corner::Done => return,
        Corner::Refused(why) => return left_out(NAME, &why),
        Corner::Inside => {}
    }
    let cluster = Cluster::start_in(BrokerKind::Embedded, 1, |dir| small_disk(&dir.join("controller"), 96));
    cluster.apply("first.yaml", &pod("first", "samples/job:1", "'0', '0'"));
    let _ = cluster.wait_for_pod("first", "has succeeded", |pod| pod["status"]["phase"] == "Succeeded");
    let filler = fill(&cluster.dir().join("controller"));
    shrink(&filler, 24 * 1024 * 1024);
    wait::until("writes are taken with little room", || note(&cluster, "little"));
    cluster.apply("second.yaml", &pod("second", "samples/job:1", "'0', '0'"));
    let _ = cluster.wait_for_pod("second", "has succeeded", |pod| pod["status"]["phase"] == "Succeeded");
    let about = |name: &str| {
        let events = cluster.list(&["events"]);
        events.iter().filter(|event| event["involvedObject"]["name"] == name).count()
    };
    assert!(about("first") > 0);
    assert_eq!(about("second"), 0, "events are the first to go");
}
