//! Does one verb after the other. One that fails says why and the next follows; then the exit code at the end is 1.

#![deny(unsafe_code)]

mod signal;

// Linked for its export.
use adapter_memory as _;
use files::{Desk, Verb, lines_of};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// How often a file is looked at for changes.
const LOOK: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let verbs = match files::parse(&arguments) {
        Ok(verbs) => verbs,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let mut desk = Desk::default();
    let mut code = ExitCode::SUCCESS;
    for verb in &verbs {
        let outcome = match verb {
            Verb::Watch(path) => {
                watch(path);
                Ok(Vec::new())
            }
            Verb::Wait => {
                println!("waiting");
                while !signal::is_asked_to_stop_within(Duration::from_secs(3600)) {}
                Ok(b"asked to stop\n".to_vec())
            }
            other => desk.act(other),
        };
        match outcome {
            Ok(lines) => print(&lines),
            Err(error) => {
                println!("{}: {error}", verb.title());
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// Prints the file, or why it cannot be read, at once and whenever that is another one.
fn watch(path: &str) {
    let mut before = None;
    loop {
        let now = lines_of(path).unwrap_or_else(|error| format!("watch {path}: {error}\n").into_bytes());
        if before.as_ref() != Some(&now) {
            print(&now);
            before = Some(now);
        }
        if signal::is_asked_to_stop_within(LOOK) {
            return;
        }
    }
}

/// Without standard output there is nobody to tell.
fn print(lines: &[u8]) {
    let mut out = std::io::stdout();
    let _ = out.write_all(lines).and_then(|()| out.flush());
}
