//! Manifests and indexes as registries keep them: which entry, and which layers, are for us.

use serde::Deserialize;

use super::SourceError;
use super::archive::Packing;

/// What a registry is asked for, in the order of preference.
pub(in crate::images) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// Entries of an index, and layers of an image.
const MAX_ENTRIES: usize = 128;
/// Layers that are the WebAssembly itself: the CNCF layout's, and those from before it.
const WASM_LAYERS: [&str; 3] = [
    "application/wasm",
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
];
/// Layers that are archives.
const ARCHIVES: [(&str, Packing); 4] = [
    ("application/vnd.oci.image.layer.v1.tar+gzip", Packing::TarGzip),
    ("application/vnd.docker.image.rootfs.diff.tar.gzip", Packing::TarGzip),
    ("application/vnd.oci.image.layer.v1.tar", Packing::Tar),
    ("application/vnd.docker.image.rootfs.diff.tar", Packing::Tar),
];
/// `platform.architecture` of WebAssembly.
const ARCHITECTURES: [&str; 2] = ["wasm", "wasm32"];
/// `platform.os` of WebAssembly, the best first.
const SYSTEMS: [&str; 4] = ["wasip2", "wasi", "wasip1", "unknown"];

/// What a manifest says of one of its parts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    platform: Option<Platform>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Deserialize)]
struct Document {
    manifests: Option<Vec<Descriptor>>,
    layers: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
}

/// A document of either kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Manifest {
    /// One image for each platform.
    Index(Vec<Descriptor>),
    /// One image.
    Image { configuration: Option<Descriptor>, layers: Vec<Descriptor> },
}

/// Which layers hold the WebAssembly.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// This one is it.
    Wasm(Descriptor),
    /// It is a file in one of these archives.
    Archives(Vec<(Descriptor, Packing)>),
}

/// Reads a manifest or an index.
pub(super) fn read(bytes: &[u8]) -> Result<Manifest, SourceError> {
    let wrong = |error: serde_json::Error| SourceError::Manifest(error.to_string());
    let document: Document = serde_json::from_slice(bytes).map_err(wrong)?;
    let entries = document.manifests.as_ref().or(document.layers.as_ref()).map_or(0, Vec::len);
    if entries > MAX_ENTRIES {
        return Err(SourceError::Manifest(format!("it has {entries} entries, and may have {MAX_ENTRIES}")));
    }
    match (document.manifests, document.layers) {
        (Some(entries), None) => Ok(Manifest::Index(entries)),
        (None, Some(layers)) => Ok(Manifest::Image { configuration: document.config, layers }),
        _ => Err(SourceError::Manifest("want an OCI image manifest or an index of such".to_owned())),
    }
}

/// The entry of an index that is WebAssembly; the only one if none says what it is for.
pub(super) fn choose(mut entries: Vec<Descriptor>) -> Result<Descriptor, SourceError> {
    let rank = |entry: &Descriptor| {
        let platform = entry.platform.as_ref()?;
        let fits = ARCHITECTURES.contains(&platform.architecture.as_str());
        SYSTEMS.iter().position(|system| *system == platform.os).filter(|_| fits)
    };
    let best = entries.iter().enumerate().filter_map(|(at, entry)| Some((rank(entry)?, at))).min();
    if let Some((_, at)) = best {
        return Ok(entries.swap_remove(at));
    }
    if let [only] = entries.as_slice()
        && only.platform.is_none()
    {
        return Ok(entries.swap_remove(0));
    }
    let shown = |entry: &Descriptor| match &entry.platform {
        Some(platform) => format!("{}/{}", platform.os, platform.architecture),
        None => "one without a platform".to_owned(),
    };
    let found: Vec<String> = entries.iter().take(8).map(shown).collect();
    Err(SourceError::NoWasm(format!("the index has {}; want wasip2/wasm or wasip1/wasm", listed(&found))))
}

/// The layers that count.
pub(super) fn content(layers: Vec<Descriptor>) -> Result<Content, SourceError> {
    let is_wasm = |layer: &&Descriptor| WASM_LAYERS.contains(&layer.media_type.as_str());
    let mut wasm = layers.iter().filter(is_wasm);
    match (wasm.next(), wasm.next()) {
        (Some(only), None) => return Ok(Content::Wasm(only.clone())),
        (Some(_), Some(_)) => {
            return Err(SourceError::Manifest("it has several layers of WebAssembly, want one".to_owned()));
        }
        (None, _) => {}
    }
    let packing =
        |layer: &Descriptor| ARCHIVES.iter().find(|(media, _)| *media == layer.media_type).map(|(_, packing)| *packing);
    let packed: Option<Vec<_>> =
        layers.iter().map(|layer| packing(layer).map(|packing| (layer.clone(), packing))).collect();
    match packed {
        Some(packed) if !packed.is_empty() => Ok(Content::Archives(packed)),
        _ => {
            let found: Vec<String> = layers.iter().take(8).map(|layer| format!("{:?}", layer.media_type)).collect();
            Err(SourceError::NoWasm(format!("its layers are {}; want {:?}", listed(&found), WASM_LAYERS[0])))
        }
    }
}

fn listed(found: &[String]) -> String {
    if found.is_empty() { "none".to_owned() } else { found.join(", ") }
}
