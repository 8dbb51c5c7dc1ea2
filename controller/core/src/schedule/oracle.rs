//! A scheduler that looks at plain objects, slowly and obviously, and the property that the fast one finds the same
//! nodes after any history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Verdict;
use super::tests::{World, node, pod};
use crate::kind::Kind;
use crate::object::Key;
use crate::rows;

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn tolerated(pod: &Value, taint: &Value) -> bool {
    list(&pod["spec"]["tolerations"]).any(|toleration| {
        let same = |field| text(toleration, field) == text(taint, field);
        let key = text(toleration, "key").is_empty() || same("key");
        let effect = text(toleration, "effect").is_empty() || same("effect");
        key && effect && (text(toleration, "operator") == "Exists" || same("value"))
    })
}

fn holds(expression: &Value, labels: &Value) -> bool {
    let label = labels[text(expression, "key")].as_str();
    let values: Vec<&str> = list(&expression["values"]).filter_map(Value::as_str).collect();
    let numbers = || Some((label?.parse::<i64>().ok()?, values[0].parse::<i64>().ok()?));
    match text(expression, "operator") {
        "In" => label.is_some_and(|label| values.contains(&label)),
        "NotIn" => !label.is_some_and(|label| values.contains(&label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => numbers().is_some_and(|(found, bound)| found > bound),
        "Lt" => numbers().is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

fn host_ports(pod: &Value) -> Vec<u64> {
    list(&pod["spec"]["containers"])
        .flat_map(|c| list(&c["ports"]))
        .filter_map(|port| port["hostPort"].as_u64())
        .collect()
}

fn asked(pods: &[&Value], resource: &str) -> u64 {
    let containers = pods.iter().flat_map(|pod| list(&pod["spec"]["containers"]));
    containers.map(|container| rows::cpu_millis(&container["resources"]["requests"][resource])).sum()
}

/// Whether a pod can go to a node on which these pods are.
fn fits(pod: &Value, node: &Value, there: &[&Value]) -> bool {
    let labels = &node["metadata"]["labels"];
    let spec = &pod["spec"];
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"});
    let open = node["spec"]["unschedulable"] != true || tolerated(pod, &cordon);
    let taints =
        list(&node["spec"]["taints"]).all(|taint| text(taint, "effect") == "PreferNoSchedule" || tolerated(pod, taint));
    let selected = spec["nodeSelector"].as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let affine = required.is_null()
        || list(&required["nodeSelectorTerms"]).any(|term| {
            let mut expressions = list(&term["matchExpressions"]).peekable();
            expressions.peek().is_some() && expressions.all(|expression| holds(expression, labels))
        });
    let taken: Vec<u64> = there.iter().flat_map(|pod| host_ports(pod)).collect();
    let free = host_ports(pod).iter().all(|port| !taken.contains(port));
    let allocatable = &node["status"]["allocatable"];
    let room = ["cpu", "memory", "example.com/gpio"].iter().all(|resource| {
        let wanted = asked(&[pod], resource);
        wanted == 0 || asked(there, resource) + wanted <= rows::cpu_millis(&allocatable[*resource])
    });
    let count = (there.len() as u64) < rows::units(&allocatable["pods"]);
    open && taints && selected && affine && free && room && count
}

fn feasible(world: &World, pod: &Value) -> BTreeSet<String> {
    let pods: Vec<Value> = world.view.list(Kind::POD, None).map(|pod| pod.value()).collect();
    let nodes = world.view.list(Kind::NODE, None).map(|node| node.value());
    let fitting = nodes.filter(|node| {
        let name = text(&node["metadata"], "name");
        let there: Vec<&Value> = pods
            .iter()
            .filter(|pod| text(&pod["spec"], "nodeName") == name)
            .filter(|pod| !matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed"))
            .collect();
        fits(pod, node, &there)
    });
    fitting.map(|node| text(&node["metadata"], "name").to_owned()).collect()
}

fn some_node(name: u8) -> impl Strategy<Value = Value> {
    let effects = prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")];
    let taints = proptest::collection::vec((0..2_u8, 0..2_u8, effects), 0..2);
    (0..4_u8, 0..3_u8, taints, prop::bool::weighted(0.1), 1..5_u8, 1..5_u8, 0..3_u8).prop_map(
        move |(zone, size, taints, unschedulable, cpu, pods, gpio)| {
            let mut value = node(&format!("n{name}"), &cpu.to_string(), "8");
            if zone < 3 {
                value["metadata"]["labels"] = json!({"zone": format!("z{zone}"), "size": size.to_string()});
            }
            let taints: Vec<Value> = taints
                .iter()
                .map(|(key, value, effect)| json!({"key": format!("k{key}"), "value": format!("v{value}"), "effect": effect}))
                .collect();
            value["spec"] = json!({"taints": taints, "unschedulable": unschedulable});
            value["status"]["allocatable"]["pods"] = json!(pods.to_string());
            value["status"]["allocatable"]["example.com/gpio"] = json!(gpio.to_string());
            value
        },
    )
}

fn some_expression() -> impl Strategy<Value = Value> {
    let key = prop_oneof![Just("zone"), Just("size")];
    let operator = prop_oneof![Just("In"), Just("NotIn"), Just("Exists"), Just("DoesNotExist"), Just("Gt"), Just("Lt")];
    (key, operator, 0..3_u8).prop_map(|(key, operator, value)| {
        let value =
            if key == "zone" && !matches!(operator, "Gt" | "Lt") { format!("z{value}") } else { value.to_string() };
        let values = if matches!(operator, "Exists" | "DoesNotExist") { json!([]) } else { json!([value]) };
        json!({"key": key, "operator": operator, "values": values})
    })
}

fn some_pod() -> impl Strategy<Value = Value> {
    let toleration = (0..3_u8, 0..3_u8, any::<bool>()).prop_map(|(key, value, exists)| {
        let operator = if exists || key == 2 { "Exists" } else { "Equal" };
        let value = if operator == "Exists" { String::new() } else { format!("v{value}") };
        json!({"key": if key == 2 { String::new() } else { format!("k{key}") }, "operator": operator, "value": value})
    });
    let terms = proptest::collection::vec(proptest::collection::vec(some_expression(), 0..3), 0..3);
    let tolerations = proptest::collection::vec(toleration, 0..2);
    (tolerations, terms, 0..4_u8, 0..3_u8, 0..4_u8, 0..2_u8, prop::bool::weighted(0.2)).prop_map(
        |(tolerations, terms, cpu, port, memory, gpio, selects)| {
            let mut container =
                json!({"name": "c", "resources": {"requests": {"cpu": format!("{}m", u32::from(cpu) * 700)}}});
            container["resources"]["requests"]["memory"] = json!(memory.to_string());
            container["resources"]["requests"]["example.com/gpio"] = json!(gpio.to_string());
            if port > 0 {
                container["ports"] = json!([{"containerPort": 1, "hostPort": port}]);
            }
            let mut spec = json!({"containers": [container], "tolerations": tolerations});
            if !terms.is_empty() {
                let terms: Vec<Value> = terms.iter().map(|term| json!({"matchExpressions": term})).collect();
                spec["affinity"] = json!({"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
            }
            if selects {
                spec["nodeSelector"] = json!({"zone": "z1"});
            }
            spec
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    PutNode(Value),
    DeleteNode(u8),
    PutPod(Value),
    DeletePod(u8),
    EndPod(u8),
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6_u8).prop_flat_map(some_node).prop_map(Step::PutNode),
        1 => (0..6_u8).prop_map(Step::DeleteNode),
        6 => some_pod().prop_map(Step::PutPod),
        1 => (0..40_u8).prop_map(Step::DeletePod),
        1 => (0..40_u8).prop_map(Step::EndPod),
    ]
}

fn play(world: &mut World, step: Step, number: usize) {
    let pod_key = |number: u8| Key::new(Kind::POD, "default", &format!("p{number}"));
    match step {
        Step::PutNode(value) => {
            world.put(Kind::NODE, value);
        }
        Step::DeleteNode(number) => {
            let key = Key::new(Kind::NODE, "", &format!("n{number}"));
            if world.view.get(&key).is_some() {
                world.delete(&key);
            }
        }
        Step::PutPod(spec) => {
            world.put(Kind::POD, pod(&format!("p{number}"), spec));
        }
        Step::DeletePod(number) => {
            if world.view.get(&pod_key(number)).is_some() {
                world.delete(&pod_key(number));
            }
        }
        Step::EndPod(number) => {
            if world.view.get(&pod_key(number)).is_some() {
                world.edit(&pod_key(number), |pod| pod["status"]["phase"] = json!("Succeeded"));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    // SCH-01, SCH-04
    #[test]
    fn after_any_history_the_nodes_that_fit_are_those_that_plain_objects_show(
        steps in proptest::collection::vec(some_step(), 1..40)
    ) {
        let mut world = World::new(7);
        for (number, step) in steps.into_iter().enumerate() {
            play(&mut world, step, number);
            world.settle();
        }
        // Whatever could help has been seen: once every back-off is over, no pod waits that would fit.
        for _ in 0..4 {
            world.now.mono = world.now.mono + 10_000;
            world.settle();
        }
        let pods: Vec<_> = world.view.list(Kind::POD, None).map(|pod| (pod.key.clone(), pod.row.pod().cloned())).collect();
        for (key, row) in pods {
            let Some(row) = row.filter(|row| row.node.is_none() && !row.phase.is_terminal()) else { continue };
            let value = world.view.get(&key).unwrap().value();
            prop_assert!(feasible(&world, &value).is_empty(), "{value} waits ({row:?})");
        }
        // A pod that is only thought of meets every rule once more.
        for number in 0..4_u8 {
            let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": number.to_string()}},
                "ports": [{"containerPort": 1, "hostPort": number}]}], "tolerations": [{"key": "k0", "operator": "Exists"}]});
            let key = world.put(Kind::POD, pod("asks", spec));
            let found = world.explain(&key);
            let want = feasible(&world, &world.view.get(&key).unwrap().value());
            let fitting = |verdict: &Verdict| matches!(verdict, Verdict::Feasible { .. });
            let fast: BTreeSet<String> =
                found.verdicts.iter().filter(|(_, verdict)| fitting(verdict)).map(|(name, _)| name.to_string()).collect();
            prop_assert_eq!(&fast, &want);
            let total = |verdict: &Verdict| match verdict { Verdict::Feasible { total, .. } => Some(*total), Verdict::Refused { .. } => None };
            let most = found.verdicts.values().filter_map(total).max();
            let best = found.best.as_ref().and_then(|name| total(&found.verdicts[name]));
            prop_assert_eq!(best, most);
            world.delete(&key);
        }
    }
}
