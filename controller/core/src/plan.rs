//! What somebody who has read the view wants to be written. Plans are data; `controller` carries them out.

use std::borrow::Cow;

use coracle_model::Millis;
use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Key, Uid};

/// The wishes of one reconciler, one scheduling decision or one ingested message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In order. One that fails (a stale revision) is dropped; its object's change wakes the planner again.
    pub writes: Vec<Write>,
    /// Kubernetes events to record.
    pub notes: Vec<Note>,
    /// Look at this key again at this time, even if nothing changes.
    pub wake_at: Option<Millis>,
}

/// One wish.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create an object, with defaults and validation as for a user's. `metadata.name` or `metadata.generateName`.
    Create {
        /// Of this kind.
        kind: Kind,
        /// In this namespace; empty for a cluster-scoped kind.
        namespace: String,
        /// The object without uid, stamps and revision.
        value: Value,
    },
    /// Replace everything but the status.
    Update {
        /// Which.
        key: Key,
        /// Only if it is still at this revision; 0 for any.
        expected: u64,
        /// The whole object.
        value: Value,
    },
    /// Replace the status alone.
    Status {
        /// Which.
        key: Key,
        /// Only if it is still at this revision; 0 for any.
        expected: u64,
        /// The value of `status`.
        status: Value,
    },
    /// Bind a pod to a node.
    Bind {
        /// The pod.
        key: Key,
        /// Only if it is still this pod.
        uid: Uid,
        /// `spec.nodeName`
        node: String,
    },
    /// Delete as a user would: gracefully, with finalizers.
    Delete {
        /// Which.
        key: Key,
        /// Only if it is still this object.
        uid: Uid,
        /// In seconds; `None` for the object's own.
        grace_seconds: Option<u64>,
        /// What happens to what it owns; `None` for the kind's default (background).
        propagation: Option<Propagation>,
    },
    /// Take the object out of the store now: its end was confirmed.
    Remove {
        /// Which.
        key: Key,
        /// Only if it is still this object.
        uid: Uid,
    },
}

/// `propagationPolicy` (GC-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The owner goes at once, what it owns afterwards.
    Background,
    /// What blocks goes first, then the owner.
    Foreground,
    /// What it owns stays, without an owner.
    Orphan,
}

/// A Kubernetes event to be recorded about an object; aggregated with earlier ones of the same words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `involvedObject`
    pub about: Key,
    /// `involvedObject.uid`
    pub uid: Uid,
    /// `involvedObject.fieldPath`; empty for the object as a whole.
    pub field_path: String,
    /// `type`: `Warning` when set, else `Normal`.
    pub warning: bool,
    /// `reason`
    pub reason: String,
    /// `message`
    pub message: String,
    /// `source.component`: `replicaset-controller`, `default-scheduler`, `kubelet`, …
    pub component: Cow<'static, str>,
    /// `source.host`: the node, for an event from an agent; else empty.
    pub host: String,
}

impl Plan {
    /// Adds another plan's wishes behind one's own.
    pub fn merge(&mut self, other: Self) {
        self.writes.extend(other.writes);
        self.notes.extend(other.notes);
        self.wake_at = match (self.wake_at, other.wake_at) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
    }

    /// Asks to be woken at `at`, or earlier if that was asked before.
    pub fn wake(&mut self, at: Millis) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}
