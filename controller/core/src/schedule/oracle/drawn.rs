//! Nodes and pods, drawn at random.

use std::fmt;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::tests::{node, pod};
use super::objects::text;

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
    (0..6_u8, 0..4_u8, 0..10_u8, 0..3_u8, taints, prop::bool::weighted(0.05), size).prop_map(
        |(number, zone, host, rank, taints, unschedulable, (cpu, memory, pods, gpio, disk))| {
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
            let allocatable = &mut value["status"]["allocatable"];
            allocatable["pods"] = json!(pods.to_string());
            allocatable["example.com/gpio"] = json!(gpio.to_string());
            allocatable["ephemeral-storage"] = json!(format!("{disk}Gi"));
            Shown(value)
        },
    )
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

fn some_selector() -> impl Strategy<Value = Value> {
    let operator = select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    let expression =
        (select(vec!["app", "tier"]), operator, select(vec!["a", "b", "x", "y"])).prop_map(|(key, operator, value)| {
            let values = if matches!(operator, "Exists" | "DoesNotExist") { json!([]) } else { json!([value]) };
            json!({"key": key, "operator": operator, "values": values})
        });
    prop_oneof![
        6 => select(vec!["a", "b", "c"]).prop_map(|app| json!({"matchLabels": {"app": app}})),
        2 => expression.prop_map(|expression| json!({"matchExpressions": [expression]})),
        1 => Just(json!({})),
        1 => Just(Value::Null),
    ]
}

fn some_pod_term() -> impl Strategy<Value = Value> {
    let names = weighted(0.3, vec(select(NAMESPACES.to_vec()), 1..3));
    let team =
        select(vec![json!({}), json!({"matchLabels": {"team": "one"}}), json!({"matchLabels": {"team": "two"}})]);
    let more = (weighted(0.15, Just(())), weighted(0.15, Just(())));
    (select(vec![ZONE, ZONE, HOSTNAME, "size"]), some_selector(), names, weighted(0.3, team), more).prop_map(
        |(key, selector, names, team, (same, other))| {
            let mut term = json!({"topologyKey": key});
            if !selector.is_null() {
                // What is asked for by `matchLabelKeys` never changes in a pod's life here: `tier`.
                for (field, _) in
                    [("matchLabelKeys", same), ("mismatchLabelKeys", other)].iter().filter(|f| f.1.is_some())
                {
                    term[*field] = json!(["tier"]);
                }
                term["labelSelector"] = selector;
            }
            if let Some(names) = names {
                term["namespaces"] = json!(names);
            }
            if let Some(team) = team {
                term["namespaceSelector"] = team;
            }
            term
        },
    )
}

fn some_affinity() -> impl Strategy<Value = Value> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let none_or = |chance: f64, terms| weighted(chance, vec(terms, 1..3)).prop_map(Option::unwrap_or_default);
    let weighted_term = (1..101_u8, some_pod_term())
        .prop_map(|(weight, term)| json!({"weight": weight, "podAffinityTerm": term}))
        .boxed();
    let preference =
        (1..101_u8, some_node_term()).prop_map(|(weight, term)| json!({"weight": weight, "preference": term}));
    let nodes = (weighted(0.15, vec(some_node_term(), 1..3)), none_or(0.2, preference.boxed()));
    let hard = (none_or(0.1, some_pod_term().boxed()), none_or(0.15, some_pod_term().boxed()));
    let soft = (none_or(0.2, weighted_term.clone()), none_or(0.2, weighted_term));
    (nodes, hard, soft).prop_map(|((must, may), (near, far), (rather_near, rather_far))| {
        let mut value = json!({
            "nodeAffinity": {PREFERRED: may},
            "podAffinity": {REQUIRED: near, PREFERRED: rather_near},
            "podAntiAffinity": {REQUIRED: far, PREFERRED: rather_far},
        });
        if let Some(terms) = must {
            value["nodeAffinity"][REQUIRED] = json!({"nodeSelectorTerms": terms});
        }
        value
    })
}

fn some_constraint() -> impl Strategy<Value = Value> {
    let policies = (weighted(0.2, select(vec!["Honor", "Ignore"])), weighted(0.3, select(vec!["Honor", "Ignore"])));
    let when = select(vec!["DoNotSchedule", "ScheduleAnyway"]);
    let key = select(vec![ZONE, HOSTNAME, "size"]);
    (key, when, 1..4_u8, some_selector(), weighted(0.3, 1..4_u8), prop::bool::weighted(0.2), policies).prop_map(
        |(key, when, skew, selector, domains, same_tier, (affinity, taints))| {
            let mut value = json!({"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": skew});
            if !selector.is_null() {
                value["labelSelector"] = selector;
                if same_tier {
                    value["matchLabelKeys"] = json!(["tier"]);
                }
            }
            if let (Some(domains), "DoNotSchedule") = (domains, when) {
                value["minDomains"] = json!(domains);
            }
            for (field, policy) in [("nodeAffinityPolicy", affinity), ("nodeTaintsPolicy", taints)] {
                if let Some(policy) = policy {
                    value[field] = json!(policy);
                }
            }
            value
        },
    )
}

fn some_container() -> impl Strategy<Value = Value> {
    let cpu = weighted(0.8, select(vec!["0", "300m", "700m", "1", "1700m"]));
    let memory = weighted(0.6, select(vec!["0", "100Mi", "900Mi", "2Gi", "3Gi"]));
    let others = (weighted(0.1, Just("1")), weighted(0.1, Just("600Mi")));
    let port = (1..3_u8, select(vec!["TCP", "UDP"]));
    (cpu, memory, others, weighted(0.12, port)).prop_map(|(cpu, memory, (gpio, disk), port)| {
        let mut value = json!({"name": "c", "resources": {"requests": {}}});
        let asked = [("cpu", cpu), ("memory", memory), ("example.com/gpio", gpio), ("ephemeral-storage", disk)];
        for (resource, amount) in asked {
            if let Some(amount) = amount {
                value["resources"]["requests"][resource] = json!(amount);
            }
        }
        if let Some((number, protocol)) = port {
            value["ports"] = json!([{"containerPort": 1, "hostPort": number, "protocol": protocol}]);
        }
        value
    })
}

fn some_containers() -> impl Strategy<Value = (Vec<Value>, Vec<Value>)> {
    let init = (some_container(), any::<bool>()).prop_map(|(mut container, is_sidecar)| {
        if is_sidecar {
            container["restartPolicy"] = json!("Always");
        }
        container
    });
    (vec(some_container(), 1..3), weighted(0.2, vec(init, 1..3)).prop_map(Option::unwrap_or_default))
}

pub(super) fn some_pod() -> impl Strategy<Value = Shown> {
    let toleration = (0..3_u8, 0..2_u8, any::<bool>()).prop_map(|(key, value, exists)| match (key, exists) {
        (2, _) => json!({"operator": "Exists"}),
        (_, true) => json!({"key": format!("k{key}"), "operator": "Exists", "effect": "NoSchedule"}),
        (_, false) => json!({"key": format!("k{key}"), "operator": "Equal", "value": format!("v{value}")}),
    });
    let who = (select(NAMESPACES.to_vec()), select(vec!["a", "a", "b", "c", ""]), select(vec!["x", "y", ""]));
    let constraints = weighted(0.4, vec(some_constraint(), 1..3)).prop_map(Option::unwrap_or_default);
    let rank = (-1..4_i64, prop::bool::weighted(0.1), weighted(0.08, 0..7_u8), prop::bool::weighted(0.3));
    let few = (vec(toleration, 0..2), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    (who, some_containers(), few, weighted(0.5, some_affinity()), constraints, rank).prop_map(
        |((namespace, app, tier), (containers, init), (tolerations, selects, over), affinity, constraints, rank)| {
            let (priority, is_polite, fixed, is_owned) = rank;
            let mut value =
                pod("?", json!({"containers": containers, "tolerations": tolerations, "priority": priority}));
            value["metadata"]["namespace"] = json!(namespace);
            for (key, label) in [("app", app), ("tier", tier)].iter().filter(|(_, label)| !label.is_empty()) {
                value["metadata"]["labels"][*key] = json!(label);
            }
            let spec = &mut value["spec"];
            let mut seen: Vec<(&str, &str)> = Vec::new();
            let mut unique: Vec<Value> = Vec::new();
            for constraint in &constraints {
                let pair = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
                if !seen.contains(&pair) {
                    seen.push(pair);
                    unique.push(constraint.clone());
                }
            }
            spec["topologySpreadConstraints"] = json!(unique);
            if !init.is_empty() {
                spec["initContainers"] = json!(init);
            }
            if let Some(affinity) = affinity {
                spec["affinity"] = affinity;
            }
            if selects {
                spec["nodeSelector"] = json!({ZONE: "z1"});
            }
            if over {
                spec["overhead"] = json!({"cpu": "150m", "memory": "50Mi"});
            }
            if is_polite {
                spec["preemptionPolicy"] = json!("Never");
            }
            if let Some(number) = fixed {
                spec["nodeName"] = json!(format!("n{number}"));
            }
            if is_owned && app == "a" {
                value["metadata"]["ownerReferences"] = json!("set");
            }
            Shown(value)
        },
    )
}
