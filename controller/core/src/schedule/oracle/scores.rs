//! Where a pod had better go (SCH-02, TSC-04), in Kubernetes' own arithmetic.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::filters::fits;
use super::objects::{Cluster, Placed, label, list, name, namespace, text};
use super::requests::{amount, nonzero_request, request};
use super::selectors::{
    preferred, required, selects, spread_counts, spread_includes, taints, term_is_about, term_selects, tolerates,
};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The nodes on which a pod fits, with their scores.
pub(super) fn totals(cluster: &Cluster, pod: &Value) -> BTreeMap<String, i64> {
    let placed = cluster.placed();
    let nodes: Vec<&Value> = cluster.nodes.iter().filter(|node| fits(cluster, pod, node, &placed).is_ok()).collect();
    let columns = [
        (3, by_taints(pod, &nodes)),
        (2, by_node_affinity(pod, &nodes)),
        (2, by_pod_affinity(cluster, pod, &nodes, &placed)),
        (2, by_spread(cluster, pod, &nodes, &placed)),
        (1, nodes.iter().map(|node| least_allocated(pod, node, &placed)).collect()),
        (1, nodes.iter().map(|node| balanced(pod, node, &placed)).collect()),
    ];
    let total = |index: usize| columns.iter().map(|(weight, points): &(i64, Vec<i64>)| weight * points[index]).sum();
    nodes.iter().enumerate().map(|(index, node)| (name(node).to_owned(), total(index))).collect()
}

fn by_taints(pod: &Value, nodes: &[&Value]) -> Vec<i64> {
    let count = |node: &&Value| taints(node, true).filter(|taint| !tolerates(pod, taint)).count() as i64;
    let counts: Vec<i64> = nodes.iter().map(count).collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(|count| if most == 0 { 100 } else { 100 - 100 * count / most }).collect()
}

fn by_node_affinity(pod: &Value, nodes: &[&Value]) -> Vec<i64> {
    let weight = |node: &&Value| {
        let liked = preferred(pod, "nodeAffinity").filter(|term| term_selects(&term["preference"], node));
        liked.map(|term| term["weight"].as_i64().unwrap()).sum::<i64>()
    };
    let weights: Vec<i64> = nodes.iter().map(weight).collect();
    let most = weights.iter().copied().max().unwrap_or(0);
    weights.iter().map(|weight| if most == 0 { 0 } else { 100 * weight / most }).collect()
}

fn by_pod_affinity(cluster: &Cluster, pod: &Value, nodes: &[&Value], placed: &[Placed<'_>]) -> Vec<i64> {
    // By label and value: what it is worth to be there.
    let mut worth: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (other, on) in placed {
        for (kind, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            for (owner, target) in [(pod, *other), (*other, pod)] {
                for weighted in preferred(owner, kind) {
                    let term = &weighted["podAffinityTerm"];
                    let key = text(term, "topologyKey");
                    if let (Some(value), true) = (label(on, key), term_is_about(cluster, term, owner, target)) {
                        *worth.entry((key, value)).or_default() += sign * weighted["weight"].as_i64().unwrap();
                    }
                }
            }
        }
        for term in required(other, "podAffinity") {
            let key = text(term, "topologyKey");
            if let (Some(value), true) = (label(on, key), term_is_about(cluster, term, other, pod)) {
                *worth.entry((key, value)).or_default() += 1;
            }
        }
    }
    let sum = |node: &&Value| {
        let here = worth.iter().filter(|((key, value), _)| label(node, key) == Some(*value));
        here.map(|(_, worth)| worth).sum::<i64>()
    };
    let sums: Vec<i64> = nodes.iter().map(sum).collect();
    let (least, most) = (sums.iter().min().copied().unwrap_or(0), sums.iter().max().copied().unwrap_or(0));
    let share = |sum: &i64| (100.0 * ((sum - least) as f64 / (most - least) as f64)) as i64;
    sums.iter().map(|sum| if most == least { 0 } else { share(sum) }).collect()
}

/// The pod's own soft constraints; else the system's, if it belongs to a controller or a service (TSC-05).
fn soft_constraints(cluster: &Cluster, pod: &Value) -> Vec<Value> {
    let own: Vec<&Value> = list(&pod["spec"]["topologySpreadConstraints"]).collect();
    if !own.is_empty() {
        return own.into_iter().filter(|c| text(c, "whenUnsatisfiable") == "ScheduleAnyway").cloned().collect();
    }
    let controller = list(&pod["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
    let sets =
        cluster.replica_sets.iter().filter(|set| controller.is_some_and(|by| set["metadata"]["uid"] == by["uid"]));
    let services = cluster.services.iter().filter(|service| namespace(service) == namespace(pod));
    let selectors = sets.map(|set| &set["spec"]["selector"]["matchLabels"]).chain(
        services
            .map(|service| &service["spec"]["selector"])
            .filter(|labels| selects(&json!({"matchLabels": labels}), &pod["metadata"]["labels"])),
    );
    let all = selectors.flat_map(|labels| labels.as_object().into_iter().flatten());
    let all: Vec<Value> = all.map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]})).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let selector = json!({"matchExpressions": all});
    let system = [(3, HOSTNAME), (5, "topology.kubernetes.io/zone")];
    let constraint = |(skew, key)| json!({"maxSkew": skew, "topologyKey": key, "labelSelector": selector});
    system.into_iter().map(constraint).collect()
}

fn by_spread(cluster: &Cluster, pod: &Value, nodes: &[&Value], placed: &[Placed<'_>]) -> Vec<i64> {
    let constraints = soft_constraints(cluster, pod);
    if constraints.is_empty() {
        return vec![0; nodes.len()];
    }
    let needs_all = list(&pod["spec"]["topologySpreadConstraints"]).next().is_some();
    let counts_at_all =
        |node: &Value| !needs_all || constraints.iter().all(|c| label(node, text(c, "topologyKey")).is_some());
    let left: Vec<&Value> = nodes.iter().copied().filter(|node| counts_at_all(node)).collect();
    let matching = |constraint: &Value, node: &Value| {
        let there = placed.iter().filter(|(_, on)| name(on) == name(node));
        there.filter(|(there, _)| spread_counts(constraint, pod, there)).count()
    };
    let mut raw: BTreeMap<&str, f64> = left.iter().map(|node| (name(node), 0.0)).collect();
    for constraint in &constraints {
        let key = text(constraint, "topologyKey");
        // Of a domain that no candidate is in, nothing is known. Without a value is a domain, too.
        let mut domains: BTreeMap<Option<&str>, usize> = left.iter().map(|node| (label(node, key), 0)).collect();
        for node in cluster.nodes.iter().filter(|node| counts_at_all(node) && spread_includes(constraint, pod, node)) {
            if let Some(count) = domains.get_mut(&label(node, key)) {
                *count += matching(constraint, node);
            }
        }
        let size = if key == HOSTNAME { left.len() } else { domains.len() };
        for node in left.iter().filter(|node| label(node, key).is_some()) {
            let count = if key == HOSTNAME { matching(constraint, node) } else { domains[&label(node, key)] };
            let skew = constraint["maxSkew"].as_i64().unwrap() - 1;
            *raw.get_mut(name(node)).unwrap() += count as f64 * ((size + 2) as f64).ln() + skew as f64;
        }
    }
    let rounded: BTreeMap<&str, i64> = raw.into_iter().map(|(node, score)| (node, score.round() as i64)).collect();
    let (least, most) = (rounded.values().min().copied().unwrap_or(0), rounded.values().max().copied().unwrap_or(0));
    let points = |node: &&Value| match rounded.get(name(node)) {
        None => 0,
        Some(_) if most == 0 => 100,
        Some(score) => 100 * (most + least - score) / most,
    };
    nodes.iter().map(points).collect()
}

/// Of one resource: what would be used, and all there is.
fn used(
    request: fn(&Value, &str) -> i64,
    pod: &Value,
    node: &Value,
    placed: &[Placed<'_>],
    resource: &str,
) -> (i64, i64) {
    let there = placed.iter().filter(|(_, on)| name(on) == name(node));
    let sum = request(pod, resource) + there.map(|(pod, _)| request(pod, resource)).sum::<i64>();
    (sum, amount(resource, &node["status"]["allocatable"][resource]))
}

fn least_allocated(pod: &Value, node: &Value, placed: &[Placed<'_>]) -> i64 {
    let both = ["cpu", "memory"].map(|resource| used(nonzero_request, pod, node, placed, resource));
    let known: Vec<_> = both.into_iter().filter(|(_, whole)| *whole > 0).collect();
    let points = |(used, whole): &(i64, i64)| if used > whole { 0 } else { (whole - used) * 100 / whole };
    if known.is_empty() { 0 } else { known.iter().map(points).sum::<i64>() / known.len() as i64 }
}

fn balanced(pod: &Value, node: &Value, placed: &[Placed<'_>]) -> i64 {
    if ["cpu", "memory"].iter().all(|resource| request(pod, resource) == 0) {
        return 0;
    }
    let both = ["cpu", "memory"].map(|resource| used(request, pod, node, placed, resource));
    let known = both.into_iter().filter(|(_, whole)| *whole > 0);
    let shares: Vec<f64> = known.map(|(used, whole)| (used as f64 / whole as f64).min(1.0)).collect();
    let deviation = if let [one, two] = shares[..] { ((one - two) / 2.0).abs() } else { 0.0 };
    ((1.0 - deviation) * 100.0) as i64
}
