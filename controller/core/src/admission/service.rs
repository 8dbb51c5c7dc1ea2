//! v1 Service, as far as the scheduler needs it (TSC-05): the object and its selector. There are no endpoints, addresses or
//! names behind it in this build (NET-01), which every write says in a warning; types that are nothing without them are
//! refused.

use serde_json::{Value, json};

use super::at::{At, Causes, default, given, immutable, items, items_mut, one_of, text};
use super::{Rules, nothing_to_keep, syntax};
use crate::error::ApiError;

/// The rules for services.
pub(super) const RULES: Rules = Rules {
    name: syntax::dns_1035_label,
    defaults,
    admit,
    keep: nothing_to_keep,
    validate,
    validate_update,
    validate_status: |_, _, _| {},
};

/// `clusterIP` of a service without an address of its own.
const HEADLESS: &str = "None";

/// Fields that are nothing without an address.
const NOT_IN_THIS_BUILD: &[(&str, &str)] = &[
    ("externalIPs", "addresses from outside are not in this build"),
    ("externalName", "services of type ExternalName are not in this build"),
    ("externalTrafficPolicy", "addresses from outside are not in this build"),
    ("healthCheckNodePort", "ports of nodes are not in this build"),
    ("loadBalancerClass", "load balancers are not in this build"),
    ("loadBalancerIP", "load balancers are not in this build"),
    ("loadBalancerSourceRanges", "load balancers are not in this build"),
    ("trafficDistribution", "endpoints are not in this build, so traffic cannot be distributed"),
];

fn defaults(service: &mut Value) {
    default(service, "spec", || json!({}));
    let spec = &mut service["spec"];
    default(spec, "type", || json!("ClusterIP"));
    default(spec, "sessionAffinity", || json!("None"));
    default(spec, "internalTrafficPolicy", || json!("Cluster"));
    default(spec, "ipFamilies", || json!(["IPv4"]));
    default(spec, "ipFamilyPolicy", || json!("SingleStack"));
    for port in items_mut(spec, "ports") {
        default(port, "protocol", || json!("TCP"));
        let number = port["port"].clone();
        if !number.is_null() {
            default(port, "targetPort", || number);
        }
    }
    if spec["clusterIP"] == HEADLESS {
        default(spec, "clusterIPs", || json!([HEADLESS]));
    }
}

fn admit(service: &mut Value) -> Result<(), ApiError> {
    service["status"] = json!({"loadBalancer": {}});
    Ok(())
}

/// What a service does not do yet.
pub(super) fn warnings(_service: &Value) -> Vec<String> {
    let words = "services have no endpoints, addresses or names in this build: the object is stored and its selector \
        spreads pods, but nothing is reached through it";
    vec![words.to_owned()]
}

fn validate(service: &Value, causes: &mut Causes) {
    let (at, spec) = (At::Root.field("spec"), &service["spec"]);
    match text(spec, "type") {
        "ClusterIP" => {}
        found @ ("ExternalName" | "LoadBalancer" | "NodePort") => {
            let detail = format!("services of type {found} are not in this build; use ClusterIP");
            return causes.push(at.field("type").forbidden(&detail));
        }
        _ => {
            let supported = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
            causes.push(at.field("type").not_supported(&spec["type"], &supported));
        }
    }
    for (field, detail) in NOT_IN_THIS_BUILD {
        if given(&spec[*field]) {
            causes.push(at.field(field).forbidden(detail));
        }
    }
    syntax::check_labels(&spec["selector"], &at.field("selector"), causes);
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &at, causes);
    one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], &at, causes);
    one_of(spec, "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"], &at, causes);
    addresses(spec, &at, causes);
    ports(spec, &at, causes);
}

fn addresses(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    let address = text(spec, "clusterIP");
    if !matches!(address, "" | HEADLESS) {
        let detail = "addresses of services are not in this build; leave the field out, or set it to None";
        causes.push(at.field("clusterIP").forbidden(detail));
        return;
    }
    let all = at.field("clusterIPs");
    for (index, found) in items(&spec["clusterIPs"]) {
        if found != address {
            causes.push(all.item(index).invalid(found, "first value must match `clusterIP`"));
        }
    }
    let families = at.field("ipFamilies");
    for (index, family) in items(&spec["ipFamilies"]) {
        if !matches!(family.as_str(), Some("IPv4" | "IPv6")) {
            causes.push(families.item(index).not_supported(family, &["IPv4", "IPv6"]));
        }
    }
}

fn ports(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    let at = at.field("ports");
    let list = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if list.is_empty() && text(spec, "clusterIP") != HEADLESS {
        causes.push(at.required(""));
    }
    for (index, port) in list.iter().enumerate() {
        let at = at.item(index);
        let name = text(port, "name");
        if name.is_empty() {
            if list.len() > 1 {
                causes.push(at.field("name").required(""));
            }
        } else {
            syntax::check(name, syntax::label, &at.field("name"), causes);
            if list[..index].iter().any(|other| text(other, "name") == name) {
                causes.push(at.field("name").duplicate(&port["name"]));
            }
        }
        one_port(port, &at, causes);
        let same = |other: &Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        if list[..index].iter().any(same) {
            causes.push(at.duplicate(&json!({"port": port["port"], "protocol": port["protocol"]})));
        }
    }
}

fn one_port(port: &Value, at: &At<'_>, causes: &mut Causes) {
    let in_range = |found: &Value| found.as_i64().is_some_and(|number| (1..=65535).contains(&number));
    let range = "must be between 1 and 65535, inclusive";
    if !in_range(&port["port"]) {
        causes.push(at.field("port").invalid(&port["port"], range));
    }
    match &port["targetPort"] {
        Value::String(name) => syntax::check(name, syntax::port_name, &at.field("targetPort"), causes),
        Value::Null => {}
        found if in_range(found) || port["targetPort"] == port["port"] => {}
        found => causes.push(at.field("targetPort").invalid(found, range)),
    }
    one_of(port, "protocol", &["SCTP", "TCP", "UDP"], at, causes);
    if given(&port["appProtocol"]) {
        syntax::check(text(port, "appProtocol"), syntax::qualified_name, &at.field("appProtocol"), causes);
    }
    if port["nodePort"].as_i64().is_some_and(|number| number != 0) {
        causes.push(at.field("nodePort").forbidden("may not be used when `type` is 'ClusterIP'"));
    }
}

fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    if old["spec"]["type"] == new["spec"]["type"] {
        immutable(&old["spec"], &new["spec"], "clusterIP", &At::Root.field("spec"), causes);
    }
}
