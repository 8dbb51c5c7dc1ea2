//! Ends in a trap, as a program with a bug does, after one line that shows it was alive.

#![forbid(unsafe_code)]

// Linked for its export.
use adapter_memory as _;

fn main() {
    println!("trap: about to run into an unreachable instruction");
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    // So that the workspace also builds, and its tests run, on the host.
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort();
}
