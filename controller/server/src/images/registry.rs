//! Pulls from OCI registries, over HTTPS ([`trust`]); plain HTTP only on the loopback, or to a host that the operator has
//! named ([`transport`]).
//!
//! *In:* a name, and what may open its registry. *Out:* the digest that the name stands for, and the WebAssembly.
//! *Must never know:* where credentials come from; what becomes of the file.
//! *Tested:* against a small registry of its own in `registry/tests.rs`, and end to end against Debian's.
//!
//! Everything that a registry says has a bound: sizes, redirects, time. What it says in an error is shown, shortened;
//! addresses are not, since those behind a redirect hold secrets.

mod challenge;
mod client;
mod credentials;
mod places;
mod transport;
mod trust;

use std::collections::BTreeSet;

use coracle_model::Digest;
use tokio::sync::watch;

use self::client::Conversation;
pub use self::credentials::{Credential, Credentials};
use self::places::Places;
use self::transport::Transport;
pub use self::trust::{Authorities, AuthoritiesError};
use super::digest_of;
use super::name::ImageName;
use super::source::{ACCEPTED, MAX_MANIFEST_BYTES, SourceError, Step, Unfolding};

/// Why nothing came from a registry. Texts fit after "failed to pull image NAME: ", and hold no secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PullError {
    /// There is no such name.
    #[error("not found: {0}")]
    NotFound(String),
    /// Not for whoever asks.
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// No connection, or it broke.
    #[error("the registry {registry} is unreachable: {why}")]
    Unreachable {
        /// Host and port.
        registry: String,
        /// What went wrong, without addresses.
        why: String,
    },
    /// It is not known to be who it says it is.
    #[error("the registry {registry} is not trusted: {why}")]
    Untrusted {
        /// Host and port.
        registry: String,
        /// What is wrong with its certificate.
        why: String,
    },
    /// It answered, but not so that it makes sense.
    #[error("the registry {registry} answered: {what}")]
    Answered {
        /// Host and port.
        registry: String,
        /// Status and words.
        what: String,
    },
    /// What it has is not for us.
    #[error(transparent)]
    Image(#[from] SourceError),
}

impl PullError {
    /// Whether other credentials could change it.
    const fn is_refusal(&self) -> bool {
        // Registries hide what is private behind "not found".
        matches!(self, Self::Unauthorized(_) | Self::NotFound(_))
    }
}

/// How much of a pull is done: bytes that came, and bytes in all; both 0 before it is known.
pub type Progress = watch::Sender<(u64, u64)>;

/// What a name stands for at its registry.
#[derive(Debug)]
pub(super) struct Found {
    /// The digest of the manifest, or of the index.
    pub(super) manifest: Digest,
    /// The WebAssembly; `None` when the caller said that it has it.
    pub(super) wasm: Option<Vec<u8>>,
}

/// Every registry there is.
#[derive(Debug)]
pub(super) struct Registries {
    transport: Transport,
    places: Places,
}

impl Registries {
    /// `insecure` are hosts (`HOST:PORT`) that may be spoken to over plain HTTP; `authorities` are trusted beside those of
    /// the system.
    pub(super) fn new(insecure: BTreeSet<String>, authorities: Authorities) -> Self {
        Self { transport: Transport::new(insecure, authorities), places: Places::default() }
    }

    /// Asks the registry what the name means now, with each credential and at last with none; `has` says of a digest
    /// whether there is no need to fetch it.
    pub(super) async fn pull(
        &self,
        name: &ImageName,
        credentials: &[Credential],
        has: impl Fn(Digest) -> bool,
        progress: &Progress,
    ) -> Result<Found, PullError> {
        let Some(registry) = name.registry() else {
            return Err(PullError::NotFound("the name has no registry".to_owned()));
        };
        let _place = self.places.take(registry).await;
        let mut best: Option<PullError> = None;
        for credential in credentials.iter().map(Some).chain([None]) {
            let mut conversation = Conversation::begin(&self.transport, registry, name.path(), credential);
            match self.try_pull(name, &mut conversation, &has, progress).await {
                Ok(found) => return Ok(found),
                Err(error) if error.is_refusal() => {
                    // "Not found" to somebody who was let in says more than "unauthorized".
                    if best.is_none() || matches!(error, PullError::NotFound(_)) {
                        best = Some(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(best.unwrap_or_else(|| PullError::NotFound("nobody was asked".to_owned())))
    }

    async fn try_pull(
        &self,
        name: &ImageName,
        conversation: &mut Conversation<'_>,
        has: &impl Fn(Digest) -> bool,
        progress: &Progress,
    ) -> Result<Found, PullError> {
        let reference = name.digest().map(|digest| digest.to_string());
        let reference = reference.or_else(|| name.tag().map(ToOwned::to_owned)).unwrap_or_default();
        let path = format!("manifests/{reference}");
        if let Some(manifest) = conversation.digest(&path, ACCEPTED).await?.filter(|manifest| has(*manifest)) {
            return Ok(Found { manifest, wasm: None });
        }
        let bytes = conversation.get(&path, ACCEPTED, MAX_MANIFEST_BYTES, &mut |_| {}).await?;
        let manifest = digest_of(&bytes);
        if let Some(want) = name.digest().filter(|want| *want != manifest) {
            return Err(SourceError::Digest { what: "the manifest", found: manifest, want }.into());
        }
        let mut unfolding = Unfolding::begin(&bytes)?;
        loop {
            let wanted = unfolding.wanted().clone();
            let (kind, accept) = if wanted.is_manifest { ("manifests", ACCEPTED) } else { ("blobs", "*/*") };
            let path = format!("{kind}/{}", wanted.digest);
            let mut tell = |bytes: u64| {
                if !wanted.is_manifest {
                    progress.send_replace((bytes, wanted.size_bytes));
                }
            };
            let bytes = conversation.get(&path, accept, wanted.size_bytes, &mut tell).await?;
            // Unpacking an archive and measuring megabytes would hold up others on this thread.
            let step = tokio::task::spawn_blocking(move || unfolding.take(bytes)).await;
            match step.map_err(|_| SourceError::Layer("unpacking it broke down".to_owned()))?? {
                Step::More(next) => unfolding = next,
                Step::Done(wasm) => return Ok(Found { manifest, wasm: Some(wasm) }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
