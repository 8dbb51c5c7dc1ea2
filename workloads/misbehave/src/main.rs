//! Misbehaves in the one way that its argument names.

#![forbid(unsafe_code)]

// Linked for its export.
use adapter_memory as _;
use misbehave::Way;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let way = match misbehave::parse(&arguments) {
        Ok(way) => way,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    println!("misbehave: {}", arguments.join(" "));
    match way {
        Way::Exit(code) => std::process::exit(code),
        Way::Noise => print(&misbehave::noise()),
        Way::Flood => flood(),
        Way::Overflow => println!("misbehave: overflow came back from {}", deeper(0)),
        Way::Sleep => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        Way::Deaf => deaf(),
        Way::Calls => calls(),
    }
    ExitCode::SUCCESS
}

/// Without standard output there is nobody to tell.
fn print(bytes: &[u8]) {
    let mut out = std::io::stdout();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

fn flood() {
    let mut number = 0;
    loop {
        let (lines, next) = misbehave::flood(number);
        print(&lines);
        number = next;
    }
}

/// Each call puts a kilobyte on the stack. A black box keeps it from becoming a loop.
#[expect(unconditional_recursion, reason = "that is what it is for")]
fn deeper(depth: u64) -> u64 {
    let frame = black_box([depth; 128]);
    deeper(depth + 1) + frame[127]
}

/// At the end of standard input, where others end, it asks again.
fn deaf() {
    loop {
        let _ = black_box(std::io::stdin().read(&mut [0; 64]));
    }
}

/// Every look at the clock is a call of the host.
fn calls() {
    loop {
        black_box(Instant::now());
    }
}
