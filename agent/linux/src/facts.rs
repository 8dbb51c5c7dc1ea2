//! What this node is, as a birth says it (EDGE-01): read once, from what Linux shows every process.

use std::fs;
use std::path::Path;
use std::thread;

use coracle_model::{BootId, NodeFacts, PodUid, ResourceAmounts};

use crate::memory;
use crate::runtime;
use crate::space::Space;

/// `status.capacity.pods`: guests are small, so there may be many more than a kubelet's 110.
const MAX_PODS: u32 = 1000;
/// Kept from pods, for the agent and the operating system: this, or an eighth if that is less.
const RESERVED_MEMORY_BYTES: u64 = 100 * 1024 * 1024;
/// Kept from pods of each node's processor time.
const RESERVED_CPU_MILLIS: u64 = 50;
/// Kept from pods of the disk, for artifacts and for the agent's own files: this, or an eighth if that is less.
const RESERVED_STORAGE_BYTES: u64 = 1024 * 1024 * 1024;

/// The facts of this machine, and of the disk that `data_dir` is on.
#[must_use]
pub fn read(zone: String, labels: Vec<(String, String)>, data_dir: &Path) -> NodeFacts {
    let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
    let memory_bytes = memory::total_bytes();
    let storage_bytes = Space::around(data_dir).map_or(0, |space| space.total_bytes);
    let capacity = ResourceAmounts { cpu_millis: cores * 1000, memory_bytes, storage_bytes };
    let allocatable = ResourceAmounts {
        cpu_millis: capacity.cpu_millis.saturating_sub(RESERVED_CPU_MILLIS),
        memory_bytes: memory_bytes - RESERVED_MEMORY_BYTES.min(memory_bytes / 8),
        storage_bytes: capacity.storage_bytes - RESERVED_STORAGE_BYTES.min(capacity.storage_bytes / 8),
    };
    NodeFacts {
        arch: architecture(std::env::consts::ARCH).to_owned(),
        os: std::env::consts::OS.to_owned(),
        target: coracle_engine::host_target().to_owned(),
        engine: coracle_engine::fingerprint(),
        zone,
        labels,
        capacity,
        allocatable,
        interfaces: runtime::interfaces(),
        max_pods: MAX_PODS,
        agent_version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        os_image: pretty_name(&text("/etc/os-release")),
        machine_id: text("/etc/machine-id").trim().to_owned(),
    }
}

/// The boot of this machine; where Linux does not say, every start of the agent counts as one.
#[must_use]
pub fn boot(entropy: u128) -> BootId {
    let id: Result<PodUid, _> = text("/proc/sys/kernel/random/boot_id").trim().parse();
    BootId(id.map_or(entropy, |id| id.0))
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Kubernetes' word for an architecture.
fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// `PRETTY_NAME`, without its quotes.
fn pretty_name(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_writes_is_understood() {
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"Raspbian 12\"\n"), "Raspbian 12");
        assert_eq!(architecture("aarch64"), "arm64");
        assert_eq!(architecture("arm"), "arm");
    }

    // EDGE-01
    #[test]
    fn this_machine_says_what_it_has() {
        let facts = read("a".into(), vec![("k".into(), "v".into())], Path::new("/"));
        assert!(facts.capacity.cpu_millis >= 1000);
        assert!(facts.allocatable.cpu_millis < facts.capacity.cpu_millis);
        assert!(facts.allocatable.memory_bytes <= facts.capacity.memory_bytes);
        assert!(facts.capacity.storage_bytes > 0);
        assert!(facts.allocatable.storage_bytes < facts.capacity.storage_bytes);
        assert!(facts.interfaces.iter().any(|interface| interface == "wasi:http/types@0.2"));
        assert!(coracle_engine::TARGETS.contains(&facts.target.as_str()));
        assert_eq!(boot(1), boot(2));
    }
}
