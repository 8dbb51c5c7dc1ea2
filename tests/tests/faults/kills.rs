//! Every part is killed (SIGKILL) at random points, again and again: nothing acknowledged is lost, and nothing healthy
//! restarts that did not die with its agent.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{Process, root, succeed};
use coracle_tests::wait;
use serde_json::Value;

use super::{nobody_was_given_up, pod, runs, web};

/// Kills in one run.
const KILLS: u64 = 20;
/// Says which part dies when. Another one finds other things.
const SEED: u64 = 11;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A client that writes without pause, and what it was told.
struct Writer(Process);

impl Writer {
    fn start(cluster: &Cluster) -> Self {
        let python = root().join("target/tools/venv/bin/python");
        assert!(python.exists(), "{} is not there; run: cargo xtask tools", python.display());
        let mut command = Command::new(python);
        command.arg(root().join("tests/python/writer.py")).arg(cluster.kubeconfig()).arg("kept");
        Self(Process::start("writer", &mut command, cluster.dir()))
    }

    /// Name, revision and uid of everything that was acknowledged. A line that is not whole was not.
    fn acknowledged(&self) -> BTreeMap<String, (u64, String)> {
        let output = self.0.output();
        let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let words = whole.lines().filter_map(|line| line.strip_prefix("acknowledged "));
        words
            .filter_map(|line| {
                let mut words = line.split(' ');
                let (name, revision, uid) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
                Some((name.to_owned(), (revision, uid.to_owned())))
            })
            .collect()
    }

    /// Waits until so many more writes were acknowledged.
    fn writes(&self, more: u64) {
        let target = self.acknowledged().len() as u64 + more;
        wait::until("writes are acknowledged", || {
            let count = self.acknowledged().len() as u64;
            if count >= target {
                Ok(())
            } else {
                Err(format!("{count} of {target}\n{}", self.0.output().lines().count()))
            }
        });
    }
}

/// A child of the controller that compiles, if one does now.
fn compiler(cluster: &Cluster) -> Option<u32> {
    let parent = cluster.controller.pid().to_string();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let of_ours = after_name.split(' ').nth(1) == Some(&parent);
        of_ours
            && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.windows(9).any(|at| at == b"__compile"))
    })
}

/// A new image, so that it has to be compiled, and a pod of it; the compiler is killed if it is met.
fn kill_a_compiler(cluster: &Cluster, number: u64) -> bool {
    let mut wasm = fs::read(root().join("workloads/built/job-1.wasm")).expect("a guest");
    // A custom section changes the digest and nothing else.
    let name = format!("try-{number:04}");
    wasm.extend_from_slice(&[
        0,
        u8::try_from(name.len() + 1).expect("small"),
        u8::try_from(name.len()).expect("small"),
    ]);
    wasm.extend_from_slice(name.as_bytes());
    let file = cluster.dir().join("new.wasm");
    fs::write(&file, wasm).expect("a file");
    let image = format!("test/job:{number}");
    let _ = succeed(cluster.coracle(&["image", "push"]).arg(file).arg(&image));
    let pod_name = format!("job-{number}");
    cluster.apply("job.yaml", &pod(&pod_name, &image, "'0', '0'"));
    let killed = wait::until("a compiler, or the end of its work", || {
        if let Some(pid) = compiler(cluster) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            return Ok(true);
        }
        let pod = cluster.get(&["pod", &pod_name]).unwrap_or_default();
        if pod["status"]["phase"] == "Succeeded" { Ok(false) } else { Err(pod["status"].to_string()) }
    });
    let _ = cluster.wait_for_pod(&pod_name, "runs in the end", |pod| pod["status"]["phase"] == "Succeeded");
    killed
}

#[test]
fn parts_that_are_killed_at_random_points_lose_nothing_and_disturb_nobody() {
    // EDGE-05, SAF-01
    let mut cluster = Cluster::start(BrokerKind::Mosquitto, 2);
    cluster.apply("web.yaml", &web(2));
    let mut before = runs(&cluster.wait_for_ready_pods("app=web", 2));
    let writer = Writer::start(&cluster);
    let mut dice = Dice(SEED);
    let mut compilers = 0;
    for kill in 0..KILLS {
        writer.writes(1 + dice.below(40));
        match dice.below(10) {
            0..=4 => cluster.kill_and_restart_controller(),
            5 | 6 => {
                cluster.kill_mosquitto();
                cluster.start_mosquitto_again();
            }
            7 => {
                let number = 1 + usize::try_from(dice.below(2)).expect("small");
                cluster.kill_and_restart_agent(number);
                let after = runs(&cluster.wait_for_ready_pods("app=web", 2));
                let uids =
                    |runs: &[(String, String, u64)]| runs.iter().map(|(uid, ..)| uid.clone()).collect::<Vec<_>>();
                assert_eq!(uids(&before), uids(&after), "kill {kill}: the same pods");
                before = wait::until("the restarts are known", || settled(&cluster));
            }
            _ => compilers += u64::from(kill_a_compiler(&cluster, kill)),
        }
        let after = wait::until("the pods are settled", || settled(&cluster));
        assert_eq!(before, after, "kill {kill}: healthy work was disturbed");
    }
    writer.writes(5);
    let acknowledged = writer.acknowledged();
    drop(writer);
    let found: BTreeMap<String, Value> = cluster
        .list(&["configmaps"])
        .into_iter()
        .filter_map(|object| Some((object["metadata"]["name"].as_str()?.to_owned(), object["metadata"].clone())))
        .collect();
    for (name, (revision, uid)) in &acknowledged {
        let Some(metadata) = found.get(name) else { panic!("{name} was acknowledged at {revision} and is lost") };
        assert_eq!(
            (&metadata["uid"], &metadata["resourceVersion"]),
            (&Value::from(&**uid), &Value::from(revision.to_string()))
        );
    }
    println!("{KILLS} kills ({compilers} of a compiler), {} acknowledged writes, none lost", acknowledged.len());
    nobody_was_given_up(&cluster);
}

/// The runs of both pods, once both are Ready.
fn settled(cluster: &Cluster) -> Result<Vec<(String, String, u64)>, String> {
    let pods = cluster.list(&["pods", "-l", "app=web"]);
    let ready = pods.iter().all(|pod| coracle_tests::cluster::condition(pod, "Ready") == "True");
    if ready && pods.len() == 2 { Ok(runs(&pods)) } else { Err(format!("{pods:?}")) }
}
