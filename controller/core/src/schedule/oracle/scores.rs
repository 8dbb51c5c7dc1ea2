//! Where a pod had better go (SCH-02, TSC-04), in Kubernetes' own arithmetic.

use std::collections::BTreeMap;

use serde_json::Value;

use super::filters::fits;
use super::objects::{Cluster, Placed, label, list, name, text};
use super::requests::{amount, nonzero_request, request};
use super::selectors::{preferred, required, taints, term_is_about, term_selects, tolerates};
use super::spread::{constraints, counts, includes, needs_all_keys};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The nodes on which a pod fits, with their scores.
pub(super) fn totals(cluster: &Cluster, pod: &Value) -> BTreeMap<String, i64> {
    let placed = cluster.placed();
    let nodes: Vec<&Value> = cluster.nodes.iter().filter(|node| fits(cluster, pod, node, &placed).is_ok()).collect();
    let of_each = |points: &dyn Fn(&Value) -> i64| nodes.iter().map(|node| points(node)).collect();
    let profile = cluster.profile(pod);
    let columns: [(&str, i64, Vec<i64>); 7] = [
        ("TaintToleration", 3, by_taints(pod, &nodes)),
        ("NodeAffinity", 2, by_node_affinity(cluster, pod, &nodes)),
        ("InterPodAffinity", 2, by_pod_affinity(cluster, pod, &nodes, &placed)),
        ("PodTopologySpread", 2, by_spread(cluster, pod, &nodes, &placed)),
        ("NodeResourcesFit", 1, of_each(&|node| by_room(cluster, pod, node, &placed))),
        ("NodeResourcesBalancedAllocation", 1, of_each(&|node| balanced(pod, node, &placed))),
        ("ImageLocality", 1, of_each(&|node| by_images(cluster, pod, node))),
    ];
    let weighted = |index: usize| {
        columns.iter().map(move |(plugin, weight, points)| profile.weight(plugin, *weight) * points[index])
    };
    nodes.iter().enumerate().map(|(index, node)| (name(node).to_owned(), weighted(index).sum())).collect()
}

fn by_taints(pod: &Value, nodes: &[&Value]) -> Vec<i64> {
    let count = |node: &&Value| taints(node, true).filter(|taint| !tolerates(pod, taint)).count() as i64;
    let counts: Vec<i64> = nodes.iter().map(count).collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(|count| if most == 0 { 100 } else { 100 - 100 * count / most }).collect()
}

fn by_node_affinity(cluster: &Cluster, pod: &Value, nodes: &[&Value]) -> Vec<i64> {
    let added = &cluster.profile(pod).args("NodeAffinity")["addedAffinity"];
    let added = || list(&added["preferredDuringSchedulingIgnoredDuringExecution"]);
    let weight = |node: &&Value| {
        let liked =
            preferred(pod, "nodeAffinity").chain(added()).filter(|term| term_selects(&term["preference"], node));
        liked.map(|term| term["weight"].as_i64().unwrap()).sum::<i64>()
    };
    let weights: Vec<i64> = nodes.iter().map(weight).collect();
    let most = weights.iter().copied().max().unwrap_or(0);
    weights.iter().map(|weight| if most == 0 { 0 } else { 100 * weight / most }).collect()
}

fn by_pod_affinity(cluster: &Cluster, pod: &Value, nodes: &[&Value], placed: &[Placed<'_>]) -> Vec<i64> {
    let args = cluster.profile(pod).args("InterPodAffinity");
    let has_preferences = ["podAffinity", "podAntiAffinity"].iter().any(|kind| preferred(pod, kind).next().is_some());
    if args["ignorePreferredTermsOfExistingPods"] == true && !has_preferences {
        return vec![0; nodes.len()];
    }
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
                *worth.entry((key, value)).or_default() += args["hardPodAffinityWeight"].as_i64().unwrap_or(1);
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

fn by_spread(cluster: &Cluster, pod: &Value, nodes: &[&Value], placed: &[Placed<'_>]) -> Vec<i64> {
    let constraints = constraints(cluster, pod, "ScheduleAnyway");
    if constraints.is_empty() {
        return vec![0; nodes.len()];
    }
    let needs_all = needs_all_keys(cluster, pod);
    let counts_at_all =
        |node: &Value| !needs_all || constraints.iter().all(|c| label(node, text(c, "topologyKey")).is_some());
    let left: Vec<&Value> = nodes.iter().copied().filter(|node| counts_at_all(node)).collect();
    let matching = |constraint: &Value, node: &Value| {
        let there = placed.iter().filter(|(_, on)| name(on) == name(node));
        there.filter(|(there, _)| counts(constraint, pod, there)).count()
    };
    let mut raw: BTreeMap<&str, f64> = left.iter().map(|node| (name(node), 0.0)).collect();
    for constraint in &constraints {
        let key = text(constraint, "topologyKey");
        // Of a domain that no candidate is in, nothing is known. Without a value is a domain, too.
        let mut domains: BTreeMap<Option<&str>, usize> = left.iter().map(|node| (label(node, key), 0)).collect();
        for node in cluster.nodes.iter().filter(|node| counts_at_all(node) && includes(constraint, pod, node)) {
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

/// The mean of what is left of each resource, or of what is used, as the profile says.
fn by_room(cluster: &Cluster, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> i64 {
    let strategy = &cluster.profile(pod).args("NodeResourcesFit")["scoringStrategy"];
    let stated: Vec<(&str, i64)> =
        list(&strategy["resources"]).map(|of| (text(of, "name"), of["weight"].as_i64().unwrap_or(1).max(1))).collect();
    let resources = if stated.is_empty() { vec![("cpu", 1), ("memory", 1)] } else { stated };
    let (mut sum, mut weights) = (0, 0);
    for (resource, weight) in resources {
        let is_core = matches!(resource, "cpu" | "memory");
        let (used, whole) = used(if is_core { nonzero_request } else { request }, pod, node, placed, resource);
        // A device counts only for pods that ask for it.
        if whole == 0 || (resource.contains('/') && request(pod, resource) == 0) {
            continue;
        }
        let part = if strategy["type"] == "MostAllocated" { used.min(whole) } else { (whole - used).max(0) };
        sum += weight * (part * 100 / whole);
        weights += weight;
    }
    if weights == 0 { 0 } else { sum / weights }
}

/// What of the pod's images is on the node: the more and the larger, and the more nodes have them, the better.
pub(super) fn by_images(cluster: &Cluster, pod: &Value, node: &Value) -> i64 {
    let containers: Vec<&Value> =
        list(&pod["spec"]["initContainers"]).chain(list(&pod["spec"]["containers"])).collect();
    let holds = |node: &Value, image: &str| {
        let mut names = list(&node["status"]["images"]).flat_map(|held| list(&held["names"]));
        names.any(|held| *held == image)
    };
    let mut sum = 0;
    for container in &containers {
        let stated = text(container, "image");
        let image = if stated.contains(':') { stated.to_owned() } else { format!("{stated}:latest") };
        if holds(node, &image) {
            let held = cluster.nodes.iter().flat_map(|node| list(&node["status"]["images"]));
            let sizes = held.filter(|held| list(&held["names"]).any(|name| *name == image));
            let size = sizes.map(|held| held["sizeBytes"].as_i64().unwrap()).max().unwrap();
            let holders = cluster.nodes.iter().filter(|node| holds(node, &image)).count();
            sum += (size as f64 * (holders as f64 / cluster.nodes.len() as f64)) as i64;
        }
    }
    let (least, most) = (23 << 20, (1000 << 20) * containers.len() as i64);
    100 * (sum.clamp(least, most) - least) / (most - least)
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
