//! v1 `PersistentVolume` (VOL-02): a place on a node's own disk.

use serde_json::{Value, json};

use super::at::{At, Causes, default, entries, given, immutable, items, one_of, text};
use super::{Rules, nothing_to_keep, quantities, scheduling, syntax};
use crate::error::ApiError;

/// The rules for volumes.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults,
    admit,
    keep: nothing_to_keep,
    validate,
    validate_update,
    validate_status: |_, new, causes| {
        let phases = ["Available", "Bound", "Failed", "Pending", "Released"];
        one_of(&new["status"], "phase", &phases, &At::Root.field("status"), causes);
    },
};

/// Kinds of volumes that Kubernetes has and that no node here can mount.
const FOREIGN: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

fn defaults(volume: &mut Value) {
    default(volume, "spec", || json!({}));
    let spec = &mut volume["spec"];
    default(spec, "persistentVolumeReclaimPolicy", || json!("Retain"));
    default(spec, "volumeMode", || json!("Filesystem"));
    if let Some(path) = spec.get_mut("hostPath") {
        default(path, "type", || json!(""));
    }
}

fn admit(volume: &mut Value) -> Result<(), ApiError> {
    let stamp = volume["metadata"]["creationTimestamp"].clone();
    volume["status"] = json!({"phase": "Pending"});
    if stamp.is_string() {
        volume["status"]["lastPhaseTransitionTime"] = stamp;
    }
    Ok(())
}

fn validate(volume: &Value, causes: &mut Causes) {
    let (at, spec) = (At::Root.field("spec"), &volume["spec"]);
    access_modes(spec, "", &at, causes);
    capacity(&spec["capacity"], &at.field("capacity"), causes);
    one_of(spec, "persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"], &at, causes);
    modes_and_classes(spec, &at, causes);
    let affinity = &spec["nodeAffinity"];
    if !affinity.is_null() {
        let at = at.field("nodeAffinity");
        let at = at.field("required");
        if affinity["required"].is_null() {
            causes.push(at.required("must specify required node constraints"));
        } else {
            scheduling::node_selector(&affinity["required"], &at, causes);
        }
    }
    source(spec, &at, causes);
}

/// `accessModes`, of a volume or of a claim.
pub(super) fn access_modes(spec: &Value, detail: &str, at: &At<'_>, causes: &mut Causes) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let at = at.field("accessModes");
    let found: Vec<&str> = items(&spec["accessModes"]).filter_map(|(_, mode)| mode.as_str()).collect();
    if found.is_empty() {
        causes.push(at.required(detail));
    }
    for mode in found.iter().filter(|mode| !MODES.contains(mode)) {
        causes.push(at.not_supported(&json!(mode), &MODES));
    }
    if found.contains(&"ReadWriteOncePod") && found.iter().any(|mode| *mode != "ReadWriteOncePod") {
        causes.push(at.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

/// What volumes and claims have in common.
pub(super) fn modes_and_classes(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    one_of(spec, "volumeMode", &["Block", "Filesystem"], at, causes);
    if given(&spec["storageClassName"]) {
        syntax::check(text(spec, "storageClassName"), syntax::subdomain, &at.field("storageClassName"), causes);
    }
    if given(&spec["volumeAttributesClassName"]) {
        let detail = "classes of volume attributes are not in this build";
        causes.push(at.field("volumeAttributesClassName").forbidden(detail));
    }
}

fn capacity(capacity: &Value, at: &At<'_>, causes: &mut Causes) {
    if !given(capacity) {
        causes.push(at.required(""));
        return;
    }
    if entries(capacity).any(|(name, _)| name != "storage") {
        causes.push(at.not_supported(capacity, &["storage"]));
        return;
    }
    positive(&capacity["storage"], &at.key("storage"), causes);
}

/// A quantity of more than nothing.
pub(super) fn positive(found: &Value, at: &At<'_>, causes: &mut Causes) {
    if quantities::check(found, at, causes) == Some(0) {
        causes.push(at.invalid(found, "must be greater than zero"));
    }
}

/// Where the volume is: exactly one place.
fn source(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    if let Some(field) = FOREIGN.iter().find(|field| !spec[**field].is_null()) {
        causes.push(at.field(field).forbidden("no node can mount such a volume; use local or hostPath"));
        return;
    }
    match (&spec["hostPath"], &spec["local"]) {
        (Value::Null, Value::Null) => causes.push(at.required("must specify a volume type")),
        (Value::Null, local) => {
            path(local, &at.field("local"), causes);
            if spec["nodeAffinity"].is_null() {
                causes.push(at.field("nodeAffinity").required("Local volume requires node affinity"));
            }
        }
        (host, Value::Null) => {
            path(host, &at.field("hostPath"), causes);
            one_of(host, "type", HOST_PATH_TYPES, &at.field("hostPath"), causes);
        }
        _ => causes.push(at.field("local").forbidden("may not specify more than 1 volume type")),
    }
}

fn path(source: &Value, at: &At<'_>, causes: &mut Causes) {
    let (at, path) = (at.field("path"), text(source, "path"));
    if path.is_empty() {
        causes.push(at.required(""));
    } else if path.split('/').any(|part| part == "..") {
        causes.push(at.invalid(&source["path"], "must not contain '..'"));
    }
}

fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    let at = At::Root.field("spec");
    let (before, after) = (&old["spec"], &new["spec"]);
    if ["hostPath", "local"].iter().any(|field| before[*field] != after[*field]) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        causes.push(at.field("persistentvolumesource").forbidden(detail));
    }
    immutable(before, after, "volumeMode", &at, causes);
    // An affinity may be given later, once.
    if !before["nodeAffinity"].is_null() {
        immutable(before, after, "nodeAffinity", &at, causes);
    }
}
