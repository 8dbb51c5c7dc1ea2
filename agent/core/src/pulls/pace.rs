//! How many blocks may be on their way at once, over all pulls: as many as the link brings soon.
//!
//! Blocks share one connection with leases, acknowledgements and pings. What waits in front of those is what was asked for,
//! so over a thin link only one block is, and over a thick one as many as keep it busy.

use coracle_model::Limits;

/// A block that comes within this many milliseconds may have one more beside it.
const SOON_MS: u64 = 1_500;
/// One that takes longer than this had too many before it.
const LATE_MS: u64 = 4_000;
/// What is asked for before anything is known of the link.
const FIRST: usize = 2;

/// Adds one block at a time, and takes back half.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    allowed: usize,
    most: usize,
}

impl Pace {
    /// For a node with these limits.
    pub(super) fn new(limits: &Limits) -> Self {
        Self { allowed: FIRST, most: limits.blocks_in_flight.saturating_mul(limits.pulls).max(1) }
    }

    /// How many blocks may be on their way.
    pub(super) const fn allowed(self) -> usize {
        self.allowed
    }

    /// A block came, after so long.
    pub(super) fn arrived(&mut self, took_ms: u64) {
        if took_ms <= SOON_MS {
            self.allowed = (self.allowed + 1).min(self.most);
        } else if took_ms > LATE_MS {
            self.slow_down();
        }
    }

    /// Blocks did not come at all, or another link begins.
    pub(super) const fn slow_down(&mut self) {
        self.allowed = if self.allowed > 1 { self.allowed / 2 } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thin_link_gets_one_block_at_a_time_and_a_thick_one_all_that_is_allowed() {
        let mut pace = Pace::new(&Limits::LINUX);
        for _ in 0..1000 {
            pace.arrived(3);
        }
        assert_eq!(pace.allowed(), Limits::LINUX.blocks_in_flight * Limits::LINUX.pulls);
        // 64 kbit/s: each block takes four seconds, and waits for all those before it.
        for _ in 0..10 {
            let waited = 4_100 * u64::try_from(pace.allowed()).expect("small");
            pace.arrived(waited);
        }
        assert_eq!(pace.allowed(), 1);
        pace.arrived(4_000);
        assert_eq!(pace.allowed(), 1);
    }
}
