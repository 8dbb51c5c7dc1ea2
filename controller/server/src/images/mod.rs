//! Images as they were pushed, and the machine code that boards get instead (DESIGN, decision 7; EDGE-02).
//!
//! *In:* WebAssembly under a name; the wish of a node for an image. *Out:* a signed manifest, and blocks.
//! *Must never know:* MQTT, HTTP, pods; what a node does with its machine code.
//! *Tested:* beside the code and in `tests.rs`, with real guests and the real compiler; the child process end to end.
//!
//! A push stores the WebAssembly under its digest and notes the name ([`store`]). When the first node of a target asks
//! for the image, a child process makes a component of it ([`adapt`]) and compiles that ([`compile`]); all that ask
//! meanwhile wait for the same child. The result is signed and kept ([`artifacts`]) for as long as the engine is the
//! same. What the compiler has refused is refused at once from then on, until the controller starts again.

pub mod name;
mod samples;
pub mod store;

pub mod adapt;
pub mod compile;

mod artifacts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coracle_engine::{TARGETS, fingerprint};
use coracle_model::Digest;
use coracle_wire::artifact::{ArtifactManifest, ArtifactRefusal};
use ed25519_dalek::SigningKey;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

pub use self::adapt::AdaptError;
use self::artifacts::{ArtifactCache, ArtifactKey};
pub use self::compile::{CHILD_ARGUMENT, child_main};
use self::compile::{CompileError, Compiler};
pub use self::name::{ImageName, NameError};
pub use self::store::ImageEntry;
use self::store::ImageStore;

/// Refusals that are remembered; beyond this all are forgotten, and their images are tried once more.
const MAX_REFUSALS: usize = 1024;

/// Why the images cannot be opened. Each text fits after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// A file or directory cannot be read or written.
    #[error("use {path} for images")]
    Unusable {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The index of names is not what this build writes.
    #[error(
        "read the names of images from {path}: {what}; restore the file from a backup, or remove it and push the images again"
    )]
    Damaged {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Why an image was not taken. Each text fits after "failed to push: ".
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The name belongs to the controller.
    #[error("names below samples/ are built into the controller; choose another name")]
    BuiltIn,
    /// A name with a digest and without a tag.
    #[error("want a tag to push to, as in NAME:TAG")]
    NoTag,
    /// The name has the digest of something else.
    #[error("the file has the digest {found}, and the name says {named}")]
    OtherDigest {
        /// Of the file.
        found: Digest,
        /// In the name.
        named: Digest,
    },
    /// Too large.
    #[error("the file has {found} bytes, and an image may have {}", coracle_model::limits::MAX_IMAGE_BYTES)]
    TooLarge {
        /// Its size in bytes.
        found: usize,
    },
    /// Too many names.
    #[error("there are {most} names already, which is the limit")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// Not what we run.
    #[error(transparent)]
    Form(#[from] AdaptError),
    /// The disk.
    #[error("the image cannot be written to disk")]
    Disk(#[source] io::Error),
}

/// The SHA-256 digest of these bytes.
pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// Images and artifacts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Images(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: ImageStore,
    artifacts: ArtifactCache,
    compiler: Compiler,
    engine: String,
    /// One lock for each artifact that is being made; whoever holds it makes it.
    making: Mutex<BTreeMap<ArtifactKey, Arc<tokio::sync::Mutex<()>>>>,
    refusals: Mutex<BTreeMap<ArtifactKey, String>>,
}

impl Images {
    /// Opens the images in this directory, and makes it if there is none. `signing` signs artifacts; `program` is the one
    /// whose `main` calls [`child_main`] when its first argument is [`CHILD_ARGUMENT`]. On Linux `/proc/self/exe` stays
    /// the right one even while an upgrade replaces the file.
    ///
    /// # Errors
    /// When the directory cannot be used, or the index of names is damaged.
    pub fn open(path: &Path, signing: SigningKey, program: PathBuf) -> Result<Self, ImagesError> {
        let engine = fingerprint();
        Ok(Self(Arc::new(Inner {
            store: ImageStore::open(path)?,
            artifacts: ArtifactCache::open(&path.join("artifacts"), signing, &engine)?,
            compiler: Compiler::new(program),
            engine,
            making: Mutex::default(),
            refusals: Mutex::default(),
        })))
    }

    /// Stores an image under a name (`NAME:TAG`). When this returns, both survive a loss of power. Blocks on the disk, so
    /// an async caller uses `spawn_blocking`.
    ///
    /// # Errors
    /// See [`ImageError`]; nothing is stored then.
    pub fn push(&self, name: &str, wasm: &[u8]) -> Result<Digest, ImageError> {
        let digest = self.0.store.push(name, wasm)?;
        // Perhaps the stored file was damaged, and this push has mended it.
        self.0.refusals.lock().retain(|key, _| key.image != digest);
        Ok(digest)
    }

    /// Every name that a pod can use, in order.
    #[must_use]
    pub fn list(&self) -> Vec<ImageEntry> {
        self.0.store.list()
    }

    /// What a name stands for now; `None` when there is no such image.
    #[must_use]
    pub fn resolve(&self, name: &ImageName) -> Option<Digest> {
        self.0.store.resolve(name)
    }

    /// What an image is for a node with this target and engine; compiled now if nobody has asked before, which takes
    /// from some tenths of a second to two minutes. Cancel-safe.
    ///
    /// # Errors
    /// Why there is none, in words for the pod's status.
    pub async fn artifact(
        &self,
        image: &str,
        target: &str,
        engine: &str,
    ) -> Result<Arc<ArtifactManifest>, ArtifactRefusal> {
        let name: ImageName =
            image.parse().map_err(|error: NameError| ArtifactRefusal::InvalidName(error.to_string()))?;
        let ours = &self.0.engine;
        if engine != ours {
            let text =
                format!("the node has engine {engine}, and this controller compiles for {ours}: use the same version");
            return Err(ArtifactRefusal::Unusable(text));
        }
        if !TARGETS.contains(&target) {
            let text = format!("no artifacts are made for target {target:?}; there are {TARGETS:?}");
            return Err(ArtifactRefusal::Unusable(text));
        }
        let digest = self.0.store.resolve(&name).ok_or_else(|| {
            ArtifactRefusal::NotFound(format!(
                "there is no image {name}; push it with: coracle image push FILE.wasm {name}"
            ))
        })?;
        self.made(ArtifactKey { image: digest, target: target.to_owned(), engine: engine.to_owned() }).await
    }

    /// One block of an artifact whose manifest was given out; `None` when it is gone, so that the node asks anew. Reads
    /// at most 128 KiB from the disk.
    #[must_use]
    pub fn block(&self, artifact: Digest, index: u32) -> Option<Vec<u8>> {
        self.0.artifacts.block(artifact, index)
    }

    fn known(&self, key: &ArtifactKey) -> Option<Result<Arc<ArtifactManifest>, ArtifactRefusal>> {
        if let Some(manifest) = self.0.artifacts.get(key) {
            return Some(Ok(manifest));
        }
        let refusals = self.0.refusals.lock();
        refusals.get(key).map(|reason| Err(ArtifactRefusal::Unusable(reason.clone())))
    }

    async fn made(&self, key: ArtifactKey) -> Result<Arc<ArtifactManifest>, ArtifactRefusal> {
        if let Some(known) = self.known(&key) {
            return known;
        }
        let turn = Arc::clone(self.0.making.lock().entry(key.clone()).or_default());
        let result = {
            let _turn = turn.lock().await;
            // Whoever had the turn before has most likely made it.
            match self.known(&key) {
                Some(known) => known,
                None => self.make(&key).await,
            }
        };
        drop(turn);
        let mut making = self.0.making.lock();
        // The last one out removes the lock; a count of one is the map's own.
        if making.get(&key).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            making.remove(&key);
        }
        result
    }

    async fn make(&self, key: &ArtifactKey) -> Result<Arc<ArtifactManifest>, ArtifactRefusal> {
        let busy = |error: io::Error| {
            tracing::error!(%error, image = %key.image, "an artifact cannot be written");
            ArtifactRefusal::Busy("the controller cannot write the artifact to its disk".to_owned())
        };
        let (path, output) = self.0.artifacts.begin(key).map_err(busy)?;
        let rest = Leftover(path);
        let source = async || self.0.store.source(key.image);
        match self.0.compiler.compile(source, key.image, &key.target, output).await {
            Ok(()) => {}
            Err(CompileError::Refused { reason }) => {
                let mut refusals = self.0.refusals.lock();
                if refusals.len() >= MAX_REFUSALS {
                    refusals.clear();
                }
                refusals.insert(key.clone(), reason.clone());
                return Err(ArtifactRefusal::Unusable(reason));
            }
            Err(error @ CompileError::Process { .. }) => {
                let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::error!(%error, source, image = %key.image, "an image was not compiled");
                return Err(ArtifactRefusal::Busy(format!("the controller failed to {error}: {source}")));
            }
        }
        let (images, key) = (self.clone(), key.clone());
        let finished = tokio::task::spawn_blocking(move || images.0.artifacts.finish(&key, &rest.0)).await;
        finished.map_err(io::Error::other).and_then(|finished| finished).map_err(busy)
    }
}

/// A half-written artifact, removed whichever way its making ends. One that was finished has another name by then.
struct Leftover(PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        // What stays is removed at the next start.
        let _: io::Result<()> = std::fs::remove_file(&self.0);
    }
}
