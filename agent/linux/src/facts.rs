//! What this node is, as a birth says it (EDGE-01): read once, from what Linux shows every process.

use std::fs;
use std::thread;

use coracle_model::{BootId, NodeFacts, PodUid, ResourceAmounts};

/// `status.capacity.pods`: guests are small, so there may be many more than a kubelet's 110.
const MAX_PODS: u32 = 1000;
/// Kept from pods, for the agent and the operating system: this, or an eighth if that is less.
const RESERVED_MEMORY_BYTES: u64 = 100 * 1024 * 1024;
/// Kept from pods of each node's processor time.
const RESERVED_CPU_MILLIS: u64 = 50;

/// The facts of this machine.
#[must_use]
pub fn read(zone: String, labels: Vec<(String, String)>) -> NodeFacts {
    let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
    let memory_bytes = memory_total(&text("/proc/meminfo"));
    let capacity = ResourceAmounts { cpu_millis: cores * 1000, memory_bytes, storage_bytes: 0 };
    let allocatable = ResourceAmounts {
        cpu_millis: capacity.cpu_millis.saturating_sub(RESERVED_CPU_MILLIS),
        memory_bytes: memory_bytes - RESERVED_MEMORY_BYTES.min(memory_bytes / 8),
        storage_bytes: 0,
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
        interfaces: Vec::new(),
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

/// `MemTotal`, in bytes.
fn memory_total(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
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
        assert_eq!(memory_total("MemTotal:         948304 kB\nMemFree: 1 kB\n"), 948_304 * 1024);
        assert_eq!(memory_total("nonsense"), 0);
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"Raspbian 12\"\n"), "Raspbian 12");
        assert_eq!(architecture("aarch64"), "arm64");
        assert_eq!(architecture("arm"), "arm");
    }

    // EDGE-01
    #[test]
    fn this_machine_says_what_it_has() {
        let facts = read("a".into(), vec![("k".into(), "v".into())]);
        assert!(facts.capacity.cpu_millis >= 1000);
        assert!(facts.allocatable.cpu_millis < facts.capacity.cpu_millis);
        assert!(facts.allocatable.memory_bytes <= facts.capacity.memory_bytes);
        assert!(coracle_engine::TARGETS.contains(&facts.target.as_str()));
        assert_eq!(boot(1), boot(2));
    }
}
