//! A cluster in a test: the table of reconcilers run to rest on a view, with writes carried out in the simplest way
//! that is true to the real one, a scheduler that binds at once, and agents that do as they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_model::Millis;
use serde_json::{Value, json};

use crate::clock::{self, Now};
use crate::error::ApiError;
use crate::kind::Kind;
use crate::names::Names;
use crate::nodes::leases::Leases;
use crate::object::{Key, Object, Uid};
use crate::plan::{Plan, Propagation, Write};
use crate::store::{Action, Change};
use crate::view::View;

use super::{Context, TABLE, conditions, create_failed, initial_writes, woken_by};

/// Far more steps than any test needs: a reconciler that never comes to rest fails here.
const MAX_STEPS: usize = 100_000;

/// The cluster.
pub(super) struct Cluster {
    pub(super) view: View,
    pub(super) now: Now,
    pub(super) leases: Leases,
    /// Events: `reason: message`.
    pub(super) events: Vec<String>,
    /// Pods with this image never become ready.
    pub(super) broken_image: &'static str,
    /// Nodes that do not answer.
    pub(super) silent: BTreeSet<String>,
    /// Creates of this kind are refused with these words.
    pub(super) refuse: Option<(Kind, &'static str)>,
    /// Looks at every state that there ever is.
    pub(super) check: Option<fn(&View)>,
    names: Names,
    revision: u64,
    changes: Vec<Change>,
    woken: BTreeSet<(usize, Key)>,
    later: BTreeMap<(usize, Key), Millis>,
}

impl Cluster {
    /// A cluster with these nodes.
    pub(super) fn new(nodes: &[&str]) -> Self {
        let now = Now { wall_ms: 1_795_232_430_000, mono: Millis(1_000_000) };
        let mut cluster = Self {
            view: View::default(),
            now,
            leases: Leases::new(now.mono),
            events: Vec::new(),
            broken_image: "broken",
            silent: BTreeSet::new(),
            refuse: None,
            check: None,
            names: Names::new(7),
            revision: 0,
            changes: Vec::new(),
            woken: BTreeSet::new(),
            later: BTreeMap::new(),
        };
        for write in initial_writes(&cluster.view).writes {
            cluster.write(write).expect("a namespace");
        }
        for node in nodes {
            cluster.create(super::fixtures::node(node));
        }
        cluster
    }

    /// A user creates an object.
    pub(super) fn create(&mut self, value: Value) {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let kind = Kind::of_manifest(&text("apiVersion"), &text("kind")).expect("a kind");
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        self.write(Write::Create { kind, namespace, value }).expect("created");
        self.settle();
    }

    /// A user changes an object.
    pub(super) fn edit(&mut self, key: &Key, change: impl FnOnce(&mut Value)) {
        let object = self.object(key);
        let mut value = object.value();
        change(&mut value);
        if value == object.value() {
            return;
        }
        self.write(Write::Update { key: key.clone(), expected: object.revision, value }).expect("updated");
        self.settle();
    }

    /// A user deletes an object.
    pub(super) fn delete(&mut self, key: &Key, propagation: Propagation) {
        let uid = self.object(key).uid;
        let write = Write::Delete { key: key.clone(), uid, grace_seconds: None, propagation: Some(propagation) };
        self.write(write).expect("deleted");
        self.settle();
    }

    pub(super) fn object(&self, key: &Key) -> Arc<Object> {
        Arc::clone(self.view.get(key).unwrap_or_else(|| panic!("no {key:?}")))
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.view.get(key).is_some()
    }

    /// `status` of an object.
    pub(super) fn status(&self, key: &Key) -> Value {
        self.object(key).value()["status"].take()
    }

    /// The objects of a kind in the namespace `default`, or outside namespaces.
    pub(super) fn all(&self, kind: Kind) -> Vec<Arc<Object>> {
        self.view.list(kind, None).cloned().collect()
    }

    /// The events since the last call, of one reason.
    pub(super) fn take_events(&mut self, reason: &str) -> Vec<String> {
        let prefix = format!("{reason}: ");
        let events = std::mem::take(&mut self.events);
        events.iter().filter_map(|event| event.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    /// Runs the table until nothing moves.
    pub(super) fn settle(&mut self) {
        for _ in 0..MAX_STEPS {
            let due: Vec<_> =
                self.later.iter().filter(|(_, at)| **at <= self.now.mono).map(|(who, _)| who.clone()).collect();
            for who in due {
                self.later.remove(&who);
                self.woken.insert(who);
            }
            for change in std::mem::take(&mut self.changes) {
                let woken = &mut self.woken;
                woken_by(&self.view, &change, &mut |row, key| {
                    woken.insert((row, key));
                });
            }
            let Some((row, key)) = self.woken.pop_first() else { return };
            let context = Context { view: &self.view, now: self.now, leases: &self.leases };
            let plan = (TABLE[row].plan)(&context, &key, &mut self.names);
            self.carry_out(row, &key, plan);
        }
        panic!("never comes to rest; woken: {:?}", self.woken);
    }

    fn carry_out(&mut self, row: usize, key: &Key, plan: Plan) {
        let mut wake_at = plan.wake_at;
        let mut notes = plan.notes;
        for write in plan.writes {
            let creates = matches!(write, Write::Create { .. });
            if let Err(error) = self.write(write)
                && creates
            {
                let owner = self.object(key);
                let context = Context { view: &self.view, now: self.now, leases: &self.leases };
                let failed = create_failed(&context, &owner, &error);
                for write in failed.writes {
                    self.write(write).expect("a status");
                }
                notes = failed.notes;
                wake_at = failed.wake_at;
                break;
            }
        }
        self.events.extend(notes.iter().map(|note| format!("{}: {}", note.reason, note.message)));
        match wake_at {
            Some(at) => self.later.insert((row, key.clone()), at),
            None => self.later.remove(&(row, key.clone())),
        };
    }

    /// Time passes, in steps to whoever wants to be woken; nodes that answer renew their leases.
    pub(super) fn pass(&mut self, seconds: u64) {
        let end = self.now.mono + seconds * 1000;
        loop {
            let nodes = self.all(Kind::NODE);
            for node in nodes.iter().filter(|node| !self.silent.contains(node.name())) {
                self.leases.renew(node.name(), self.now.mono);
            }
            self.settle();
            if self.now.mono >= end {
                return;
            }
            let next = self.later.values().copied().min().unwrap_or(end).min(end).min(self.now.mono + 10_000);
            let passed = next.since(self.now.mono).max(1);
            self.now = Now { wall_ms: self.now.wall_ms + passed, mono: self.now.mono + passed };
        }
    }

    /// One thing that the scheduler or an agent has to do; whether there was one.
    pub(super) fn agent_step(&mut self) -> bool {
        for pod in self.all(Kind::POD) {
            let Some(write) = self.next_for(&pod) else { continue };
            self.write(write).expect("an agent's write");
            self.settle();
            return true;
        }
        false
    }

    /// Scheduler and agents do all that they have to do.
    pub(super) fn run(&mut self) {
        self.settle();
        while self.agent_step() {}
    }

    fn next_for(&self, pod: &Arc<Object>) -> Option<Write> {
        let row = pod.row.pod()?;
        let Some(node) = row.node.as_deref() else {
            let value = pod.value();
            let affinity = &value["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            let wanted = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str();
            let mut nodes =
                self.view.list(Kind::NODE, None).filter(|node| wanted.is_none_or(|name| name == node.name()));
            let emptiest = nodes.by_ref().min_by_key(|node| self.view.pods_on(node.name()).count())?;
            return Some(Write::Bind { key: pod.key.clone(), uid: pod.uid, node: emptiest.name().to_owned() });
        };
        if self.silent.contains(node) || row.phase.is_terminal() {
            return None;
        }
        if pod.is_deleting() {
            return Some(Write::Remove { key: pod.key.clone(), uid: pod.uid });
        }
        let value = pod.value();
        if row.is_ready() || value["spec"]["containers"][0]["image"] == self.broken_image {
            return None;
        }
        let mut status = value["status"].clone();
        let stamp = self.now.stamp();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": stamp});
        conditions::put(&mut status, ready);
        status["phase"] = json!("Running");
        Some(Write::Status { key: pod.key.clone(), expected: pod.revision, status })
    }

    /// An agent says that a pod failed.
    pub(super) fn fail(&mut self, pod: &Object) {
        let status = json!({"phase": "Failed"});
        self.write(Write::Status { key: pod.key.clone(), expected: pod.revision, status }).expect("a status");
        self.settle();
    }

    /// Carries out a write.
    pub(super) fn write(&mut self, write: Write) -> Result<(), ApiError> {
        match write {
            Write::Create { kind, namespace, value } => self.write_create(kind, &namespace, value),
            Write::Update { key, expected, value } => self.modify(&key, Some(expected), |old| {
                let mut new = value;
                new["status"] = old["status"].clone();
                if new["spec"] != old["spec"] {
                    let generation = old["metadata"]["generation"].as_u64().unwrap_or_default();
                    new["metadata"]["generation"] = json!(generation + 1);
                }
                new
            }),
            Write::Status { key, expected, status } => self.modify(&key, Some(expected), |mut value| {
                value["status"] = status;
                value
            }),
            Write::Bind { key, node, .. } => self.modify(&key, None, |mut value| {
                value["spec"]["nodeName"] = json!(node);
                value
            }),
            Write::Delete { key, uid, propagation, .. } => self.write_delete(&key, uid, propagation),
            Write::Remove { key, .. } => {
                let object = self.object(&key);
                if object.finalizers {
                    return self.mark(&key, None);
                }
                self.stage(Action::Deleted, &object.key, object.value());
                Ok(())
            }
        }
    }

    fn write_create(&mut self, kind: Kind, namespace: &str, mut value: Value) -> Result<(), ApiError> {
        if let Some((_, words)) = self.refuse.filter(|(refused, _)| *refused == kind) {
            return Err(ApiError::bad_request(words));
        }
        let name = value["metadata"]["name"].as_str().expect("a name").to_owned();
        let key = Key::new(kind, namespace, &name);
        if self.view.get(&key).is_some() {
            return Err(ApiError::already_exists(kind, &name));
        }
        value["metadata"]["uid"] = json!(coracle_model::PodUid(self.names.uid()).to_string());
        value["metadata"]["creationTimestamp"] = json!(self.now.stamp());
        value["metadata"]["generation"] = json!(1);
        if !namespace.is_empty() {
            value["metadata"]["namespace"] = json!(namespace);
        }
        self.stage(Action::Added, &key, value);
        Ok(())
    }

    fn write_delete(&mut self, key: &Key, uid: Uid, propagation: Option<Propagation>) -> Result<(), ApiError> {
        let object = self.object(key);
        assert_eq!(object.uid, uid);
        let finalizer = match propagation {
            Some(Propagation::Foreground) => Some("foregroundDeletion"),
            Some(Propagation::Orphan) => Some("orphan"),
            Some(Propagation::Background) | None => None,
        };
        let waits = object.row.pod().is_some_and(|row| row.node.is_some() && !row.phase.is_terminal());
        if finalizer.is_some() || object.finalizers || waits || key.kind == Kind::NAMESPACE {
            return self.mark(key, finalizer);
        }
        self.stage(Action::Deleted, key, object.value());
        Ok(())
    }

    fn mark(&mut self, key: &Key, finalizer: Option<&str>) -> Result<(), ApiError> {
        let stamp = clock::stamp(self.now.wall_ms);
        self.modify(key, None, |mut value| {
            if value["metadata"]["deletionTimestamp"].is_null() {
                value["metadata"]["deletionTimestamp"] = json!(stamp);
            }
            if let Some(finalizer) = finalizer {
                value["metadata"]["finalizers"] = json!([finalizer]);
            }
            value
        })
    }

    fn modify(
        &mut self,
        key: &Key,
        expected: Option<u64>,
        change: impl FnOnce(Value) -> Value,
    ) -> Result<(), ApiError> {
        let old = self.view.get(key).cloned().ok_or_else(|| ApiError::not_found(key.kind, &key.name))?;
        if expected.is_some_and(|expected| expected != old.revision) {
            return Err(ApiError::modified(key.kind, &key.name));
        }
        let value = change(old.value());
        assert_ne!(value, old.value(), "a write that changes nothing: {key:?}");
        let finalizers = value["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        let waits = old.row.pod().is_some_and(|row| row.node.is_some());
        let gone = old.is_deleting() && old.finalizers && !finalizers && !waits;
        self.stage(if gone { Action::Deleted } else { Action::Modified }, key, value);
        Ok(())
    }

    fn stage(&mut self, action: Action, key: &Key, value: Value) {
        self.revision += 1;
        let previous = self.view.get(key).cloned();
        let object = Arc::new(Object::from_value(key.kind, self.revision, value).expect("an object"));
        let change = Change { revision: self.revision, action, object, previous };
        self.view.apply(&change);
        self.changes.push(change);
        if let Some(check) = self.check {
            check(&self.view);
        }
    }
}
