//! Ends by itself at end-of-file on standard input, which is how any WASI program in any language can see that its
//! pod was asked to stop.

#![forbid(unsafe_code)]

// Linked for its export.
use adapter_memory as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(argument) = std::env::args().nth(1) {
        eprintln!("echo-stdin-eof: unexpected argument {argument:?}; it takes none and reads standard input");
        return ExitCode::from(2);
    }
    match echo_stdin_eof::echo(std::io::stdin().lock(), std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo-stdin-eof: failed to copy: {error}");
            ExitCode::FAILURE
        }
    }
}
