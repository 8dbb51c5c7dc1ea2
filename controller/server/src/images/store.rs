//! The images that there are: WebAssembly by digest, and names for digests. Everything is on disk before it is true.

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use coracle_model::Digest;
use coracle_model::limits::MAX_IMAGE_BYTES;
use parking_lot::Mutex;

use self::index::{Names, Row};
use super::adapt::form;
use super::compile::Source;
use super::name::ImageName;
use super::samples::SAMPLES;
use super::{ImageError, ImagesError, digest_of};
use crate::data_dir::{make_dir, write_durably};

/// Names that may be kept. Each takes some hundred bytes of the index, which is written whole with every change.
const MAX_NAMES: usize = 4096;

/// An image that somebody can name in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageEntry {
    /// Repository and tag: `samples/hello:1`; or repository and digest, of one that was pulled by its digest.
    pub name: String,
    /// The digest of the WebAssembly (`imageID`).
    pub digest: Digest,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Whether it is part of the controller and cannot be pushed.
    pub built_in: bool,
    /// The digest that its registry knows it by, if it was pulled.
    pub manifest: Option<Digest>,
}

/// An image that was found fit to be stored.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    key: String,
    digest: Digest,
    manifest: Option<Digest>,
    wasm: Bytes,
}

impl Candidate {
    /// What is pushed under a name of the controller's own.
    pub(super) fn pushed(name: &str, wasm: Bytes) -> Result<Self, ImageError> {
        let name: ImageName = name.parse()?;
        if name.is_sample() {
            return Err(ImageError::BuiltIn);
        }
        let key = name.tagged().ok_or(ImageError::NoTag)?;
        let candidate = Self::of(key, None, wasm)?;
        match name.digest().filter(|named| *named != candidate.digest) {
            Some(named) => Err(ImageError::OtherDigest { found: candidate.digest, named }),
            None => Ok(candidate),
        }
    }

    /// What came from a registry, under the digest of its manifest.
    pub(super) fn pulled(name: &ImageName, manifest: Digest, wasm: Bytes) -> Result<Self, ImageError> {
        Self::of(name.pulled(), Some(manifest), wasm)
    }

    fn of(key: String, manifest: Option<Digest>, wasm: Bytes) -> Result<Self, ImageError> {
        if wasm.len() > MAX_IMAGE_BYTES {
            return Err(ImageError::TooLarge { found: wasm.len() });
        }
        form(&wasm)?;
        Ok(Self { key, digest: digest_of(&wasm), manifest, wasm })
    }

    pub(super) const fn digest(&self) -> Digest {
        self.digest
    }

    pub(super) fn wasm(&self) -> Bytes {
        self.wasm.clone()
    }
}

/// Images on disk.
#[derive(Debug)]
pub(super) struct ImageStore {
    index_path: PathBuf,
    blobs: PathBuf,
    names: Mutex<Names>,
    /// Since somebody last looked, an image may have lost its last name.
    lost: AtomicBool,
}

impl ImageStore {
    pub(super) fn open(path: &Path) -> Result<Self, ImagesError> {
        let blobs = path.join("blobs").join("sha256");
        for path in [path, &blobs] {
            make_dir(path).map_err(|source| ImagesError::Unusable { path: path.to_owned(), source })?;
        }
        let index_path = path.join("index.json");
        let names = match fs::read(&index_path) {
            Ok(bytes) => index::read(&index_path, &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(ImagesError::Unusable { path: index_path, source }),
        };
        Ok(Self { index_path, blobs, names: Mutex::new(names), lost: AtomicBool::new(true) })
    }

    /// Stores an image and its name. When this returns, both survive a loss of power.
    pub(super) fn keep(&self, candidate: &Candidate) -> Result<(), ImageError> {
        let Candidate { key, digest, manifest, wasm } = candidate;
        // The lock is held over the writes: pushes are rare, and two of them must not write the index over each other.
        let mut names = self.names.lock();
        let blob = self.blob(*digest);
        // Comparing all of it lets a second push mend a file that the disk has damaged.
        if !fs::read(&blob).is_ok_and(|found| found == *wasm) {
            write_durably(&blob, wasm).map_err(ImageError::Disk)?;
        }
        let row = Row { digest: *digest, size_bytes: wasm.len() as u64, manifest: *manifest };
        self.name(&mut names, key, row)
    }

    /// Gives a name to an image that was pulled before under another one; `None` when no such is here.
    pub(super) fn point(&self, name: &ImageName, manifest: Digest) -> Result<Option<Digest>, ImageError> {
        let mut names = self.names.lock();
        let Some(row) = names.values().find(|row| row.manifest == Some(manifest)).copied() else { return Ok(None) };
        self.name(&mut names, &name.pulled(), row)?;
        Ok(Some(row.digest))
    }

    fn name(&self, names: &mut Names, key: &str, row: Row) -> Result<(), ImageError> {
        if names.len() >= MAX_NAMES && !names.contains_key(key) {
            return Err(ImageError::TooMany { most: MAX_NAMES });
        }
        if names.get(key) != Some(&row) {
            let mut next = names.clone();
            if next.insert(key.to_owned(), row).is_some_and(|before| before.digest != row.digest) {
                self.lost.store(true, Ordering::Relaxed);
            }
            index::write(&self.index_path, &next).map_err(ImageError::Disk)?;
            *names = next;
        }
        Ok(())
    }

    /// Takes a name away; the image itself stays until [`Self::collect`]. `None` when there is no such name.
    pub(super) fn unname(&self, name: &ImageName) -> Result<Option<Digest>, ImageError> {
        let mut names = self.names.lock();
        let keys = [Some(name.pulled()), name.tagged()];
        let Some(key) = keys.into_iter().flatten().find(|key| names.contains_key(key)) else { return Ok(None) };
        let mut next = names.clone();
        let removed = next.remove(&key);
        index::write(&self.index_path, &next).map_err(ImageError::Disk)?;
        *names = next;
        self.lost.store(true, Ordering::Relaxed);
        Ok(removed.map(|row| row.digest))
    }

    /// Whether it is worth while to collect; once.
    pub(super) fn has_lost_a_name(&self) -> bool {
        self.lost.swap(false, Ordering::Relaxed)
    }

    /// Removes every image that has no name and is not to be kept, and says which.
    pub(super) fn collect(&self, keep: &BTreeSet<Digest>) -> io::Result<Vec<Digest>> {
        let names = self.names.lock();
        let named: BTreeSet<Digest> = names.values().map(|row| row.digest).collect();
        let mut removed = Vec::new();
        for entry in fs::read_dir(&self.blobs)? {
            let entry = entry?;
            let digest = entry.file_name().to_str().and_then(|name| name.parse::<Digest>().ok());
            let Some(digest) = digest.filter(|digest| !named.contains(digest) && !keep.contains(digest)) else {
                continue;
            };
            fs::remove_file(entry.path())?;
            removed.push(digest);
        }
        Ok(removed)
    }

    pub(super) fn list(&self) -> Vec<ImageEntry> {
        let built_in = SAMPLES.iter().map(|sample| ImageEntry {
            name: sample.name.to_owned(),
            digest: sample.digest,
            size_bytes: sample.bytes.len() as u64,
            built_in: true,
            manifest: None,
        });
        let names = self.names.lock();
        let kept = names.iter().map(|(name, row)| ImageEntry {
            name: name.clone(),
            digest: row.digest,
            size_bytes: row.size_bytes,
            built_in: false,
            manifest: row.manifest,
        });
        let mut list: Vec<_> = built_in.chain(kept).collect();
        list.sort_by(|one, two| one.name.cmp(&two.name));
        list
    }

    /// What a name stands for. One with a digest is the image that was pulled by it, or else that digest itself, if it is
    /// here under whatever name.
    pub(super) fn resolve(&self, name: &ImageName) -> Option<Digest> {
        let names = self.names.lock();
        if let Some(digest) = name.digest() {
            let prefix = name.repository();
            let is_of = |key: &str| key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with([':', '@']));
            let pulled = names.iter().find(|(key, row)| row.manifest == Some(digest) && is_of(key));
            return pulled.map(|(_, row)| row.digest).or_else(|| self.has(digest).then_some(digest));
        }
        let tagged = name.tagged()?;
        if name.is_sample() {
            return SAMPLES.iter().find(|sample| sample.name == tagged).map(|sample| sample.digest);
        }
        names.get(&tagged).map(|row| row.digest)
    }

    /// Whether this image is here.
    pub(super) fn has(&self, digest: Digest) -> bool {
        SAMPLES.iter().any(|sample| sample.digest == digest) || self.blob(digest).exists()
    }

    /// Whether the image with this manifest was pulled before and is here.
    pub(super) fn has_manifest(&self, manifest: Digest) -> bool {
        let names = self.names.lock();
        names.values().any(|row| row.manifest == Some(manifest) && self.blob(row.digest).exists())
    }

    /// The size of an image in bytes; `None` when it is not here.
    pub(super) fn size_bytes(&self, digest: Digest) -> Option<u64> {
        let sample = SAMPLES.iter().find(|sample| sample.digest == digest).map(|sample| sample.bytes.len() as u64);
        sample.or_else(|| fs::metadata(self.blob(digest)).ok().map(|found| found.len()))
    }

    /// The WebAssembly, to be read by somebody who checks the digest.
    pub(super) fn source(&self, digest: Digest) -> io::Result<Source> {
        match SAMPLES.iter().find(|sample| sample.digest == digest) {
            Some(sample) => Ok(Source::Bytes(Bytes::from_static(sample.bytes))),
            None => File::open(self.blob(digest)).map(Source::File),
        }
    }

    fn blob(&self, digest: Digest) -> PathBuf {
        self.blobs.join(digest.hex().as_str())
    }
}
