//! How long to wait before the next try.

use std::time::Duration;

const FIRST_MS: u64 = 200;
/// With the time that one try may take, well below the time that a lease lasts: whoever comes back is back before a
/// controller that has just started gives it up.
const LONGEST_MS: u64 = 20_000;

/// Delays that double from 0.2 s to 20 s. Each is drawn from the upper half of its step, so that ten thousand agents
/// that lost one broker together do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    state: u64,
    step_ms: u64,
}

impl Backoff {
    /// Starts at the shortest delay. Different seeds draw different delays.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed, step_ms: FIRST_MS }
    }

    /// The next delay; the one after it is up to twice as long.
    pub fn next_delay(&mut self) -> Duration {
        let half = self.step_ms / 2;
        let delay_ms = half + self.draw() % (self.step_ms - half + 1);
        self.step_ms = self.step_ms.saturating_mul(2).min(LONGEST_MS);
        Duration::from_millis(delay_ms)
    }

    /// A try succeeded: starts over with the shortest delay.
    pub const fn reset(&mut self) {
        self.step_ms = FIRST_MS;
    }

    /// SplitMix64, of which every output is reached from any seed.
    const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_bound_below_the_lease_and_stay_there() {
        let mut backoff = Backoff::new(7);
        let mut step_ms = FIRST_MS;
        for _ in 0..20 {
            let delay_ms = u64::try_from(backoff.next_delay().as_millis()).expect("a small number");
            assert!((step_ms / 2..=step_ms).contains(&delay_ms), "{delay_ms} of {step_ms}");
            step_ms = (step_ms * 2).min(LONGEST_MS);
        }
        assert_eq!(step_ms, LONGEST_MS);
        // The delay, and a try that takes as long as it may.
        const { assert!(LONGEST_MS + 10_000 < coracle_model::limits::LEASE_MS) };
    }

    #[test]
    fn success_starts_over() {
        let mut backoff = Backoff::new(7);
        for _ in 0..20 {
            backoff.next_delay();
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(FIRST_MS));
    }

    #[test]
    fn seeds_draw_different_delays() {
        let delays = |seed| {
            let mut backoff = Backoff::new(seed);
            [(); 6].map(|()| backoff.next_delay())
        };
        assert_ne!(delays(1), delays(2));
        assert_eq!(delays(1), delays(1));
    }
}
