//! The variables of a container: `envFrom`, then `env`; a later variable of the same name wins. A running container
//! keeps the ones that it was started with.

use coracle_model::EnvVar;
use serde_json::Value;

use super::{Scene, bytes_of, downward, expand, known, not_found};
use crate::kind::Kind;

/// Every variable, or what is missing, in a kubelet's words (`CreateContainerConfigError`).
pub(super) fn resolve(scene: Scene<'_>, container: &Value) -> Result<Vec<EnvVar>, String> {
    let mut variables: Vec<EnvVar> = Vec::new();
    for source in container["envFrom"].as_array().into_iter().flatten() {
        let prefix = source["prefix"].as_str().unwrap_or_default();
        for (name, text) in all_of(scene, source)? {
            put(&mut variables, format!("{prefix}{name}"), text);
        }
    }
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or_default().to_owned();
        let text = if let Some(from) = variable.get("valueFrom").filter(|from| !from.is_null()) {
            match one_of(scene, container, from)? {
                Some(text) => text,
                None => continue,
            }
        } else {
            expand::expand(variable["value"].as_str().unwrap_or_default(), &known(&variables))
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

/// Every key of a config map or secret. Whatever may be a key may be a variable's name.
fn all_of(scene: Scene<'_>, source: &Value) -> Result<Vec<(String, String)>, String> {
    for (field, kind) in [("configMapRef", Kind::CONFIG_MAP), ("secretRef", Kind::SECRET)] {
        let reference = &source[field];
        let Some(name) = reference["name"].as_str() else { continue };
        let Some(object) = scene.find(kind, name) else {
            if reference["optional"].as_bool().unwrap_or_default() {
                return Ok(Vec::new());
            }
            return Err(not_found(kind, name));
        };
        let data = object.value();
        let keys = data["data"].as_object().into_iter().flatten();
        return Ok(keys.filter_map(|(key, found)| Some((key.clone(), text(kind, found)?))).collect());
    }
    Ok(Vec::new())
}

/// One `valueFrom`; `None` when it is optional and missing.
fn one_of(scene: Scene<'_>, container: &Value, from: &Value) -> Result<Option<String>, String> {
    if let Some(path) = from["fieldRef"]["fieldPath"].as_str() {
        return downward::field(scene, path).map(Some).ok_or_else(|| format!("unsupported fieldPath: {path}"));
    }
    if !from["resourceFieldRef"].is_null() {
        let reference = &from["resourceFieldRef"];
        let named = reference["containerName"].as_str().filter(|name| !name.is_empty());
        let other = named.and_then(|name| container_called(scene, name));
        return match (named, other) {
            (Some(name), None) => Err(format!("container {name} not found")),
            (_, other) => Ok(Some(downward::resource(scene, other.unwrap_or(container), reference))),
        };
    }
    for (field, kind) in [("configMapKeyRef", Kind::CONFIG_MAP), ("secretKeyRef", Kind::SECRET)] {
        let reference = &from[field];
        let Some(name) = reference["name"].as_str() else { continue };
        let key = reference["key"].as_str().unwrap_or_default();
        let optional = reference["optional"].as_bool().unwrap_or_default();
        let object = scene.find(kind, name);
        let found = object.and_then(|object| text(kind, &object.value()["data"][key]));
        return match (found, object, optional) {
            (Some(text), _, _) => Ok(Some(text)),
            (None, _, true) => Ok(None),
            (None, None, false) => Err(not_found(kind, name)),
            (None, Some(_), false) => {
                Err(format!("couldn't find key {key} in {} {}/{name}", kind.info().kind, scene.pod.namespace()))
            }
        };
    }
    Err("valueFrom names no source".to_owned())
}

/// A container of the pod, by its name.
pub(super) fn container_called<'a>(scene: Scene<'a>, name: &str) -> Option<&'a Value> {
    let lists = ["containers", "initContainers"];
    let mut all = lists.iter().flat_map(|list| scene.spec[*list].as_array().into_iter().flatten());
    all.find(|container| container["name"] == name)
}

fn text(kind: Kind, found: &Value) -> Option<String> {
    let bytes = bytes_of(kind, found)?;
    Some(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
