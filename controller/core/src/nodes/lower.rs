//! A Pod object, lowered to what its node is told (POD-08): references resolved, variables expanded, nothing left to
//! look up.

use std::collections::BTreeMap;

use coracle_model::{Container, EnvVar, Pod, PullPolicy, ResourceAmounts, RestartPolicy, Stop};
use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::rows::{cpu_millis, units};
use crate::view::View;

/// The annotation that gives a guest the end of its standard input at once.
const STDIN_EOF: &str = "coracle.dev/stdin-eof";

/// The pod as its node gets it; `None` for an object that is no pod.
pub(super) fn pod(view: &View, object: &Object) -> Option<Pod> {
    let value = object.value();
    let spec = &value["spec"];
    let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
    let deletion_grace = value["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(grace);
    let containers = spec["containers"].as_array()?;
    Some(Pod {
        uid: object.uid,
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        restart_policy: match spec["restartPolicy"].as_str() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        },
        termination_grace_ms: grace.saturating_mul(1000),
        containers: containers.iter().map(|spec| container(view, object, &value, spec)).collect(),
        stop: object.is_deleting().then(|| Stop { grace_ms: deletion_grace.saturating_mul(1000) }),
        volumes: Vec::new(),
    })
}

fn container(view: &View, pod: &Object, value: &Value, spec: &Value) -> Container {
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let (env, config_error) = match environment(view, pod, value, spec) {
        Ok(env) => (env, None),
        Err(missing) => (Vec::new(), Some(missing)),
    };
    let known: BTreeMap<&str, &str> =
        env.iter().map(|variable| (variable.name.as_str(), variable.value.as_str())).collect();
    let words = |field: &str| -> Vec<String> {
        let list = spec[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(|word| expand(word, &known)).collect()
    };
    let mut argv = words("command");
    if argv.is_empty() {
        // An image has no entry point of its own; the container's name stands where a program's would.
        argv.push(text("name"));
    }
    argv.extend(words("args"));
    let ports = spec["ports"].as_array().into_iter().flatten();
    Container {
        name: text("name"),
        image: text("image"),
        pull_policy: match spec["imagePullPolicy"].as_str() {
            Some("Always") => PullPolicy::Always,
            Some("Never") => PullPolicy::Never,
            _ => PullPolicy::IfNotPresent,
        },
        argv,
        working_dir: spec["workingDir"].as_str().map(ToOwned::to_owned),
        ports: ports
            .filter(|port| port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP"))
            .filter_map(|port| {
                let number = u16::try_from(port["containerPort"].as_u64()?).ok()?;
                Some((port["name"].as_str().unwrap_or_default().to_owned(), number))
            })
            .collect(),
        limits: amounts(&spec["resources"]["limits"]),
        requests: amounts(&spec["resources"]["requests"]),
        config_error,
        stdin_eof: value["metadata"]["annotations"][STDIN_EOF] == "now",
        mounts: Vec::new(),
        env,
    }
}

fn amounts(value: &Value) -> ResourceAmounts {
    ResourceAmounts {
        cpu_millis: cpu_millis(&value["cpu"]),
        memory_bytes: units(&value["memory"]),
        storage_bytes: units(&value["ephemeral-storage"]),
    }
}

/// `envFrom`, then `env`; a later variable of the same name wins. The error names what is missing, in the kubelet's
/// words.
fn environment(view: &View, pod: &Object, value: &Value, spec: &Value) -> Result<Vec<EnvVar>, String> {
    let mut variables: Vec<EnvVar> = Vec::new();
    for source in spec["envFrom"].as_array().into_iter().flatten() {
        let prefix = source["prefix"].as_str().unwrap_or_default();
        for (name, text) in all_of(view, pod, source)? {
            put(&mut variables, format!("{prefix}{name}"), text);
        }
    }
    for variable in spec["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or_default().to_owned();
        let text = if let Some(from) = variable.get("valueFrom").filter(|from| !from.is_null()) {
            match one_of(view, pod, value, spec, from)? {
                Some(text) => text,
                None => continue,
            }
        } else {
            let known: BTreeMap<&str, &str> =
                variables.iter().map(|variable| (variable.name.as_str(), variable.value.as_str())).collect();
            expand(variable["value"].as_str().unwrap_or_default(), &known)
        };
        put(&mut variables, name, text);
    }
    Ok(variables)
}

fn put(variables: &mut Vec<EnvVar>, name: String, value: String) {
    match variables.iter_mut().find(|variable| variable.name == name) {
        Some(variable) => variable.value = value,
        None => variables.push(EnvVar { name, value }),
    }
}

/// Every key of a config map or secret.
fn all_of(view: &View, pod: &Object, source: &Value) -> Result<Vec<(String, String)>, String> {
    for (field, kind) in [("configMapRef", Kind::CONFIG_MAP), ("secretRef", Kind::SECRET)] {
        let reference = &source[field];
        let Some(name) = reference["name"].as_str() else { continue };
        let found = view.get(&Key::new(kind, pod.namespace(), name));
        let Some(object) = found else {
            if reference["optional"].as_bool().unwrap_or_default() {
                return Ok(Vec::new());
            }
            return Err(format!("{} \"{name}\" not found", kind.info().singular));
        };
        let data = object.value();
        let keys = data["data"].as_object().into_iter().flatten();
        return Ok(keys.filter_map(|(key, found)| Some((key.clone(), decoded(kind, found)?))).collect());
    }
    Ok(Vec::new())
}

/// One `valueFrom`; `None` when it is optional and missing.
fn one_of(view: &View, pod: &Object, value: &Value, spec: &Value, from: &Value) -> Result<Option<String>, String> {
    if let Some(path) = from["fieldRef"]["fieldPath"].as_str() {
        return field(pod, value, path).map(Some).ok_or_else(|| format!("unsupported fieldPath: {path}"));
    }
    if let Some(resource) = from["resourceFieldRef"]["resource"].as_str() {
        return Ok(Some(resource_field(spec, resource)));
    }
    for (field, kind) in [("configMapKeyRef", Kind::CONFIG_MAP), ("secretKeyRef", Kind::SECRET)] {
        let reference = &from[field];
        let Some(name) = reference["name"].as_str() else { continue };
        let key = reference["key"].as_str().unwrap_or_default();
        let optional = reference["optional"].as_bool().unwrap_or_default();
        let object = view.get(&Key::new(kind, pod.namespace(), name));
        let found = object.and_then(|object| decoded(kind, &object.value()["data"][key]));
        return match (found, object, optional) {
            (Some(text), _, _) => Ok(Some(text)),
            (None, _, true) => Ok(None),
            (None, None, false) => Err(format!("{} \"{name}\" not found", kind.info().singular)),
            (None, Some(_), false) => {
                Err(format!("couldn't find key {key} in {} {}/{name}", kind.info().kind, pod.namespace()))
            }
        };
    }
    Err("valueFrom names no source".to_owned())
}

fn decoded(kind: Kind, found: &Value) -> Option<String> {
    let text = found.as_str()?;
    if kind != Kind::SECRET {
        return Some(text.to_owned());
    }
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The downward API's fields.
fn field(pod: &Object, value: &Value, path: &str) -> Option<String> {
    let text = |found: &Value| Some(found.as_str().unwrap_or_default().to_owned());
    let keyed = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']").map(ToOwned::to_owned);
    match path {
        "metadata.name" => Some(pod.name().to_owned()),
        "metadata.namespace" => Some(pod.namespace().to_owned()),
        "metadata.uid" => Some(pod.uid.to_string()),
        "spec.nodeName" | "status.hostName" => text(&value["spec"]["nodeName"]),
        "spec.serviceAccountName" => Some(value["spec"]["serviceAccountName"].as_str().unwrap_or("default").to_owned()),
        "status.hostIP" => text(&value["status"]["hostIP"]),
        "status.podIP" | "status.podIPs" => text(&value["status"]["podIP"]),
        _ => keyed("metadata.labels['")
            .and_then(|key| text(&value["metadata"]["labels"][key]))
            .or_else(|| keyed("metadata.annotations['").and_then(|key| text(&value["metadata"]["annotations"][key]))),
    }
}

/// `limits.cpu` in whole cores (rounded up), `limits.memory` in bytes, and the same of requests.
fn resource_field(spec: &Value, resource: &str) -> String {
    let amount = match resource.split_once('.') {
        Some((of, "cpu")) => cpu_millis(&spec["resources"][of]["cpu"]).div_ceil(1000),
        Some((of, name)) => units(&spec["resources"][of][name]),
        None => 0,
    };
    amount.to_string()
}

/// `$(VAR)` becomes the variable's value, `$$` a dollar; an unknown variable stays as it is written.
fn expand(text: &str, known: &BTreeMap<&str, &str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            expanded.push('$');
            rest = escaped;
        } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            match known.get(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&rest[at..rest.len() - behind.len()]),
            }
            rest = behind;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_expand_as_in_kubernetes() {
        // POD-08
        let known = BTreeMap::from([("A", "1"), ("B", "two")]);
        for (text, want) in [
            ("$(A)-$(B)", "1-two"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(C)", "$(C)"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("cost: 5$", "cost: 5$"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &known), want, "{text}");
        }
    }
}
