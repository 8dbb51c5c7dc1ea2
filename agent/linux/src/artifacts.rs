//! Machine code on the disk: whole artifacts with what proves them, and parts of those still being pulled.
//!
//! An artifact has its name only when its signature, size, digest, target and engine were found right. A part is a file
//! of the whole length with holes; which blocks of it are good is found by their digests, so nothing is noted beside it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use coracle_engine::{ProofError, SignatureError, Statement, Verified};
use coracle_model::Digest;
use coracle_model::limits::{BLOCK_BYTES, MAX_ARTIFACT_BYTES};
use coracle_wire::artifact::ArtifactManifest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::disk::{DiskError, read_sealed, sync_directory, write_sealed};

/// Artifacts kept beyond those that a name or a run needs.
const MAX_ARTIFACTS: usize = 128;
/// Interrupted pulls kept to be resumed.
const MAX_PARTIALS: usize = 16;

/// Why an artifact is not kept.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// No controller was ever met, so there is no key to check a signature with.
    #[error("no cluster is pinned yet, so nothing can be checked")]
    NotPinned,
    /// A manifest that contradicts itself or asks for too much.
    #[error("its manifest is wrong: {0}")]
    Manifest(String),
    /// The signature does not hold.
    #[error("it is refused: {0}")]
    Signature(#[from] SignatureError),
    /// The bytes are not those that were signed.
    #[error("it is refused: {0}")]
    Proof(#[from] ProofError),
    /// Not announced by [`Artifacts::begin`].
    #[error("it is not being pulled")]
    Unknown,
    /// A file could not be written.
    #[error("cannot write it: {0}")]
    Write(#[from] io::Error),
    /// A file of the cache could not be written.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// What is known of a whole artifact; stored beside it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    image: Digest,
    artifact: Digest,
    size: u64,
    target: String,
    engine: String,
    signature: Vec<u8>,
    /// The image names that mean this artifact, as of the number in the order of all pulls.
    names: Vec<(String, u64)>,
}

impl Record {
    fn statement(&self) -> Statement {
        Statement {
            image: self.image,
            artifact: self.artifact,
            size: self.size,
            target: self.target.clone(),
            engine: self.engine.clone(),
        }
    }
}

/// An artifact that can be proven and then loaded.
#[derive(Clone, Debug)]
pub struct Stored {
    statement: Statement,
    signature: Vec<u8>,
    path: PathBuf,
}

impl Stored {
    /// Reads the whole file and checks everything about it.
    ///
    /// # Errors
    /// When it is not what the owner of `key` signed for this target and engine.
    pub fn prove(&self, key: &[u8; 32]) -> Result<Verified, ProofError> {
        self.statement.prove(key, &self.signature, coracle_engine::host_target(), &self.path)
    }

    /// The digest of the machine code.
    #[must_use]
    pub const fn artifact(&self) -> Digest {
        self.statement.artifact
    }
}

/// What is there of an artifact that is to be pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// All of it, checked.
    pub complete: bool,
    /// Indices of blocks that are good.
    pub have: Vec<u32>,
}

/// The cache.
#[derive(Debug)]
pub struct Artifacts {
    whole: PathBuf,
    partial: PathBuf,
    records: BTreeMap<Digest, Record>,
    pulls: BTreeMap<Digest, ArtifactManifest>,
    /// Counts what was named, so that of two claims to one name the later holds.
    order: u64,
}

impl Artifacts {
    /// Reads what is known; no artifact is read as a whole.
    ///
    /// # Errors
    /// When the directories cannot be made or read.
    pub fn open(data_dir: &Path) -> Result<Self, DiskError> {
        let (whole, partial) = (data_dir.join("artifacts"), data_dir.join("partial"));
        for path in [&whole, &partial] {
            fs::create_dir_all(path).map_err(|source| DiskError::Io {
                action: "create",
                path: path.clone(),
                source,
            })?;
        }
        let mut cache = Self { whole, partial, records: BTreeMap::new(), pulls: BTreeMap::new(), order: 0 };
        let entries = fs::read_dir(&cache.whole);
        let entries = entries.map_err(|source| DiskError::Io { action: "read", path: cache.whole.clone(), source })?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "record")
                && let Some(record) = read_sealed::<Record>(&path)?
            {
                cache.order = record.names.iter().map(|(_, order)| *order).fold(cache.order, u64::max);
                cache.records.insert(record.artifact, record);
            }
        }
        Ok(cache)
    }

    fn code_path(&self, artifact: Digest) -> PathBuf {
        self.whole.join(format!("{}.cwasm", artifact.hex()))
    }

    fn record_path(&self, artifact: Digest) -> PathBuf {
        self.whole.join(format!("{}.record", artifact.hex()))
    }

    fn partial_path(&self, artifact: Digest) -> PathBuf {
        self.partial.join(artifact.hex().as_str())
    }

    /// Whether a record's artifact could run here, as far as that can be told without reading it.
    fn is_usable(&self, record: &Record, key: &[u8; 32]) -> bool {
        record.engine == coracle_engine::fingerprint()
            && record.target == coracle_engine::host_target()
            && fs::metadata(self.code_path(record.artifact)).is_ok_and(|file| file.len() == record.size)
            && record.statement().verify(key, &record.signature).is_ok()
    }

    /// The image that a name means here, if its artifact is here and usable.
    #[must_use]
    pub fn find(&self, name: &str, key: Option<&[u8; 32]>) -> Option<Digest> {
        let claims = self.records.values().flat_map(|record| record.names.iter().map(move |claim| (claim, record)));
        let (_, record) = claims.filter(|((claimed, _), _)| claimed == name).max_by_key(|((_, order), _)| *order)?;
        self.is_usable(record, key?).then_some(record.image)
    }

    /// The artifact of an image.
    #[must_use]
    pub fn of_image(&self, image: Digest) -> Option<Stored> {
        let fits = |record: &&Record| record.image == image && record.engine == coracle_engine::fingerprint();
        let record = self.records.values().find(fits)?;
        Some(Stored {
            statement: record.statement(),
            signature: record.signature.clone(),
            path: self.code_path(record.artifact),
        })
    }

    /// An artifact is to be pulled: what of it is here already?
    ///
    /// # Errors
    /// When it would be refused in the end, so that not one block need travel; or the disk fails.
    pub fn begin(
        &mut self,
        name: &str,
        manifest: ArtifactManifest,
        key: Option<&[u8; 32]>,
    ) -> Result<Begun, ArtifactError> {
        let key = key.ok_or(ArtifactError::NotPinned)?;
        check(&manifest, key)?;
        let artifact = manifest.artifact;
        if self.records.get(&artifact).is_some_and(|record| self.is_usable(record, key)) {
            self.name(name, artifact)?;
            return Ok(Begun { complete: true, have: Vec::new() });
        }
        let path = self.partial_path(artifact);
        self.drop_old_partials(&path);
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
        let have = if file.metadata()?.len() == manifest.size {
            good_blocks(&file, &manifest)?
        } else {
            file.set_len(0)?;
            file.set_len(manifest.size)?;
            Vec::new()
        };
        self.pulls.insert(artifact, manifest);
        Ok(Begun { complete: false, have })
    }

    /// Keeps a block of a pull.
    ///
    /// # Errors
    /// When it is not the block that the manifest promises, or the disk does not take it.
    pub fn write_block(&self, artifact: Digest, index: u32, bytes: &[u8]) -> Result<(), ArtifactError> {
        let manifest = self.pulls.get(&artifact).ok_or(ArtifactError::Unknown)?;
        let wrong = |what: &str| ArtifactError::Manifest(format!("block {index} {what}"));
        let at = usize::try_from(index).map_err(|_| wrong("is not in it"))?;
        let want = manifest.blocks.get(at).ok_or_else(|| wrong("is not in it"))?;
        if bytes.len() > BLOCK_BYTES || Digest(Sha256::digest(bytes).into()) != *want {
            return Err(wrong("has another digest"));
        }
        let file = OpenOptions::new().write(true).open(self.partial_path(artifact))?;
        file.write_all_at(bytes, u64::from(index) * BLOCK_BYTES as u64)?;
        Ok(())
    }

    /// All blocks are there: checks everything and keeps the artifact under this name.
    ///
    /// # Errors
    /// When anything is wrong with it; what was pulled is then thrown away.
    pub fn finish(&mut self, name: &str, artifact: Digest, key: Option<&[u8; 32]>) -> Result<(), ArtifactError> {
        let key = key.ok_or(ArtifactError::NotPinned)?;
        let manifest = self.pulls.remove(&artifact).ok_or(ArtifactError::Unknown)?;
        let path = self.partial_path(artifact);
        let proven = statement(&manifest).prove(key, &manifest.signature, coracle_engine::host_target(), &path);
        if let Err(error) = proven {
            // Every block was good by itself, so pulling the same again would not help.
            let _ = fs::remove_file(&path);
            return Err(error.into());
        }
        File::open(&path)?.sync_all()?;
        let code_path = self.code_path(artifact);
        fs::rename(&path, &code_path)?;
        sync_directory(&code_path)?;
        let ArtifactManifest { image, size, target, engine, signature, .. } = manifest;
        let record = Record { image, artifact, size, target, engine, signature, names: Vec::new() };
        self.records.insert(artifact, record);
        self.name(name, artifact)
    }

    /// From now on the name means this artifact, and no other.
    fn name(&mut self, name: &str, artifact: Digest) -> Result<(), ArtifactError> {
        let is_newest = |record: &Record| record.names.iter().any(|(claimed, _)| claimed == name);
        let others: Vec<Digest> =
            self.records.values().filter(|record| is_newest(record)).map(|r| r.artifact).collect();
        if others == [artifact] {
            return Ok(());
        }
        self.order += 1;
        let claim = (name.to_owned(), self.order);
        if let Some(record) = self.records.get_mut(&artifact) {
            record.names.retain(|(claimed, _)| claimed != name);
            record.names.push(claim);
            write_sealed(&self.whole.join(format!("{}.record", artifact.hex())), record)?;
        }
        for other in others.into_iter().filter(|other| *other != artifact) {
            if let Some(record) = self.records.get_mut(&other) {
                record.names.retain(|(claimed, _)| claimed != name);
                write_sealed(&self.whole.join(format!("{}.record", other.hex())), record)?;
            }
        }
        Ok(())
    }

    /// Throws an artifact away, because it turned out to be damaged.
    pub fn discard(&mut self, artifact: Digest) {
        self.records.remove(&artifact);
        let removed = fs::remove_file(self.record_path(artifact)).and(fs::remove_file(self.code_path(artifact)));
        if let Err(error) = removed {
            tracing::warn!(%artifact, %error, "failed to remove an artifact");
        }
    }

    /// Throws away what neither a name nor a run needs, and the oldest beyond the bound.
    pub fn sweep(&mut self, is_running: impl Fn(Digest) -> bool) {
        let mut idle: Vec<(u64, Digest)> = Vec::new();
        for record in self.records.values().filter(|record| !is_running(record.image)) {
            idle.push((record.names.iter().map(|(_, order)| *order).max().unwrap_or(0), record.artifact));
        }
        idle.sort_unstable();
        let surplus = idle.len().saturating_sub(MAX_ARTIFACTS);
        for (index, (order, artifact)) in idle.into_iter().enumerate() {
            if order == 0 || index < surplus {
                self.discard(artifact);
            }
        }
    }

    fn drop_old_partials(&self, keep: &Path) {
        let Ok(entries) = fs::read_dir(&self.partial) else { return };
        let mut files: Vec<_> = entries
            .flatten()
            .filter(|entry| entry.path() != keep)
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        for (_, path) in files.iter().take((files.len() + 1).saturating_sub(MAX_PARTIALS)) {
            let _ = fs::remove_file(path);
        }
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

/// Everything about a manifest that can be checked before its first block.
fn check(manifest: &ArtifactManifest, key: &[u8; 32]) -> Result<(), ArtifactError> {
    statement(manifest).verify(key, &manifest.signature)?;
    let want = coracle_engine::fingerprint();
    if manifest.engine != want {
        return Err(ProofError::Engine { found: manifest.engine.clone(), want }.into());
    }
    let want = coracle_engine::host_target();
    if manifest.target != want {
        return Err(ProofError::Target { found: manifest.target.clone(), want: want.to_owned() }.into());
    }
    if manifest.size == 0 || manifest.size > MAX_ARTIFACT_BYTES as u64 {
        return Err(ArtifactError::Manifest(format!("{} bytes, at most {MAX_ARTIFACT_BYTES} are kept", manifest.size)));
    }
    let blocks = manifest.size.div_ceil(BLOCK_BYTES as u64);
    if manifest.blocks.len() as u64 != blocks {
        return Err(ArtifactError::Manifest(format!("{} blocks instead of {blocks}", manifest.blocks.len())));
    }
    Ok(())
}

fn good_blocks(file: &File, manifest: &ArtifactManifest) -> io::Result<Vec<u32>> {
    let mut bytes = vec![0; BLOCK_BYTES];
    let mut good = Vec::new();
    let mut left = manifest.size;
    for (index, want) in (0_u32..).zip(&manifest.blocks) {
        let length = usize::try_from(left.min(BLOCK_BYTES as u64)).unwrap_or(BLOCK_BYTES);
        file.read_exact_at(&mut bytes[..length], u64::from(index) * BLOCK_BYTES as u64)?;
        if Digest(Sha256::digest(&bytes[..length]).into()) == *want {
            good.push(index);
        }
        left -= length as u64;
    }
    Ok(good)
}

#[cfg(test)]
mod tests;
