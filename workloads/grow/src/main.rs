//! Takes one mebibyte after the other and writes to all of it, so that a memory limit has something to stop. With a
//! number it stops there and holds on, to show that memory below the limit is left alone.

#![forbid(unsafe_code)]

// Linked for its export.
use adapter_memory as _;
use std::process::ExitCode;
use std::time::Duration;

const MEBIBYTE: usize = 1 << 20;
/// Between two steps, so that the log shows the way up.
const STEP: Duration = Duration::from_millis(10);
/// Between two lines of one that holds on.
const HOLD: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let limit = match grow::limit_mebibytes(&arguments) {
        Ok(limit) => limit,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        if limit.is_none_or(|limit| held.len() < limit) {
            // Filled with something other than zero: a host may give zero pages without any memory behind them.
            held.push(std::hint::black_box(vec![0xA5; MEBIBYTE]));
            println!("grow: {} MiB", held.len());
            std::thread::sleep(STEP);
        } else {
            println!("grow: holding {} MiB", held.len());
            std::thread::sleep(HOLD);
        }
    }
}
