//! `grow`: what its argument means. `main.rs` takes the memory.

#![forbid(unsafe_code)]

/// How to use it; part of every complaint.
pub const USAGE: &str = "usage: grow [MEBIBYTES], without end unless said, e.g. grow 24";

/// Reads the arguments after the program's own name: where to stop, or none for never.
///
/// # Errors
/// A sentence for the user that says what is wrong, and the usage.
pub fn limit_mebibytes(arguments: &[String]) -> Result<Option<usize>, String> {
    match arguments {
        [] => Ok(None),
        [text] => match text.parse() {
            Ok(limit) if limit > 0 => Ok(Some(limit)),
            _ => Err(format!("grow: {text:?} is no number of mebibytes; {USAGE}")),
        },
        more => Err(format!("grow: {} arguments, at most 1 has a meaning; {USAGE}", more.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_limit_unless_said() {
        assert_eq!(limit_mebibytes(&[]), Ok(None));
        assert_eq!(limit_mebibytes(&["24".to_string()]), Ok(Some(24)));
    }

    #[test]
    fn bad_arguments_are_named_with_the_usage() {
        for wrong in ["0", "-1", "1.5", "24Mi"] {
            let message = limit_mebibytes(&[wrong.to_string()]).unwrap_err();
            assert!(message.contains(wrong) && message.ends_with(USAGE), "{message}");
        }
        assert!(limit_mebibytes(&["1".to_string(), "2".to_string()]).is_err());
    }
}
