//! Leases of nodes, shown from memory: they are never stored (DESIGN, settled details).

use std::sync::Arc;

use coracle_controller_core::clock::{micro_stamp, stamp};
use coracle_controller_core::object::{Key, Object};
use coracle_controller_core::{Kind, View};
use coracle_model::limits::LEASE_MS;
use serde_json::json;

/// The namespace of the leases of nodes.
const NAMESPACE: &str = "kube-node-lease";

/// The lease of every node that was heard and is still there, by name.
pub(super) fn all(view: &View, renewed: &[(String, u64)]) -> Vec<Arc<Object>> {
    let mut leases: Vec<Arc<Object>> = renewed.iter().filter_map(|(node, at)| lease(view, node, *at)).collect();
    leases.sort_by(|one, two| one.key.cmp(&two.key));
    leases
}

fn lease(view: &View, node: &str, renewed_wall_ms: u64) -> Option<Arc<Object>> {
    let owner = view.get(&Key::new(Kind::NODE, "", node))?;
    let value = json!({
        "kind": Kind::LEASE.info().kind, "apiVersion": Kind::LEASE.api_version(),
        "metadata": {
            "name": node, "namespace": NAMESPACE, "uid": owner.uid.to_string(),
            "creationTimestamp": stamp(owner.created_ms),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner.uid.to_string()},
            ],
        },
        "spec": {
            "holderIdentity": node, "leaseDurationSeconds": LEASE_MS / 1000, "renewTime": micro_stamp(renewed_wall_ms),
        },
    });
    Object::from_value(Kind::LEASE, view.revision(), value).ok().map(Arc::new)
}
