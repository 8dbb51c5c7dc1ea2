//! Images as they were pushed or pulled, and the machine code that boards get instead (DESIGN, decision 7; EDGE-02).
//!
//! *In:* WebAssembly under a name, or a registry's name for it; the wish of a node for an image. *Out:* a signed manifest,
//! and blocks.
//! *Must never know:* MQTT, the API, pods; what a node does with its machine code.
//! *Tested:* beside the code and in `tests.rs`, with real guests and the real compiler; the child process and registries
//! end to end.
//!
//! A push stores the WebAssembly under its digest and notes the name ([`store`]), once a child process has read what it
//! imports ([`describe`]). A name with a registry in it is pulled ([`registry`], [`source`]) and kept in the same way, so
//! that it outlives the registry. When the first node of a target asks for the image, a child process makes a component
//! of it ([`adapt`]) and compiles that ([`compile`]); all that ask meanwhile wait for the same child ([`flights`]). The
//! result is signed and kept ([`artifacts`]) for as long as engine and adapter are the same and there is room. What the
//! compiler has refused is refused at once from then on ([`refusals`]).

pub mod name;

mod registry;
mod source;

mod samples;
pub mod store;

pub mod adapt;
pub mod compile;
mod describe;
pub(crate) mod interfaces;

mod artifacts;
mod flights;
mod refusals;

mod error;
mod obtain;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use coracle_engine::{TARGETS, fingerprint};
use coracle_model::Digest;
use coracle_wire::artifact::{ArtifactManifest, ArtifactRefusal};
use ed25519_dalek::SigningKey;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

pub use self::adapt::{AdaptError, Form};
pub use self::artifacts::ArtifactInfo;
use self::artifacts::{ArtifactCache, ArtifactKey};
pub use self::compile::{CHILD_ARGUMENT, child_main};
use self::compile::{CompileError, Compiler};
pub use self::describe::Description;
pub use self::error::{ImageError, ImagesError};
use self::flights::Flights;
pub use self::name::{ImageName, NameError};
pub use self::obtain::Wish;
use self::refusals::Refusals;
use self::registry::Registries;
pub use self::registry::{Authorities, AuthoritiesError, Credential, Credentials, Progress, PullError};
pub use self::source::{SourceError, layout};
pub use self::store::ImageEntry;
use self::store::{Candidate, ImageStore};

/// What machine code may take on the disk unless somebody says otherwise, in bytes.
pub const DEFAULT_CACHE_BYTES: u64 = 4 << 30;
/// Descriptions kept in memory, each some kilobytes; beyond this all are dropped and read again when asked for.
const MAX_DESCRIPTIONS: usize = 256;

/// The SHA-256 digest of these bytes.
pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// How images are kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program whose `main` calls [`child_main`] when its first argument is [`CHILD_ARGUMENT`]. On Linux
    /// `/proc/self/exe` stays the right one even while an upgrade replaces the file.
    pub program: PathBuf,
    /// What machine code may take on the disk, in bytes.
    pub cache_bytes: u64,
    /// Registries (`HOST:PORT`) that may be spoken to over plain HTTP.
    pub insecure_registries: BTreeSet<String>,
    /// Who vouches for registries beside those whom the system trusts.
    pub authorities: Authorities,
}

impl Options {
    /// The usual: [`DEFAULT_CACHE_BYTES`], no registry without TLS but on the loopback, and the system's trust.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        let (insecure_registries, authorities) = (BTreeSet::new(), Authorities::default());
        Self { program, cache_bytes: DEFAULT_CACHE_BYTES, insecure_registries, authorities }
    }
}

/// How often an image is compiled again because its compiler was killed, before that counts as a refusal.
const KILLS_FORGIVEN: u32 = 2;

/// Images and artifacts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Images(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: ImageStore,
    registries: Registries,
    /// Pulls under way, by name and by what opens the registry.
    pulling: Flights<(ImageName, Vec<Credential>), Result<Digest, ArtifactRefusal>>,
    /// Images of registries that are none, by manifest, so that they are not fetched again and again.
    unusable: Mutex<BTreeMap<Digest, String>>,
    descriptions: PathBuf,
    described: Mutex<BTreeMap<Digest, Arc<Description>>>,
    artifacts: ArtifactCache,
    /// Artifacts that are being made.
    making: Flights<ArtifactKey, Result<Arc<ArtifactManifest>, ArtifactRefusal>>,
    compiler: Compiler,
    refusals: Refusals,
    engine: String,
}

/// All about one image.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The digest of the WebAssembly.
    pub digest: Digest,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Every name that it has.
    pub names: Vec<ImageEntry>,
    /// What it is.
    pub description: Arc<Description>,
    /// What was made of it.
    pub artifacts: Vec<ArtifactInfo>,
}

impl Images {
    /// Opens the images in this directory, and makes it if there is none. `signing` signs artifacts.
    ///
    /// # Errors
    /// When the directory cannot be used, or the index of names is damaged.
    pub fn open(path: &Path, signing: SigningKey, options: Options) -> Result<Self, ImagesError> {
        let Options { program, cache_bytes, insecure_registries, authorities } = options;
        let engine = fingerprint();
        let store = ImageStore::open(path)?;
        let descriptions = path.join("descriptions");
        crate::data_dir::make_dir(&descriptions)
            .map_err(|source| ImagesError::Unusable { path: descriptions.clone(), source })?;
        Ok(Self(Arc::new(Inner {
            store,
            registries: Registries::new(insecure_registries, authorities),
            pulling: Flights::default(),
            unusable: Mutex::default(),
            descriptions,
            described: Mutex::default(),
            artifacts: ArtifactCache::open(&path.join("artifacts"), signing, &engine, cache_bytes)?,
            making: Flights::default(),
            compiler: Compiler::new(program),
            refusals: Refusals::open(&path.join("refusals"), &engine)?,
            engine,
        })))
    }

    /// Stores an image under a name (`NAME:TAG`). When this returns, both survive a loss of power.
    ///
    /// # Errors
    /// See [`ImageError`]; nothing is stored then.
    pub async fn push(&self, name: &str, wasm: Bytes) -> Result<Digest, ImageError> {
        let name = name.to_owned();
        let candidate = blocking(move || Candidate::pushed(&name, wasm)).await?;
        self.keep(candidate).await
    }

    async fn keep(&self, candidate: Candidate) -> Result<Digest, ImageError> {
        let digest = candidate.digest();
        self.describe_bytes(digest, candidate.wasm()).await?;
        let images = self.clone();
        blocking(move || images.0.store.keep(&candidate)).await?;
        // Perhaps the stored file was damaged, and this has mended it.
        self.0.refusals.forget(digest);
        Ok(digest)
    }

    /// Every name that a pod can use without a registry, in order.
    #[must_use]
    pub fn list(&self) -> Vec<ImageEntry> {
        self.0.store.list()
    }

    /// What a name stands for here now; `None` when there is no such image. No registry is asked.
    #[must_use]
    pub fn resolve(&self, name: &ImageName) -> Option<Digest> {
        self.0.store.resolve(name)
    }

    /// All about an image that is here; `None` when there is none of that name.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn inspect(&self, name: &ImageName) -> Result<Option<Inspection>, ImageError> {
        let store = &self.0.store;
        let Some(digest) = store.resolve(name) else { return Ok(None) };
        let Some(size_bytes) = store.size_bytes(digest) else { return Ok(None) };
        let description = self.description(digest).await?;
        let names = store.list().into_iter().filter(|entry| entry.digest == digest).collect();
        Ok(Some(Inspection { digest, size_bytes, names, description, artifacts: self.0.artifacts.of_image(digest) }))
    }

    /// Takes a name away. The image stays until [`Self::collect`]. `None` when there is no such name. Blocks on the disk.
    ///
    /// # Errors
    /// When it is built in, or the disk does not take it.
    pub fn remove(&self, name: &ImageName) -> Result<Option<Digest>, ImageError> {
        if name.is_sample() { Err(ImageError::BuiltIn) } else { self.0.store.unname(name) }
    }

    /// Whether an image may have lost its last name since this was last asked, so that [`Self::collect`] finds something.
    /// After a start it may.
    #[must_use]
    pub fn has_lost_a_name(&self) -> bool {
        self.0.store.has_lost_a_name()
    }

    /// Removes images that have no name, with everything that was made of them; those in `keep` stay. Machine code can be
    /// made again only as long as its image is here. Gives how many went. Blocks on the disk.
    pub fn collect(&self, keep: &BTreeSet<Digest>) -> usize {
        let removed = self.0.store.collect(keep).unwrap_or_else(|error| {
            tracing::warn!(%error, "images without a name cannot be removed");
            Vec::new()
        });
        for digest in &removed {
            tracing::info!(image = %digest, "an image without a name was removed");
            self.0.refusals.forget(*digest);
            self.0.described.lock().remove(digest);
            describe::remove(&self.0.descriptions, *digest);
        }
        self.0.artifacts.retain(|digest| self.0.store.has(digest));
        removed.len()
    }

    /// What an image is; read by a child process if that was never done.
    ///
    /// # Errors
    /// When it is no WebAssembly after all, or cannot be read.
    pub async fn description(&self, image: Digest) -> Result<Arc<Description>, ImageError> {
        if let Some(known) = self.0.described.lock().get(&image) {
            return Ok(Arc::clone(known));
        }
        if let Some(stored) = describe::load(&self.0.descriptions, image) {
            return Ok(self.remember(image, stored));
        }
        let source = self.0.store.source(image).map_err(ImageError::Disk)?;
        self.describe(image, source).await
    }

    async fn describe_bytes(&self, image: Digest, wasm: Bytes) -> Result<(), ImageError> {
        // The one that is stored may be of a file that was damaged since.
        if describe::load(&self.0.descriptions, image).is_some() {
            return Ok(());
        }
        self.describe(image, compile::Source::Bytes(wasm)).await.map(drop)
    }

    async fn describe(&self, image: Digest, source: compile::Source) -> Result<Arc<Description>, ImageError> {
        let described = self.0.compiler.describe(source, image).await.map_err(|error| match error {
            CompileError::Refused { reason, .. } => ImageError::Refused(reason),
            CompileError::Killed { .. } | CompileError::Process { .. } => ImageError::Compiler(told(&error)),
        })?;
        if let Err(error) = describe::save(&self.0.descriptions, image, &described) {
            tracing::warn!(%error, %image, "the description of an image is not kept");
        }
        Ok(self.remember(image, described))
    }

    fn remember(&self, image: Digest, description: Description) -> Arc<Description> {
        let description = Arc::new(description);
        let mut described = self.0.described.lock();
        if described.len() >= MAX_DESCRIPTIONS {
            described.clear();
        }
        described.insert(image, Arc::clone(&description));
        description
    }

    /// The machine code of an image for a node with this target and engine; compiled now if nobody has asked before,
    /// which takes from some tenths of a second to some minutes, and goes on when nobody waits. Cancel-safe.
    ///
    /// # Errors
    /// Why there is none, in words for the pod's status.
    pub async fn artifact(
        &self,
        image: Digest,
        target: &str,
        engine: &str,
    ) -> Result<Arc<ArtifactManifest>, ArtifactRefusal> {
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
        let key = ArtifactKey { image, target: target.to_owned(), engine: engine.to_owned() };
        if let Some(known) = self.known(&key) {
            return known;
        }
        let images = self.clone();
        let made = self.0.making.join(key.clone(), async move {
            // Perhaps the one before has just made it.
            match images.known(&key) {
                Some(known) => known,
                None => images.make(&key).await,
            }
        });
        made.await.unwrap_or_else(|| Err(ArtifactRefusal::Busy("compiling broke down".to_owned())))
    }

    fn known(&self, key: &ArtifactKey) -> Option<Result<Arc<ArtifactManifest>, ArtifactRefusal>> {
        let made = self.0.artifacts.get(key).map(Ok);
        made.or_else(|| self.0.refusals.get(key).map(|reason| Err(ArtifactRefusal::Unusable(reason))))
    }

    /// One block of an artifact whose manifest was given out; `None` when it is gone, so that the node asks anew. Reads
    /// at most 128 KiB from the disk.
    #[must_use]
    pub fn block(&self, artifact: Digest, index: u32) -> Option<Vec<u8>> {
        self.0.artifacts.block(artifact, index)
    }

    async fn make(&self, key: &ArtifactKey) -> Result<Arc<ArtifactManifest>, ArtifactRefusal> {
        let busy = |error: io::Error| {
            tracing::error!(%error, image = %key.image, "an artifact cannot be written");
            ArtifactRefusal::Busy("the controller cannot write the artifact to its disk".to_owned())
        };
        let mut kills = 0;
        let rest = loop {
            let (path, output) = self.0.artifacts.begin(key).map_err(busy)?;
            let rest = Leftover(path);
            let source = async || self.0.store.source(key.image);
            match self.0.compiler.compile(source, key.image, &key.target, output).await {
                Ok(()) => break rest,
                Err(CompileError::Killed { reason }) if kills < KILLS_FORGIVEN => {
                    kills += 1;
                    tracing::warn!(reason, image = %key.image, "an image is compiled again");
                }
                Err(CompileError::Killed { reason }) => {
                    self.0.refusals.remember(key, &reason, false);
                    return Err(ArtifactRefusal::Unusable(reason));
                }
                Err(CompileError::Refused { reason, lasting }) => {
                    self.0.refusals.remember(key, &reason, lasting);
                    return Err(ArtifactRefusal::Unusable(reason));
                }
                Err(error @ CompileError::Process { .. }) => {
                    let told = told(&error);
                    tracing::error!(error = told, image = %key.image, "an image was not compiled");
                    return Err(ArtifactRefusal::Busy(format!("the controller failed to {told}")));
                }
            }
        };
        let (images, key) = (self.clone(), key.clone());
        let finished = tokio::task::spawn_blocking(move || images.0.artifacts.finish(&key, &rest.0)).await;
        finished.map_err(io::Error::other).and_then(|finished| finished).map_err(busy)
    }
}

/// An error with what is behind it.
fn told(error: &CompileError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {source}")
}

/// Work that would hold up others on this thread: digests of megabytes, files.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ImageError::Disk(io::Error::other(error))))
}

/// A half-written artifact, removed whichever way its making ends. One that was finished has another name by then.
struct Leftover(PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        // What stays is removed at the next start.
        let _: io::Result<()> = std::fs::remove_file(&self.0);
    }
}
