//! From counters to rates: what was used between two samples of one node.
//!
//! A sample is compared with the newest one that is old enough to say something and young enough to say something about
//! now. Two samples a node are kept, so that somebody who asks in quick succession does not take the comparison away.

use std::collections::BTreeMap;

use coracle_model::{ContainerUsage, Millis, NodeUsage, PodUid};

/// Below this, in milliseconds, a rate is noise: an agent counts a guest's time when its turn ends.
pub const SHORTEST_WINDOW_MS: u64 = 500;
/// Above this, in milliseconds, a rate is history.
pub const LONGEST_WINDOW_MS: u64 = 60_000;
/// An agent reads two clocks one after the other, so the moment at which a run began wavers by this, in milliseconds.
const SAME_RUN_MS: u64 = 100;
/// Containers that samples are kept of, in all. Beyond this the samples go that were not compared for the longest time.
pub const MAX_CONTAINERS: usize = 262_144;

/// The last samples of every node that was asked.
#[derive(Debug, Default)]
pub struct Samples {
    nodes: BTreeMap<Box<str>, Kept>,
    /// Counts questions; the order in which samples were compared.
    asked: u64,
    containers: usize,
}

#[derive(Debug)]
struct Kept {
    older: Option<Sample>,
    newer: Sample,
    asked: u64,
}

/// What a later sample is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    at: Millis,
    cpu_ns: u64,
    /// By pod and name: when the run began, and its processor time.
    containers: BTreeMap<(PodUid, Box<str>), (Millis, u64)>,
}

/// A node's usage with its rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The sample that was just taken.
    pub usage: NodeUsage,
    /// The time since the sample before, in milliseconds.
    pub window_ms: u64,
    /// Processor time of the whole agent in that time, in thousand-millionths of a core.
    pub nano_cores: u64,
    containers: BTreeMap<(PodUid, Box<str>), Rate>,
}

/// What a container used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    place: usize,
    window_ms: u64,
    nano_cores: u64,
}

/// What one container uses now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerRate<'a> {
    /// Its counters.
    pub usage: &'a ContainerUsage,
    /// The time that the rate is about, in milliseconds: less than the node's for a run that began within it.
    pub window_ms: u64,
    /// Processor time, in thousand-millionths of a core.
    pub nano_cores: u64,
}

impl Measured {
    /// What a container used; `None` when the node does not know it, or it began this very moment.
    #[must_use]
    pub fn container(&self, pod: PodUid, name: &str) -> Option<ContainerRate<'_>> {
        let rate = self.containers.get(&(pod, name.into()))?;
        let usage = self.usage.containers.get(rate.place)?;
        Some(ContainerRate { usage, window_ms: rate.window_ms, nano_cores: rate.nano_cores })
    }
}

impl Samples {
    /// Takes a sample, and compares it; `None` when there is nothing to compare it with yet: another one is needed, in a
    /// second.
    pub fn take(&mut self, node: &str, usage: NodeUsage) -> Option<Measured> {
        let fresh = Sample::of(&usage);
        self.asked += 1;
        let kept = self.nodes.remove(node).inspect(|kept| self.containers -= kept.containers());
        let kept = kept.filter(|kept| fresh.goes_on_from(&kept.newer));
        let baselines = kept.iter().flat_map(|kept| [Some(&kept.newer), kept.older.as_ref()]);
        let baseline = baselines.flatten().find(|sample| {
            let age = fresh.at.since(sample.at);
            (SHORTEST_WINDOW_MS..=LONGEST_WINDOW_MS).contains(&age) && fresh.goes_on_from(sample)
        });
        let measured = baseline.map(|baseline| compare(baseline, usage));
        let kept = match kept {
            Some(kept) if fresh.at.since(kept.newer.at) < SHORTEST_WINDOW_MS => Kept { asked: self.asked, ..kept },
            kept => Kept { older: kept.map(|kept| kept.newer), newer: fresh, asked: self.asked },
        };
        self.containers += kept.containers();
        self.nodes.insert(node.into(), kept);
        self.shrink();
        measured
    }

    /// Throws away the samples that were not asked for the longest time, while there are too many; never all.
    fn shrink(&mut self) {
        while self.containers > MAX_CONTAINERS && self.nodes.len() > 1 {
            let oldest = self.nodes.iter().min_by_key(|(_, kept)| kept.asked).map(|(node, _)| node.clone());
            let Some(kept) = oldest.and_then(|node| self.nodes.remove(&node)) else { return };
            self.containers -= kept.containers();
        }
    }
}

impl Kept {
    /// What it counts for; a node without containers is no nothing.
    fn containers(&self) -> usize {
        1 + self.newer.containers.len() + self.older.as_ref().map_or(0, |older| older.containers.len())
    }
}

impl Sample {
    fn of(usage: &NodeUsage) -> Self {
        let containers = usage.containers.iter();
        let containers = containers.map(|of| (key(of), (of.started_at, of.cpu_ns))).collect();
        Self { at: usage.at, cpu_ns: usage.cpu_ns, containers }
    }

    /// Whether `before` is of the same start of the agent.
    fn goes_on_from(&self, before: &Self) -> bool {
        self.at >= before.at && self.cpu_ns >= before.cpu_ns
    }
}

fn key(container: &ContainerUsage) -> (PodUid, Box<str>) {
    (container.uid, container.container.as_str().into())
}

fn compare(before: &Sample, usage: NodeUsage) -> Measured {
    let window_ms = usage.at.since(before.at);
    let mut containers = BTreeMap::new();
    for (place, container) in usage.containers.iter().enumerate() {
        let key = key(container);
        let same_run = before.containers.get(&key).filter(|(started_at, cpu_ns)| {
            started_at.0.abs_diff(container.started_at.0) <= SAME_RUN_MS && *cpu_ns <= container.cpu_ns
        });
        let (window_ms, used_ns) = match same_run {
            Some((_, cpu_ns)) => (window_ms, container.cpu_ns - cpu_ns),
            None => (usage.at.since(container.started_at), container.cpu_ns),
        };
        if window_ms > 0 {
            containers.insert(key, Rate { place, window_ms, nano_cores: nano_cores(used_ns, window_ms) });
        }
    }
    let nano_cores = nano_cores(usage.cpu_ns.saturating_sub(before.cpu_ns), window_ms);
    Measured { window_ms, nano_cores, containers, usage }
}

/// Nanoseconds in milliseconds, as thousand-millionths of a core.
fn nano_cores(used_ns: u64, window_ms: u64) -> u64 {
    u64::try_from(u128::from(used_ns) * 1000 / u128::from(window_ms.max(1))).unwrap_or(u64::MAX)
}
