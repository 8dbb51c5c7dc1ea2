//! Volumes of a pod, and where its containers mount them (VOL-01): what this build lays out is checked, every other
//! kind is refused by its name.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::at::{At, Causes, default, items, items_mut, text};
use super::{downward, quantities, syntax};

/// `defaultMode` where none is given: 0644.
const DEFAULT_MODE: i64 = 0o644;

/// The kinds that Kubernetes has and this build has not, in its order.
const REFUSED: [&str; 24] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
    "csi",
    "ephemeral",
    "image",
];

/// The kinds that are there, in the order in which a second one is refused. A claim is bound and decides on the pod's node;
/// no node mounts its volume yet, which [`warnings`] tell.
const KINDS: [&str; 6] = ["emptyDir", "secret", "persistentVolumeClaim", "downwardAPI", "configMap", "projected"];

/// What a projected volume can hold in Kubernetes and not here.
const REFUSED_SOURCES: [(&str, &str); 3] = [
    ("serviceAccountToken", "tokens of service accounts are not in this build"),
    ("clusterTrustBundle", "cluster trust bundles are not in this build"),
    ("podCertificate", "certificates of pods are not in this build"),
];

/// Fills in what is not given; a volume of no kind is an empty directory.
pub(super) fn defaults(spec: &mut Value) {
    for volume in items_mut(spec, "volumes") {
        if !KINDS.iter().chain(&REFUSED).any(|kind| !volume[*kind].is_null()) {
            default(volume, "emptyDir", || json!({}));
        }
        for kind in ["secret", "downwardAPI", "configMap", "projected"] {
            if let Some(source) = volume.get_mut(kind) {
                default(source, "defaultMode", || json!(DEFAULT_MODE));
            }
        }
        if let Some(source) = volume.get_mut("downwardAPI") {
            items_mut(source, "items").for_each(downward_default);
        }
        let Some(projected) = volume.get_mut("projected") else { continue };
        for source in items_mut(projected, "sources") {
            if let Some(source) = source.get_mut("downwardAPI") {
                items_mut(source, "items").for_each(downward_default);
            }
        }
    }
}

/// What a reference of the downward API leaves out, in a file or a variable.
pub(super) fn downward_default(holder: &mut Value) {
    if let Some(reference) = holder.get_mut("fieldRef") {
        default(reference, "apiVersion", || json!("v1"));
    }
    if let Some(reference) = holder.get_mut("resourceFieldRef") {
        default(reference, "divisor", || json!("0"));
    }
}

/// What a pod's volumes do not do yet.
pub(super) fn warnings(spec: &Value) -> Vec<String> {
    let claims = items(&spec["volumes"]).filter(|(_, volume)| !volume["persistentVolumeClaim"].is_null());
    let words = |index: usize| {
        format!(
            "spec.volumes[{index}].persistentVolumeClaim: no node mounts persistent volumes in this build: the pod is \
                 placed by its claims, and its containers wait"
        )
    };
    claims.map(|(index, _)| words(index)).collect()
}

/// Checks `spec.volumes` and every container's `volumeMounts`.
pub(super) fn validate(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    let mut names = BTreeSet::new();
    let list = at.field("volumes");
    for (index, volume) in items(&spec["volumes"]) {
        let at = list.item(index);
        let before = causes.len();
        source(volume, &at, causes);
        let name = text(volume, "name");
        if name.is_empty() {
            causes.push(at.field("name").required(""));
        } else {
            syntax::check(name, syntax::label, &at.field("name"), causes);
        }
        if names.contains(name) {
            causes.push(at.field("name").duplicate(&volume["name"]));
        }
        if causes.len() == before {
            names.insert(name);
        }
        for kind in REFUSED.iter().filter(|kind| !volume[**kind].is_null()) {
            causes.push(at.field(kind).forbidden(&format!("{kind} volumes are not in this build")));
        }
    }
    for field in ["initContainers", "containers"] {
        let list = at.field(field);
        for (index, container) in items(&spec[field]) {
            mounts(container, &names, &list.item(index), causes);
        }
    }
}

fn source(volume: &Value, at: &At<'_>, causes: &mut Causes) {
    let mut kinds = KINDS.iter().filter(|kind| !volume[**kind].is_null());
    let first = kinds.next();
    for second in kinds {
        causes.push(at.field(second).forbidden("may not specify more than 1 volume type"));
    }
    let Some(kind) = first else { return };
    let (source, at) = (&volume[*kind], at.field(kind));
    match *kind {
        "emptyDir" => empty_dir(source, &at, causes),
        "persistentVolumeClaim" => {
            if text(source, "claimName").is_empty() {
                causes.push(at.field("claimName").required(""));
            }
        }
        "secret" => keys("secretName", source, &at, causes),
        "configMap" => keys("name", source, &at, causes),
        "downwardAPI" => {
            mode(source, "defaultMode", &at, causes);
            items(&source["items"]).for_each(|(_, file)| downward_file(file, &at, causes));
        }
        _ => {
            mode(source, "defaultMode", &at, causes);
            projected(source, &at, causes);
        }
    }
}

fn empty_dir(source: &Value, at: &At<'_>, causes: &mut Causes) {
    let medium = text(source, "medium");
    if !matches!(medium, "" | "Memory") {
        causes.push(at.field("medium").not_supported(&source["medium"], &["", "Memory"]));
    }
    let limit = &source["sizeLimit"];
    match quantities::milli(limit) {
        None if !limit.is_null() => drop(quantities::check(limit, &at.field("sizeLimit"), causes)),
        Some(limit) if limit < 0 => {
            causes.push(at.field("sizeLimit").forbidden("SizeLimit field must be a valid resource quantity"));
        }
        _ => {}
    }
}

/// A `configMap` or `secret` volume.
fn keys(name: &str, source: &Value, at: &At<'_>, causes: &mut Causes) {
    if text(source, name).is_empty() {
        causes.push(at.field(name).required(""));
    }
    mode(source, "defaultMode", at, causes);
    let list = at.field("items");
    items(&source["items"]).for_each(|(index, item)| key_to_path(item, &list.item(index), causes));
}

fn key_to_path(item: &Value, at: &At<'_>, causes: &mut Causes) {
    for field in ["key", "path"] {
        if text(item, field).is_empty() {
            causes.push(at.field(field).required(""));
        }
    }
    file_path(item, at, causes);
    mode(item, "mode", at, causes);
}

fn downward_file(file: &Value, at: &At<'_>, causes: &mut Causes) {
    if text(file, "path").is_empty() {
        causes.push(at.field("path").required(""));
    }
    file_path(file, at, causes);
    let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    if !field.is_null() {
        downward::field_ref(field, &downward::OF_FILES, &at.field("fieldRef"), causes);
        if !resource.is_null() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            causes.push(at.invalid(&json!("resource"), detail));
        }
    } else if !resource.is_null() {
        downward::resource_field_ref(resource, true, &at.field("resourceFieldRef"), causes);
    } else {
        causes.push(at.required("one of fieldRef and resourceFieldRef is required"));
    }
    mode(file, "mode", at, causes);
}

fn projected(source: &Value, at: &At<'_>, causes: &mut Causes) {
    let mut paths = BTreeSet::new();
    let list = at.field("sources");
    for (index, source) in items(&source["sources"]) {
        let here = list.item(index);
        for kind in ["secret", "configMap"].into_iter().filter(|kind| !source[*kind].is_null()) {
            let (source, at_kind) = (&source[kind], here.field(kind));
            if text(source, "name").is_empty() {
                causes.push(at_kind.field("name").required(""));
            }
            let list = at_kind.field("items");
            for (index, item) in items(&source["items"]) {
                key_to_path(item, &list.item(index), causes);
                let path = text(item, "path");
                if !path.is_empty() && !paths.insert(path) {
                    causes.push(at.invalid(&source["name"], "conflicting duplicate paths"));
                }
            }
        }
        for (_, file) in items(&source["downwardAPI"]["items"]) {
            downward_file(file, &here.field("downwardAPI"), causes);
            let path = text(file, "path");
            if !path.is_empty() && !paths.insert(path) {
                causes.push(at.invalid(&file["path"], "conflicting duplicate paths"));
            }
        }
        for (kind, detail) in REFUSED_SOURCES.iter().filter(|(kind, _)| !source[*kind].is_null()) {
            causes.push(here.field(kind).forbidden(detail));
        }
        if source.as_object().is_some_and(|kinds| kinds.len() > 1) {
            causes.push(here.forbidden("may not specify more than 1 volume type"));
        }
    }
}

/// A file's mode: nine bits.
fn mode(holder: &Value, field: &str, at: &At<'_>, causes: &mut Causes) {
    if holder[field].as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.push(at.field(field).invalid(&holder[field], detail));
    }
}

/// Where a file lies in its volume.
fn file_path(item: &Value, at: &At<'_>, causes: &mut Causes) {
    let path = text(item, "path");
    descending(path, &at.field("path"), causes);
    // A step back has been refused already.
    if path.starts_with("..") && !path.starts_with("../") {
        causes.push(at.field("path").invalid(&item["path"], "must not start with '..'"));
    }
}

/// A path that leads downward.
fn descending(path: &str, at: &At<'_>, causes: &mut Causes) {
    let mut refuse = |detail: &str| causes.push(at.invalid(&json!(path), detail));
    if path.starts_with('/') {
        refuse("must be a relative path");
    }
    if path.split('/').any(|part| part == "..") {
        refuse("must not contain '..'");
    }
}

/// `volumeMounts`. Of the fields of one mount, Kubernetes names some without its index.
fn mounts(container: &Value, names: &BTreeSet<&str>, at: &At<'_>, causes: &mut Causes) {
    let list = at.field("volumeMounts");
    let mut taken = BTreeSet::new();
    for (index, mount) in items(&container["volumeMounts"]) {
        let at = list.item(index);
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            causes.push(at.field("name").required(""));
        }
        if !names.contains(name) {
            causes.push(at.field("name").not_found(&json!(name)));
        }
        if path.is_empty() {
            causes.push(at.field("mountPath").required(""));
        }
        if !taken.insert(path) {
            causes.push(at.field("mountPath").invalid(&mount["mountPath"], "must be unique"));
        }
        let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        descending(sub_path, &list.field("subPath"), causes);
        if !expression.is_empty() && !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            causes.push(at.field("subPathExpr").invalid(&mount["subPathExpr"], detail));
        }
        descending(expression, &list.field("subPathExpr"), causes);
        propagation(mount, &list, causes);
    }
}

fn propagation(mount: &Value, at: &At<'_>, causes: &mut Causes) {
    let found = &mount["mountPropagation"];
    let at_found = at.field("mountPropagation");
    match found.as_str() {
        None | Some("None") => {}
        Some("Bidirectional") => causes
            .push(at_found.forbidden("Bidirectional mount propagation is available only to privileged containers")),
        Some("HostToContainer") => causes.push(
            at_found.forbidden("a component does not see what is mounted on its node; remove the field or use None"),
        ),
        Some(_) => causes.push(at_found.not_supported(found, &["Bidirectional", "HostToContainer", "None"])),
    }
    let recursive = &mount["recursiveReadOnly"];
    let at_recursive = at.field("recursiveReadOnly");
    match recursive.as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                causes.push(at.field("recursiveReadOnly").forbidden("may only be specified when readOnly is true"));
            }
            if !matches!(found.as_str(), None | Some("None")) {
                let detail = "may only be specified when mountPropagation is None or not specified";
                causes.push(at_recursive.forbidden(detail));
            }
        }
        Some(_) => causes.push(at_recursive.not_supported(recursive, &["Disabled", "Enabled", "IfPossible"])),
    }
}
