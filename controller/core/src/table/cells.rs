//! The cells of each kind but the pod.

use serde_json::{Value, json};

use super::{age, placement, pod, storage};
use crate::kind::Kind;
use crate::object::Object;
use crate::selector::LabelSelector;

pub(super) const NONE: &str = "<none>";
pub(super) const UNKNOWN: &str = "<unknown>";

/// The cells of an object; `value` is its JSON.
pub(super) fn of(object: &Object, value: &Value, now_wall_ms: u64) -> Vec<Value> {
    let name = json!(object.name());
    let age = match object.created_ms {
        0 => json!(UNKNOWN),
        created => json!(age::since_ms(created, now_wall_ms)),
    };
    match object.key.kind {
        Kind::POD => pod::cells(name, age, value, now_wall_ms),
        Kind::NODE => node(name, age, object, value),
        Kind::NAMESPACE => vec![name, json!(text(&value["status"]["phase"], "")), age],
        Kind::CONFIG_MAP => vec![name, json!(len(&value["data"]) + len(&value["binaryData"])), age],
        Kind::SECRET => vec![name, json!(text(&value["type"], "")), json!(len(&value["data"])), age],
        Kind::EVENT => event(name, value, now_wall_ms),
        Kind::DEPLOYMENT => deployment(name, age, value),
        Kind::REPLICA_SET => replica_set(name, age, value),
        Kind::DAEMON_SET => daemon_set(name, age, value),
        Kind::PRIORITY_CLASS => placement::priority_class(name, age, value),
        Kind::POD_DISRUPTION_BUDGET => placement::disruption_budget(name, age, value),
        Kind::SERVICE => placement::service(name, age, value),
        Kind::PERSISTENT_VOLUME => storage::volume(name, age, value),
        Kind::PERSISTENT_VOLUME_CLAIM => storage::claim(name, age, value),
        Kind::STORAGE_CLASS => storage::class(&name, age, value),
        Kind::LEASE => vec![name, json!(text(&value["spec"]["holderIdentity"], "")), age],
        _ => vec![name, age],
    }
}

pub(super) fn text<'a>(value: &'a Value, missing: &'a str) -> &'a str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(missing)
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn len(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn node(name: Value, age: Value, object: &Object, value: &Value) -> Vec<Value> {
    let status = &value["status"];
    let ready = list(&status["conditions"]).iter().find(|condition| condition["type"] == "Ready");
    let mut words = vec![match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if value["spec"]["unschedulable"] == true {
        words.push("SchedulingDisabled");
    }
    let mut roles: Vec<&str> = object
        .labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (&**key == "kubernetes.io/role").then_some(&**value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let roles = if roles.is_empty() { NONE.to_owned() } else { roles.join(",") };
    let address = |kind: &str| {
        let found = list(&status["addresses"]).iter().find(|address| address["type"] == kind);
        json!(found.map_or(NONE, |address| text(&address["address"], NONE)))
    };
    let info = &status["nodeInfo"];
    vec![
        name,
        json!(words.join(",")),
        json!(roles),
        age,
        json!(text(&info["kubeletVersion"], "")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(text(&info["osImage"], UNKNOWN)),
        json!(text(&info["kernelVersion"], UNKNOWN)),
        json!(text(&info["containerRuntimeVersion"], UNKNOWN)),
    ]
}

fn event(name: Value, value: &Value, now_wall_ms: u64) -> Vec<Value> {
    let since = |stamp: &Value| age::since(stamp, now_wall_ms);
    let first = since(&value["firstTimestamp"]).or_else(|| since(&value["eventTime"]));
    let first = first.unwrap_or_else(|| UNKNOWN.to_owned());
    let series = &value["series"];
    let last = since(&series["lastObservedTime"]).or_else(|| since(&value["lastTimestamp"]));
    let count = if series.is_object() { count(&series["count"]) } else { count(&value["count"]).max(1) };
    let about = &value["involvedObject"];
    let kind = text(&about["kind"], "").to_lowercase();
    let object = match text(&about["name"], "") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = text(&value["source"]["component"], text(&value["reportingComponent"], ""));
    let host = text(&value["source"]["host"], text(&value["reportingInstance"], ""));
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        json!(last.unwrap_or_else(|| first.clone())),
        json!(text(&value["type"], "")),
        json!(text(&value["reason"], "")),
        json!(object),
        json!(text(&about["fieldPath"], "")),
        json!(source),
        json!(text(&value["message"], "").trim()),
        json!(first),
        json!(count),
        name,
    ]
}

/// Containers, images and selector of a workload.
fn workload(value: &Value) -> [Value; 3] {
    let containers = list(&value["spec"]["template"]["spec"]["containers"]);
    let joined =
        |field: &str| containers.iter().map(|container| text(&container[field], "")).collect::<Vec<_>>().join(",");
    let selector = LabelSelector::of_json(&value["spec"]["selector"]).map(|selector| selector.to_string());
    let selector = selector.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| NONE.to_owned());
    [json!(joined("name")), json!(joined("image")), json!(selector)]
}

fn deployment(name: Value, age: Value, value: &Value) -> Vec<Value> {
    let status = &value["status"];
    let desired = value["spec"]["replicas"].as_u64().unwrap_or(1);
    let mut cells = vec![
        name,
        json!(format!("{}/{desired}", count(&status["readyReplicas"]))),
        json!(count(&status["updatedReplicas"])),
        json!(count(&status["availableReplicas"])),
        age,
    ];
    cells.extend(workload(value));
    cells
}

fn replica_set(name: Value, age: Value, value: &Value) -> Vec<Value> {
    let status = &value["status"];
    let mut cells = vec![
        name,
        json!(value["spec"]["replicas"].as_u64().unwrap_or(1)),
        json!(count(&status["replicas"])),
        json!(count(&status["readyReplicas"])),
        age,
    ];
    cells.extend(workload(value));
    cells
}

fn daemon_set(name: Value, age: Value, value: &Value) -> Vec<Value> {
    let status = &value["status"];
    let labels = value["spec"]["template"]["spec"]["nodeSelector"].as_object();
    let labels: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value, ""))).collect();
    let mut cells = vec![
        name,
        json!(count(&status["desiredNumberScheduled"])),
        json!(count(&status["currentNumberScheduled"])),
        json!(count(&status["numberReady"])),
        json!(count(&status["updatedNumberScheduled"])),
        json!(count(&status["numberAvailable"])),
        json!(if labels.is_empty() { NONE.to_owned() } else { labels.join(",") }),
        age,
    ];
    cells.extend(workload(value));
    cells
}
