//! Identities. Each is a type of its own, so that a session can never be passed where a revision is meant.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is not the identity it was read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("want {want}")]
pub struct ParseIdError {
    want: &'static str,
}

/// `metadata.uid` of a pod: 128 bits, shown as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodUid(pub u128);

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            bits >> 96,
            (bits >> 80) & 0xffff,
            (bits >> 64) & 0xffff,
            (bits >> 48) & 0xffff,
            bits & 0xffff_ffff_ffff
        )
    }
}

impl fmt::Debug for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PodUid {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ERROR: ParseIdError = ParseIdError { want: "a UUID such as 6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11" };
        let shape = [8, 4, 4, 4, 12];
        let mut bits = 0_u128;
        let mut groups = text.split('-');
        for want in shape {
            let group = groups.next().ok_or(ERROR)?;
            if group.len() != want || !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(ERROR);
            }
            let value = u128::from_str_radix(group, 16).map_err(|_| ERROR)?;
            bits = (bits << (4 * want)) | value;
        }
        if groups.next().is_some() {
            return Err(ERROR);
        }
        Ok(Self(bits))
    }
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                const ERROR: ParseIdError = ParseIdError { want: "32 hexadecimal digits" };
                if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(ERROR);
                }
                u128::from_str_radix(text, 16).map(Self).map_err(|_| ERROR)
            }
        }
    };
}

random_id! {
    /// The cluster, chosen once when its data directory is made. An agent pins it at first contact.
    ClusterId
}
random_id! {
    /// One data directory of one agent. Two agents with one node name differ in this, and the second is refused.
    InstanceId
}
random_id! {
    /// One boot of a node's operating system; a new one means that every sandbox is gone.
    BootId
}

/// Counts the connections of one agent, from 1; kept on its disk, so that it never goes back. A Last Will carries
/// only this, and a late one of an old session is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionNumber(pub u64);

impl SessionNumber {
    /// The number of the next connection.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for SessionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A SHA-256 digest, shown as `sha256:…` as in OCI.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The 64 hexadecimal digits, without the `sha256:` prefix: what a file is named.
    #[must_use]
    pub fn hex(&self) -> heapless::String<64> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = heapless::String::new();
        for byte in self.0 {
            // 32 bytes make exactly 64 digits, so a push never finds the string full.
            let _ = text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            let _ = text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ERROR: ParseIdError = ParseIdError { want: "sha256: and 64 hexadecimal digits" };
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        if hex.len() != 64 {
            return Err(ERROR);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16).ok_or(ERROR)?;
            let low = char::from(pair[1]).to_digit(16).ok_or(ERROR)?;
            *byte = u8::try_from(high * 16 + low).map_err(|_| ERROR)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn identities_survive_their_own_text() {
        let uid = PodUid(0x6f1c_1a3e_8a5b_4b06_9a53_2f0d_1c7e_4b11);
        assert_eq!(uid.to_string(), "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11");
        assert_eq!(uid.to_string().parse(), Ok(uid));
        let digest = Digest([0xab; 32]);
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let cluster = ClusterId(7);
        assert_eq!(cluster.to_string().parse(), Ok(cluster));
    }

    #[test]
    fn texts_that_are_no_identity_are_refused() {
        for text in ["", "6f1c1a3e", "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b1z", "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11-0"] {
            assert!(text.parse::<PodUid>().is_err(), "{text}");
        }
        assert!("sha256:abc".parse::<Digest>().is_err());
        assert!("+0000000000000000000000000000001".parse::<ClusterId>().is_err());
    }
}
