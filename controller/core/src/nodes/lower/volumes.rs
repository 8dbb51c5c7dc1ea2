//! Volumes: what config maps, secrets and the downward API put into files.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_model::limits::MAX_POD_CONTENT_BYTES;
use coracle_model::{Volume, VolumeFile, VolumeSource};
use serde_json::Value;

use super::environment::container_called;
use super::{Scene, bytes_of, downward, not_found, shortest};
use crate::kind::Kind;
use crate::rows::units;
use crate::volumes::ClaimPhase;

/// `defaultMode` where none is given.
const DEFAULT_MODE: u64 = 0o644;

/// Files by their path. Of two with one path the later one wins.
type Files = BTreeMap<String, (Vec<u8>, u32)>;

/// `spec.volumes`. `spent` is how much else of the pod there is, of the bytes that it may come to.
pub(super) fn resolve(scene: Scene<'_>, mut spent: usize) -> Vec<Volume> {
    let list = scene.spec["volumes"].as_array().into_iter().flatten();
    list.map(|volume| {
        let name = volume["name"].as_str().unwrap_or_default().to_owned();
        let source = source(scene, volume).and_then(|source| bounded(source, &mut spent));
        Volume { name, source: source.unwrap_or_else(VolumeSource::Unavailable) }
    })
    .collect()
}

/// All files of a pod travel with it, so they are bounded.
fn bounded(source: VolumeSource, spent: &mut usize) -> Result<VolumeSource, String> {
    let VolumeSource::Files(files) = &source else { return Ok(source) };
    let bytes = files.iter().map(|file| file.path.len() + file.bytes.len()).sum::<usize>();
    let sum = spent.saturating_add(bytes);
    if sum > MAX_POD_CONTENT_BYTES {
        return Err(format!(
            "with its {bytes} bytes the pod's files, arguments and variables come to {sum}; at most \
             {MAX_POD_CONTENT_BYTES} reach a node"
        ));
    }
    *spent = sum;
    Ok(source)
}

fn source(scene: Scene<'_>, volume: &Value) -> Result<VolumeSource, String> {
    let empty = &volume["emptyDir"];
    if !empty.is_null() {
        let (in_memory, size_limit_bytes) = (empty["medium"] == "Memory", units(&empty["sizeLimit"]));
        return Ok(VolumeSource::EmptyDir { in_memory, size_limit_bytes });
    }
    let claim = &volume["persistentVolumeClaim"];
    if !claim.is_null() {
        return Err(unmounted(scene, claim["claimName"].as_str().unwrap_or_default()));
    }
    let mut files = Files::new();
    for (field, kind, name) in [("configMap", Kind::CONFIG_MAP, "name"), ("secret", Kind::SECRET, "secretName")] {
        let source = &volume[field];
        if !source.is_null() {
            let name = source[name].as_str().unwrap_or_default();
            keys(scene, kind, name, source, default_mode(source), &mut files)?;
        }
    }
    if !volume["downwardAPI"].is_null() {
        let source = &volume["downwardAPI"];
        fields(scene, source, default_mode(source), &mut files)?;
    }
    let projected = &volume["projected"];
    let default = default_mode(projected);
    for source in projected["sources"].as_array().into_iter().flatten() {
        for (field, kind) in [("configMap", Kind::CONFIG_MAP), ("secret", Kind::SECRET)] {
            let source = &source[field];
            if !source.is_null() {
                let name = source["name"].as_str().unwrap_or_default();
                keys(scene, kind, name, source, default, &mut files)?;
            }
        }
        fields(scene, &source["downwardAPI"], default, &mut files)?;
    }
    let files = files.into_iter().map(|(path, (bytes, mode))| VolumeFile { path, bytes, mode });
    Ok(VolumeSource::Files(files.collect()))
}

/// Why the volume of a claim is not there, in a kubelet's words as far as it has any: no node mounts them yet.
fn unmounted(scene: Scene<'_>, claim: &str) -> String {
    let Some(object) = scene.find(Kind::PERSISTENT_VOLUME_CLAIM, claim) else {
        return format!("error processing PVC {}/{claim}: PVC not found", scene.pod.namespace());
    };
    let row = object.row.claim();
    match row.filter(|row| row.phase == ClaimPhase::Bound).and_then(|row| row.volume.as_deref()) {
        None => format!("error processing PVC {}/{claim}: PVC is not bound", scene.pod.namespace()),
        Some(volume) => format!("no node mounts persistent volumes in this build: {volume}, of claim {claim}"),
    }
}

fn default_mode(source: &Value) -> u32 {
    mode(&source["defaultMode"], DEFAULT_MODE)
}

fn mode(found: &Value, unstated: u64) -> u32 {
    u32::try_from(found.as_u64().unwrap_or(unstated) & 0o777).unwrap_or_default()
}

/// The keys of a config map or secret: all of them, or those that `items` names.
fn keys(
    scene: Scene<'_>,
    kind: Kind,
    name: &str,
    source: &Value,
    default: u32,
    files: &mut Files,
) -> Result<(), String> {
    let optional = source["optional"].as_bool().unwrap_or_default();
    let value = match scene.find(kind, name) {
        Some(object) => object.value(),
        None if optional => return Ok(()),
        None => return Err(not_found(kind, name)),
    };
    let read = |key: &str| {
        bytes_of(kind, &value["data"][key])
            .or_else(|| value["binaryData"][key].as_str().and_then(|text| STANDARD.decode(text).ok()))
    };
    let items = source["items"].as_array().map_or(&[][..], Vec::as_slice);
    if items.is_empty() {
        let sides = ["data", "binaryData"].into_iter();
        for (key, _) in sides.flat_map(|side| value[side].as_object().into_iter().flatten()) {
            if let Some(bytes) = read(key) {
                files.insert(key.clone(), (bytes, default));
            }
        }
    }
    for item in items {
        let key = item["key"].as_str().unwrap_or_default();
        match read(key) {
            Some(bytes) => {
                let path = shortest(item["path"].as_str().unwrap_or_default());
                files.insert(path, (bytes, mode(&item["mode"], u64::from(default))));
            }
            None if optional => {}
            None if kind == Kind::SECRET => return Err(format!("references non-existent secret key: {key}")),
            None => return Err(format!("configmap references non-existent config key: {key}")),
        }
    }
    Ok(())
}

/// Files of the downward API.
fn fields(scene: Scene<'_>, source: &Value, default: u32, files: &mut Files) -> Result<(), String> {
    for item in source["items"].as_array().into_iter().flatten() {
        let reference = &item["resourceFieldRef"];
        let text = if let Some(path) = item["fieldRef"]["fieldPath"].as_str() {
            downward::field(scene, path).ok_or_else(|| format!("unsupported fieldPath: {path}"))?
        } else {
            let name = reference["containerName"].as_str().unwrap_or_default();
            let container = container_called(scene, name).ok_or_else(|| format!("container {name} not found"))?;
            downward::resource(scene, container, reference)
        };
        let path = shortest(item["path"].as_str().unwrap_or_default());
        files.insert(path, (text.into_bytes(), mode(&item["mode"], u64::from(default))));
    }
    Ok(())
}
