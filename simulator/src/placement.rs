//! Where a pod may be, read from plain objects each time by slow and obvious code that shares nothing with the scheduler.
//!
//! *In:* objects as JSON. *Out:* whether a pod may be on a node, or why not.
//! *Must never know:* how the scheduler comes to its answers.
//! *Tested:* by objects that are made to break each rule.

mod terms;

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_controller_core::store::Action;
use coracle_controller_core::{Change, Key, Kind, Object};
use coracle_model::quantity;
use serde_json::{Value, json};

use terms::{hard_taints, is_about, list, required, same_label, selects, text, tolerates, wants_node};

/// A pod and the node on which it is.
pub(crate) type Placed<'a> = (&'a Value, &'a Value);

/// Every object that has a say in where pods may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    objects: BTreeMap<Key, Arc<Value>>,
}

impl Placement {
    pub(crate) fn of(durable: &BTreeMap<Key, Arc<Object>>) -> Self {
        let mut placement = Self::default();
        durable.values().for_each(|object| placement.put(object));
        placement
    }

    fn put(&mut self, object: &Object) {
        if [Kind::NODE, Kind::POD, Kind::NAMESPACE].contains(&object.key.kind) {
            self.objects.insert(object.key.clone(), Arc::new(object.value()));
        }
    }

    /// Takes over what became durable.
    pub(crate) fn apply(&mut self, change: &Change) {
        if change.action == Action::Deleted {
            self.objects.remove(&change.object.key);
        } else {
            self.put(&change.object);
        }
    }

    fn all(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |(key, _)| key.kind == kind).map(|(_, value)| &**value)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key).map(|value| &**value)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Value> {
        self.all(Kind::NODE)
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Value> {
        self.get(&Key::new(Kind::NODE, "", name))
    }

    /// Pods that have not come to their end.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Value> {
        self.all(Kind::POD).filter(|pod| !matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed"))
    }

    /// Pods that wait for a node.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Value> {
        let is_free = |pod: &&Value| text(&pod["spec"], "nodeName").is_empty() && !is_ending(pod);
        self.pods().filter(is_free).filter(|pod| list(&pod["spec"]["schedulingGates"]).next().is_none())
    }

    /// Pods with their nodes, except those that were on nodes that are gone.
    pub(crate) fn placed(&self) -> Vec<Placed<'_>> {
        self.pods().filter_map(|pod| Some((pod, self.node(text(&pod["spec"], "nodeName"))?))).collect()
    }

    /// The other pods of no lower priority for which room is held on a node.
    fn nominees<'a>(&'a self, pod: &'a Value, node: &'a Value) -> impl Iterator<Item = Placed<'a>> {
        let others = self.waiting().filter(|other| uid(other) != uid(pod) && priority(other) >= priority(pod));
        others.filter(|other| nominated(other) == name(node)).map(move |other| (other, node))
    }

    /// Whether a pod may be on a node beside these pods, and beside those for which room is held there (PRI-04).
    pub(crate) fn fits(&self, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Result<(), String> {
        self.fits_beside(pod, node, placed)?;
        let held: Vec<Placed<'_>> = self.nominees(pod, node).collect();
        if held.is_empty() { Ok(()) } else { self.fits_beside(pod, node, &[placed, &held].concat()) }
    }

    /// The nodes on which a pod fits now.
    pub(crate) fn feasible(&self, pod: &Value) -> Vec<&Value> {
        let placed = self.placed();
        self.nodes().filter(|node| self.fits(pod, node, &placed).is_ok()).collect()
    }

    /// Whether a pod may be on a node beside these pods (SCH-01).
    pub(crate) fn fits_beside(&self, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Result<(), String> {
        let refuse = |passes: bool, why: &str| if passes { Ok(()) } else { Err(why.to_owned()) };
        let cordon = json!({"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"});
        refuse(node["spec"]["unschedulable"] != true || tolerates(pod, &cordon), "the node is unschedulable")?;
        refuse(hard_taints(node).all(|taint| tolerates(pod, taint)), "the node has a taint that it does not tolerate")?;
        refuse(wants_node(pod, node), "it does not select the node")?;
        let there: Vec<&Value> = placed.iter().filter(|(_, on)| name(on) == name(node)).map(|(pod, _)| *pod).collect();
        has_room(pod, node, &there)?;
        self.spreads(pod, node, placed)?;
        self.likes(pod, node, placed)
    }

    fn spreads(&self, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Result<(), String> {
        let all = list(&pod["spec"]["topologySpreadConstraints"]);
        let hard: Vec<&Value> = all.filter(|constraint| constraint["whenUnsatisfiable"] == "DoNotSchedule").collect();
        for constraint in &hard {
            let key = text(constraint, "topologyKey");
            let counts_at = |node: &Value| {
                let taints = constraint["nodeTaintsPolicy"] == "Honor";
                hard.iter().all(|constraint| !label(node, text(constraint, "topologyKey")).is_null())
                    && (constraint["nodeAffinityPolicy"] == "Ignore" || wants_node(pod, node))
                    && (!taints || hard_taints(node).all(|taint| tolerates(pod, taint)))
            };
            let matches = |other: &Value| selects(&constraint["labelSelector"], &other["metadata"]["labels"]);
            let counts = |other: &Value| namespace(other) == namespace(pod) && !is_ending(other) && matches(other);
            if label(node, key).is_null() {
                return Err(format!("the node has no {key}"));
            }
            let mut domains: BTreeMap<String, i64> = BTreeMap::new();
            for counted in self.nodes().filter(|node| counts_at(node)) {
                domains.entry(label(counted, key).to_string()).or_default();
            }
            for (_, on) in placed.iter().filter(|(other, on)| counts(other) && counts_at(on)) {
                *domains.entry(label(on, key).to_string()).or_default() += 1;
            }
            let is_short = (domains.len() as u64) < constraint["minDomains"].as_u64().unwrap_or(1);
            let least = if is_short { 0 } else { domains.values().min().copied().unwrap_or_default() };
            let here = domains.get(&label(node, key).to_string()).copied().unwrap_or_default();
            let skew = here + i64::from(matches(pod)) - least;
            if skew > constraint["maxSkew"].as_i64().unwrap_or(1) {
                return Err(format!("the skew of {key} would be {skew}"));
            }
        }
        Ok(())
    }

    fn likes(&self, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Result<(), String> {
        let terms: Vec<&Value> = required(pod, "podAffinity").collect();
        let is_friend = |other: &Value| terms.iter().all(|term| is_about(self, term, pod, other));
        let friends: Vec<&Placed<'_>> = placed.iter().filter(|(other, _)| is_friend(other)).collect();
        let has = |term: &Value| !label(node, text(term, "topologyKey")).is_null();
        let near = |term: &&Value| friends.iter().any(|(_, on)| same_label(text(term, "topologyKey"), node, on));
        // The first of a group may go to any node that has the keys.
        let counts = |on: &Value| terms.iter().any(|term| !label(on, text(term, "topologyKey")).is_null());
        let is_first = !friends.iter().any(|(_, on)| counts(on)) && is_friend(pod);
        if !terms.iter().all(|term| has(term)) || !(is_first || terms.iter().all(near)) {
            return Err("no pod is near that it wants to be with".to_owned());
        }
        for (other, on) in placed {
            for (owner, target) in [(pod, *other), (*other, pod)] {
                let avoids = |term: &Value| {
                    same_label(text(term, "topologyKey"), node, on) && is_about(self, term, owner, target)
                };
                if required(owner, "podAntiAffinity").any(avoids) {
                    return Err(format!("{} and {} avoid each other", name(owner), name(target)));
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn name(object: &Value) -> &str {
    text(&object["metadata"], "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(&object["metadata"], "namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(&object["metadata"], "uid")
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a Value {
    &object["metadata"]["labels"][key]
}

pub(crate) fn priority(pod: &Value) -> i64 {
    pod["spec"]["priority"].as_i64().unwrap_or_default()
}

/// Where room is held for a pod; empty for none.
pub(crate) fn nominated(pod: &Value) -> &str {
    text(&pod["status"], "nominatedNodeName")
}

pub(crate) fn is_ending(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// Whether where a pod may go depends on the other pods by more than their room.
pub(crate) fn looks_at_others(pod: &Value) -> bool {
    let affinity = &pod["spec"]["affinity"];
    list(&pod["spec"]["topologySpreadConstraints"]).next().is_some()
        || !affinity["podAffinity"].is_null()
        || !affinity["podAntiAffinity"].is_null()
}

fn amounts(list: &Value) -> BTreeMap<String, i64> {
    let amount = |found: &Value| quantity::milli_value(found.as_str().unwrap_or("0")).unwrap_or_default();
    list.as_object().into_iter().flatten().map(|(name, found)| (name.clone(), amount(found))).collect()
}

fn add(sum: &mut BTreeMap<String, i64>, more: &BTreeMap<String, i64>) {
    for (name, amount) in more {
        let sum = sum.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

/// What a pod uses at most, in thousandths: of its containers and sidecars together, or of a step of its start.
fn requests(pod: &Value) -> BTreeMap<String, i64> {
    let of = |container: &Value| amounts(&container["resources"]["requests"]);
    let mut running = BTreeMap::new();
    let mut steps = Vec::new();
    for container in list(&pod["spec"]["initContainers"]) {
        let mut step = running.clone();
        add(&mut step, &of(container));
        if container["restartPolicy"] == "Always" {
            running.clone_from(&step);
        }
        steps.push(step);
    }
    list(&pod["spec"]["containers"]).for_each(|container| add(&mut running, &of(container)));
    for (name, amount) in steps.into_iter().flatten() {
        let most = running.entry(name).or_default();
        *most = (*most).max(amount);
    }
    add(&mut running, &amounts(&pod["spec"]["overhead"]));
    running
}

fn host_ports(pod: &Value) -> Vec<(&str, u64)> {
    let sidecars = list(&pod["spec"]["initContainers"]).filter(|container| container["restartPolicy"] == "Always");
    let ports = list(&pod["spec"]["containers"]).chain(sidecars).flat_map(|container| list(&container["ports"]));
    ports
        .filter_map(|port| Some((text(port, "protocol"), port["hostPort"].as_u64().filter(|port| *port > 0)?)))
        .collect()
}

/// Whether a pod could make room for itself by asking pods of lower priority to go.
pub(crate) fn can_preempt(placement: &Placement, pod: &Value) -> bool {
    let placed = placement.placed();
    let helps = |node: &Value| {
        let stays = |(other, on): &Placed<'_>| name(on) != name(node) || priority(other) >= priority(pod);
        let left: Vec<Placed<'_>> = placed.iter().copied().filter(stays).collect();
        left.len() < placed.len() && placement.fits(pod, node, &left).is_ok()
    };
    pod["spec"]["preemptionPolicy"] != "Never" && placement.nodes().any(helps)
}

/// Resources, ports, and the number of pods.
fn has_room(pod: &Value, node: &Value, there: &[&Value]) -> Result<(), String> {
    let allocatable = amounts(&node["status"]["allocatable"]);
    let whole = |name: &str| allocatable.get(name).copied().unwrap_or_default();
    if (there.len() as i64 + 1) * 1000 > whole("pods") {
        return Err(format!("the node has {} pods", there.len()));
    }
    let mut used = BTreeMap::new();
    there.iter().for_each(|pod| add(&mut used, &requests(pod)));
    for (name, wanted) in requests(pod).into_iter().filter(|(_, wanted)| *wanted > 0) {
        let taken = used.get(&name).copied().unwrap_or_default();
        if taken.saturating_add(wanted) > whole(&name) {
            return Err(format!("the node has {} of {name}, {taken} are taken and {wanted} wanted", whole(&name)));
        }
    }
    let taken: Vec<_> = there.iter().flat_map(|pod| host_ports(pod)).collect();
    match host_ports(pod).iter().find(|port| taken.contains(port)) {
        Some(port) => Err(format!("{port:?} is taken")),
        None => Ok(()),
    }
}
