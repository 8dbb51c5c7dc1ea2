//! How long ago, in the few letters of a column.

use serde_json::Value;

use crate::clock;

/// A duration as `kubectl` writes it: two units at most, and the second only while it matters.
#[must_use]
pub fn human_duration(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let two = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / (24 * 365));
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

/// The time since a moment, both in milliseconds since 1970.
pub(super) fn since_ms(then_ms: u64, now_wall_ms: u64) -> String {
    let seconds = |ms: u64| i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    human_duration(seconds(now_wall_ms).saturating_sub(seconds(then_ms)))
}

/// The time since a stamp; `None` when there is none.
pub(super) fn since(stamp: &Value, now_wall_ms: u64) -> Option<String> {
    stamp.as_str().and_then(clock::parse_stamp).map(|then| since_ms(then, now_wall_ms))
}
