//! Thresholds in a kubelet's form: `memory.available<100Mi,nodefs.available<10%` (`evictionHard`).

use alloc::string::{String, ToString};
use core::str::FromStr;

use coracle_model::quantity;

const MIB: u64 = 1024 * 1024;
/// What one percent is, as a share.
const PERCENT: u64 = 1_000;
/// The whole.
const WHOLE: u64 = 100 * PERCENT;
/// A kubelet's threshold of `memory.available`.
const MEMORY_BYTES: u64 = 100 * MIB;
/// The part of a small board's memory that is enough, as its divisor.
const MEMORY_PART: u64 = 16;
/// A kubelet's threshold of `nodefs.available`.
const DISK_SHARE: u64 = 10 * PERCENT;
/// What is enough on a large disk.
const DISK_BYTES: u64 = 5 * 1024 * MIB;

/// Below what there is too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Bytes.
    Bytes(u64),
    /// Thousandths of a percent of all there is.
    Share(u64),
}

impl Threshold {
    /// In bytes, where there are so many in all.
    #[must_use]
    pub fn bytes(self, total_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => {
                let bytes = u128::from(total_bytes) * u128::from(share) / u128::from(WHOLE);
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

/// What makes a shortage. Where there is no threshold, there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// `memory.available`
    pub memory: Option<Threshold>,
    /// `nodefs.available`
    pub disk: Option<Threshold>,
}

impl Thresholds {
    /// A kubelet's, but not more than makes sense for the node: less on a board with little memory, and no more than
    /// 5 GiB of a large disk.
    #[must_use]
    pub fn of_node(memory_bytes: u64, disk_bytes: u64) -> Self {
        let share = Threshold::Share(DISK_SHARE);
        let disk = if share.bytes(disk_bytes) > DISK_BYTES { Threshold::Bytes(DISK_BYTES) } else { share };
        Self { memory: Some(Threshold::Bytes(MEMORY_BYTES.min(memory_bytes / MEMORY_PART))), disk: Some(disk) }
    }
}

/// A text that names no thresholds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseThresholdsError {
    /// Without `<`.
    #[error("\"{0}\" is no threshold: want SIGNAL<AMOUNT, such as memory.available<100Mi")]
    Form(String),
    /// A signal that is not watched here.
    #[error("\"{0}\" is not watched here: want memory.available or nodefs.available")]
    Signal(String),
    /// One signal twice.
    #[error("{0} is there twice")]
    Twice(String),
    /// No amount.
    #[error("\"{0}\" is no amount: want a quantity above 0 such as 100Mi, or 0% to 100%")]
    Amount(String),
}

/// All of them, separated by commas; none in an empty text. `0%` and `100%` switch a signal off, as in a kubelet.
impl FromStr for Thresholds {
    type Err = ParseThresholdsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut memory, mut disk) = (None, None);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (signal, amount) = part.split_once('<').ok_or_else(|| ParseThresholdsError::Form(part.to_string()))?;
            let place = match signal.trim() {
                "memory.available" => &mut memory,
                "nodefs.available" => &mut disk,
                other => return Err(ParseThresholdsError::Signal(other.to_string())),
            };
            let amount = amount.trim();
            let found = self::amount(amount).ok_or_else(|| ParseThresholdsError::Amount(amount.to_string()))?;
            if place.replace(found).is_some() {
                return Err(ParseThresholdsError::Twice(signal.trim().to_string()));
            }
        }
        Ok(Self { memory: memory.flatten(), disk: disk.flatten() })
    }
}

/// An amount; `Some(None)` for one that switches its signal off.
fn amount(text: &str) -> Option<Option<Threshold>> {
    let Some(percent) = text.strip_suffix('%') else {
        let bytes = quantity::value(text).ok().and_then(|bytes| u64::try_from(bytes).ok())?;
        return (bytes > 0).then_some(Some(Threshold::Bytes(bytes)));
    };
    // A percentage is a plain number here; a suffix would make a quantity of it.
    let plain = percent.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let share = quantity::milli_value(percent).ok().filter(|_| plain);
    let share = share.and_then(|share| u64::try_from(share).ok()).filter(|share| *share <= WHOLE)?;
    Some((share > 0 && share < WHOLE).then_some(Threshold::Share(share)))
}
