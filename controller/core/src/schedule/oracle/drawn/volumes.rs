//! Claims and volumes, drawn at random.

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{HOSTNAME, NAMESPACES, Shown, ZONE};

pub(super) const CLAIMS: u8 = 3;
const VOLUMES: u8 = 6;

/// The same for a claim as for a volume, so that many fit.
fn some_kind() -> impl Strategy<Value = (&'static str, u8, Vec<&'static str>)> {
    let once = vec!["ReadWriteOnce"];
    let modes = select(vec![once.clone(), once, vec!["ReadWriteOncePod"], vec!["ReadWriteOnce", "ReadOnlyMany"]]);
    (select(vec!["later", "later", "now"]), 1..4_u8, modes)
}

/// Mostly that in which most pods with claims are.
fn some_namespace() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just("default"), 1 => select(NAMESPACES.to_vec())]
}

fn some_place() -> impl Strategy<Value = Vec<Value>> {
    let zone = (0..3_u8, select(vec!["In", "In", "NotIn"])).prop_map(
        |(zone, operator)| json!({"matchExpressions": [{"key": ZONE, "operator": operator, "values": [format!("z{zone}")]}]}),
    );
    let hosts = (0..6_u8, 0..6_u8).prop_map(|(one, two)| {
        let values = [format!("n{one}"), format!("n{two}")];
        json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": values}]})
    });
    prop::collection::vec(prop_oneof![zone, hosts], 1..3)
}

pub(in super::super) fn some_volume() -> impl Strategy<Value = Shown> {
    let reserved = (some_namespace(), 0..CLAIMS);
    let zones = weighted(0.2, select(vec!["z0", "z1", "z0__z2"]));
    let few = (prop::bool::weighted(0.3), weighted(0.1, reserved), prop::bool::weighted(0.5), zones);
    (0..VOLUMES, some_kind(), weighted(0.7, some_place()), few).prop_map(
        |(number, (class, size, modes), place, (is_local, reserved, is_fast, zones))| {
            let mut spec = json!({"storageClassName": class, "capacity": {"storage": format!("{size}Gi")},
                "accessModes": modes});
            if let Some(terms) = place {
                spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
            }
            if is_local {
                spec["local"] = json!({"path": "/data"});
            }
            if let Some((namespace, claim)) = reserved {
                spec["claimRef"] = json!({"namespace": namespace, "name": format!("c{claim}")});
            }
            let mut labels = if is_fast { json!({"tier": "fast"}) } else { json!({}) };
            if let Some(zones) = zones {
                labels[ZONE] = json!(zones);
            }
            Shown(json!({"metadata": {"name": format!("v{number}"), "labels": labels}, "spec": spec,
                "status": {"phase": "Available"}}))
        },
    )
}

pub(in super::super) fn some_claim() -> impl Strategy<Value = Shown> {
    let few = (weighted(0.1, 0..VOLUMES), prop::bool::weighted(0.2));
    (some_namespace(), 0..CLAIMS, some_kind(), few).prop_map(
        |(namespace, number, (class, size, modes), (named, is_choosy))| {
            let mode = modes[0];
            let mut spec = json!({"storageClassName": class, "accessModes": [mode],
                "resources": {"requests": {"storage": format!("{size}Gi")}}});
            if let Some(volume) = named {
                spec["volumeName"] = json!(format!("v{volume}"));
            }
            if is_choosy {
                spec["selector"] = json!({"matchLabels": {"tier": "fast"}});
            }
            Shown(json!({"metadata": {"name": format!("c{number}"), "namespace": namespace}, "spec": spec,
                "status": {"phase": "Pending"}}))
        },
    )
}
