//! What pods and nodes say to the scheduler and must not: refused with the field and the reason.

use serde_json::{Value, json};

use super::{admitted, pod, refused};
use crate::kind::Kind;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity(term: Value) -> Value {
    pod(json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}))
}

// SCH-01
#[test]
fn a_bad_node_affinity_is_refused_with_the_fields_path() {
    let at = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let expression = |operator: &str, values: Value| {
        node_affinity(json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}))
    };
    let field = |key: &str, operator: &str, values: Value| {
        node_affinity(json!({"matchFields": [{"key": key, "operator": operator, "values": values}]}))
    };
    let weighted = |weight: i64| {
        let preference = json!({"matchExpressions": [{"key": "k", "operator": "Exists"}]});
        pod(json!({"affinity": {"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": preference}]}}}))
    };
    let none = pod(json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}));
    refused(
        Kind::POD,
        &[
            (none, &format!("{at}: Required value: must have at least one node selector term")),
            (
                expression("Resembles", json!(["a"])),
                &format!(
                    "{at}[0].matchExpressions[0].operator: Invalid value: \"Resembles\": not a valid selector operator"
                ),
            ),
            (expression("In", json!([])), &format!("{at}[0].matchExpressions[0].values: Required value")),
            (expression("Exists", json!(["a"])), &format!("{at}[0].matchExpressions[0].values: Forbidden")),
            (expression("Gt", json!(["1", "2"])), &format!("{at}[0].matchExpressions[0].values: Required value")),
            (
                expression("Lt", json!(["1.5"])),
                &format!("{at}[0].matchExpressions[0].values[0]: Invalid value: \"1.5\""),
            ),
            (
                expression("Gt", json!(["99999999999999999999"])),
                &format!("{at}[0].matchExpressions[0].values[0]: Invalid value"),
            ),
            (field("metadata.labels", "In", json!(["a"])), &format!("{at}[0].matchFields[0].key: Invalid value")),
            (field("metadata.name", "Exists", json!([])), &format!("{at}[0].matchFields[0].operator: Invalid value")),
            (
                field("metadata.name", "In", json!(["a", "b"])),
                &format!("{at}[0].matchFields[0].values: Required value"),
            ),
            (weighted(0), &format!("spec.affinity.nodeAffinity.{PREFERRED}[0].weight: Invalid value: 0")),
            (weighted(101), &format!("spec.affinity.nodeAffinity.{PREFERRED}[0].weight: Invalid value: 101")),
        ],
    );
}

// SCH-01
#[test]
fn hostile_node_labels_taints_and_amounts_are_refused_with_the_fields_path() {
    let node = |field: &str, value: Value| {
        let mut node = json!({"metadata": {"name": "n"}, "spec": {}, "status": {}});
        if let Some((outer, inner)) = field.split_once('.') {
            node[outer][inner] = value;
        }
        node
    };
    let long = "x".repeat(64);
    refused(
        Kind::NODE,
        &[
            (node("metadata.labels", json!({"a": long})), "metadata.labels: Invalid value"),
            (node("metadata.labels", json!({"a": "b c"})), "metadata.labels: Invalid value: \"b c\""),
            (node("metadata.labels", json!({"/a": "b"})), "metadata.labels: Invalid value: \"/a\""),
            (
                node("spec.taints", json!([{"key": "k", "effect": "Explode"}])),
                "spec.taints[0].effect: Unsupported value",
            ),
            (node("spec.taints", json!([{"key": "k"}])), "spec.taints[0].effect: Required value"),
            (node("status.allocatable", json!({"cpu": "-1"})), "must be greater than or equal to 0"),
            (node("status.allocatable", json!({"cpu": "lots"})), "quantities must match the regular expression"),
            (node("status.allocatable", json!({"a b": "1"})), "status.allocatable"),
            (node("status.capacity", json!({"memory": "-1Gi"})), "must be greater than or equal to 0"),
        ],
    );
    let fraction = node("status.allocatable", json!({"cpu": "0.5", "memory": "99999999999999999999E"}));
    assert!(admitted(Kind::NODE, fraction).is_ok(), "it is taken as the most that a number holds");
}

// PRI-01
#[test]
fn a_priority_beyond_every_number_is_refused() {
    for value in [json!(1_000_000_001), json!(2_147_483_648_i64), json!(-2_147_483_649_i64), json!(1e30), json!("5")] {
        let class = json!({"metadata": {"name": "c"}, "value": value});
        assert!(admitted(Kind::PRIORITY_CLASS, class).is_err(), "{value}");
    }
}
