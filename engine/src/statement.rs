//! What the cluster's key signs about an artifact (EDGE-02).

use coracle_model::Digest;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

/// Opens every statement, so that a signature made for another purpose can never pass for one of these.
const DOMAIN: &[u8] = b"coracle artifact statement 1";

/// A signature that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The key is no point on the curve.
    #[error("the cluster's artifact key is no ed25519 public key")]
    Key,
    /// Not 64 bytes.
    #[error("a signature has 64 bytes, this one has {found}")]
    Length {
        /// Bytes found.
        found: usize,
    },
    /// It is not this key's signature of this statement.
    #[error("the signature is not by the cluster's artifact key")]
    Mismatch,
}

/// "This machine code was made from that image, for that target and that engine, by this cluster."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The digest of the image: the WebAssembly as it was pushed.
    pub image: Digest,
    /// The digest of the machine code.
    pub artifact: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The target that it was compiled for.
    pub target: String,
    /// The fingerprint of the engine that it was compiled for.
    pub engine: String,
}

impl Statement {
    /// The bytes that are signed. Texts carry their length, so that no two statements have the same bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = DOMAIN.to_vec();
        bytes.extend_from_slice(&self.image.0);
        bytes.extend_from_slice(&self.artifact.0);
        bytes.extend_from_slice(&self.size.to_le_bytes());
        for text in [&self.target, &self.engine] {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    /// Signs it; the controller does this once for every artifact.
    #[must_use]
    pub fn sign(&self, key: &SigningKey) -> [u8; 64] {
        key.sign(&self.bytes()).to_bytes()
    }

    /// Whether the owner of `public_key` has signed this.
    ///
    /// # Errors
    /// When that is not so.
    pub fn verify(&self, public_key: &[u8; 32], signature: &[u8]) -> Result<(), SignatureError> {
        let key = VerifyingKey::from_bytes(public_key).map_err(|_| SignatureError::Key)?;
        let signature =
            Signature::from_slice(signature).map_err(|_| SignatureError::Length { found: signature.len() })?;
        key.verify_strict(&self.bytes(), &signature).map_err(|_| SignatureError::Mismatch)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn key() -> SigningKey {
        SigningKey::from_bytes(&[7; 32])
    }

    pub(crate) fn statement() -> Statement {
        Statement {
            image: Digest([1; 32]),
            artifact: Digest([2; 32]),
            size: 3,
            target: "pulley32".into(),
            engine: "48.0.8-1".into(),
        }
    }

    // EDGE-02
    #[test]
    fn a_signature_holds_for_its_own_statement_and_key_only() {
        let signature = statement().sign(&key());
        let public = key().verifying_key().to_bytes();
        assert_eq!(statement().verify(&public, &signature), Ok(()));
        let changed = [
            Statement { image: Digest([9; 32]), ..statement() },
            Statement { artifact: Digest([9; 32]), ..statement() },
            Statement { size: 4, ..statement() },
            Statement { target: "pulley64".into(), ..statement() },
            Statement { engine: "48.0.8-2".into(), ..statement() },
            Statement { target: "pulley3".into(), engine: "248.0.8-1".into(), ..statement() },
        ];
        for changed in changed {
            assert_eq!(changed.verify(&public, &signature), Err(SignatureError::Mismatch), "{changed:?}");
        }
        let other = SigningKey::from_bytes(&[8; 32]).verifying_key().to_bytes();
        assert_eq!(statement().verify(&other, &signature), Err(SignatureError::Mismatch));
        assert_eq!(statement().verify(&public, &[]), Err(SignatureError::Length { found: 0 }));
    }
}
