//! How a node comes by machine code: it asks what an image means for it, then pulls blocks at its own pace.

use alloc::string::String;
use alloc::vec::Vec;

use coracle_model::{Digest, SessionNumber};
use serde::{Deserialize, Serialize};

/// What is this image here? The controller knows the node's target and engine from its birth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRequest {
    /// The session.
    pub session: SessionNumber,
    /// `image`, as in the container.
    pub image: String,
}

/// The answer to an [`ArtifactRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactReply {
    /// As in the request.
    pub image: String,
    /// The artifact, or why there is none.
    pub result: Result<ArtifactManifest, ArtifactRefusal>,
}

/// Everything that a node must know of an artifact before it pulls its first block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactManifest {
    /// The digest of the image (`imageID`): the WebAssembly as it was pushed.
    pub image: Digest,
    /// The digest of the machine code.
    pub artifact: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The target that it was compiled for.
    pub target: String,
    /// The fingerprint of the engine that it was compiled for.
    pub engine: String,
    /// The digest of every block, in order; every block but the last has
    /// [`coracle_model::limits::BLOCK_BYTES`] bytes.
    pub blocks: Vec<Digest>,
    /// The cluster's ed25519 signature over the statement of image, artifact, size, target and engine (64 bytes).
    pub signature: Vec<u8>,
}

/// Why there is no artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArtifactRefusal {
    /// The name cannot be one (`InvalidImageName`).
    InvalidName(String),
    /// Nothing of that name is to be had, neither here nor from its registry (`ErrImagePull`).
    NotFound(String),
    /// It is there, but cannot be made to run on this node: no WebAssembly, an import that nobody offers, a compiler
    /// that gave up (`ErrImagePull`, with this message).
    Unusable(String),
    /// Not now; ask again later.
    Busy(String),
}

/// Blocks, please. A node has at most a few of these open, which is what paces the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRequest {
    /// The session.
    pub session: SessionNumber,
    /// The artifact.
    pub artifact: Digest,
    /// Indices of blocks, each to be sent once.
    pub blocks: Vec<u32>,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The artifact.
    pub artifact: Digest,
    /// The index of the block.
    pub index: u32,
    /// Its bytes; empty when the controller no longer has the artifact, so that the node asks anew.
    pub bytes: Vec<u8>,
}
