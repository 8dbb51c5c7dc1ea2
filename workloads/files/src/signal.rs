//! The termination signal as end-of-file on standard input, waited for beside a timer. Rust's library can only wait for
//! one of them, so this calls the C library's `poll`, which is WASI's `poll_oneoff`.

use std::io::Read as _;
use std::time::Duration;

const STANDARD_INPUT: i32 = 0;
/// As wasi-libc and Linux number it.
const POLLIN: i16 = 0x1;

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

/// C's `unsigned long`, as both have it on their machines.
type Count = usize;

#[expect(unsafe_code, reason = "the C library's function for waiting for several things")]
unsafe extern "C" {
    fn poll(fds: *mut PollFd, count: Count, timeout_ms: i32) -> i32;
}

/// Waits for the end of standard input, and no longer than `timeout`.
pub(crate) fn is_asked_to_stop_within(timeout: Duration) -> bool {
    let mut stdin = PollFd { fd: STANDARD_INPUT, events: POLLIN, revents: 0 };
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the pointer is to one descriptor, which outlives the call, and the count says so.
    #[expect(unsafe_code, reason = "see above")]
    let ready = unsafe { poll(&raw mut stdin, 1, timeout_ms) };
    // Nothing is ever sent there, so something to read is the end; but whatever came is skipped.
    ready > 0 && matches!(std::io::stdin().read(&mut [0; 64]), Ok(0) | Err(_))
}
