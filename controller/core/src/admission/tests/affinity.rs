//! What pods say to the scheduler: topology spread, affinity between pods, scheduling gates.

use serde_json::{Value, json};

use super::{admitted, pod, refused, workload};
use crate::kind::Kind;

fn constraint(fields: Value) -> Value {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}}});
    for (name, value) in fields.as_object().unwrap() {
        constraint[name] = value.clone();
    }
    constraint
}

fn spread(fields: Value) -> Value {
    pod(json!({"topologySpreadConstraints": [constraint(fields)]}))
}

// TSC-01
#[test]
fn a_bad_spread_constraint_is_refused_with_the_fields_path() {
    let at = "spec.topologySpreadConstraints[0]";
    let two = |first: Value, second: Value| {
        pod(json!({"topologySpreadConstraints": [constraint(first), constraint(second)]}))
    };
    let keys = |keys: Value| spread(json!({"matchLabelKeys": keys}));
    refused(
        Kind::POD,
        &[
            (spread(json!({"maxSkew": 0})), &format!("{at}.maxSkew: Invalid value: 0: must be greater than zero")),
            (spread(json!({"maxSkew": -1})), &format!("{at}.maxSkew: Invalid value: -1: must be greater than zero")),
            (spread(json!({"topologyKey": ""})), &format!("{at}.topologyKey: Required value: can not be empty")),
            (spread(json!({"topologyKey": "a b"})), &format!("{at}.topologyKey: Invalid value: \"a b\": name part")),
            (
                spread(json!({"whenUnsatisfiable": ""})),
                &format!(
                    "{at}.whenUnsatisfiable: Unsupported value: \"\": supported values: \"DoNotSchedule\", \
                     \"ScheduleAnyway\""
                ),
            ),
            (
                two(json!({}), json!({"maxSkew": 2})),
                &format!("{at}.{{topologyKey, whenUnsatisfiable}}: Duplicate value: \"{{zone, DoNotSchedule}}\""),
            ),
            (
                spread(json!({"minDomains": 0})),
                &format!("{at}.minDomains: Invalid value: 0: must be greater than zero"),
            ),
            (
                spread(json!({"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"})),
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ),
            (
                spread(json!({"nodeAffinityPolicy": "Maybe"})),
                &format!(
                    "{at}.nodeAffinityPolicy: Unsupported value: \"Maybe\": supported values: \"Honor\", \"Ignore\""
                ),
            ),
            (
                spread(json!({"nodeTaintsPolicy": "Maybe"})),
                &format!("{at}.nodeTaintsPolicy: Unsupported value: \"Maybe\""),
            ),
            (keys(json!(["/a"])), &format!("{at}.matchLabelKeys[0]: Invalid value: \"/a\": prefix part")),
            (
                spread(json!({"matchLabelKeys": ["a"], "labelSelector": null})),
                &format!("{at}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"),
            ),
            (
                spread(json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}})),
                &format!("{at}.labelSelector.matchExpressions[0].operator: Invalid value: \"Is\""),
            ),
        ],
    );
    // The same key for another action is another constraint.
    let both = two(json!({}), json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    assert!(admitted(Kind::POD, both).is_ok());
    let full = json!({"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"});
    assert!(admitted(Kind::POD, spread(full)).is_ok());
}

/// A term below `required` of this sort of affinity.
fn term(kind: &str, fields: Value) -> Value {
    let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
    for (name, value) in fields.as_object().unwrap() {
        term[name] = value.clone();
    }
    pod(json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}))
}

// SCH-01
#[test]
fn a_bad_affinity_between_pods_is_refused_with_the_fields_path() {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = format!("spec.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution[0]");
        let weighted = |weight: i64, key: &str| {
            let term = json!({"weight": weight, "podAffinityTerm": {"topologyKey": key}});
            pod(json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}))
        };
        let soft = format!("spec.affinity.{kind}.preferredDuringSchedulingIgnoredDuringExecution[0]");
        let both = json!({"matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"]});
        refused(
            Kind::POD,
            &[
                (
                    term(kind, json!({"topologyKey": ""})),
                    &format!("{at}.topologyKey: Required value: can not be empty"),
                ),
                (term(kind, json!({"topologyKey": "-"})), &format!("{at}.topologyKey: Invalid value: \"-\"")),
                (
                    term(kind, json!({"labelSelector": {"matchLabels": {"a b": ""}}})),
                    &format!("{at}.labelSelector.matchLabels: Invalid value: \"a b\""),
                ),
                (
                    term(kind, json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})),
                    &format!("{at}.namespaceSelector.matchExpressions[0].values: Required value"),
                ),
                (term(kind, json!({"namespaces": ["a", "B"]})), &format!("{at}.namespaces[1]: Invalid value: \"B\"")),
                (
                    term(kind, both),
                    &format!(
                        "{at}.matchLabelKeys[0]: Invalid value: \"a\": exists in both matchLabelKeys and mismatchLabelKeys"
                    ),
                ),
                (
                    term(kind, json!({"mismatchLabelKeys": ["a"], "labelSelector": null})),
                    &format!("{at}.mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set"),
                ),
                (weighted(0, "zone"), &format!("{soft}.weight: Invalid value: 0: must be in the range 1-100")),
                (weighted(101, "zone"), &format!("{soft}.weight: Invalid value: 101: must be in the range 1-100")),
                (weighted(1, ""), &format!("{soft}.podAffinityTerm.topologyKey: Required value")),
            ],
        );
        let every = json!({"namespaceSelector": {}, "namespaces": ["other"], "matchLabelKeys": ["x"], "mismatchLabelKeys": ["y"]});
        assert!(admitted(Kind::POD, term(kind, every)).is_ok());
        assert!(admitted(Kind::POD, weighted(100, "zone")).is_ok());
    }
}

// TSC-01
#[test]
fn label_keys_of_a_new_pod_become_part_of_its_selectors() {
    let labelled = |mut value: Value| {
        value["metadata"]["labels"] = json!({"app": "a", "hash": "1", "tenant": "t"});
        value
    };
    let found = admitted(Kind::POD, labelled(spread(json!({"matchLabelKeys": ["hash", "missing"]})))).unwrap();
    let merged =
        json!({"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]});
    assert_eq!(found["spec"]["topologySpreadConstraints"][0]["labelSelector"], merged);
    let fields = json!({"matchLabelKeys": ["hash"], "mismatchLabelKeys": ["tenant"]});
    let found = admitted(Kind::POD, labelled(term("podAntiAffinity", fields))).unwrap();
    let required = &found["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let expressions = json!([{"key": "hash", "operator": "In", "values": ["1"]},
        {"key": "tenant", "operator": "NotIn", "values": ["t"]}]);
    assert_eq!(required[0]["labelSelector"]["matchExpressions"], expressions);
    // Named in both, it would say the same twice or contradict itself.
    refused(
        Kind::POD,
        &[(
            labelled(spread(json!({"matchLabelKeys": ["app"]}))),
            "spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: \"app\": exists in both matchLabelKeys and \
             labelSelector",
        )],
    );
    // A template has no labels of its own yet.
    let spec = json!({"containers": [{"name": "c", "image": "i:1"}],
        "topologySpreadConstraints": [constraint(json!({"matchLabelKeys": ["hash"]}))]});
    let template = json!({"metadata": {"labels": {"app": "a", "hash": "1"}}, "spec": spec});
    let found = admitted(Kind::DEPLOYMENT, workload(json!({"template": template}))).unwrap();
    let kept = &found["spec"]["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!(kept["labelSelector"].get("matchExpressions"), None);
}

// SCH-03
#[test]
fn scheduling_gates_have_names_and_hold_no_pod_that_is_placed() {
    let gates = |gates: Value| pod(json!({"schedulingGates": gates}));
    refused(
        Kind::POD,
        &[
            (gates(json!([{"name": "a b"}])), "spec.schedulingGates[0].name: Invalid value: \"a b\""),
            (gates(json!([{"name": "a"}, {"name": "a"}])), "spec.schedulingGates[1]: Duplicate value: \"a\""),
            (pod(json!({"overhead": {"cpu": "1"}})), "spec.overhead: Forbidden"),
        ],
    );
}
