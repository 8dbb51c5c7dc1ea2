//! What a stranger does first: `coracle up`, and what goes wrong before it can.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use coracle_tests::programs::{Process, built, fail, free_port, succeed};
use tempfile::TempDir;

fn up(dir: &TempDir) -> Command {
    let mut command = Command::new(built("coracle"));
    command.args(["up", "--data-dir"]).arg(dir.path());
    command.args(["--api-listen", &format!("127.0.0.1:{}", free_port())]);
    command.args(["--mqtt-listen", &format!("127.0.0.1:{}", free_port())]);
    command
}

#[test]
fn one_command_brings_up_a_cluster_whose_state_survives_a_restart() {
    // EDGE-08
    let dir = TempDir::new().expect("a directory");
    let first = succeed(up(&dir).arg("--exit-when-ready"));
    for word in ["node-1", "node-3", "zone-a", "zone-b", "hello-", "sensor-", "Running"] {
        assert!(first.contains(word), "{word} is missing in:\n{first}");
    }
    let pods = |text: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| name.starts_with("hello-") || name.starts_with("sensor-")).map(ToOwned::to_owned).collect()
    };
    assert_eq!(pods(&first).len(), 6, "{first}");
    let second = succeed(up(&dir).arg("--exit-when-ready"));
    assert_eq!(pods(&first), pods(&second), "the same pods are there after a restart");
}

#[test]
fn ctrl_c_stops_everything_cleanly() {
    // EDGE-08
    let dir = TempDir::new().expect("a directory");
    let mut process = Process::start("up", &mut up(&dir), dir.path());
    let _line = process.said("Try next");
    let kubeconfig = dir.path().join("controller/admin.kubeconfig");
    assert!(kubeconfig.exists());
    process.terminate();
    assert_eq!(process.ended(), 0, "{}", process.output());
    assert!(!process.output().contains("panicked"), "{}", process.output());
}

#[test]
fn a_port_in_use_is_named() {
    let dir = TempDir::new().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for flag in ["--api-listen", "--mqtt-listen"] {
        let mut command = Command::new(built("coracle"));
        command.args(["controller", "--data-dir"]).arg(dir.path().join("controller")).args([flag, &address]);
        let other = if flag == "--api-listen" { "--mqtt-listen" } else { "--api-listen" };
        let errors = fail(command.args([other, &format!("127.0.0.1:{}", free_port())]));
        assert!(errors.contains(&address), "{flag}: {errors}");
        assert!(errors.to_lowercase().contains("in use"), "{flag}: {errors}");
    }
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("file");
    fs::write(&file, "not a directory").expect("a file");
    let mut controller = Command::new(built("coracle"));
    let errors = fail(controller.args(["controller", "--data-dir"]).arg(&file));
    assert!(errors.contains(&file.display().to_string()), "{errors}");
    let mut agent = Command::new(built("coracle-agent"));
    let errors = fail(agent.args(["--broker", "mqtt://127.0.0.1:1", "--node", "a", "--data-dir"]).arg(&file));
    assert!(errors.contains(&file.display().to_string()), "{errors}");
}

#[test]
fn plaintext_mqtt_outside_loopback_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let mut agent = Command::new(built("coracle-agent"));
    let errors = fail(agent.args(["--broker", "mqtt://192.0.2.1:1883", "--node", "a", "--data-dir"]).arg(dir.path()));
    assert!(errors.contains("plaintext") && errors.contains("loopback"), "{errors}");
    let mut controller = Command::new(built("coracle"));
    controller.args(["controller", "--mqtt-broker", "mqtt://192.0.2.1:1883", "--data-dir"]).arg(dir.path());
    let errors = fail(&mut controller);
    assert!(errors.contains("plaintext") && errors.contains("loopback"), "{errors}");
}

#[test]
fn what_is_not_in_this_build_says_so() {
    let dir = TempDir::new().expect("a directory");
    let mut controller = Command::new(built("coracle"));
    controller.args(["controller", "--store", "etcd://127.0.0.1:2379", "--data-dir"]).arg(dir.path());
    let errors = fail(&mut controller);
    assert!(errors.contains("not in this build"), "{errors}");
}
