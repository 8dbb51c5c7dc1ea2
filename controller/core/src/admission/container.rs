//! Validation of one container: name, image, ports, environment, resources.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::at::{At, Causes, given, items, one_of, text};
use super::{downward, not_in_this_build, quantities, syntax};

/// Checks one of `spec.containers`.
pub(super) fn validate(container: &Value, at: &At<'_>, causes: &mut Causes) {
    let name = text(container, "name");
    if name.is_empty() {
        causes.push(at.field("name").required(""));
    } else {
        syntax::check(name, syntax::label, &at.field("name"), causes);
    }
    let image = text(container, "image");
    if image.is_empty() {
        causes.push(at.field("image").required("the component to run, such as samples/hello:1"));
    } else if image.trim() != image {
        causes.push(at.field("image").invalid(&container["image"], "must not have leading or trailing whitespace"));
    }
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], at, causes);
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], at, causes);
    ports(container, at, causes);
    env(container, at, causes);
    env_from(container, at, causes);
    quantities::validate(&container["resources"], &at.field("resources"), causes);
    not_in_this_build::refuse_container(container, at, causes);
}

fn ports(container: &Value, at: &At<'_>, causes: &mut Causes) {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    let at = at.field("ports");
    let mut names = BTreeSet::new();
    for (index, port) in items(&container["ports"]) {
        let at = at.item(index);
        let number = port["containerPort"].as_i64().unwrap_or_default();
        if number == 0 {
            causes.push(at.field("containerPort").required(""));
        } else if !(1..=65535).contains(&number) {
            causes.push(at.field("containerPort").invalid(&port["containerPort"], RANGE));
        }
        if port["hostPort"].as_i64().is_some_and(|number| !(0..=65535).contains(&number)) {
            causes.push(at.field("hostPort").invalid(&port["hostPort"], RANGE));
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, causes);
        let name = text(port, "name");
        if !name.is_empty() {
            syntax::check(name, syntax::port_name, &at.field("name"), causes);
            if !names.insert(name) {
                causes.push(at.field("name").duplicate(&port["name"]));
            }
        }
    }
}

/// No host port is taken twice in one pod.
pub(super) fn validate_host_ports(containers: &[Value], at: &At<'_>, causes: &mut Causes) {
    let mut taken: BTreeSet<(&str, &str, u64)> = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = at.item(index);
        let at = at.field("ports");
        for (index, port) in items(&container["ports"]) {
            let number = port["hostPort"].as_u64().unwrap_or_default();
            if number == 0 {
                continue;
            }
            let entry = (text(port, "protocol"), text(port, "hostIP"), number);
            if !taken.insert(entry) {
                let at = at.item(index);
                causes.push(at.field("hostPort").duplicate(&json!(format!("{}/{}/{}", entry.0, entry.1, entry.2))));
            }
        }
    }
}

fn env(container: &Value, at: &At<'_>, causes: &mut Causes) {
    let at = at.field("env");
    for (index, variable) in items(&container["env"]) {
        let at = at.item(index);
        let name = text(variable, "name");
        if name.is_empty() {
            causes.push(at.field("name").required(""));
        } else {
            syntax::check(name, syntax::env_name, &at.field("name"), causes);
        }
        if given(&variable["valueFrom"]) {
            value_from(variable, &at.field("valueFrom"), causes);
        }
    }
}

/// `env[].valueFrom`: exactly one source (POD-08).
fn value_from(variable: &Value, at: &At<'_>, causes: &mut Causes) {
    let from = &variable["valueFrom"];
    if given(&variable["value"]) {
        causes.push(at.invalid(from, "may not be specified when `value` is not empty"));
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"];
    match sources.iter().filter(|source| given(&from[**source])).count() {
        0 if given(&from["fileKeyRef"]) => {
            causes.push(at.field("fileKeyRef").forbidden("variables from files are not in this build"));
        }
        0 => {
            causes.push(at.invalid(
                from,
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            ))
        }
        1 => {}
        _ => causes.push(at.invalid(from, "may not have more than one field specified at a time")),
    }
    if given(&from["fieldRef"]) {
        downward::field_ref(&from["fieldRef"], &downward::OF_VARIABLES, &at.field("fieldRef"), causes);
    }
    if given(&from["resourceFieldRef"]) {
        downward::resource_field_ref(&from["resourceFieldRef"], false, &at.field("resourceFieldRef"), causes);
    }
    for source in ["configMapKeyRef", "secretKeyRef"] {
        let reference = &from[source];
        if !given(reference) {
            continue;
        }
        let at = at.field(source);
        if text(reference, "name").is_empty() {
            causes.push(at.field("name").required(""));
        }
        if text(reference, "key").is_empty() {
            causes.push(at.field("key").required(""));
        } else {
            syntax::check(text(reference, "key"), syntax::config_key, &at.field("key"), causes);
        }
    }
}

fn env_from(container: &Value, at: &At<'_>, causes: &mut Causes) {
    let at = at.field("envFrom");
    for (index, source) in items(&container["envFrom"]) {
        let at = at.item(index);
        if given(&source["prefix"]) {
            syntax::check(text(source, "prefix"), syntax::env_name, &at.field("prefix"), causes);
        }
        let sources: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|reference| given(&source[*reference])).collect();
        match sources[..] {
            [reference] => {
                if text(&source[reference], "name").is_empty() {
                    causes.push(at.field(reference).field("name").required(""));
                }
            }
            [] => causes.push(at.invalid(source, "must specify one of: `configMapRef` or `secretRef`")),
            _ => causes.push(at.invalid(source, "may not have more than one field specified at a time")),
        }
    }
}
