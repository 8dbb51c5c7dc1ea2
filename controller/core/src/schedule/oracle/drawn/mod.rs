//! Objects, drawn at random: nodes here, the others beside it.

mod pods;
mod profiles;
mod volumes;

use std::fmt;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::super::tests::node;

pub(super) use pods::some_pod;
pub(super) use profiles::some_configuration;
pub(super) use volumes::{some_claim, some_volume};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(super) const NAMESPACES: [&str; 3] = ["default", "blue", "red"];

/// An object, shown as JSON.
#[derive(Clone)]
pub(super) struct Shown(pub(super) Value);

impl fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

pub(super) fn some_node() -> impl Strategy<Value = Shown> {
    let effect = select(vec!["NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"]);
    let taint = (0..2_u8, 0..2_u8, effect).prop_map(
        |(key, value, effect)| json!({"key": format!("k{key}"), "value": format!("v{value}"), "effect": effect}),
    );
    let taints = prop_oneof![3 => Just(Vec::new()), 1 => vec(taint, 1..3)];
    let size = (1..5_u8, 1..9_u8, 1..6_u8, 0..3_u8, 0..3_u8);
    let states = (prop::bool::weighted(0.05), some_images());
    (0..6_u8, 0..4_u8, 0..10_u8, 0..3_u8, taints, states, size).prop_map(
        |(number, zone, host, rank, taints, (unschedulable, images), (cpu, memory, pods, gpio, disk))| {
            let mut value = node(&format!("n{number}"), &cpu.to_string(), &format!("{memory}Gi"));
            let mut labels = json!({"size": rank.to_string()});
            if zone < 3 {
                labels[ZONE] = json!(format!("z{zone}"));
            }
            // Some have no host name. None share one: by it, Kubernetes scores nodes, not domains.
            if host > 0 {
                labels[HOSTNAME] = json!(format!("n{number}"));
            }
            value["metadata"]["labels"] = labels;
            value["spec"] = json!({"taints": taints, "unschedulable": unschedulable});
            value["status"]["images"] = images.0;
            let allocatable = &mut value["status"]["allocatable"];
            allocatable["pods"] = json!(pods.to_string());
            allocatable["example.com/gpio"] = json!(gpio.to_string());
            allocatable["ephemeral-storage"] = json!(format!("{disk}Gi"));
            Shown(value)
        },
    )
}

/// What a node says of the images that it holds; most say nothing.
pub(super) fn some_images() -> impl Strategy<Value = Shown> {
    let image = |(number, mib): (usize, u64)| json!({"names": [format!("i{number}:1"), format!("i{number}:latest")], "sizeBytes": mib << 20});
    let held = vec(select(vec![10_u64, 300, 900, 2500]), 3).prop_flat_map(move |sizes| {
        let all: Vec<Value> = sizes.into_iter().enumerate().map(image).collect();
        subsequence(all, 0..=3)
    });
    prop_oneof![2 => Just(Vec::new()), 1 => held].prop_map(|images| Shown(json!(images)))
}

fn some_node_term() -> impl Strategy<Value = Value> {
    let operator = select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    let expression = (select(vec![ZONE, "size"]), operator, 0..3_u8).prop_map(|(key, operator, value)| {
        let value =
            if key == ZONE && !matches!(operator, "Gt" | "Lt") { format!("z{value}") } else { value.to_string() };
        let values = if matches!(operator, "Exists" | "DoesNotExist") { json!([]) } else { json!([value]) };
        json!({"key": key, "operator": operator, "values": values})
    });
    let field = (select(vec!["In", "NotIn"]), 0..6_u8).prop_map(
        |(operator, number)| json!({"key": "metadata.name", "operator": operator, "values": [format!("n{number}")]}),
    );
    (vec(expression, 0..3), weighted(0.1, field)).prop_map(|(expressions, field)| match field {
        Some(field) => json!({"matchExpressions": expressions, "matchFields": [field]}),
        None => json!({"matchExpressions": expressions}),
    })
}
