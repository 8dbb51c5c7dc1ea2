//! Which volumes a pod can have on a node (SCH-01, VOL-02).

use std::collections::BTreeSet;

use serde_json::Value;

use super::objects::{Cluster, Placed, label, list, name, namespace, text};
use super::requests::amount;
use super::selectors::{selects, term_selects};

/// The names of a pod's claims.
fn claim_names(pod: &Value) -> BTreeSet<&str> {
    let names = list(&pod["spec"]["volumes"]).map(|volume| text(&volume["persistentVolumeClaim"], "claimName"));
    names.filter(|name| !name.is_empty()).collect()
}

/// A pod's claims that are there.
fn claims<'a>(cluster: &'a Cluster, pod: &Value) -> Vec<&'a Value> {
    let is_own = |claim: &&Value| namespace(claim) == namespace(pod) && claim_names(pod).contains(name(claim));
    cluster.claims.iter().filter(is_own).collect()
}

fn is_bound(claim: &Value) -> bool {
    text(&claim["status"], "phase") == "Bound"
}

/// Whether a claim waits for its first pod.
fn waits(cluster: &Cluster, claim: &Value) -> bool {
    let class = cluster.classes.iter().find(|class| name(class) == text(&claim["spec"], "storageClassName"));
    text(&claim["status"], "phase") == "Pending"
        && text(&claim["spec"], "volumeName").is_empty()
        && class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
}

/// Whether every claim is there, is to stay, and has its volume or waits for a pod.
pub(super) fn claims_are_ready(cluster: &Cluster, pod: &Value) -> bool {
    let is_ready =
        |claim: &&Value| claim["metadata"]["deletionTimestamp"].is_null() && (is_bound(claim) || waits(cluster, claim));
    claims(cluster, pod).len() == claim_names(pod).len() && claims(cluster, pod).iter().all(is_ready)
}

fn is_reached(volume: &Value, node: &Value) -> bool {
    let required = &volume["spec"]["nodeAffinity"]["required"];
    required.is_null() || list(&required["nodeSelectorTerms"]).any(|term| term_selects(term, node))
}

fn volume_of<'a>(cluster: &'a Cluster, claim: &Value) -> Option<&'a Value> {
    cluster.volumes.iter().find(|volume| name(volume) == text(&claim["spec"], "volumeName"))
}

/// Whether the volumes that a pod's claims have can be reached from a node, and the others find theirs there.
pub(super) fn reaches(cluster: &Cluster, pod: &Value, node: &Value) -> bool {
    let bound = || claims(cluster, pod).into_iter().filter(|claim| is_bound(claim));
    bound().all(|claim| volume_of(cluster, claim).is_some_and(|volume| is_reached(volume, node)))
        && chosen(cluster, pod, node).is_some()
}

/// Whether no volume of a pod says by its label that it is in other zones, of a node that says in which it is.
pub(super) fn are_in_zone(cluster: &Cluster, pod: &Value, node: &Value) -> bool {
    let zone = |of: &Value| label(of, "topology.kubernetes.io/zone").map(ToOwned::to_owned);
    let Some(own) = zone(node) else { return true };
    let volumes = claims(cluster, pod).into_iter().filter_map(|claim| volume_of(cluster, claim));
    volumes.filter_map(zone).all(|zones| zones.split("__").any(|zone| zone == own))
}

fn size(of: &Value) -> i64 {
    amount("storage", &of["storage"])
}

fn modes(of: &Value) -> BTreeSet<&str> {
    list(&of["spec"]["accessModes"]).filter_map(Value::as_str).collect()
}

/// Whether a user, or a pod before, has set a volume aside for a claim.
fn is_set_aside(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    text(reference, "name") == name(claim)
        && text(reference, "namespace") == namespace(claim)
        && (reference["uid"].is_null() || reference["uid"] == claim["metadata"]["uid"])
}

/// The volumes, by name, that claims would have that wait for this pod: the small claims first, the smallest volume that
/// fits. `None` if there is not one for each.
pub(super) fn chosen<'a>(cluster: &'a Cluster, pod: &Value, node: &Value) -> Option<Vec<(&'a Value, &'a Value)>> {
    let mut waiting = claims(cluster, pod);
    waiting.retain(|claim| waits(cluster, claim));
    let request = |claim: &Value| size(&claim["spec"]["resources"]["requests"]);
    waiting.sort_by_key(|claim| (request(claim), name(claim)));
    let mut all: Vec<(&Value, &Value)> = Vec::new();
    for claim in waiting {
        let spec = &claim["spec"];
        let large_enough = |volume: &&Value| size(&volume["spec"]["capacity"]) >= request(claim);
        if let Some(own) = cluster.volumes.iter().filter(large_enough).find(|volume| is_set_aside(volume, claim)) {
            if !is_reached(own, node) {
                return None;
            }
            all.push((claim, own));
            continue;
        }
        let fits = |volume: &&Value| {
            volume["status"]["phase"] == "Available"
                && volume["spec"]["claimRef"].is_null()
                && volume["spec"]["storageClassName"] == spec["storageClassName"]
                && modes(volume).is_superset(&modes(claim))
                && (spec["selector"].is_null() || selects(&spec["selector"], &volume["metadata"]["labels"]))
                && is_reached(volume, node)
                && all.iter().all(|(_, taken)| name(taken) != name(volume))
        };
        let free = cluster.volumes.iter().filter(large_enough).filter(fits);
        all.push((claim, free.min_by_key(|volume| (size(&volume["spec"]["capacity"]), name(volume)))?));
    }
    Some(all)
}

/// Whether another pod has a claim that is for one pod.
pub(super) fn claim_is_taken(cluster: &Cluster, pod: &Value, placed: &[Placed<'_>]) -> bool {
    let exclusive = claims(cluster, pod).into_iter().filter(|claim| modes(claim).contains("ReadWriteOncePod"));
    exclusive.into_iter().any(|claim| placed.iter().any(|(other, _)| uses(other, claim)))
}

fn uses(pod: &Value, claim: &Value) -> bool {
    namespace(pod) == namespace(claim) && claim_names(pod).contains(name(claim))
}

/// Whether a volume that one node at a time can use is in use on another.
pub(super) fn is_attached_elsewhere(cluster: &Cluster, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> bool {
    let is_for_one_node = |volume: &Value| {
        let many = ["ReadOnlyMany", "ReadWriteMany"];
        volume["spec"]["local"].is_null() && many.iter().all(|mode| !modes(volume).contains(mode))
    };
    let bound = claims(cluster, pod).into_iter().filter(|claim| is_bound(claim));
    let attached = bound.filter(|claim| volume_of(cluster, claim).is_some_and(is_for_one_node));
    attached.into_iter().any(|claim| placed.iter().any(|(other, on)| name(on) != name(node) && uses(other, claim)))
}
