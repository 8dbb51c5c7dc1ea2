//! Waiting for something to become true: with a deadline, and with what was last seen in the failure.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine with two cores.
pub const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(50);

/// Looks again and again until `look` gives `Ok`.
///
/// # Panics
/// When it has not after [`PATIENCE`]; the message holds what was last seen.
pub fn until<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    until_after(PATIENCE, what, look)
}

/// As [`until`], with more patience: for what a slow link or a long silence makes last.
///
/// # Panics
/// When it has not after `patience`.
pub fn until_after<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        let seen = match look() {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        assert!(Instant::now() < deadline, "{what}: not within {patience:?}; last seen:\n{seen}");
        thread::sleep(PAUSE);
    }
}
