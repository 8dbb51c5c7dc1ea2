//! Objects for tests, as a user would write them.

use serde_json::{Value, json};

/// A pod, as a manifest.
pub(super) struct PodManifest(Value);

/// A pod with one container.
pub(super) fn pod(name: &str) -> PodManifest {
    PodManifest(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }))
}

impl PodManifest {
    pub(super) fn label(mut self, name: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][name] = json!(value);
        self
    }

    pub(super) fn annotation(mut self, name: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][name] = json!(value);
        self
    }

    pub(super) fn on(mut self, node: &str) -> Self {
        self.0["spec"]["nodeName"] = json!(node);
        self
    }

    pub(super) fn tolerates(mut self, key: &str, seconds: Option<i64>) -> Self {
        let mut toleration = json!({"key": key, "operator": "Exists"});
        if let Some(seconds) = seconds {
            toleration["tolerationSeconds"] = json!(seconds);
        }
        let tolerations = &mut self.0["spec"]["tolerations"];
        if tolerations.is_null() {
            *tolerations = json!([]);
        }
        tolerations.as_array_mut().expect("a list").push(toleration);
        self
    }

    pub(super) fn build(self) -> Value {
        self.0
    }
}

/// A template whose pods have the label `app`.
pub(super) fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}], "restartPolicy": "Always"},
    })
}

/// A replica set that selects the label `app` of its own name.
pub(super) fn replica_set(name: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, "app:1"),
        },
    })
}

/// A deployment that selects the label `app` of its own name, with the default strategy.
pub(super) fn deployment(name: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, "app:1"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        },
    })
}

/// A daemon set that selects the label `app` of its own name.
pub(super) fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}}, "template": template(name, "app:1"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        },
    })
}

/// A node, as it registers: not heard yet.
pub(super) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    })
}
