//! What a node says of itself while it is there, lifted to its `status`: `images` (SCH-02), and the conditions
//! `MemoryPressure` and `DiskPressure` (PRI-09), in a kubelet's words. Nothing is written while nothing changes; the
//! stamps of a condition move with it and not by the minute, as leases say that the node is there.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use coracle_model::NodeImage;
use coracle_model::limits::{MAX_NODE_IMAGE_NAME_BYTES, MAX_NODE_IMAGE_NAMES, MAX_NODE_IMAGES};
use coracle_wire::up::NodeReport;
use serde_json::{Value, json};

use crate::clock::Now;
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::plan::{Note, Plan, Write};
use crate::view::View;
use crate::write::put_condition;

/// One condition, as a kubelet puts it.
struct Words {
    kind: &'static str,
    /// Reason and message when it holds.
    holds: (&'static str, &'static str),
    /// Reason and message when it does not.
    free: (&'static str, &'static str),
    /// Reasons of the events that say so.
    events: (&'static str, &'static str),
    /// What is being reclaimed while it holds.
    resource: &'static str,
}

const MEMORY: Words = Words {
    kind: "MemoryPressure",
    holds: ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    free: ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    events: ("NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    resource: "memory",
};

const DISK: Words = Words {
    kind: "DiskPressure",
    holds: ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    free: ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    events: ("NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    resource: "ephemeral-storage",
};

/// The node's status after this report, if it is another one than before.
pub(super) fn plan(view: &View, now: Now, name: &str, report: NodeReport) -> Plan {
    let mut plan = Plan::default();
    let Some(node) = view.get(&Key::new(Kind::NODE, "", name)) else { return plan };
    let before = node.status();
    let mut status = before.clone();
    for (words, holds) in [(MEMORY, report.memory_pressure), (DISK, report.disk_pressure)] {
        put(&mut status, &words, holds, now, node, &mut plan.notes);
    }
    let images = images(report.images);
    if let Some(fields) = status.as_object_mut() {
        if images.is_empty() {
            fields.remove("images");
        } else {
            fields.insert("images".to_owned(), Value::Array(images));
        }
    }
    if status != before {
        plan.writes.push(Write::Status { key: node.key.clone(), expected: node.revision, status });
    }
    plan
}

fn put(status: &mut Value, words: &Words, holds: bool, now: Now, node: &Arc<Object>, notes: &mut Vec<Note>) {
    let text = if holds { "True" } else { "False" };
    let (reason, message) = if holds { words.holds } else { words.free };
    let known = status["conditions"].as_array().into_iter().flatten();
    let known = known.into_iter().find(|known| known["type"] == words.kind).cloned().unwrap_or_default();
    if known["status"] == text && known["reason"] == reason {
        return;
    }
    let since = if known["status"] == text { known["lastTransitionTime"].clone() } else { json!(now.stamp()) };
    put_condition(
        status,
        json!({
            "type": words.kind, "status": text, "reason": reason, "message": message,
            "lastHeartbeatTime": now.stamp(), "lastTransitionTime": since,
        }),
    );
    let note = |warning, reason: &str, message: String| Note {
        about: node.key.clone(),
        uid: node.uid,
        field_path: String::new(),
        warning,
        reason: reason.to_owned(),
        message,
        component: "kubelet".into(),
        host: node.name().to_owned(),
    };
    let event = if holds { words.events.0 } else { words.events.1 };
    // That a node which appears has enough is what everybody expects.
    if holds || known["status"] == "True" {
        notes.push(note(false, event, format!("Node {} status is now: {event}", node.name())));
    }
    if holds {
        notes.push(note(true, "EvictionThresholdMet", format!("Attempting to reclaim {}", words.resource)));
    }
}

/// `status.images`, as a kubelet lists them: the largest first, each with its names by digest and by tag. What an agent
/// says is only text: the bounds are kept here as well, and what cannot be a name is left out.
fn images(mut found: Vec<NodeImage>) -> Vec<Value> {
    found.sort_by_key(|image| (Reverse(image.size_bytes), image.image));
    let listed = found.iter().filter_map(|image| {
        let names = names(image);
        let bytes = i64::try_from(image.size_bytes).unwrap_or(i64::MAX);
        (!names.is_empty()).then(|| json!({"names": names, "sizeBytes": bytes}))
    });
    listed.take(MAX_NODE_IMAGES).collect()
}

/// Names by digest come first, as with a kubelet. Where there are too many, those by tag stay: they are what pods say.
fn names(image: &NodeImage) -> Vec<String> {
    let is_name = |name: &&String| {
        (1..=MAX_NODE_IMAGE_NAME_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let (mut by_digest, mut by_tag) = (BTreeSet::new(), BTreeSet::new());
    for name in image.names.iter().filter(is_name).take(MAX_NODE_IMAGE_NAMES) {
        if name.contains('@') {
            by_digest.insert(name.clone());
            continue;
        }
        let after_slash = name.rfind('/').map_or(0, |slash| slash + 1);
        let (repository, tag) = match name[after_slash..].find(':') {
            Some(colon) => name.split_at(after_slash + colon),
            None => (name.as_str(), ":latest"),
        };
        by_digest.insert(format!("{repository}@{}", image.image));
        by_tag.insert(format!("{repository}{tag}"));
    }
    let room = MAX_NODE_IMAGE_NAMES.saturating_sub(by_tag.len());
    by_digest.into_iter().take(room).chain(by_tag).collect()
}
