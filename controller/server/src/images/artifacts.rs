//! Machine code on disk, with what a node must know before it pulls: manifests by (image, target, engine), blocks by
//! artifact. A cache: whatever is missing or damaged is compiled again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use coracle_engine::Statement;
use coracle_model::Digest;
use coracle_model::limits::BLOCK_BYTES;
use coracle_wire::artifact::ArtifactManifest;
use ed25519_dalek::SigningKey;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ImagesError, digest_of};
use crate::data_dir::{make_dir, write_durably};

/// Manifests kept in memory, each a few hundred bytes; beyond this all are dropped and read again when asked for.
const MAX_LOADED: usize = 1024;

/// What machine code is made for. Of the engine, only one fingerprint is ever in use in one controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArtifactKey {
    pub(super) image: Digest,
    pub(super) target: String,
    pub(super) engine: String,
}

impl ArtifactKey {
    /// What its manifest's file is called.
    fn file_name(&self) -> String {
        let mut text = self.image.0.to_vec();
        for part in [&self.target, &self.engine] {
            text.extend_from_slice(part.as_bytes());
            text.push(0);
        }
        format!("{}.json", digest_of(&text).hex())
    }
}

/// A manifest as its file has it.
#[derive(Serialize, Deserialize)]
struct Stored {
    image: String,
    artifact: String,
    size: u64,
    target: String,
    engine: String,
    blocks: Vec<String>,
    signature: String,
}

impl Stored {
    fn of(manifest: &ArtifactManifest) -> Self {
        Self {
            image: manifest.image.to_string(),
            artifact: manifest.artifact.to_string(),
            size: manifest.size,
            target: manifest.target.clone(),
            engine: manifest.engine.clone(),
            blocks: manifest.blocks.iter().map(|block| block.hex().as_str().to_owned()).collect(),
            signature: BASE64.encode(&manifest.signature),
        }
    }

    fn read(path: &Path) -> Option<ArtifactManifest> {
        let stored: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        Some(ArtifactManifest {
            image: stored.image.parse().ok()?,
            artifact: stored.artifact.parse().ok()?,
            size: stored.size,
            target: stored.target,
            engine: stored.engine,
            blocks: stored.blocks.iter().map(|block| block.parse().ok()).collect::<Option<_>>()?,
            signature: BASE64.decode(stored.signature).ok()?,
        })
    }
}

#[derive(Debug, Default)]
struct Loaded {
    by_key: BTreeMap<ArtifactKey, Arc<ArtifactManifest>>,
    by_artifact: BTreeMap<Digest, Arc<ArtifactManifest>>,
}

/// Artifacts on disk.
#[derive(Debug)]
pub(super) struct ArtifactCache {
    path: PathBuf,
    signing: SigningKey,
    loaded: Mutex<Loaded>,
    begun: AtomicU64,
}

impl ArtifactCache {
    /// Opens the cache, and removes what an older engine's build or a crash has left in it.
    pub(super) fn open(path: &Path, signing: SigningKey, engine: &str) -> Result<Self, ImagesError> {
        let unusable = |source| ImagesError::Unusable { path: path.to_owned(), source };
        make_dir(path).map_err(unusable)?;
        sweep(path, engine).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), signing, loaded: Mutex::default(), begun: AtomicU64::new(0) })
    }

    /// The manifest, if there is an artifact with our signature on the disk.
    pub(super) fn get(&self, key: &ArtifactKey) -> Option<Arc<ArtifactManifest>> {
        if let Some(found) = self.loaded.lock().by_key.get(key) {
            return Some(Arc::clone(found));
        }
        let manifest = Stored::read(&self.path.join(key.file_name()))?;
        let right = manifest.image == key.image && manifest.target == key.target && manifest.engine == key.engine;
        let public = self.signing.verifying_key().to_bytes();
        let signed = statement(&manifest).verify(&public, &manifest.signature).is_ok();
        let whole = fs::metadata(self.file(manifest.artifact)).is_ok_and(|found| found.len() == manifest.size);
        (right && signed && whole).then(|| self.remember(key, manifest))
    }

    /// An empty file for a compiler to write to. What a crash leaves of it is removed at the next start.
    pub(super) fn begin(&self, key: &ArtifactKey) -> io::Result<(PathBuf, File)> {
        // A number, because the process that writes for a maker who gave up may still be on its way out.
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!(".{}.{number}.new", key.file_name()));
        Ok((path.clone(), File::create(path)?))
    }

    /// Takes what a compiler has written, measures it, signs it, and keeps it for good.
    pub(super) fn finish(&self, key: &ArtifactKey, written: &Path) -> io::Result<Arc<ArtifactManifest>> {
        let file = File::open(written)?;
        let (artifact, size, blocks) = measure(&file)?;
        let mut manifest = ArtifactManifest {
            image: key.image,
            artifact,
            size,
            target: key.target.clone(),
            engine: key.engine.clone(),
            blocks,
            signature: Vec::new(),
        };
        manifest.signature = statement(&manifest).sign(&self.signing).to_vec();
        file.sync_all()?;
        fs::rename(written, self.file(artifact))?;
        // Writing the manifest syncs the directory, and with it the name of the artifact.
        let text = serde_json::to_vec(&Stored::of(&manifest)).map_err(io::Error::from)?;
        write_durably(&self.path.join(key.file_name()), &text)?;
        Ok(self.remember(key, manifest))
    }

    /// One block. `None` when there is none, or the disk no longer has it as it was: the node asks anew.
    pub(super) fn block(&self, artifact: Digest, index: u32) -> Option<Vec<u8>> {
        let manifest = self.loaded.lock().by_artifact.get(&artifact).map(Arc::clone)?;
        let want = manifest.blocks.get(usize::try_from(index).ok()?)?;
        let start = u64::from(index) * BLOCK_BYTES as u64;
        let length = manifest.size.checked_sub(start)?.min(BLOCK_BYTES as u64);
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        let read = File::open(self.file(artifact)).and_then(|file| file.read_exact_at(&mut bytes, start));
        if let Err(error) = &read {
            tracing::warn!(%artifact, index, %error, "an artifact cannot be read and will be compiled again");
        }
        if read.is_ok() && digest_of(&bytes) == *want {
            return Some(bytes);
        }
        if read.is_ok() {
            tracing::warn!(%artifact, index, "an artifact is damaged on disk and will be compiled again");
        }
        self.forget(artifact);
        None
    }

    fn remember(&self, key: &ArtifactKey, manifest: ArtifactManifest) -> Arc<ArtifactManifest> {
        let manifest = Arc::new(manifest);
        let mut loaded = self.loaded.lock();
        if loaded.by_key.len() >= MAX_LOADED {
            *loaded = Loaded::default();
        }
        loaded.by_key.insert(key.clone(), Arc::clone(&manifest));
        loaded.by_artifact.insert(manifest.artifact, Arc::clone(&manifest));
        manifest
    }

    fn forget(&self, artifact: Digest) {
        let mut loaded = self.loaded.lock();
        loaded.by_artifact.remove(&artifact);
        loaded.by_key.retain(|_, manifest| manifest.artifact != artifact);
        // Without the file no manifest of it is believed; if it stays, the next look at it comes to the same end.
        let _: io::Result<()> = fs::remove_file(self.file(artifact));
    }

    fn file(&self, artifact: Digest) -> PathBuf {
        self.path.join(format!("{}.cwasm", artifact.hex()))
    }
}

fn statement(manifest: &ArtifactManifest) -> Statement {
    Statement {
        image: manifest.image,
        artifact: manifest.artifact,
        size: manifest.size,
        target: manifest.target.clone(),
        engine: manifest.engine.clone(),
    }
}

/// The digest of the whole, the size in bytes, and the digest of every block.
fn measure(file: &File) -> io::Result<(Digest, u64, Vec<Digest>)> {
    let mut whole = Sha256::new();
    let mut size = 0;
    let mut blocks = Vec::new();
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    loop {
        block.clear();
        file.take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok((Digest(whole.finalize().into()), size, blocks));
        }
        whole.update(&block);
        size += block.len() as u64;
        blocks.push(digest_of(&block));
    }
}

/// Removes manifests of other engines, and machine code that no manifest names.
fn sweep(path: &Path, engine: &str) -> io::Result<()> {
    let mut named = BTreeSet::new();
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let is = |extension: &str| path.extension().is_some_and(|found| found == extension);
        if is("json") {
            match Stored::read(&path).filter(|manifest| manifest.engine == engine) {
                Some(manifest) => _ = named.insert(manifest.artifact.hex()),
                None => fs::remove_file(&path)?,
            }
        } else if is("cwasm") {
            files.push(path);
        }
    }
    for path in files {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !named.iter().any(|name| name.as_str() == stem) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
