//! What a pod uses of its node, from its containers (INI-03): the larger of what its app containers and sidecars use
//! together, and of the most that any step of its initialisation uses; and what its runtime class adds.

use std::collections::BTreeMap;

use serde_json::Value;

use super::symbols::{Resource, Symbols};
use crate::rows;

/// What Kubernetes counts for a container that asks for no cpu, when nodes are scored: 100 thousandths.
const UNSTATED_CPU_MILLIS: u64 = 100;
/// The same for memory: 200 MiB.
const UNSTATED_MEMORY_BYTES: u64 = 200 * 1024 * 1024;

/// The most of anything that is counted for one pod (2^53: 8 PiB of memory): more than any node has, and so little that
/// the sum of all pods of a node is exact, also of those that somebody put there by hand.
const MOST: u64 = 1 << 53;

/// Amounts by resource.
type Amounts = BTreeMap<Resource, u64>;

/// The effective requests of a pod.
pub(super) struct Effective {
    /// As stated, without those that are 0, in order.
    pub(super) requests: Vec<(Resource, u64)>,
    /// Cpu and memory as scores count them: what is not stated is not nothing.
    pub(super) scored: [u64; 2],
}

/// Cpu in thousandths, everything else in units.
pub(super) fn read_amount(name: &str, found: &Value) -> u64 {
    if name == "cpu" { rows::cpu_millis(found) } else { rows::units(found) }
}

/// Of a pod's spec.
pub(super) fn effective(spec: &Value, symbols: &mut Symbols) -> Effective {
    let requests = total(spec, |container| stated(&container["resources"]["requests"], symbols));
    let scored = total(spec, |container| {
        let requests = &container["resources"]["requests"];
        let unstated =
            [(Resource::CPU, "cpu", UNSTATED_CPU_MILLIS), (Resource::MEMORY, "memory", UNSTATED_MEMORY_BYTES)];
        let amount = |name: &str, otherwise| {
            let found = &requests[name];
            if found.is_null() { otherwise } else { read_amount(name, found) }
        };
        unstated.into_iter().map(|(resource, name, otherwise)| (resource, amount(name, otherwise))).collect()
    });
    let overhead = stated(&spec["overhead"], symbols);
    let (mut requests, mut scored) = (requests, scored);
    add(&mut requests, &overhead);
    for resource in [Resource::CPU, Resource::MEMORY] {
        if let (Some(sum), Some(more)) = (scored.get_mut(&resource), overhead.get(&resource)) {
            *sum = sum.saturating_add(*more);
        }
    }
    let scored =
        [Resource::CPU, Resource::MEMORY].map(|resource| scored.get(&resource).copied().unwrap_or_default().min(MOST));
    let requests = requests.into_iter().map(|(resource, amount)| (resource, amount.min(MOST)));
    Effective { requests: requests.filter(|(_, amount)| *amount > 0).collect(), scored }
}

fn total(spec: &Value, mut of: impl FnMut(&Value) -> Amounts) -> Amounts {
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let mut running = Amounts::new();
    let mut most = Amounts::new();
    for container in list("initContainers") {
        let amounts = of(container);
        // A sidecar keeps running, so every later step has it beside itself.
        if container["restartPolicy"] == "Always" {
            add(&mut running, &amounts);
            raise(&mut most, &running);
        } else {
            let mut step = running.clone();
            add(&mut step, &amounts);
            raise(&mut most, &step);
        }
    }
    for container in list("containers") {
        add(&mut running, &of(container));
    }
    raise(&mut running, &most);
    running
}

fn stated(amounts: &Value, symbols: &mut Symbols) -> Amounts {
    let amounts = amounts.as_object().into_iter().flatten();
    amounts.map(|(name, found)| (symbols.resource(name), read_amount(name, found))).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let sum = sum.entry(*resource).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        let most = most.entry(*resource).or_default();
        *most = (*most).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cpu(spec: &Value) -> (u64, u64) {
        let mut symbols = Symbols::new();
        let found = effective(spec, &mut symbols);
        let stated = found.requests.iter().find(|(resource, _)| *resource == Resource::CPU);
        (stated.map_or(0, |(_, amount)| *amount), found.scored[0])
    }

    // INI-03
    #[test]
    fn the_largest_step_counts_and_sidecars_count_with_all_that_follows() {
        let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        for (init, containers, want) in [
            (json!([]), json!([asks("1"), asks("500m")]), 1500),
            (json!([asks("2"), asks("1")]), json!([asks("1")]), 2000),
            (json!([sidecar("1"), asks("2")]), json!([asks("1")]), 3000),
            (json!([asks("2"), sidecar("1")]), json!([asks("1")]), 2000),
            (json!([sidecar("1"), sidecar("1")]), json!([asks("1")]), 3000),
        ] {
            let spec = json!({"initContainers": init, "containers": containers});
            assert_eq!(cpu(&spec).0, want, "{spec}");
        }
        let spec = json!({"containers": [asks("1")], "overhead": {"cpu": "250m"}});
        assert_eq!(cpu(&spec), (1250, 1250));
        assert_eq!(cpu(&json!({"containers": [{}, asks("0")]})), (0, 100));
    }
}
