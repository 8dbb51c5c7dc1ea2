//! The cells of what the scheduler reads: priority classes, disruption budgets, services.

use serde_json::{Value, json};

use super::cells::{NONE, UNKNOWN, list, text};

/// What Kubernetes shows for a bound that is not given.
const NOT_GIVEN: &str = "N/A";

pub(super) fn priority_class(name: Value, age: Value, class: &Value) -> Vec<Value> {
    vec![
        name,
        json!(class["value"].as_i64().unwrap_or_default()),
        json!(class["globalDefault"] == true),
        age,
        json!(text(&class["preemptionPolicy"], "")),
    ]
}

pub(super) fn disruption_budget(name: Value, age: Value, budget: &Value) -> Vec<Value> {
    let bound = |field: &str| match &budget["spec"][field] {
        Value::Number(number) => json!(number.to_string()),
        found => json!(text(found, NOT_GIVEN)),
    };
    vec![
        name,
        bound("minAvailable"),
        bound("maxUnavailable"),
        json!(budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default()),
        age,
    ]
}

pub(super) fn service(name: Value, age: Value, service: &Value) -> Vec<Value> {
    let spec = &service["spec"];
    let external = match text(&spec["type"], "") {
        "ExternalName" => text(&spec["externalName"], NONE).to_owned(),
        _ => joined(&list(&spec["externalIPs"]).iter().map(|address| text(address, "").to_owned()).collect::<Vec<_>>()),
    };
    let ports: Vec<String> = list(&spec["ports"])
        .iter()
        .map(|port| {
            let node_port = port["nodePort"].as_u64().filter(|port| *port != 0);
            let node_port = node_port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}{node_port}/{}", port["port"].as_u64().unwrap_or_default(), text(&port["protocol"], "TCP"))
        })
        .collect();
    let labels = spec["selector"].as_object();
    let labels: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value, ""))).collect();
    vec![
        name,
        json!(text(&spec["type"], UNKNOWN)),
        json!(text(&spec["clusterIP"], NONE)),
        json!(external),
        json!(joined(&ports)),
        age,
        json!(joined(&labels)),
    ]
}

fn joined(words: &[String]) -> String {
    if words.is_empty() { NONE.to_owned() } else { words.join(",") }
}
