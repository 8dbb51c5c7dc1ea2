//! Ignores every sign that it should stop: prints a line every five seconds and looks at nothing else, so that only
//! the end of the grace period ends it.

#![forbid(unsafe_code)]

// Linked for its export.
use adapter_memory as _;
use std::time::Duration;

const PAUSE_SECONDS: u64 = 5;

fn main() {
    println!("stubborn: started, and here to stay");
    for line in 1_u64.. {
        std::thread::sleep(Duration::from_secs(PAUSE_SECONDS));
        println!("stubborn: still here after {} s", line * PAUSE_SECONDS);
    }
}
