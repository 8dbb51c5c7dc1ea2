//! Pods, drawn at random.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::super::tests::pod;
use super::super::objects::text;
use super::volumes::CLAIMS;
use super::{HOSTNAME, NAMESPACES, Shown, ZONE, some_node_term};

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
    let image = select(vec!["i0", "i0:1", "i1:1", "i1", "i2:latest", "i3"]);
    (cpu, memory, others, weighted(0.12, port), image).prop_map(|(cpu, memory, (gpio, disk), port, image)| {
        let mut value = json!({"name": "c", "image": image, "resources": {"requests": {}}});
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

pub(in super::super) fn some_pod() -> impl Strategy<Value = Shown> {
    let toleration = (0..3_u8, 0..2_u8, any::<bool>()).prop_map(|(key, value, exists)| match (key, exists) {
        (2, _) => json!({"operator": "Exists"}),
        (_, true) => json!({"key": format!("k{key}"), "operator": "Exists", "effect": "NoSchedule"}),
        (_, false) => json!({"key": format!("k{key}"), "operator": "Equal", "value": format!("v{value}")}),
    });
    let who = (select(NAMESPACES.to_vec()), select(vec!["a", "a", "b", "c", ""]), select(vec!["x", "y", ""]));
    let constraints = weighted(0.4, vec(some_constraint(), 1..3)).prop_map(Option::unwrap_or_default);
    let rank = (-1..4_i64, prop::bool::weighted(0.1), weighted(0.08, 0..7_u8), prop::bool::weighted(0.3));
    let few = (vec(toleration, 0..2), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let storage = weighted(0.2, vec(0..CLAIMS, 1..3));
    let by_second = prop::bool::weighted(0.3);
    (who, some_containers(), few, weighted(0.5, some_affinity()), constraints, (rank, storage, by_second)).prop_map(
        |((namespace, app, tier), (containers, init), (tolerations, selects, over), affinity, constraints, more)| {
            let ((priority, is_polite, fixed, is_owned), storage, by_second) = more;
            let mut value =
                pod("?", json!({"containers": containers, "tolerations": tolerations, "priority": priority}));
            // Most claims are there, too.
            value["metadata"]["namespace"] = json!(if storage.is_some() && app != "b" { "default" } else { namespace });
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
            if let Some(claims) = storage {
                let volume = |claim| json!({"name": "v", "persistentVolumeClaim": {"claimName": format!("c{claim}")}});
                spec["volumes"] = claims.into_iter().map(volume).collect();
            }
            if by_second {
                spec["schedulerName"] = json!("second");
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
