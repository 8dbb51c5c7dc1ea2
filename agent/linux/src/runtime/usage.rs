//! What containers use, counted when somebody asks. Between two questions nothing is done for it.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use coracle_model::usage::{ContainerUsage, NodeUsage};
use coracle_model::{Millis, PodUid};
use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

use super::Runtime;
use super::host::Surroundings;
use super::memory::Account;
use super::meter::Meter;
use super::output::Written;
use super::preopen::DiskQuota;
use super::tally::Tally;

/// Where a run's numbers are.
pub(super) struct Counts {
    started: Instant,
    meter: Arc<Meter>,
    account: Arc<Account>,
    descriptors: Arc<Tally>,
    written: Arc<Written>,
    quotas: Vec<Arc<DiskQuota>>,
}

impl Counts {
    pub(super) fn of(surroundings: &Surroundings) -> Self {
        let mut quotas: Vec<Arc<DiskQuota>> = Vec::new();
        for quota in surroundings.preopens.iter().filter_map(|preopen| preopen.quota.as_ref()) {
            if !quotas.iter().any(|counted| Arc::ptr_eq(counted, quota)) {
                quotas.push(Arc::clone(quota));
            }
        }
        Self {
            started: Instant::now(),
            meter: Arc::clone(&surroundings.meter),
            account: Arc::clone(&surroundings.account),
            descriptors: Arc::clone(&surroundings.descriptors),
            written: Arc::clone(&surroundings.written),
            quotas,
        }
    }

    fn usage(&self, uid: PodUid, container: &str, at: Millis) -> ContainerUsage {
        let cpu = self.meter.usage();
        let age_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        ContainerUsage {
            uid,
            container: container.to_owned(),
            started_at: Millis(at.0.saturating_sub(age_ms)),
            cpu_ns: cpu.used_ns,
            periods: cpu.periods.wanted,
            throttled_periods: cpu.periods.held,
            throttled_ns: cpu.periods.held_ns,
            memory_bytes: self.account.used_bytes(),
            memory_peak_bytes: self.account.peak_bytes(),
            storage_bytes: self.quotas.iter().map(|quota| quota.used_bytes()).sum(),
            descriptors: u32::try_from(self.descriptors.used()).unwrap_or(u32::MAX),
            log_bytes: self.written.bytes(),
        }
    }
}

impl Runtime {
    /// What the process and every container that runs use now; `at` is the agent's clock. Several agents in one process
    /// say the same of the process. Containers are in the order of their pods and names.
    #[must_use]
    pub fn usage(&self, at: Millis) -> NodeUsage {
        let mut containers: Vec<_> =
            self.runs.iter().map(|(run, handle)| handle.counts.usage(run.pod, &run.container, at)).collect();
        containers.sort_by(|one, two| (one.uid, &one.container).cmp(&(two.uid, &two.container)));
        NodeUsage { at, cpu_ns: process_time_ns(), memory_bytes: resident_bytes(), containers }
    }
}

fn process_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The second word of `statm`, in pages.
fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(page_size() as u64)
}
