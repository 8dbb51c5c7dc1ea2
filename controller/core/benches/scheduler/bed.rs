//! A cluster around a scheduler: nodes, pods, and a clock that stands still.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coracle_controller_core::object::{Key, Object};
use coracle_controller_core::plan::Write;
use coracle_controller_core::schedule::Scheduler;
use coracle_controller_core::store::{Action, Change};
use coracle_controller_core::{Kind, Now, View};
use coracle_model::{Millis, PodUid};
use serde_json::{Value, json};

use crate::shapes::Shape;

/// See the module.
pub(crate) struct Bed {
    view: View,
    scheduler: Scheduler,
    now: Now,
    uids: u128,
    /// Pods that were made in this bed by the measurement.
    measured: usize,
    most: usize,
}

impl Bed {
    pub(crate) fn new(most: usize) -> Self {
        let now = Now { wall_ms: 1_795_232_430_000, mono: Millis(0) };
        Self { view: View::default(), scheduler: Scheduler::new(1), now, uids: 0, measured: 0, most }
    }

    /// Whether it has as many pods as its shape measures.
    pub(crate) const fn is_worn(&self) -> bool {
        self.measured >= self.most
    }

    /// Adds an object, or puts it in the place of the one that is there.
    pub(crate) fn put(&mut self, kind: Kind, mut value: Value) -> Change {
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let previous = self.view.get(&Key::new(kind, &namespace, &name)).cloned();
        let uid = previous.as_ref().map_or_else(
            || {
                self.uids += 1;
                PodUid(self.uids)
            },
            |previous| previous.uid,
        );
        value["metadata"]["uid"] = json!(uid.to_string());
        let revision = self.view.revision() + 1;
        let object = Arc::new(Object::from_value(kind, revision, value).expect("an object"));
        let action = if previous.is_some() { Action::Modified } else { Action::Added };
        let change = Change { revision, action, object, previous };
        self.view.apply(&change);
        change
    }

    /// Adds an object that the scheduler takes over outside of the measurement.
    pub(crate) fn add(&mut self, kind: Kind, value: Value) {
        let change = self.put(kind, value);
        self.scheduler.observe(&self.view, &change, self.now);
    }

    /// Decides on all pods that wait.
    pub(crate) fn settle(&mut self) {
        while self.step().is_some() {}
    }

    /// One more pod of the shape: how long the scheduler works on it.
    pub(crate) fn decide(&mut self, shape: &Shape) -> Duration {
        self.measured += 1;
        let pod = (shape.pod)(&format!("measured-{}", self.measured), self.measured);
        self.add(Kind::POD, pod);
        self.step().expect("a decision")
    }

    #[expect(clippy::disallowed_methods, reason = "time is what a bench measures")]
    fn step(&mut self) -> Option<Duration> {
        let start = Instant::now();
        let plan = self.scheduler.step(&self.view, self.now)?;
        let mut spent = start.elapsed();
        for write in plan.writes {
            let change = match write {
                Write::Bind { key, node, .. } => self.edit(&key, |pod| pod["spec"]["nodeName"] = json!(node)),
                Write::Status { key, status, .. } => self.edit(&key, |pod| pod["status"] = status),
                // Victims end at once, as if their nodes had no work to do.
                Write::Delete { key, .. } => self.remove(&key),
                other => panic!("a scheduler does not write {other:?}"),
            };
            let start = Instant::now();
            self.scheduler.observe(&self.view, &change, self.now);
            spent += start.elapsed();
        }
        Some(spent)
    }

    fn edit(&mut self, key: &Key, edit: impl FnOnce(&mut Value)) -> Change {
        let mut value = self.view.get(key).expect("it is there").value();
        edit(&mut value);
        self.put(key.kind, value)
    }

    fn remove(&mut self, key: &Key) -> Change {
        let object = self.view.get(key).cloned().expect("it is there");
        let revision = self.view.revision() + 1;
        let change = Change { revision, action: Action::Deleted, object: Arc::clone(&object), previous: Some(object) };
        self.view.apply(&change);
        change
    }
}
