//! From a file and a signed statement to a component: the only way by which machine code comes into a process.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use coracle_model::Digest;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::configuration::fingerprint;
use crate::statement::{SignatureError, Statement};

/// Why a file is not what its statement says.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The signature does not hold.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Made for another engine.
    #[error("it was made for engine {found}, this is {want}")]
    Engine {
        /// In the statement.
        found: String,
        /// Of this build.
        want: String,
    },
    /// Made for another target.
    #[error("it was made for target {found}, this is {want}")]
    Target {
        /// In the statement.
        found: String,
        /// What runs here.
        want: String,
    },
    /// Cut, or grown.
    #[error("it has {found} bytes instead of {want}")]
    Size {
        /// In the file.
        found: u64,
        /// In the statement.
        want: u64,
    },
    /// Other bytes.
    #[error("its digest is {found} instead of {want}")]
    Digest {
        /// Of the file.
        found: Digest,
        /// In the statement.
        want: Digest,
    },
    /// The file cannot be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
}

/// Proof that a file holds what the cluster signed, for this target and this engine. Nothing else makes one.
#[derive(Clone, Debug)]
pub struct Verified {
    path: PathBuf,
    image: Digest,
}

impl Verified {
    /// The digest of the image that the code was made from.
    #[must_use]
    pub const fn image(&self) -> Digest {
        self.image
    }
}

impl Statement {
    /// Checks the file at `path` against this statement: signature, engine, target, size and digest. The file must be
    /// one that nobody but this process writes, since it is not checked again when it is mapped.
    ///
    /// # Errors
    /// At the first of these that is wrong.
    pub fn prove(
        &self,
        public_key: &[u8; 32],
        signature: &[u8],
        target: &str,
        path: &Path,
    ) -> Result<Verified, ProofError> {
        self.verify(public_key, signature)?;
        let want = fingerprint();
        if self.engine != want {
            return Err(ProofError::Engine { found: self.engine.clone(), want });
        }
        if self.target != target {
            return Err(ProofError::Target { found: self.target.clone(), want: target.to_owned() });
        }
        let mut file = File::open(path).map_err(ProofError::Read)?;
        let found = file.metadata().map_err(ProofError::Read)?.len();
        if found != self.size {
            return Err(ProofError::Size { found, want: self.size });
        }
        let found = digest(&mut file).map_err(ProofError::Read)?;
        if found != self.artifact {
            return Err(ProofError::Digest { found, want: self.artifact });
        }
        Ok(Verified { path: path.to_owned(), image: self.image })
    }
}

fn digest(file: &mut File) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    let mut part = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut part)?;
        if count == 0 {
            return Ok(Digest(hash.finalize().into()));
        }
        hash.update(&part[..count]);
    }
}

/// Why wasmtime does not take code that was proven to be the cluster's.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct LoadError {
    reason: String,
}

/// Maps machine code into this process.
///
/// # Errors
/// When wasmtime finds it unfit for `engine`.
pub fn load(engine: &Engine, proof: &Verified) -> Result<Component, LoadError> {
    #[expect(unsafe_code, reason = "code that was compiled elsewhere can only be loaded on somebody's word")]
    // SAFETY: the word is the cluster's. A `Verified` exists only for a file whose digest the pinned key has signed as
    // the output of our own compiler for exactly this engine, and files of the artifact cache are never written again
    // once they have their name.
    let component = unsafe { Component::deserialize_file(engine, &proof.path) };
    component.map_err(|error| LoadError { reason: format!("{error:#}") })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::statement::tests::{key, statement};

    fn check(change: impl FnOnce(&mut Statement), bytes: &[u8]) -> Result<Verified, ProofError> {
        let mut file = tempfile::NamedTempFile::new().unwrap_or_else(|error| panic!("{error}"));
        file.write_all(bytes).unwrap_or_else(|error| panic!("{error}"));
        let mut statement = Statement {
            artifact: Digest(Sha256::digest(b"code").into()),
            size: 4,
            engine: fingerprint(),
            ..statement()
        };
        change(&mut statement);
        let signature = statement.sign(&key());
        statement.prove(&key().verifying_key().to_bytes(), &signature, "pulley32", file.path())
    }

    // EDGE-02
    #[test]
    fn only_the_very_file_that_was_signed_is_proven() {
        assert!(check(|_| {}, b"code").is_ok());
        assert!(matches!(check(|_| {}, b"cod"), Err(ProofError::Size { found: 3, want: 4 })));
        assert!(matches!(check(|_| {}, b"c0de"), Err(ProofError::Digest { .. })));
        let engine = check(|statement| statement.engine = "47.0.0-1".into(), b"code");
        assert!(matches!(engine, Err(ProofError::Engine { .. })));
        let target = check(|statement| statement.target = "pulley64".into(), b"code");
        assert!(matches!(target, Err(ProofError::Target { .. })));
    }

    #[test]
    fn a_file_that_is_not_there_is_not_proven() {
        let statement = Statement { engine: fingerprint(), ..statement() };
        let signature = statement.sign(&key());
        let public = key().verifying_key().to_bytes();
        let result = statement.prove(&public, &signature, "pulley32", Path::new("/nonexistent/code"));
        assert!(matches!(result, Err(ProofError::Read(_))));
    }

    #[test]
    fn signed_code_that_wasmtime_cannot_read_is_an_error_and_no_more() {
        let mut file = tempfile::NamedTempFile::new().unwrap_or_else(|error| panic!("{error}"));
        file.write_all(b"code").unwrap_or_else(|error| panic!("{error}"));
        let proof = Verified { path: file.path().to_owned(), image: Digest([0; 32]) };
        let engine = crate::config(crate::host_target()).map(|config| Engine::new(&config));
        let Ok(Ok(engine)) = engine else { panic!("no engine") };
        assert!(load(&engine, &proof).is_err());
    }
}
