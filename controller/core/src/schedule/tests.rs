//! The scheduler as the controller sees it: changes in, plans out, plans carried out.

mod affinity;
mod growth;
mod histories;
mod hostile;
mod image_locality;
mod preemption;
mod profiles;
mod spread;
mod volumes;

use std::sync::Arc;

use coracle_model::{Millis, PodUid};
use serde_json::{Value, json};

use super::{Explanation, Scheduler, Verdict};
use crate::clock::Now;
use crate::kind::Kind;
use crate::names::Names;
use crate::nodes::leases::Leases;
use crate::object::{Key, Object};
use crate::plan::{Note, Plan, Write};
use crate::reconcile::{Context, TABLE};
use crate::store::{Action, Change};
use crate::view::View;

/// A cluster that carries plans out as the controller does.
pub(super) struct World {
    pub(super) view: View,
    pub(super) scheduler: Scheduler,
    pub(super) now: Now,
    pub(super) notes: Vec<Note>,
    /// The fields of the configuration's file.
    pub(super) configuration: Value,
    uids: u128,
}

/// A scheduler with these fields of a configuration's file.
pub(super) fn scheduler_of(seed: u64, fields: &Value) -> Scheduler {
    let mut file = fields.clone();
    file["apiVersion"] = json!("kubescheduler.config.k8s.io/v1");
    file["kind"] = json!("KubeSchedulerConfiguration");
    Scheduler::configured(seed, &super::config::parse(file.to_string().as_bytes()).unwrap())
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self::configured(seed, &json!({}))
    }

    /// With a scheduler's configuration: the fields of the file.
    pub(super) fn configured(seed: u64, fields: &Value) -> Self {
        let now = Now { wall_ms: 1_795_232_430_000, mono: Millis(0) };
        let (scheduler, configuration) = (scheduler_of(seed, fields), fields.clone());
        Self { view: View::default(), scheduler, now, notes: Vec::new(), configuration, uids: 0 }
    }

    /// Adds an object, or puts it in the place of the one that is there.
    pub(super) fn put(&mut self, kind: Kind, mut value: Value) -> Key {
        let stated = value["metadata"]["namespace"].as_str().map(ToOwned::to_owned);
        let otherwise = if kind.info().namespaced { "default" } else { "" };
        let namespace = &*stated.unwrap_or_else(|| otherwise.to_owned());
        value["metadata"]["namespace"] = json!(namespace);
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        let previous = self.view.get(&Key::new(kind, namespace, &name)).cloned();
        let uid = previous.as_ref().map_or_else(
            || {
                self.uids += 1;
                PodUid(self.uids)
            },
            |previous| previous.uid,
        );
        value["metadata"]["uid"] = json!(uid.to_string());
        let object = Object::from_value(kind, self.view.revision() + 1, value).unwrap();
        let action = if previous.is_some() { Action::Modified } else { Action::Added };
        let key = object.key.clone();
        self.change(action, Arc::new(object), previous);
        key
    }

    pub(super) fn delete(&mut self, key: &Key) {
        let object = self.view.get(key).cloned().unwrap();
        self.change(Action::Deleted, Arc::clone(&object), Some(object));
    }

    fn change(&mut self, action: Action, object: Arc<Object>, previous: Option<Arc<Object>>) {
        let change = Change { revision: self.view.revision() + 1, action, object, previous };
        self.view.apply(&change);
        self.scheduler.observe(&self.view, &change, self.now);
    }

    /// Changes an object in place.
    pub(super) fn edit(&mut self, key: &Key, edit: impl FnOnce(&mut Value)) {
        let mut value = self.view.get(key).unwrap().value();
        edit(&mut value);
        self.put(key.kind, value);
    }

    /// Decides until nothing is due.
    pub(super) fn settle(&mut self) {
        while let Some(plan) = self.scheduler.step(&self.view, self.now) {
            self.carry_out(plan);
        }
    }

    pub(super) fn carry_out(&mut self, plan: Plan) {
        self.notes.extend(plan.notes);
        for write in plan.writes {
            match write {
                Write::Bind { key, node, .. } => self.edit(&key, |pod| pod["spec"]["nodeName"] = json!(node)),
                Write::Status { key, status, .. } => self.edit(&key, |pod| pod["status"] = status),
                Write::Delete { key, .. } => {
                    self.edit(&key, |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z"));
                }
                Write::Update { key, value, .. } => drop(self.put(key.kind, value)),
                other => panic!("a scheduler does not write {other:?}"),
            }
        }
    }

    /// Moves time on to when the scheduler wants to be woken, and decides.
    fn wake(&mut self) {
        self.now.mono = self.scheduler.wake_at().unwrap();
        self.settle();
    }

    /// Decides, now and after every back-off.
    fn wake_all(&mut self) {
        for _ in 0..4 {
            self.settle();
            self.now.mono = self.now.mono + 10_000;
        }
        self.settle();
    }

    /// Binds volumes and claims as far as it can be done without a pod; whether anything was written.
    pub(super) fn bind_volumes(&mut self) -> bool {
        let row = TABLE.iter().find(|row| row.name == "volume-binding").unwrap();
        let leases = Leases::new(self.now.mono);
        let before = self.view.revision();
        for kind in [Kind::PERSISTENT_VOLUME, Kind::PERSISTENT_VOLUME_CLAIM] {
            let keys: Vec<Key> = self.view.list(kind, None).map(|object| object.key.clone()).collect();
            for key in keys {
                let context = Context { view: &self.view, now: self.now, leases: &leases };
                let mut plan = (row.plan)(&context, &key, &mut Names::new(1));
                plan.notes.clear();
                self.carry_out(plan);
            }
        }
        self.view.revision() != before
    }

    pub(super) fn node_of(&self, key: &Key) -> Option<String> {
        self.view.get(key)?.row.pod()?.node.as_ref().map(ToString::to_string)
    }

    pub(super) fn explain(&mut self, key: &Key) -> Explanation {
        let pod = self.view.get(key).cloned().unwrap();
        self.scheduler.explain(&self.view, &pod)
    }

    fn condition(&self, key: &Key) -> Value {
        let status = self.view.get(key).unwrap().value()["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "PodScheduled").unwrap_or_default()
    }
}

pub(super) fn node(name: &str, cpu: &str, memory: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}}})
}

pub(super) fn pod(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    json!({"metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending"}})
}

pub(super) fn asking(name: &str, cpu: &str, memory: &str) -> Value {
    pod(name, json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}))
}

fn refusals(explanation: &Explanation, node: &str) -> Vec<String> {
    match &explanation.verdicts[node] {
        Verdict::Refused { reasons } => {
            reasons.iter().map(|reason| format!("{}: {}", reason.filter, reason.words)).collect()
        }
        Verdict::Feasible { .. } => Vec::new(),
    }
}

#[test]
fn each_filter_refuses_in_kubernetes_words() {
    // SCH-01
    let mut world = World::new(1);
    let mut first = node("a", "1", "1Gi");
    first["metadata"]["labels"]["size"] = json!("5");
    first["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    world.put(Kind::NODE, first);
    let with = |mut spec: Value| {
        spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
        pod("p", spec)
    };
    let affinity = |expression: Value| {
        with(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [expression]}}}}))
    };
    let size = |operator: &str, values: Value| {
        affinity(json!({"matchExpressions": [{"key": "size", "operator": operator, "values": values}]}))
    };
    const AFFINITY: &str = "NodeAffinity: node(s) didn't match Pod's node affinity/selector";
    let field = |operator: &str, name: &str| {
        affinity(json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}))
    };
    for (value, want) in [
        (pod("p", json!({})), vec!["TaintToleration: node(s) had untolerated taint {k: v}"]),
        (
            pod("p", json!({"tolerations": [{"key": "k", "value": "w"}]})),
            vec!["TaintToleration: node(s) had untolerated taint {k: v}"],
        ),
        (pod("p", json!({"tolerations": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})), vec![]),
        (pod("p", json!({"tolerations": [{"operator": "Exists"}]})), vec![]),
        (with(json!({"nodeName": "b"})), vec!["NodeName: node(s) didn't match the requested node name"]),
        (with(json!({"nodeSelector": {"size": "5"}})), vec![]),
        (with(json!({"nodeSelector": {"size": "6"}})), vec![AFFINITY]),
        (size("In", json!(["4", "5"])), vec![]),
        (size("NotIn", json!(["5"])), vec![AFFINITY]),
        (size("Exists", json!([])), vec![]),
        (size("DoesNotExist", json!([])), vec![AFFINITY]),
        (size("Gt", json!(["4"])), vec![]),
        (size("Gt", json!(["5"])), vec![AFFINITY]),
        (size("Lt", json!(["6"])), vec![]),
        (size("Lt", json!(["5"])), vec![AFFINITY]),
        (affinity(json!({})), vec![AFFINITY]),
        (field("In", "a"), vec![]),
        (field("NotIn", "a"), vec![AFFINITY]),
        (
            with(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "2Gi"}}}]})),
            vec!["NodeResourcesFit: Insufficient cpu", "NodeResourcesFit: Insufficient memory"],
        ),
        (
            with(json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpio": "1"}}}]})),
            vec!["NodeResourcesFit: Insufficient example.com/gpio"],
        ),
    ] {
        let key = world.put(Kind::POD, value.clone());
        let found = world.explain(&key);
        assert_eq!(refusals(&found, "a"), want, "{value}");
        world.delete(&key);
    }
}

#[test]
fn ports_cordons_and_the_number_of_pods_refuse_in_kubernetes_words() {
    // SCH-01
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "1", "1Gi"));
    let taken = json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]});
    world.put(Kind::POD, pod("first", taken.clone()));
    world.settle();
    let second = world.put(Kind::POD, pod("second", taken));
    let want = ["NodePorts: node(s) didn't have free ports for the requested pod ports"];
    assert_eq!(refusals(&world.explain(&second), "a"), want);
    let key = Key::new(Kind::NODE, "", "a");
    world.edit(&key, |node| node["spec"]["unschedulable"] = json!(true));
    assert_eq!(refusals(&world.explain(&second), "a"), ["NodeUnschedulable: node(s) were unschedulable"]);
    world.edit(&key, |node| {
        node["spec"] = json!({});
        node["status"]["allocatable"]["pods"] = json!("1");
    });
    let third = world.put(Kind::POD, pod("third", json!({})));
    assert_eq!(refusals(&world.explain(&third), "a"), ["NodeResourcesFit: Too many pods"]);
}

#[test]
fn a_pod_that_fits_nowhere_says_why_and_is_tried_again_when_something_could_help() {
    // SCH-04, LIF-12
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "1", "1Gi"));
    for name in ["b", "c"] {
        let mut tainted = node(name, "8", "8Gi");
        tainted["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoExecute"}]);
        world.put(Kind::NODE, tainted);
    }
    let key = world.put(Kind::POD, asking("p", "2", "1Mi"));
    world.settle();
    let words = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {k: v}. \
                 preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    let condition = world.condition(&key);
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], words);
    let note = world.notes.last().unwrap();
    assert_eq!((note.warning, note.reason.as_str(), note.message.as_str()), (true, "FailedScheduling", words));
    assert_eq!(note.component, "default-scheduler");

    // A change that cannot help wakes nobody: labels play no part in the refusals.
    let revision = world.view.revision();
    world.edit(&Key::new(Kind::NODE, "", "b"), |node| node["metadata"]["labels"]["x"] = json!("y"));
    world.settle();
    assert_eq!((world.notes.len(), world.view.revision()), (1, revision + 1));

    world.edit(&Key::new(Kind::NODE, "", "b"), |node| node["spec"] = json!({}));
    world.settle();
    assert_eq!(world.node_of(&key), None);
    world.wake();
    assert_eq!(world.node_of(&key).as_deref(), Some("b"));
    let note = world.notes.last().unwrap();
    assert_eq!((note.reason.as_str(), note.message.as_str()), ("Scheduled", "Successfully assigned default/p to b"));
}

#[test]
fn the_same_answer_twice_is_written_once_and_its_time_stays() {
    let mut world = World::new(1);
    let key = world.put(Kind::POD, asking("p", "2", "1Mi"));
    world.settle();
    assert_eq!(world.condition(&key)["message"], "no nodes available to schedule pods");
    let since = world.condition(&key)["lastTransitionTime"].clone();
    world.now.wall_ms += 60_000;
    let revision = world.view.revision();
    world.wake();
    assert_eq!((world.notes.len(), world.view.revision()), (2, revision));
    world.put(Kind::NODE, node("a", "1", "1Gi"));
    world.wake();
    assert_eq!(
        world.condition(&key)["message"],
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
    assert_eq!(world.condition(&key)["lastTransitionTime"], since);
}

#[test]
fn room_that_comes_free_is_used_by_the_pod_that_waits() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "1", "1Gi"));
    let first = world.put(Kind::POD, asking("first", "1", "1Mi"));
    let second = world.put(Kind::POD, asking("second", "1", "1Mi"));
    let third = world.put(Kind::POD, asking("third", "1", "1Mi"));
    world.settle();
    assert_eq!((world.node_of(&first).as_deref(), world.node_of(&second)), (Some("a"), None));
    // A pod that has come to its end uses nothing any more.
    world.edit(&first, |pod| pod["status"]["phase"] = json!("Succeeded"));
    world.wake();
    assert_eq!(world.node_of(&second).as_deref(), Some("a"));
    world.delete(&second);
    world.wake();
    world.settle();
    assert_eq!(world.node_of(&third).as_deref(), Some("a"));
}

#[test]
fn only_pods_that_are_to_be_placed_here_are_placed() {
    // SCH-03
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "4", "4Gi"));
    let gated = world.put(Kind::POD, pod("gated", json!({"schedulingGates": [{"name": "g"}]})));
    let other = world.put(Kind::POD, pod("other", json!({"schedulerName": "mine"})));
    let mut going = pod("going", json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z");
    let going = world.put(Kind::POD, going);
    world.settle();
    for key in [&gated, &other, &going] {
        assert_eq!(world.node_of(key), None);
    }
    world.edit(&gated, |pod| pod["spec"]["schedulingGates"] = json!([]));
    world.settle();
    assert_eq!(world.node_of(&gated).as_deref(), Some("a"));
    assert!(world.notes.iter().filter(|note| note.about != other).all(|note| note.reason == "Scheduled"));
}

#[test]
fn a_pod_of_higher_priority_goes_first_and_one_that_does_not_fit_blocks_nobody() {
    // PRI-03
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "1", "1Gi"));
    let mut keys = Vec::new();
    for (name, cpu, priority) in [("low", "1", 0), ("high", "1", 10), ("giant", "9", 20)] {
        let mut value = asking(name, cpu, "1Mi");
        value["spec"]["priority"] = json!(priority);
        keys.push(world.put(Kind::POD, value));
    }
    world.settle();
    let nodes: Vec<_> = keys.iter().map(|key| world.node_of(key)).collect();
    assert_eq!(nodes, [None, Some("a".to_owned()), None]);
}

#[test]
fn scores_are_kubernetes_own() {
    // SCH-02
    let mut world = World::new(1);
    let mut soft = node("soft", "4", "8Gi");
    soft["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]);
    world.put(Kind::NODE, soft);
    let mut zone = node("zone", "4", "8Gi");
    zone["metadata"]["labels"]["zone"] = json!("a");
    world.put(Kind::NODE, zone);
    let mut full = asking("full", "2", "1Gi");
    full["spec"]["nodeName"] = json!("zone");
    world.put(Kind::POD, full);
    let mut value = asking("p", "1", "1Gi");
    value["spec"]["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}]}});
    let key = world.put(Kind::POD, value);
    let found = world.explain(&key);
    let points = |node: &str| match &found.verdicts[node] {
        Verdict::Feasible { points, total } => (points.iter().map(|points| points.points).collect::<Vec<_>>(), *total),
        Verdict::Refused { reasons } => panic!("{reasons:?}"),
    };
    // Taints 3 x, preferred affinity 2 x, least allocated, balanced allocation; images, spread and other pods say nothing.
    assert_eq!(points("soft"), (vec![0, 0, (75 + 87) / 2, 93, 0, 0, 0], 174));
    assert_eq!(points("zone"), (vec![300, 200, (25 + 75) / 2, 75, 0, 0, 0], 625));
    assert_eq!(found.best.as_deref(), Some("zone"));
}

#[test]
fn the_same_cluster_and_seed_give_the_same_placement_whatever_came_before() {
    // SCH-06
    let place = |seed: u64, detour: bool| {
        let mut world = World::new(seed);
        if detour {
            for name in ["z", "y"] {
                let key = world.put(Kind::NODE, node(name, "1", "1Gi"));
                world.delete(&key);
            }
        }
        let mut names: Vec<String> = (0..8).map(|index| format!("n{index}")).collect();
        if detour {
            names.reverse();
        }
        world.uids = 100;
        for name in names {
            world.put(Kind::NODE, node(&name, "4", "4Gi"));
        }
        let keys: Vec<_> =
            (0..6).map(|index| world.put(Kind::POD, asking(&format!("p{index}"), "1", "64Mi"))).collect();
        world.settle();
        keys.iter().map(|key| world.node_of(key)).collect::<Vec<_>>()
    };
    let placed = place(1, false);
    assert_eq!(placed, place(1, false));
    assert_eq!(placed, place(1, true));
    assert!((2..20).any(|seed| place(seed, false) != placed));
}
