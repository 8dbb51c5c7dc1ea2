//! The frame around every message: one byte of version, one of kind, four of length (little endian), the message.
//!
//! The length is redundant over MQTT and says so when a payload was cut. Bytes after a message's last known field are
//! ignored: a newer writer put them there.

use alloc::vec::Vec;

use coracle_model::limits::MAX_MESSAGE_BYTES;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version that this build writes.
pub const VERSION: u8 = 1;
/// The oldest version that this build reads.
pub const OLDEST_VERSION: u8 = 1;

const HEADER_BYTES: usize = 6;

/// A payload that is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Shorter than a header.
    #[error("{found} bytes are too few: an envelope starts with 6")]
    Short {
        /// Bytes in the payload.
        found: usize,
    },
    /// A version that this build does not read.
    #[error("version {found} is not spoken here (from {OLDEST_VERSION} to {VERSION})")]
    Version {
        /// The version of the payload.
        found: u8,
    },
    /// The header promises another length than the payload has.
    #[error("the header says {said} bytes, {found} follow it")]
    Length {
        /// As in the header.
        said: u32,
        /// After the header.
        found: usize,
    },
    /// A kind that this direction does not have.
    #[error("kind {found} is unknown in this direction")]
    Kind {
        /// The kind of the payload.
        found: u8,
    },
    /// The message's bytes do not fit its kind.
    #[error("the body is no message of kind {kind}")]
    Body {
        /// The kind of the payload.
        kind: u8,
    },
    /// Over [`MAX_MESSAGE_BYTES`].
    #[error("{found} bytes are more than {MAX_MESSAGE_BYTES}")]
    TooLarge {
        /// Bytes in the payload.
        found: usize,
    },
}

/// A message that cannot travel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Over [`MAX_MESSAGE_BYTES`]; the sender has to cut it up.
    #[error("the message has {found} bytes, more than {MAX_MESSAGE_BYTES}")]
    TooLarge {
        /// Bytes of the whole payload.
        found: usize,
    },
}

/// Frames one message.
///
/// # Errors
/// When the payload would be over [`MAX_MESSAGE_BYTES`].
pub(crate) fn seal<T: Serialize>(kind: u8, message: &T) -> Result<Vec<u8>, EncodeError> {
    let mut payload = Vec::with_capacity(64);
    payload.extend_from_slice(&[VERSION, kind, 0, 0, 0, 0]);
    // Writing these types into memory cannot fail: no map or sequence here has an unknown length.
    let payload = postcard::to_extend(message, payload).unwrap_or_default();
    let length = payload.len().saturating_sub(HEADER_BYTES);
    if payload.len() > MAX_MESSAGE_BYTES {
        return Err(EncodeError::TooLarge { found: payload.len() });
    }
    let mut payload = payload;
    payload[2..HEADER_BYTES].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    Ok(payload)
}

/// Takes the frame off: the kind and the message's bytes.
///
/// # Errors
/// When the payload is not an envelope of a version that is spoken here.
pub(crate) fn open(payload: &[u8]) -> Result<(u8, &[u8]), DecodeError> {
    if payload.len() > MAX_MESSAGE_BYTES {
        return Err(DecodeError::TooLarge { found: payload.len() });
    }
    let Some((header, body)) = payload.split_at_checked(HEADER_BYTES) else {
        return Err(DecodeError::Short { found: payload.len() });
    };
    let version = header[0];
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(DecodeError::Version { found: version });
    }
    let said = u32::from_le_bytes([header[2], header[3], header[4], header[5]]);
    if usize::try_from(said) != Ok(body.len()) {
        return Err(DecodeError::Length { said, found: body.len() });
    }
    Ok((header[1], body))
}

/// Reads a message's bytes; what follows its last known field is ignored.
///
/// # Errors
/// When the bytes do not fit the type.
pub(crate) fn read<T: DeserializeOwned>(kind: u8, body: &[u8]) -> Result<T, DecodeError> {
    postcard::take_from_bytes(body).map(|(message, _newer)| message).map_err(|_| DecodeError::Body { kind })
}

/// Implements `encode` and `decode` for an enum of messages, each with its number. Numbers are never used again.
macro_rules! messages {
    ($name:ident { $($kind:literal => $variant:ident($body:ty)),+ $(,)? }) => {
        impl $name {
            /// The MQTT payload of this message.
            ///
            /// # Errors
            /// When it would be over the largest message size.
            pub fn encode(&self) -> Result<alloc::vec::Vec<u8>, $crate::envelope::EncodeError> {
                match self {
                    $(Self::$variant(body) => $crate::envelope::seal($kind, body),)+
                }
            }

            /// Reads an MQTT payload.
            ///
            /// # Errors
            /// When it is no message of this direction; nothing in a payload can make this panic.
            pub fn decode(payload: &[u8]) -> Result<Self, $crate::envelope::DecodeError> {
                let (kind, body) = $crate::envelope::open(payload)?;
                match kind {
                    $($kind => $crate::envelope::read::<$body>(kind, body).map(Self::$variant),)+
                    found => Err($crate::envelope::DecodeError::Kind { found }),
                }
            }
        }
    };
}
pub(crate) use messages;
