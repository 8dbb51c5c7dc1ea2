//! What services select, for the default spread constraints (TSC-05).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::selector::Labels;
use crate::view::View;

/// The selectors of all services that have one.
#[derive(Clone, Debug, Default)]
pub(super) struct Services {
    selectors: BTreeMap<Key, Labels>,
}

impl Services {
    /// A service appeared or changed, or is gone; the selectors whose pods belong to other services than before.
    pub(super) fn set(&mut self, service: &Object, gone: bool) -> Vec<Labels> {
        let after = Some(selector(service)).filter(|selector| !gone && !selector.is_empty());
        let before = match &after {
            Some(selector) => self.selectors.insert(service.key.clone(), selector.clone()),
            None => self.selectors.remove(&service.key),
        };
        if before == after { Vec::new() } else { before.into_iter().chain(after).collect() }
    }

    /// What the services that select a pod have in their selectors.
    fn of(&self, pod: &Object) -> Map<String, Value> {
        let first = Key::new(Kind::SERVICE, pod.namespace(), "");
        let all = self.selectors.range(first..).take_while(|(key, _)| *key.namespace == *pod.namespace());
        let mine = all.filter(|(_, selector)| selects(selector, pod));
        mine.flat_map(|(_, selector)| selector).map(|(key, value)| (key.to_string(), json!(value))).collect()
    }

    /// The selector that spreads a pod which says nothing of it: of its services and its controller together; null when
    /// it belongs to nobody.
    pub(super) fn default_selector(&self, view: &View, pod: &Object) -> Value {
        let labels = self.of(pod);
        let owner = pod.controller().and_then(|owner| view.by_uid(owner.uid));
        let owner = owner.filter(|owner| {
            matches!(owner.key.kind.info().kind, "ReplicaSet" | "StatefulSet" | "ReplicationController")
        });
        let mut selector = owner.map_or(Value::Null, |owner| owner.head()["spec"]["selector"].take());
        if labels.is_empty() {
            return selector;
        }
        if !selector.is_object() {
            selector = json!({});
        }
        if !selector["matchLabels"].is_object() {
            selector["matchLabels"] = json!({});
        }
        if let Some(own) = selector["matchLabels"].as_object_mut() {
            // All of them match the pod, so they do not contradict each other.
            own.extend(labels);
        }
        selector
    }
}

/// Whether a service's selector matches a pod.
pub(super) fn selects(selector: &Labels, pod: &Object) -> bool {
    selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
}

fn selector(service: &Object) -> Labels {
    let value = service.head();
    let labels = value["spec"]["selector"].as_object();
    labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
        .collect()
}
