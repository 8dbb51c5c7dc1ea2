//! `samples/job:1`: runs its seconds and ends with its exit code. A plain WASI program, so it also shows that one
//! needs nothing of Coracle's to be a container.

#![forbid(unsafe_code)]

// Linked for its export.
use adapter_memory as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Sleeping in steps keeps the end exact even where a host lets a single long sleep drift.
const STEP: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args().collect();
    let job = match job::parse(&argv) {
        Ok(job) => job,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    println!("job: running for {:?}, then exit code {}", job.duration, job.exit_code);
    let start = Instant::now();
    while let Some(left) = job.duration.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left.min(STEP));
    }
    println!("job: done, exit code {}", job.exit_code);
    ExitCode::from(job.exit_code)
}
