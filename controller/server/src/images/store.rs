//! The images that were pushed: WebAssembly by digest, and names for digests. Everything is on disk before it is true.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use coracle_model::Digest;
use coracle_model::limits::MAX_IMAGE_BYTES;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::adapt::form;
use super::compile::Source;
use super::name::ImageName;
use super::samples::SAMPLES;
use super::{ImageError, ImagesError, digest_of};
use crate::data_dir::{make_dir, write_durably};

/// Names that may be pushed. Each takes some hundred bytes of the index, which is written whole with every push.
const MAX_NAMES: usize = 4096;
/// The layout of the index; a newer one is refused.
const INDEX_VERSION: u32 = 1;

/// An image that somebody can name in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageEntry {
    /// Repository and tag: `samples/hello:1`.
    pub name: String,
    /// The digest of the WebAssembly (`imageID`).
    pub digest: Digest,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Whether it is part of the controller and cannot be pushed.
    pub built_in: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    version: u32,
    names: BTreeMap<String, Row>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    digest: String,
    size_bytes: u64,
}

/// Images on disk.
#[derive(Debug)]
pub(super) struct ImageStore {
    index_path: PathBuf,
    blobs: PathBuf,
    names: Mutex<BTreeMap<String, (Digest, u64)>>,
}

impl ImageStore {
    pub(super) fn open(path: &Path) -> Result<Self, ImagesError> {
        let blobs = path.join("blobs").join("sha256");
        for path in [path, &blobs] {
            make_dir(path).map_err(|source| ImagesError::Unusable { path: path.to_owned(), source })?;
        }
        let index_path = path.join("index.json");
        let names = match fs::read(&index_path) {
            Ok(bytes) => read_index(&index_path, &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(ImagesError::Unusable { path: index_path, source }),
        };
        Ok(Self { index_path, blobs, names: Mutex::new(names) })
    }

    pub(super) fn push(&self, name: &str, wasm: &[u8]) -> Result<Digest, ImageError> {
        let name: ImageName = name.parse()?;
        if name.is_sample() {
            return Err(ImageError::BuiltIn);
        }
        let tagged = name.tagged().ok_or(ImageError::NoTag)?;
        if wasm.len() > MAX_IMAGE_BYTES {
            return Err(ImageError::TooLarge { found: wasm.len() });
        }
        form(wasm)?;
        let digest = digest_of(wasm);
        if let Some(named) = name.digest().filter(|named| *named != digest) {
            return Err(ImageError::OtherDigest { found: digest, named });
        }
        // The lock is held over the writes: pushes are rare, and two of them must not write the index over each other.
        let mut names = self.names.lock();
        if names.len() >= MAX_NAMES && !names.contains_key(&tagged) {
            return Err(ImageError::TooMany { most: MAX_NAMES });
        }
        let blob = self.blob(digest);
        // Comparing all of it lets a second push mend a file that the disk has damaged.
        if !fs::read(&blob).is_ok_and(|found| found == wasm) {
            write_durably(&blob, wasm).map_err(ImageError::Disk)?;
        }
        let row = (digest, wasm.len() as u64);
        if names.get(&tagged) != Some(&row) {
            let mut next = names.clone();
            next.insert(tagged, row);
            write_index(&self.index_path, &next)?;
            *names = next;
        }
        Ok(digest)
    }

    pub(super) fn list(&self) -> Vec<ImageEntry> {
        let built_in = SAMPLES.iter().map(|sample| ImageEntry {
            name: sample.name.to_owned(),
            digest: sample.digest,
            size_bytes: sample.bytes.len() as u64,
            built_in: true,
        });
        let names = self.names.lock();
        let pushed = names.iter().map(|(name, &(digest, size_bytes))| ImageEntry {
            name: name.clone(),
            digest,
            size_bytes,
            built_in: false,
        });
        let mut list: Vec<_> = built_in.chain(pushed).collect();
        list.sort_by(|one, two| one.name.cmp(&two.name));
        list
    }

    /// What a name stands for. One with a digest is that digest, if it is here under whatever name.
    pub(super) fn resolve(&self, name: &ImageName) -> Option<Digest> {
        if let Some(digest) = name.digest() {
            let is_here = SAMPLES.iter().any(|sample| sample.digest == digest) || self.blob(digest).exists();
            return is_here.then_some(digest);
        }
        let tagged = name.tagged()?;
        if name.is_sample() {
            return SAMPLES.iter().find(|sample| sample.name == tagged).map(|sample| sample.digest);
        }
        self.names.lock().get(&tagged).map(|(digest, _)| *digest)
    }

    /// The WebAssembly, to be read by somebody who checks the digest.
    pub(super) fn source(&self, digest: Digest) -> io::Result<Source> {
        match SAMPLES.iter().find(|sample| sample.digest == digest) {
            Some(sample) => Ok(Source::BuiltIn(sample.bytes)),
            None => File::open(self.blob(digest)).map(Source::File),
        }
    }

    fn blob(&self, digest: Digest) -> PathBuf {
        self.blobs.join(digest.hex().as_str())
    }
}

fn read_index(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, (Digest, u64)>, ImagesError> {
    let damaged = |what: String| ImagesError::Damaged { path: path.to_owned(), what };
    let index: Index = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if index.version != INDEX_VERSION {
        return Err(damaged(format!("it has version {}, and this build knows {INDEX_VERSION}", index.version)));
    }
    let rows = index.names.into_iter().map(|(name, row)| {
        let digest = row.digest.parse().map_err(|error| damaged(format!("the digest of {name}: {error}")))?;
        Ok((name, (digest, row.size_bytes)))
    });
    rows.collect()
}

fn write_index(path: &Path, names: &BTreeMap<String, (Digest, u64)>) -> Result<(), ImageError> {
    let row = |&(digest, size_bytes): &(Digest, u64)| Row { digest: digest.to_string(), size_bytes };
    let names = names.iter().map(|(name, entry)| (name.clone(), row(entry))).collect();
    let index = Index { version: INDEX_VERSION, names };
    let bytes = serde_json::to_vec_pretty(&index).map_err(|error| ImageError::Disk(error.into()))?;
    write_durably(path, &bytes).map_err(ImageError::Disk)
}
