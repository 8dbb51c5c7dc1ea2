//! How much memory this machine has, and how much of it is left for whoever asks next.

use std::fs;
use std::path::{Path, PathBuf};

use coracle_agent_core::pressure::Room;

/// What this process may have, and what of that is left, as a kubelet counts: what the system could give without swapping
/// (`MemAvailable`), or what a cgroup around this process leaves if that is less. Nothing if the system does not say.
#[must_use]
pub(crate) fn room() -> Option<Room> {
    let machine = of_machine(&text(Path::new("/proc/meminfo")))?;
    let around = cgroups(&text(Path::new("/proc/self/cgroup"))).into_iter().filter_map(|path| of_cgroup(&path));
    around.chain([machine]).min_by_key(|room| room.available_bytes)
}

/// All memory of the machine, or what a cgroup around this process may have if that is less, in bytes.
#[must_use]
pub(crate) fn total_bytes() -> u64 {
    let machine = line_bytes(&text(Path::new("/proc/meminfo")), "MemTotal:").unwrap_or_default();
    let around = cgroups(&text(Path::new("/proc/self/cgroup"))).into_iter().filter_map(|path| limit(&path));
    around.chain([machine]).min().unwrap_or_default()
}

fn of_machine(meminfo: &str) -> Option<Room> {
    let total_bytes = line_bytes(meminfo, "MemTotal:")?;
    Some(Room { total_bytes, available_bytes: line_bytes(meminfo, "MemAvailable:")? })
}

/// A line of `meminfo`, in bytes.
fn line_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

/// Nothing for a cgroup without a limit.
fn of_cgroup(path: &Path) -> Option<Room> {
    let total_bytes = limit(path)?;
    let current: u64 = text(&path.join("memory.current")).trim().parse().ok()?;
    let idle = reclaimable_bytes(&text(&path.join("memory.stat")));
    Some(Room { total_bytes, available_bytes: total_bytes.saturating_sub(current.saturating_sub(idle)) })
}

/// What the system gives back when somebody asks, as it counts for `MemAvailable`: pages of files that are on a disk as
/// well, and its own caches. (A kubelet leaves out the files that were used lately, and so calls a node short that has
/// read much.)
fn reclaimable_bytes(stat: &str) -> u64 {
    let bytes = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|bytes| bytes.trim().parse::<u64>().ok()).unwrap_or_default()
    };
    ["inactive_file", "active_file", "slab_reclaimable"].into_iter().map(bytes).fold(0, u64::saturating_add)
}

fn limit(path: &Path) -> Option<u64> {
    text(&path.join("memory.max")).trim().parse().ok()
}

/// The cgroup that a process is in, and those around it.
fn cgroups(of_process: &str) -> Vec<PathBuf> {
    let path = of_process.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    root.join(path).ancestors().take_while(|directory| directory.starts_with(root)).map(Path::to_owned).collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_writes_is_understood() {
        let meminfo = "MemTotal:         948304 kB\nMemFree: 1 kB\nMemAvailable:     500 kB\n";
        assert_eq!(of_machine(meminfo), Some(Room { total_bytes: 948_304 * 1024, available_bytes: 512_000 }));
        assert_eq!(of_machine("nonsense"), None);
        let stat = "anon 5\nfile 9\ninactive_file 4096\nactive_file 7\nslab_reclaimable 2\n";
        assert_eq!((reclaimable_bytes(stat), reclaimable_bytes("")), (4105, 0));
        assert_eq!(
            cgroups("1:cpu:/x\n0::/a/b\n"),
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"].map(PathBuf::from)
        );
        assert_eq!(cgroups(""), [PathBuf::from("/sys/fs/cgroup/")]);
    }

    // PRI-09
    #[test]
    fn a_cgroup_leaves_its_limit_less_what_is_in_use() {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let write = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).unwrap_or_else(|error| panic!("{error}"));
        };
        write("memory.max", "max\n");
        assert_eq!(of_cgroup(directory.path()), None);
        write("memory.max", "1000000\n");
        write("memory.current", "700000\n");
        write("memory.stat", "anon 1\ninactive_file 200000\n");
        assert_eq!(of_cgroup(directory.path()), Some(Room { total_bytes: 1_000_000, available_bytes: 500_000 }));
    }

    #[test]
    fn this_machine_says_what_it_has() {
        let room = room().unwrap_or_else(|| panic!("a machine has memory"));
        assert!(room.available_bytes <= room.total_bytes && room.total_bytes >= total_bytes());
        assert!(total_bytes() > 0);
    }
}
