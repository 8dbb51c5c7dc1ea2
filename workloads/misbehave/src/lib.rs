//! `misbehave`: what its arguments mean, and the noise that it prints. `main.rs` does the rest.

#![forbid(unsafe_code)]

/// How to use it; part of every complaint.
pub const USAGE: &str = "usage: misbehave WAY, which is exit CODE, noise, flood, overflow, sleep, deaf or calls";

/// A way to misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Ends with this exit code.
    Exit(i32),
    /// Prints what is no text, and ends well.
    Noise,
    /// Prints without end.
    Flood,
    /// Calls itself until the stack is used up.
    Overflow,
    /// Sleeps for hours in one call of the host.
    Sleep,
    /// Reads standard input and does not care that it has ended.
    Deaf,
    /// Calls the host without end, and never waits for anything.
    Calls,
}

/// Reads the arguments after the program's own name.
///
/// # Errors
/// A sentence for the user that says what is wrong, and the usage.
pub fn parse(arguments: &[String]) -> Result<Way, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["exit", code] => {
            code.parse().map(Way::Exit).map_err(|_| format!("misbehave: {code:?} is no exit code; {USAGE}"))
        }
        ["noise"] => Ok(Way::Noise),
        ["flood"] => Ok(Way::Flood),
        ["overflow"] => Ok(Way::Overflow),
        ["sleep"] => Ok(Way::Sleep),
        ["deaf"] => Ok(Way::Deaf),
        ["calls"] => Ok(Way::Calls),
        _ => Err(format!("misbehave: {words:?} is no way to misbehave; {USAGE}")),
    }
}

/// What `noise` prints: bytes that are no UTF-8, zeros, what moves a cursor, a line of a mebibyte, and a last
/// line without an end.
pub fn noise() -> Vec<u8> {
    let mut bytes = b"noise: begins\n\xff\xfe\xc3\x28\xed\xa0\x80\n\0\0\0\n\x1b[2J\x1b]0;title\x07\r\x08\n".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', 1 << 20));
    bytes.extend_from_slice(b"\nnoise: ends");
    bytes
}

/// A piece of what `flood` prints, of whole lines and a few kilobytes; `number` is that of its first line.
pub fn flood(number: u64) -> (Vec<u8>, u64) {
    let lines = 64;
    let text: String =
        (number..number + lines).map(|line| format!("flood: line {line} of more than you want\n")).collect();
    (text.into_bytes(), number + lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Way, String> {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn every_way_is_known() {
        assert_eq!(parsed("exit 255"), Ok(Way::Exit(255)));
        assert_eq!(parsed("exit -1"), Ok(Way::Exit(-1)));
        for way in ["noise", "flood", "overflow", "sleep", "deaf", "calls"] {
            assert!(parsed(way).is_ok(), "{way}");
        }
    }

    #[test]
    fn bad_arguments_are_named_with_the_usage() {
        for (line, found) in [("", "[]"), ("exit", "exit"), ("exit x", "\"x\""), ("behave", "behave")] {
            let message = parsed(line).unwrap_err();
            assert!(message.contains(found) && message.ends_with(USAGE), "{message}");
        }
    }

    #[test]
    fn noise_is_no_text_and_has_a_very_long_line() {
        assert!(String::from_utf8(noise()).is_err());
        assert!(noise().split(|byte| *byte == b'\n').any(|line| line.len() == 1 << 20));
    }

    #[test]
    fn the_flood_counts_on() {
        let (first, next) = flood(0);
        assert!(first.starts_with(b"flood: line 0 ") && first.ends_with(b"\n"));
        assert!(flood(next).0.starts_with(format!("flood: line {next} ").as_bytes()));
    }
}
