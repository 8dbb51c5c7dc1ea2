//! A tight loop that calls nothing and never gives the processor back, so that only preemption keeps the agent and
//! the other containers running.

#![forbid(unsafe_code)]

// Linked for its export.
use adapter_memory as _;

fn main() {
    println!("spin: from here on nothing but a loop");
    let mut turns = 0_u64;
    loop {
        // Without the black box the compiler may see through the loop.
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}
