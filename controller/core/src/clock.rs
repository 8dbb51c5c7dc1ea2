//! Time, as it is passed in: what the wall shows, and what a steady clock shows.

use coracle_model::Millis;
use jiff::Timestamp;

/// One moment on both clocks. Durations are taken on the steady one, stamps on the wall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970-01-01 UTC.
    pub wall_ms: u64,
    /// The controller's monotonic clock.
    pub mono: Millis,
}

impl Now {
    /// The wall time as Kubernetes writes it (`metav1.Time`): RFC 3339 in UTC, whole seconds.
    #[must_use]
    pub fn stamp(self) -> String {
        stamp(self.wall_ms)
    }
}

/// Milliseconds since 1970 as `2026-11-21T03:40:30Z`; `metav1.Time` has whole seconds.
#[must_use]
pub fn stamp(wall_ms: u64) -> String {
    let seconds = i64::try_from(wall_ms / 1000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}

/// Milliseconds since 1970 as `2026-11-21T03:40:30.123000Z` (`metav1.MicroTime`).
#[must_use]
pub fn micro_stamp(wall_ms: u64) -> String {
    let millis = i64::try_from(wall_ms).unwrap_or(i64::MAX);
    format!("{:.6}", Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX))
}

/// Reads an RFC 3339 stamp; `None` for anything else.
#[must_use]
pub fn parse_stamp(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_kubernetes_own() {
        assert_eq!(stamp(1_795_232_430_999), "2026-11-21T03:40:30Z");
        assert_eq!(micro_stamp(1_795_232_430_123), "2026-11-21T03:40:30.123000Z");
        assert_eq!(parse_stamp("2026-11-21T03:40:30Z"), Some(1_795_232_430_000));
        assert_eq!(parse_stamp("yesterday"), None);
    }
}
