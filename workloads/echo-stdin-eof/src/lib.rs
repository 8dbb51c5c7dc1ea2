//! `echo-stdin-eof`: gives back what comes in, until nothing more comes. `main.rs` connects it to standard input.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};

/// Copies `input` to `output` as it arrives, and says so when it ended.
///
/// # Errors
/// When either side fails.
pub fn echo(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut part = [0; 4096];
    loop {
        match input.read(&mut part) {
            Ok(0) => break,
            Ok(count) => output.write_all(&part[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        output.flush()?;
    }
    output.write_all(b"end of input\n")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_and_the_end_is_announced() {
        let mut output = Vec::new();
        echo(&b"one\ntwo\n"[..], &mut output).unwrap();
        assert_eq!(output, b"one\ntwo\nend of input\n");
    }

    #[test]
    fn an_input_that_ends_at_once_gives_the_announcement_alone() {
        let mut output = Vec::new();
        echo(io::empty(), &mut output).unwrap();
        assert_eq!(output, b"end of input\n");
    }
}
