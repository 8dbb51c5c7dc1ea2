//! What a node says, lifted to Kubernetes' objects: a Node from its facts, a pod's `status` from its report.

use std::sync::Arc;

use coracle_model::{ContainerState, ContainerStatus, Millis, NodeFacts, PodStatus, Terminated};
use serde_json::{Map, Value, json};

use crate::clock::{self, Now};
use crate::kind::Kind;
use crate::object::{Key, Object, Uid};
use crate::plan::{Note, Plan, Write};
use crate::view::View;
use crate::write::set_condition;

/// Makes the Node of an agent that was born, or brings it up to date (EDGE-01, SCH-05).
pub(super) fn node(view: &View, now: Now, name: &str, facts: &NodeFacts) -> Plan {
    let key = Key::new(Kind::NODE, "", name);
    let mut plan = Plan::default();
    let Some(existing) = view.get(&key) else {
        let mut value = json!({"metadata": {"name": name, "labels": {}}, "spec": {}, "status": {}});
        put_labels(&mut value, name, facts);
        value["status"] = node_status(&value, now, name, facts);
        plan.writes.push(Write::Create { kind: Kind::NODE, namespace: String::new(), value });
        return plan;
    };
    let mut value = existing.value();
    put_labels(&mut value, name, facts);
    let status = node_status(&value, now, name, facts);
    if value["metadata"]["labels"] != existing.value()["metadata"]["labels"] {
        plan.writes.push(Write::Update { key: key.clone(), expected: existing.revision, value: value.clone() });
    }
    if status != value["status"] {
        // The labels may just have been written, so whatever revision the node is at.
        plan.writes.push(Write::Status { key, expected: 0, status });
    }
    if existing.row.node().is_some_and(|row| !row.ready) {
        plan.notes.push(ready_note(existing, name));
    }
    plan
}

fn ready_note(node: &Arc<Object>, name: &str) -> Note {
    Note {
        about: node.key.clone(),
        uid: node.uid,
        field_path: String::new(),
        warning: false,
        reason: "NodeReady".to_owned(),
        message: format!("Node {name} status is now: NodeReady"),
        component: "kubelet".into(),
        host: name.to_owned(),
    }
}

fn put_labels(node: &mut Value, name: &str, facts: &NodeFacts) {
    let mut labels = node["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    for (key, value) in &facts.labels {
        labels.insert(key.clone(), json!(value));
    }
    if !facts.zone.is_empty() {
        labels.insert("topology.kubernetes.io/zone".to_owned(), json!(facts.zone));
    }
    for (key, value) in
        [("kubernetes.io/hostname", name), ("kubernetes.io/arch", &*facts.arch), ("kubernetes.io/os", &*facts.os)]
    {
        labels.insert(key.to_owned(), json!(value));
    }
    node["metadata"]["labels"] = Value::Object(labels);
}

fn ready_condition(now: Now) -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady",
        "message": "agent is posting ready status",
        "lastHeartbeatTime": now.stamp(), "lastTransitionTime": now.stamp(),
    })
}

fn node_status(node: &Value, now: Now, name: &str, facts: &NodeFacts) -> Value {
    let amounts = |amounts: &coracle_model::ResourceAmounts| {
        let mut shown = json!({
            "cpu": cpu_text(amounts.cpu_millis),
            "memory": format!("{}Ki", amounts.memory_bytes / 1024),
            "pods": facts.max_pods.to_string(),
        });
        if amounts.storage_bytes > 0 {
            shown["ephemeral-storage"] = json!(format!("{}Ki", amounts.storage_bytes / 1024));
        }
        shown
    };
    let mut with_condition = json!({"status": {"conditions": node["status"]["conditions"].clone()}});
    let ready = node["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    });
    if !ready {
        set_condition(&mut with_condition, ready_condition(now));
    }
    let mut status = json!({
        "capacity": amounts(&facts.capacity),
        "allocatable": amounts(&facts.allocatable),
        "conditions": with_condition["status"]["conditions"].take(),
        "addresses": [{"type": "Hostname", "address": name}],
        "nodeInfo": {
            "architecture": facts.arch, "operatingSystem": facts.os, "kernelVersion": facts.kernel,
            "osImage": facts.os_image, "machineID": facts.machine_id, "systemUUID": "", "bootID": "",
            "containerRuntimeVersion": format!("wasmtime://{}", facts.engine),
            "kubeletVersion": facts.agent_version, "kubeProxyVersion": "",
        },
    });
    // A birth says nothing of images: what is known of them stays until the agent says more (see `standing`).
    let images = &node["status"]["images"];
    if !images.is_null() {
        status["images"] = images.clone();
    }
    status
}

fn cpu_text(millis: u64) -> String {
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

/// A pod that its node cannot understand says so.
pub(super) fn refused(view: &View, node: &str, uid: Uid, why: &str) -> Option<Write> {
    let pod = view.by_uid(uid).filter(|pod| pod.row.pod().and_then(|row| row.node.as_deref()) == Some(node))?;
    let mut status = pod.status();
    let before = status.clone();
    status["phase"] = json!("Failed");
    status["reason"] = json!("AgentRefused");
    status["message"] = json!(why);
    (status != before).then(|| Write::Status { key: pod.key.clone(), expected: pod.revision, status })
}

/// The pod's `status` after a report; `None` when nothing changes. A phase that has come to its end stays (LIF-01).
pub(super) fn status(pod: &Object, now: Now, offset_ms: i64, report: &PodStatus) -> Option<Value> {
    let before = pod.status();
    let old_phase = pod.row.pod()?.phase;
    if old_phase.is_terminal() && report.phase != old_phase {
        return None;
    }
    let stamps = Stamps { offset_ms, now };
    let life = Life { uid: pod.uid, accepted_at: report.accepted_at };
    let mut after = before.clone();
    if !after.is_object() {
        after = json!({});
    }
    after["phase"] = json!(report.phase.max(old_phase).as_str());
    put_text(&mut after, "reason", &report.reason);
    put_text(&mut after, "message", &report.message);
    if after["startTime"].is_null() {
        after["startTime"] = stamps.at(report.accepted_at);
    }
    for condition in &report.conditions {
        put_condition(&mut after, condition, &stamps);
    }
    let statuses = report.containers.iter().map(|container| container_status(life, container, &stamps, &before));
    after["containerStatuses"] = statuses.collect();
    (after != before).then_some(after)
}

struct Stamps {
    offset_ms: i64,
    now: Now,
}

impl Stamps {
    /// The agent's clock as wall time, never in the future.
    fn at(&self, time: Millis) -> Value {
        let agent = i64::try_from(time.0).unwrap_or(i64::MAX);
        let wall = u64::try_from(agent.saturating_add(self.offset_ms)).unwrap_or_default();
        json!(clock::stamp(wall.min(self.now.wall_ms)))
    }
}

fn put_text(status: &mut Value, field: &str, text: &str) {
    if let Some(fields) = status.as_object_mut() {
        if text.is_empty() {
            fields.remove(field);
        } else {
            fields.insert(field.to_owned(), json!(text));
        }
    }
}

/// `lastTransitionTime` moves only when the status does (LIF-03), whatever the agent's clock did meanwhile.
fn put_condition(status: &mut Value, condition: &coracle_model::Condition, stamps: &Stamps) {
    let kind = condition.kind.as_str();
    let existing = status["conditions"].as_array().into_iter().flatten();
    let same = existing
        .filter(|known| known["type"] == kind && known["status"] == condition.status.as_str())
        .find_map(|known| known["lastTransitionTime"].as_str().map(|stamp| json!(stamp)));
    let mut lifted = json!({
        "type": kind,
        "status": condition.status.as_str(),
        "lastProbeTime": null,
        "lastTransitionTime": same.unwrap_or_else(|| stamps.at(condition.changed_at)),
    });
    put_text(&mut lifted, "reason", &condition.reason);
    put_text(&mut lifted, "message", &condition.message);
    crate::write::put_condition(status, lifted);
}

/// One life of a pod in one agent process. A later process counts its runs from 1 again, so `containerID` names the life
/// as well, and `restartCount` goes on from what is stored.
#[derive(Clone, Copy)]
struct Life {
    uid: Uid,
    accepted_at: Millis,
}

impl Life {
    fn container_id(self, name: &str, attempt: u32) -> String {
        format!("coracle://{}/{name}/{}.{attempt}", self.uid, self.accepted_at.0)
    }

    /// `restartCount`, which never goes back: every run but the very first is a restart.
    fn restart_count(self, container: &ContainerStatus, known: Option<&Value>) -> u64 {
        let reported = u64::from(container.restart_count);
        let Some(known) = known else { return reported };
        let count = known["restartCount"].as_u64().unwrap_or_default();
        let id = known["containerID"].as_str().unwrap_or_default();
        let Some((life, attempt)) = id.rsplit_once('.') else { return count.max(reported) };
        let new_life = self.container_id(&container.name, 0).rsplit_once('.').is_none_or(|(own, _)| own != life);
        let before = if new_life { 0 } else { attempt.parse().unwrap_or_default() };
        count.saturating_add(u64::from(container.attempt).saturating_sub(before))
    }
}

fn container_status(life: Life, container: &ContainerStatus, stamps: &Stamps, before: &Value) -> Value {
    let known = before["containerStatuses"].as_array().into_iter().flatten();
    let known = known.into_iter().find(|known| known["name"] == container.name.as_str());
    let id = |attempt: u32| life.container_id(&container.name, attempt);
    let terminated = |run: &Terminated| {
        let mut fields = Map::new();
        fields.insert("exitCode".to_owned(), json!(run.exit_code));
        if run.signal != 0 {
            fields.insert("signal".to_owned(), json!(run.signal));
        }
        for (name, text) in [("reason", &run.reason), ("message", &run.message)] {
            if !text.is_empty() {
                fields.insert(name.to_owned(), json!(text));
            }
        }
        fields.insert("startedAt".to_owned(), stamps.at(run.started_at));
        fields.insert("finishedAt".to_owned(), stamps.at(run.finished_at));
        fields.insert("containerID".to_owned(), json!(id(run.attempt)));
        let fresh = json!({"terminated": fields});
        // The same end, heard again in another session, keeps the stamps that it was given first.
        let sides = known.into_iter().flat_map(|known| [&known["state"], &known["lastState"]]);
        let same = |side: &&Value| {
            side["terminated"]["containerID"] == fresh["terminated"]["containerID"]
                && side["terminated"]["exitCode"] == fresh["terminated"]["exitCode"]
        };
        sides.into_iter().find(same).cloned().unwrap_or(fresh)
    };
    let state = match &container.state {
        ContainerState::Waiting { reason, message } if message.is_empty() => json!({"waiting": {"reason": reason}}),
        ContainerState::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        ContainerState::Running { started_at } => {
            let same = known.filter(|known| known["containerID"] == id(container.attempt));
            let stamp = same.map(|known| known["state"]["running"]["startedAt"].clone());
            let stamp = stamp.filter(|stamp| !stamp.is_null());
            json!({"running": {"startedAt": stamp.unwrap_or_else(|| stamps.at(*started_at))}})
        }
        ContainerState::Terminated(run) => terminated(run),
    };
    let mut status = json!({
        "name": container.name,
        "state": state,
        "lastState": container.last_state.as_ref().map_or_else(|| json!({}), terminated),
        "ready": container.ready,
        "started": container.started,
        "restartCount": life.restart_count(container, known),
        "image": container.image,
        "imageID": container.image_id.map(|digest| digest.to_string()).unwrap_or_default(),
    });
    if container.attempt > 0 {
        status["containerID"] = json!(id(container.attempt));
    } else if let Some(earlier) = known.map(|known| &known["containerID"]).filter(|earlier| earlier.is_string()) {
        // A new life has not run it yet; until then the last run is the one that is known.
        status["containerID"] = earlier.clone();
    }
    status
}
