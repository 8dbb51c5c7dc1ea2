//! `samples/job`: what its arguments mean. `main.rs` does what is read here.

#![forbid(unsafe_code)]

use std::time::Duration;

/// How to use it; part of every complaint.
pub const USAGE: &str = "usage: job [SECONDS [EXIT-CODE]], 1 second and exit code 0 unless said, e.g. job 30 3";
/// A hundred years. More is a slip of the keyboard, and `Duration` cannot hold everything a number can say.
const MAX_SECONDS: f64 = 100.0 * 366.0 * 86_400.0;

/// What one run shall do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// How long to run.
    pub duration: Duration,
    /// The exit code at the end.
    pub exit_code: u8,
}

/// Reads the whole argv. The first word is the program's own name and is skipped, except when it is a number: an
/// empty `command` with `args: ["5", "0"]` may reach a guest with or without a name before them.
///
/// # Errors
/// A sentence for the user that says which argument is wrong, and the usage.
pub fn parse(argv: &[String]) -> Result<Job, String> {
    let named = argv.first().is_some_and(|word| word.parse::<f64>().is_err());
    let arguments = &argv[usize::from(named)..];
    let (seconds, code) = match arguments {
        [] => ("1", "0"),
        [seconds] => (seconds.as_str(), "0"),
        [seconds, code] => (seconds.as_str(), code.as_str()),
        more => return Err(format!("job: {} arguments, at most 2 have a meaning; {USAGE}", more.len())),
    };
    let duration = match seconds.parse::<f64>() {
        Ok(value) if (0.0..=MAX_SECONDS).contains(&value) => Duration::from_secs_f64(value),
        _ => return Err(format!("job: {seconds:?} is no number of seconds; {USAGE}")),
    };
    let exit_code = code.parse().map_err(|_| format!("job: {code:?} is no exit code between 0 and 255; {USAGE}"))?;
    Ok(Job { duration, exit_code })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Job, String> {
        parse(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    fn job(milliseconds: u64, exit_code: u8) -> Result<Job, String> {
        Ok(Job { duration: Duration::from_millis(milliseconds), exit_code })
    }

    #[test]
    fn seconds_and_exit_code_are_read_with_and_without_a_name() {
        assert_eq!(parsed(&["job", "5", "3"]), job(5_000, 3));
        assert_eq!(parsed(&["5", "3"]), job(5_000, 3));
        assert_eq!(parsed(&["samples/job:1", "0.25"]), job(250, 0));
        assert_eq!(parsed(&["job", "0", "255"]), job(0, 255));
    }

    #[test]
    fn one_second_and_success_unless_said() {
        assert_eq!(parsed(&["job"]), job(1_000, 0));
        assert_eq!(parsed(&[]), job(1_000, 0));
    }

    #[test]
    fn bad_arguments_are_named_with_the_usage() {
        for (words, found) in [
            (&["job", "soon"][..], "\"soon\""),
            (&["job", "-1"], "\"-1\""),
            (&["job", "NaN"], "\"NaN\""),
            (&["job", "1e300"], "\"1e300\""),
            (&["job", "1", "256"], "\"256\""),
            (&["job", "1", "2", "3"], "3 arguments"),
        ] {
            let message = parsed(words).unwrap_err();
            assert!(message.contains(found) && message.ends_with(USAGE), "{message}");
        }
    }
}
