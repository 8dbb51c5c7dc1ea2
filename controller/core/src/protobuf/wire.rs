//! Protobuf's wire format, as much as reading needs.

use super::FieldFault;

/// Bytes that are no protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It ends in the middle.
    #[error("it ends in the middle of a field")]
    Truncated,
    /// A number of more than 64 bits, or a field number of 0.
    #[error("a number is out of range")]
    Number,
    /// Groups, which nobody uses.
    #[error("a field has the unknown wire type {0}")]
    WireType(u8),
}

/// What stands in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A number.
    Number(u64),
    /// A string, bytes, a message, a map's entry or packed numbers.
    Bytes(&'a [u8]),
    /// Four or eight bytes of something that no Kubernetes type has.
    Fixed,
}

/// Reads fields in the order in which they stand.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field and its number; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Found<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(WireError::Number)?;
        let found = match tag & 7 {
            0 => Found::Number(self.number()?),
            1 => self.take(8).map(|_| Found::Fixed)?,
            2 => {
                let length = usize::try_from(self.number()?).map_err(|_| WireError::Truncated)?;
                Found::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Found::Fixed)?,
            other => return Err(WireError::WireType(other.to_le_bytes()[0])),
        };
        Ok(Some((number, found)))
    }

    /// A bare number, as packed lists have them; `None` at the end.
    pub(super) fn packed(&mut self) -> Result<Option<u64>, WireError> {
        if self.rest.is_empty() { Ok(None) } else { self.number().map(Some) }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.rest.split_first().ok_or(WireError::Truncated)?;
            self.rest = rest;
            if shift == 63 && *first > 1 {
                return Err(WireError::Number);
            }
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Number)
    }
}

/// The bytes of a field that must have some.
pub(super) fn bytes(found: Found<'_>) -> Result<&[u8], FieldFault> {
    match found {
        Found::Bytes(bytes) => Ok(bytes),
        other => Err(mismatch("bytes", other)),
    }
}

/// The string of a field that must have one.
pub(super) fn text(found: Found<'_>) -> Result<&str, FieldFault> {
    std::str::from_utf8(bytes(found)?).map_err(|_| FieldFault::Utf8)
}

/// The number of a field that must have one. Negative ones travel in two's complement of 64 bits.
pub(super) fn number(found: Found<'_>) -> Result<i64, FieldFault> {
    match found {
        Found::Number(number) => Ok(number.cast_signed()),
        other => Err(mismatch("a number", other)),
    }
}

fn mismatch(want: &'static str, found: Found<'_>) -> FieldFault {
    let found = match found {
        Found::Number(_) => "a number",
        Found::Bytes(_) => "bytes",
        Found::Fixed => "a number of fixed size",
    };
    FieldFault::Type { want, found }
}
