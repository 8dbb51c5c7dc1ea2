//! `--scheduler-config`: how pods are placed, from a file of kind `KubeSchedulerConfiguration`.

use std::path::PathBuf;

use clap::Args;
use coracle_controller_core::schedule::config::{self, Configuration};

use crate::Failure;

/// Read once, at the start.
#[derive(Clone, Debug, Args)]
pub(crate) struct SchedulerConfig {
    /// How pods are placed: a KubeSchedulerConfiguration, YAML or JSON; else as kube-scheduler does by default.
    #[arg(long = "scheduler-config", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl SchedulerConfig {
    /// The configuration of the file, or the default without one.
    ///
    /// # Errors
    /// When the file cannot be read, or with every field of it that is wrong.
    pub(crate) fn read(&self) -> Result<Configuration, Failure> {
        let Some(file) = &self.file else { return Ok(Configuration::default()) };
        let shown = file.display();
        let text = std::fs::read(file).map_err(|error| format!("--scheduler-config {shown}: {error}"))?;
        config::parse(&text).map_err(|error| format!("--scheduler-config {shown}: {error}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_or_not_right_is_named() {
        let read = |file: Option<&str>| SchedulerConfig { file: file.map(PathBuf::from) }.read();
        assert_eq!(read(None).unwrap(), Configuration::default());
        let missing = read(Some("no-such-file.yaml")).unwrap_err().to_string();
        assert!(missing.starts_with("--scheduler-config no-such-file.yaml: "), "{missing}");
        // Every package has one, and it is no configuration of a scheduler.
        let wrong = read(Some("Cargo.toml")).unwrap_err().to_string();
        assert!(wrong.starts_with("--scheduler-config Cargo.toml: document 1, line "), "{wrong}");
    }
}
