//! `samples/sensor`: prints one reading after the other until its pod is asked to stop.
//!
//! Comes in: the number of a reading, the time since the start, the arguments. Goes out: lines of JSON. This file knows
//! nothing of WASI, so that its tests run on the host; `component.rs` waits for the timer and the termination signal.

#[cfg(target_arch = "wasm32")]
mod component;

/// Milliseconds between two readings unless the first argument says otherwise.
pub const DEFAULT_INTERVAL_MS: u64 = 1_000;
/// Bounds of the interval: faster would only fill the log, slower would not look alive.
pub const INTERVAL_MS: std::ops::RangeInclusive<u64> = 10..=3_600_000;

/// Reads the arguments after the program's own name: at most the interval in milliseconds.
///
/// # Errors
/// A sentence for the user that says what was found and what would be right.
pub fn interval_ms(arguments: &[String]) -> Result<u64, String> {
    let wanted = format!("expected at most one: milliseconds between readings, {INTERVAL_MS:?}");
    match arguments {
        [] => Ok(DEFAULT_INTERVAL_MS),
        [text] => match text.parse() {
            Ok(interval) if INTERVAL_MS.contains(&interval) => Ok(interval),
            _ => Err(format!("sensor: bad argument {text:?}; {wanted}")),
        },
        more => Err(format!("sensor: {} arguments; {wanted}", more.len())),
    }
}

/// The line for reading number `number` (from 1), `uptime_ms` after the start.
///
/// The values wander like those of a real sensor but depend on the number alone, so that a test can tell what it must
/// see. They are counted in hundredths: a guest without floating-point formatting is half as large.
pub fn reading(number: u64, uptime_ms: u64) -> String {
    let temperature = 2_150 + wave(number, 60) * 5;
    let humidity = 4_800 - wave(number, 97) * 7;
    format!(
        "{{\"reading\":{number},\"uptime_ms\":{uptime_ms},\"temperature_celsius\":{},\"humidity_percent\":{}}}\n",
        hundredths(temperature),
        hundredths(humidity),
    )
}

/// The last line, which says that the termination signal was seen and what was left of the grace period.
pub fn farewell(readings: u64, remaining_grace_ms: Option<u64>) -> String {
    let grace = remaining_grace_ms.map_or_else(|| "null".to_string(), |grace| grace.to_string());
    format!("{{\"event\":\"terminating\",\"readings\":{readings},\"remaining_grace_ms\":{grace}}}\n")
}

/// When the reading after the one of `planned_ms` is due. Readings that were missed (the guest was throttled, the
/// board slept) are skipped rather than made up for in a burst.
pub fn next_due_ms(planned_ms: u64, now_ms: u64, interval_ms: u64) -> u64 {
    let missed = now_ms.saturating_sub(planned_ms) / interval_ms;
    planned_ms + (missed + 1) * interval_ms
}

/// A triangle between -period/4 and +period/4, starting at its lowest point.
fn wave(number: u64, period: u64) -> i64 {
    let phase = number % period;
    let height = phase.min(period - phase);
    height.cast_signed() - (period / 4).cast_signed()
}

fn hundredths(value: i64) -> String {
    format!("{}.{:02}", value / 100, value % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn a_reading_is_one_line_of_json() {
        let line = "{\"reading\":1,\"uptime_ms\":0,\"temperature_celsius\":20.80,\"humidity_percent\":49.61}\n";
        assert_eq!(reading(1, 0), line);
    }

    #[test]
    fn readings_stay_plausible_and_positive() {
        for number in 1..10_000 {
            assert!((-15..=15).contains(&wave(number, 60)), "temperature at {number}");
            assert!((-24..=24).contains(&wave(number, 97)), "humidity at {number}");
        }
    }

    #[test]
    fn the_farewell_states_the_grace_that_remains() {
        let line = farewell(12, Some(29_998));
        assert_eq!(line, "{\"event\":\"terminating\",\"readings\":12,\"remaining_grace_ms\":29998}\n");
        assert!(farewell(0, None).contains("\"remaining_grace_ms\":null"));
    }

    #[test]
    fn the_interval_is_a_second_unless_said() {
        assert_eq!(interval_ms(&[]), Ok(1_000));
        assert_eq!(interval_ms(&arguments(&["250"])), Ok(250));
    }

    #[test]
    fn bad_arguments_say_what_would_be_right() {
        for wrong in [&["fast"][..], &["9"], &["-1"], &["3600001"], &["1", "2"]] {
            let message = interval_ms(&arguments(wrong)).unwrap_err();
            assert!(message.contains("10..=3600000"), "{message}");
        }
    }

    #[test]
    fn missed_readings_are_skipped() {
        assert_eq!(next_due_ms(2_000, 2_003, 1_000), 3_000);
        assert_eq!(next_due_ms(2_000, 7_500, 1_000), 8_000);
    }
}
