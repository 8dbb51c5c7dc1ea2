//! Waits that double: between restarts of a container (LIF-05), between tries to get its image (POD-09), and between tries
//! to lay out its volumes (VOL-01).

use alloc::format;
use alloc::string::String;

use coracle_model::Millis;

/// The first wait (Kubernetes: 10 s for both kinds).
pub(crate) const FIRST_MS: u64 = 10_000;
/// The longest wait (Kubernetes: `MaxContainerBackOff`, 300 s).
pub(crate) const LONGEST_MS: u64 = 300_000;
/// The first wait after volumes could not be laid out (Kubernetes: 500 ms).
const FIRST_MOUNT_MS: u64 = 500;
/// The longest such wait (Kubernetes: 2 min 2 s).
const LONGEST_MOUNT_MS: u64 = 122_000;
/// A run of at least this length makes earlier failures forgotten (Kubernetes: twice the longest wait).
pub(crate) const GOOD_RUN_MS: u64 = 600_000;

/// The wait that a failure earns next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackOff {
    next_ms: u64,
}

impl BackOff {
    /// The wait after one more failed try of an image: 10 s, 20 s, 40 s … 300 s.
    pub(crate) fn after_failed_pull(&mut self) -> u64 {
        let wait = self.next_ms.max(FIRST_MS);
        self.next_ms = doubled(wait);
        wait
    }

    /// The wait after the volumes could not be laid out once more: 0.5 s, 1 s, 2 s … 122 s.
    pub(crate) fn after_failed_mount(&mut self) -> u64 {
        let wait = self.next_ms.max(FIRST_MOUNT_MS);
        self.next_ms = wait.saturating_mul(2).min(LONGEST_MOUNT_MS);
        wait
    }

    /// The wait before the next start of a container that ran from `started_at` to `finished_at`: none at first, then
    /// 10 s, 20 s, 40 s … 300 s, and from the beginning again after a good run.
    pub(crate) fn after_run(&mut self, started_at: Millis, finished_at: Millis) -> u64 {
        if finished_at.since(started_at) >= GOOD_RUN_MS {
            self.forget();
        }
        let wait = self.next_ms;
        self.next_ms = if wait == 0 { FIRST_MS } else { doubled(wait) };
        wait
    }

    /// All is well again.
    pub(crate) fn forget(&mut self) {
        self.next_ms = 0;
    }
}

fn doubled(wait: u64) -> u64 {
    wait.saturating_mul(2).min(LONGEST_MS)
}

/// A wait as Kubernetes words it: `10s`, `1m20s`, `5m0s`.
pub(crate) fn words(wait_ms: u64) -> String {
    let secs = wait_ms / 1000;
    if secs < 60 { format!("{secs}s") } else { format!("{}m{}s", secs / 60, secs % 60) }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn crashes(back_off: &mut BackOff, times: usize) -> Vec<u64> {
        (0..times).map(|_| back_off.after_run(Millis(5), Millis(6)) / 1000).collect()
    }

    // LIF-05
    #[test]
    fn restarts_wait_nothing_then_double_up_to_five_minutes() {
        let mut back_off = BackOff::default();
        assert_eq!(crashes(&mut back_off, 9), vec![0, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    // LIF-05
    #[test]
    fn ten_minutes_of_good_running_start_the_waits_over() {
        let mut back_off = BackOff::default();
        crashes(&mut back_off, 5);
        assert_eq!(back_off.after_run(Millis(0), Millis(GOOD_RUN_MS - 1)), 160_000);
        assert_eq!(back_off.after_run(Millis(0), Millis(GOOD_RUN_MS)), 0);
        assert_eq!(crashes(&mut back_off, 3), vec![10, 20, 40]);
    }

    // POD-09
    #[test]
    fn failed_pulls_wait_from_the_first_on() {
        let mut back_off = BackOff::default();
        let waits: Vec<u64> = (0..7).map(|_| back_off.after_failed_pull() / 1000).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        back_off.forget();
        assert_eq!(back_off.after_failed_pull(), FIRST_MS);
    }

    // VOL-01
    #[test]
    fn volumes_are_tried_again_soon_and_then_ever_more_rarely() {
        let mut back_off = BackOff::default();
        let waits: Vec<u64> = (0..10).map(|_| back_off.after_failed_mount()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000]);
    }

    #[test]
    fn waits_are_worded_as_kubernetes_words_them() {
        for (wait, want) in [(10, "10s"), (40, "40s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s")] {
            assert_eq!(words(wait * 1000), want);
        }
    }
}
