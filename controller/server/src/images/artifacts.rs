//! Machine code on disk, with what a node must know before it pulls: manifests by (image, target, engine), blocks by
//! artifact. A cache with a bound: whatever is missing or damaged, or had to make room, is compiled again.

mod room;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coracle_engine::Statement;
use coracle_model::Digest;
use coracle_model::limits::BLOCK_BYTES;
use coracle_wire::artifact::ArtifactManifest;
use ed25519_dalek::SigningKey;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use self::room::Room;
use self::stored::Stored;
use super::adapt::ADAPTER_REVISION;
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
    /// What its file is called; the adapter is part of what made it.
    pub(super) fn file_name(&self) -> String {
        let mut text = self.image.0.to_vec();
        text.extend_from_slice(&ADAPTER_REVISION.to_le_bytes());
        for part in [&self.target, &self.engine] {
            text.extend_from_slice(part.as_bytes());
            text.push(0);
        }
        format!("{}.json", digest_of(&text).hex())
    }
}

#[derive(Debug, Default)]
struct Loaded {
    by_key: BTreeMap<ArtifactKey, Arc<ArtifactManifest>>,
    by_artifact: BTreeMap<Digest, Arc<ArtifactManifest>>,
}

/// An artifact on the disk, for whoever looks at its image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactInfo {
    /// What it was compiled for.
    pub target: String,
    /// The digest of the machine code.
    pub artifact: Digest,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When a node last asked for it, in milliseconds since 1970; 0 when that is no longer known.
    pub wanted_ms: u64,
}

/// Artifacts on disk.
#[derive(Debug)]
pub(super) struct ArtifactCache {
    path: PathBuf,
    signing: SigningKey,
    loaded: Mutex<Loaded>,
    room: Mutex<Room>,
    begun: AtomicU64,
}

impl ArtifactCache {
    /// Opens the cache, and removes what an older engine's build or a crash has left in it, and what is above
    /// `most_bytes`.
    pub(super) fn open(path: &Path, signing: SigningKey, engine: &str, most_bytes: u64) -> Result<Self, ImagesError> {
        let unusable = |source| ImagesError::Unusable { path: path.to_owned(), source };
        make_dir(path).map_err(unusable)?;
        let found = sweep(path, engine).map_err(unusable)?;
        let room = Mutex::new(Room::open(path, most_bytes, found));
        let cache = Self { path: path.to_owned(), signing, loaded: Mutex::default(), room, begun: AtomicU64::new(0) };
        cache.make_room(None);
        Ok(cache)
    }

    /// The manifest, if there is an artifact with our signature on the disk.
    pub(super) fn get(&self, key: &ArtifactKey) -> Option<Arc<ArtifactManifest>> {
        self.room.lock().touch(key);
        if let Some(found) = self.loaded.lock().by_key.get(key) {
            return Some(Arc::clone(found));
        }
        let (found, manifest) = Stored::read(&self.path.join(key.file_name()))?;
        let public = self.signing.verifying_key().to_bytes();
        let signed = statement(&manifest).verify(&public, &manifest.signature).is_ok();
        let whole = fs::metadata(self.file(manifest.artifact)).is_ok_and(|found| found.len() == manifest.size);
        (found == *key && signed && whole).then(|| self.remember(key, manifest))
    }

    /// What there is of an image, by target.
    pub(super) fn of_image(&self, image: Digest) -> Vec<ArtifactInfo> {
        let rows = self.room.lock().of_image(image);
        let info = |(key, row): (ArtifactKey, room::Row)| ArtifactInfo {
            target: key.target,
            artifact: row.artifact,
            size_bytes: row.size_bytes,
            wanted_ms: row.wanted_ms,
        };
        rows.into_iter().map(info).collect()
    }

    /// Removes everything that was made of images that are gone.
    pub(super) fn retain(&self, has: impl Fn(Digest) -> bool) {
        let images = self.room.lock().images();
        for image in images.into_iter().filter(|image| !has(*image)) {
            let rows = self.room.lock().of_image(image);
            for (key, row) in rows {
                self.room.lock().remove(&key);
                self.drop_files(&key, row.artifact);
            }
        }
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
        self.room.lock().add(key, artifact, size);
        let manifest = self.remember(key, manifest);
        self.make_room(Some(key));
        Ok(manifest)
    }

    /// Throws away what was wanted least lately, until the rest fits; a node in the middle of a pull asks anew.
    fn make_room(&self, keep: Option<&ArtifactKey>) {
        let gone = self.room.lock().make_room(keep);
        for (key, row) in &gone {
            tracing::info!(image = %key.image, target = key.target, bytes = row.size_bytes, "an artifact made room");
            self.drop_files(key, row.artifact);
        }
        if !gone.is_empty() {
            self.save_order();
        }
    }

    fn drop_files(&self, key: &ArtifactKey, artifact: Digest) {
        {
            let mut loaded = self.loaded.lock();
            loaded.by_key.remove(key);
            loaded.by_artifact.remove(&artifact);
        }
        let mut paths = vec![self.path.join(key.file_name())];
        if !self.room.lock().has(artifact) {
            paths.push(self.file(artifact));
        }
        for path in paths {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, path = %path.display(), "an artifact cannot be removed");
            }
        }
    }

    fn save_order(&self) {
        if let Err(error) = self.room.lock().save() {
            // Without it the cache only forgets in another order after a restart.
            tracing::debug!(%error, "the order of artifacts is not kept");
        }
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
        let about: Vec<ArtifactKey> = loaded
            .by_key
            .iter()
            .filter(|(_, manifest)| manifest.artifact == artifact)
            .map(|(key, _)| key.clone())
            .collect();
        let mut room = self.room.lock();
        for key in about {
            loaded.by_key.remove(&key);
            room.remove(&key);
        }
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

impl Drop for ArtifactCache {
    fn drop(&mut self) {
        self.save_order();
    }
}

/// Removes manifests of other engines and adapters, and machine code that no manifest names; says what is left.
fn sweep(path: &Path, engine: &str) -> io::Result<Vec<(ArtifactKey, Digest, u64)>> {
    let mut found = Vec::new();
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let is = |extension: &str| path.extension().is_some_and(|found| found == extension);
        if is("json") {
            match Stored::read(&path).filter(|(key, _)| key.engine == engine) {
                Some((key, manifest)) => found.push((key, manifest.artifact, manifest.size)),
                None => fs::remove_file(&path)?,
            }
        } else if is("cwasm") {
            files.push(path);
        }
    }
    let named: BTreeSet<_> = found.iter().map(|(_, artifact, _)| artifact.hex()).collect();
    for path in files {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !named.iter().any(|name| name.as_str() == stem) {
            fs::remove_file(&path)?;
        }
    }
    Ok(found)
}
