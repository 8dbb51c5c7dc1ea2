//! The file beside an artifact: its manifest, as JSON.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use coracle_wire::artifact::ArtifactManifest;
use serde::{Deserialize, Serialize};

use super::ArtifactKey;
use crate::images::adapt::ADAPTER_REVISION;

#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    image: String,
    artifact: String,
    size: u64,
    target: String,
    engine: String,
    adapter: u32,
    blocks: Vec<String>,
    signature: String,
}

impl Stored {
    pub(super) fn of(manifest: &ArtifactManifest) -> Self {
        Self {
            image: manifest.image.to_string(),
            artifact: manifest.artifact.to_string(),
            size: manifest.size,
            target: manifest.target.clone(),
            engine: manifest.engine.clone(),
            adapter: ADAPTER_REVISION,
            blocks: manifest.blocks.iter().map(|block| block.hex().as_str().to_owned()).collect(),
            signature: BASE64.encode(&manifest.signature),
        }
    }

    /// Reads one; `None` when it is damaged, or was made with another adapter.
    pub(super) fn read(path: &Path) -> Option<(ArtifactKey, ArtifactManifest)> {
        let stored: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        if stored.adapter != ADAPTER_REVISION {
            return None;
        }
        let manifest = ArtifactManifest {
            image: stored.image.parse().ok()?,
            artifact: stored.artifact.parse().ok()?,
            size: stored.size,
            target: stored.target,
            engine: stored.engine,
            blocks: stored.blocks.iter().map(|block| block.parse().ok()).collect::<Option<_>>()?,
            signature: BASE64.decode(stored.signature).ok()?,
        };
        let key =
            ArtifactKey { image: manifest.image, target: manifest.target.clone(), engine: manifest.engine.clone() };
        Some((key, manifest))
    }
}
