//! Machine code on the disk: whole artifacts with what proves them, and parts of those still being pulled.
//!
//! An artifact has its name only when its signature, size, digest, target and engine were found right. A part is a file
//! of the whole length with holes; which blocks of it are good is found by their digests, so nothing is noted beside it.
//!
//! There is a bound on the room that all of them take. Beyond it those go that were used least lately, but never one that
//! runs, nor one that a pod of the desired set names: the controller may be out of sight when it is to start again.

mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use coracle_engine::{ProofError, SignatureError, Statement, Verified};
use coracle_model::limits::{BLOCK_BYTES, MAX_ARTIFACT_BYTES};
use coracle_model::{Digest, NodeImage};
use coracle_wire::artifact::ArtifactManifest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::uses::Uses;
use crate::disk::{DiskError, read_sealed, sync_directory, write_sealed};
use crate::space::Space;

/// Artifacts kept beyond those that the desired set or a run needs.
const MAX_ARTIFACTS: usize = 128;
/// The room for all of them, in bytes; less on a small disk.
const MOST_BYTES: u64 = 1 << 30;
/// The part of the disk that they may take, as its divisor.
const PART_OF_DISK: u64 = 10;
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
    #[error("the disk of this node does not take it: {0}")]
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
    /// Other images of which the same machine code is made, by the artifact. After a restart their names mean the image
    /// of the record.
    same: BTreeMap<Digest, Digest>,
    uses: Uses,
    most_bytes: u64,
    /// The image names of the desired set.
    wanted: BTreeSet<String>,
    pulls: BTreeMap<Digest, ArtifactManifest>,
    /// Counts what was named, so that of two claims to one name the later holds.
    order: u64,
    /// Counts changes of what [`Self::images`] says.
    version: u64,
}

impl Artifacts {
    /// Reads what is known; no artifact is read as a whole. There is room for 1 GiB, or a tenth of the disk if that is
    /// less.
    ///
    /// # Errors
    /// When the directories cannot be made or read.
    pub fn open(data_dir: &Path) -> Result<Self, DiskError> {
        let space = Space::around(data_dir);
        // At least one must find room, and where the system does not say, there is some.
        let part = space.map_or(MOST_BYTES, |space| space.total_bytes / PART_OF_DISK).max(MAX_ARTIFACT_BYTES as u64);
        Self::open_with_room(data_dir, part.min(MOST_BYTES))
    }

    /// As [`Self::open`], with room for so many bytes.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with_room(data_dir: &Path, most_bytes: u64) -> Result<Self, DiskError> {
        let (whole, partial) = (data_dir.join("artifacts"), data_dir.join("partial"));
        for path in [&whole, &partial] {
            fs::create_dir_all(path).map_err(|source| DiskError::Io {
                action: "create",
                path: path.clone(),
                source,
            })?;
        }
        let mut cache = Self {
            uses: Uses::open(whole.join("uses"))?,
            whole,
            partial,
            records: BTreeMap::new(),
            same: BTreeMap::new(),
            most_bytes,
            wanted: BTreeSet::new(),
            pulls: BTreeMap::new(),
            order: 0,
            version: 0,
        };
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

    /// The names of images that the desired set has now.
    pub fn want(&mut self, names: impl IntoIterator<Item = String>) {
        self.wanted = names.into_iter().collect();
    }

    /// The same, and these.
    pub fn want_also(&mut self, names: impl IntoIterator<Item = String>) {
        self.wanted.extend(names);
    }

    /// Another number whenever [`Self::images`] may say something else.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The images that have a name and could run here, and what their machine code takes (SCH-02).
    #[must_use]
    pub fn images(&self) -> Vec<NodeImage> {
        let engine = coracle_engine::fingerprint();
        let usable = self.records.values().filter(|record| record.engine == engine && !record.names.is_empty());
        let listed = usable.map(|record| NodeImage {
            image: record.image,
            size_bytes: record.size,
            names: record.names.iter().map(|(name, _)| name.clone()).collect(),
        });
        listed.collect()
    }

    /// The artifact of an image, which is to be used now.
    #[must_use]
    pub fn of_image(&mut self, image: Digest) -> Option<Stored> {
        let is_current = |record: &&Record| record.engine == coracle_engine::fingerprint();
        let same = self.same.get(&image).and_then(|artifact| self.records.get(artifact));
        let mut own = self.records.values().filter(|record| record.image == image);
        let record = own.find(is_current).or_else(|| same.filter(is_current))?;
        self.uses.touch(record.artifact);
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
        if let Some(record) = self.records.get(&artifact).filter(|record| self.is_usable(record, key)) {
            if record.image != manifest.image {
                self.same.insert(manifest.image, artifact);
            }
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
        self.uses.touch(artifact);
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
        self.version += 1;
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
        self.version += 1;
        self.uses.remove(artifact);
        let removed = fs::remove_file(self.record_path(artifact)).and(fs::remove_file(self.code_path(artifact)));
        if let Err(error) = removed {
            tracing::warn!(%artifact, %error, "failed to remove an artifact");
        }
    }

    /// Throws away what no name means any more, and beyond the bounds what was used least lately; nothing that runs, or
    /// that the desired set names.
    pub fn sweep(&mut self, is_running: impl Fn(Digest) -> bool) {
        let _ = self.keep(self.most_bytes, MAX_ARTIFACTS, is_running);
    }

    /// The disk is full: throws away everything that does not run and that the desired set does not name, and what was
    /// left of pulls that nobody goes on with; how many bytes of artifacts that was (PRI-09).
    pub fn reclaim(&mut self, is_running: impl Fn(Digest) -> bool) -> u64 {
        let going_on: BTreeSet<PathBuf> = self.pulls.keys().map(|artifact| self.partial_path(*artifact)).collect();
        for entry in fs::read_dir(&self.partial).into_iter().flatten().flatten() {
            if !going_on.contains(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        self.keep(0, 0, is_running)
    }

    /// Throws away what is idle beyond these bounds, and what has no name; how many bytes.
    fn keep(&mut self, most_bytes: u64, most_idle: usize, is_running: impl Fn(Digest) -> bool) -> u64 {
        let is_wanted = |record: &Record| record.names.iter().any(|(name, _)| self.wanted.contains(name));
        let is_same = |(image, artifact): (&Digest, &Digest)| is_running(*image).then_some(*artifact);
        let same: BTreeSet<Digest> = self.same.iter().filter_map(is_same).collect();
        let runs = |record: &Record| is_running(record.image) || same.contains(&record.artifact);
        let is_idle = |record: &&Record| !runs(record) && !is_wanted(record);
        let mut idle: Vec<_> = self.records.values().filter(is_idle).collect();
        // What has no name goes first, and in any case.
        idle.sort_by_key(|record| (!record.names.is_empty(), self.uses.rank(record.artifact), record.artifact));
        let mut total: u64 = self.records.values().map(|record| record.size).sum();
        let before = total;
        let mut left = idle.len();
        let mut gone = Vec::new();
        for record in idle {
            if !record.names.is_empty() && total <= most_bytes && left <= most_idle {
                break;
            }
            total -= record.size;
            left -= 1;
            gone.push(record.artifact);
        }
        for artifact in gone {
            self.discard(artifact);
        }
        self.same.retain(|_, artifact| self.records.contains_key(artifact));
        before - total
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
