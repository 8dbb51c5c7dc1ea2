//! From what registries and layouts hold to one WebAssembly file.
//!
//! *In:* a manifest's bytes, then every blob that is asked for. *Out:* what to fetch next, and in the end the file.
//! *Must never know:* where the bytes come from; [`super::registry`] and [`layout`] fetch them.
//! *Tested:* beside the code with manifests as other tools write them.
//!
//! Nothing is believed: every blob has the size and the digest that its descriptor names, and everything has a bound.

mod archive;
pub mod layout;
mod manifest;

use coracle_model::Digest;
use coracle_model::limits::MAX_IMAGE_BYTES;

use self::archive::{Packing, Unpacked, entrypoint};
pub(super) use self::manifest::ACCEPTED;
use self::manifest::{Content, Descriptor, Manifest};
use super::digest_of;

/// A manifest, or the configuration of an image.
pub(super) const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// An index may hold an index, which may hold one more.
const MAX_DEPTH: usize = 3;

/// Why an image is not one that we can run. Texts fit after the image's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A manifest that makes no sense.
    #[error("its manifest cannot be used: {0}")]
    Manifest(String),
    /// No variant, or no layer, is WebAssembly.
    #[error("it holds no WebAssembly: {0}")]
    NoWasm(String),
    /// A layer cannot be unpacked.
    #[error("its layer cannot be unpacked: {0}")]
    Layer(String),
    /// Larger than its descriptor says, or than we take.
    #[error("{what} has {found} bytes, and may have {most}")]
    TooLarge {
        /// What of the image.
        what: &'static str,
        /// Its size in bytes.
        found: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// Other bytes than were named.
    #[error("{what} came with the digest {found} instead of {want}")]
    Digest {
        /// What of the image.
        what: &'static str,
        /// Of the bytes.
        found: Digest,
        /// As named.
        want: Digest,
    },
}

/// A part of an image, as somebody else names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// What it is, for messages.
    pub(super) what: &'static str,
    /// Whether it is fetched from where manifests are.
    pub(super) is_manifest: bool,
    /// Its digest.
    pub(super) digest: Digest,
    /// Its exact size in bytes.
    pub(super) size_bytes: u64,
}

/// What comes of a part.
#[derive(Debug)]
pub(super) enum Step {
    /// More is wanted.
    More(Unfolding),
    /// The WebAssembly.
    Done(Vec<u8>),
}

/// How far an image has been unfolded.
#[derive(Debug)]
enum State {
    /// A manifest is on its way, inside so many indexes.
    Manifest(usize),
    /// The WebAssembly itself is.
    Wasm,
    /// The configuration is; then come the layers.
    Configuration(Vec<(Descriptor, Packing)>),
    /// The first of these layers is.
    Layers { left: Vec<(Descriptor, Packing)>, unpacked: Unpacked, entrypoint: Option<String> },
}

/// An image that is being unfolded.
#[derive(Debug)]
pub(super) struct Unfolding {
    state: State,
    wanted: Wanted,
}

impl Unfolding {
    /// Begins with a manifest or an index, whose digest somebody has checked.
    pub(super) fn begin(manifest: &[u8]) -> Result<Self, SourceError> {
        Self::of(manifest, 0)
    }

    fn of(bytes: &[u8], depth: usize) -> Result<Self, SourceError> {
        let (descriptor, what, most, state) = match manifest::read(bytes)? {
            Manifest::Index(_) if depth == MAX_DEPTH => {
                return Err(SourceError::Manifest("indexes within indexes, too deep".to_owned()));
            }
            Manifest::Index(entries) => {
                let chosen = manifest::choose(entries)?;
                (chosen, "a manifest", MAX_MANIFEST_BYTES, State::Manifest(depth + 1))
            }
            Manifest::Image { configuration, layers } => match manifest::content(layers)? {
                Content::Wasm(layer) => (layer, "the layer", MAX_IMAGE_BYTES as u64, State::Wasm),
                Content::Archives(layers) => {
                    let all = layers.iter().map(|(layer, _)| layer.size).fold(0, u64::saturating_add);
                    within("all layers together", all, MAX_IMAGE_BYTES as u64)?;
                    let missing = || SourceError::Manifest("it names no configuration".to_owned());
                    let configuration = configuration.ok_or_else(missing)?;
                    (configuration, "the configuration", MAX_MANIFEST_BYTES, State::Configuration(layers))
                }
            },
        };
        let is_manifest = matches!(state, State::Manifest(_));
        let wanted = wanted(&descriptor, what, is_manifest, most)?;
        Ok(Self { state, wanted })
    }

    /// What is to be fetched now.
    pub(super) const fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Takes what was fetched.
    pub(super) fn take(self, bytes: Vec<u8>) -> Result<Step, SourceError> {
        let Self { state, wanted: Wanted { what, digest: want, size_bytes, .. } } = self;
        within(what, bytes.len() as u64, size_bytes)?;
        let found = digest_of(&bytes);
        if found != want {
            return Err(SourceError::Digest { what, found, want });
        }
        match state {
            State::Manifest(depth) => Self::of(&bytes, depth).map(Step::More),
            State::Wasm => Ok(Step::Done(bytes)),
            State::Configuration(layers) => Self::next_layer(layers, Unpacked::default(), entrypoint(&bytes)),
            State::Layers { mut left, mut unpacked, entrypoint } => {
                let (_, packing) = left.remove(0);
                unpacked.add(&bytes, packing)?;
                Self::next_layer(left, unpacked, entrypoint)
            }
        }
    }

    fn next_layer(
        left: Vec<(Descriptor, Packing)>,
        unpacked: Unpacked,
        entrypoint: Option<String>,
    ) -> Result<Step, SourceError> {
        let Some((layer, _)) = left.first() else {
            return unpacked.pick(entrypoint.as_deref()).map(Step::Done);
        };
        let wanted = wanted(layer, "a layer", false, MAX_IMAGE_BYTES as u64)?;
        Ok(Step::More(Self { state: State::Layers { left, unpacked, entrypoint }, wanted }))
    }
}

fn wanted(descriptor: &Descriptor, what: &'static str, is_manifest: bool, most: u64) -> Result<Wanted, SourceError> {
    within(what, descriptor.size, most)?;
    let digest = descriptor.digest.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
    let digest = digest.ok_or_else(|| {
        let shown: String = descriptor.digest.chars().take(80).collect();
        SourceError::Manifest(format!("{what} has the digest {shown:?}, want sha256: and 64 hexadecimal digits"))
    })?;
    Ok(Wanted { what, is_manifest, digest, size_bytes: descriptor.size })
}

fn within(what: &'static str, found: u64, most: u64) -> Result<(), SourceError> {
    if found <= most { Ok(()) } else { Err(SourceError::TooLarge { what, found, most }) }
}

#[cfg(test)]
mod tests;
