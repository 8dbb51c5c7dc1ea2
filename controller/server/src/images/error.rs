//! What can go wrong with images, in words for whoever pushed or pulled.

use std::io;
use std::path::PathBuf;

use coracle_model::Digest;

use super::adapt::AdaptError;
use super::name::NameError;
use super::registry::PullError;

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

/// Why an image was not taken. Each text fits after "failed to push NAME: " or "failed to pull image NAME: ".
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
    /// The compiler's process finds that it is no image.
    #[error("{0}")]
    Refused(String),
    /// The registry does not give it.
    #[error(transparent)]
    Registry(#[from] PullError),
    /// The compiler's process does not work.
    #[error("the controller failed to {0}")]
    Compiler(String),
    /// The disk.
    #[error("the image cannot be written to disk")]
    Disk(#[source] io::Error),
}
