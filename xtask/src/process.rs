//! Running other programs, with errors that name the line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Runs a program in the root of the repository; its output is shown.
///
/// # Errors
/// When it does not start or fails; the text holds its line.
pub(crate) fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    let line = format!("{program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().copied()).current_dir(root()).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// Runs a program and gives what it prints.
///
/// # Errors
/// As for [`run`].
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let line = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).current_dir(root()).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{line}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}
