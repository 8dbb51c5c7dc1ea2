//! A corner of the machine that one test has for itself: mounts and a network that nobody else sees, and that are gone with
//! it. The test runs once more, as a process inside.

use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use crate::programs::{run, succeed};

/// Says to the process inside that it is there.
const INSIDE: &str = "CORACLE_TEST_INSIDE";

/// How a line begins that says what was not tested.
const LEFT_OUT: &str = "!!! LEFT OUT:";

/// Where a test is.
#[derive(Debug, PartialEq, Eq)]
pub enum Corner {
    /// In its corner: do the work.
    Inside,
    /// The work was done in there, and well.
    Done,
    /// This machine allows none, and why.
    Refused(String),
}

/// Runs the test of this name (`module::function`) once more in namespaces of these kinds (`--mount`, `--net`).
///
/// # Panics
/// When the test fails in there; the message holds all it said.
#[must_use]
pub fn enter(test: &str, kinds: &[&str]) -> Corner {
    if env::var_os(INSIDE).is_some() {
        return Corner::Inside;
    }
    let mut why = String::new();
    // Without being root one becomes root of the corner.
    for user in [&[][..], &["--user", "--map-root-user"][..]] {
        let tried = run(Command::new("unshare").args(user).args(kinds).arg("true"));
        if tried.status.success() {
            let program = env::current_exe().expect("a test knows its own path");
            let mut inside = Command::new("unshare");
            inside.args(user).args(kinds).arg(program).args([test, "--exact", "--nocapture"]).env(INSIDE, "1");
            let output = run(&mut inside);
            let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(
                output.status.success() && said.contains("1 passed"),
                "{test} failed in its corner:\n{said}{errors}"
            );
            for line in errors.lines().filter(|line| line.contains(LEFT_OUT)) {
                shout(line);
            }
            return Corner::Done;
        }
        why = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
    }
    Corner::Refused(why)
}

/// Says loudly that a part of the tests cannot run on this machine.
pub fn left_out(test: &str, why: &str) {
    shout(&format!("{LEFT_OUT} {test}: this machine does not allow it: {why}"));
}

/// Past the harness, which keeps what a test that passes has printed to itself.
fn shout(line: &str) {
    let _ = writeln!(io::stderr(), "\n{line}\n");
}

/// Makes a directory with a disk of its own, of so many MiB. Only in a corner with its own mounts.
///
/// # Panics
/// When it cannot be mounted.
pub fn small_disk(path: &Path, mib: u32) {
    std::fs::create_dir_all(path).expect("a directory");
    let size = format!("size={mib}m,mode=700");
    let _ = succeed(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path));
}
