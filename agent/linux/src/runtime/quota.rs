//! How much processor time a container has left. Pure: time is passed in, so it is tested to the nanosecond.

/// A container may use the share of so many nanoseconds at once before it is held back.
const BURST_NS: i128 = 100_000_000;

/// A bucket that fills with processor time at the rate of `resources.limits.cpu` (EDGE-09). What a guest uses beyond
/// it is a debt, and the guest runs again when that is paid; so the average is exact however long a single turn was.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    /// Thousandths of a core, which is also picoseconds a nanosecond.
    rate: i128,
    /// In picoseconds of processor time; negative for a debt.
    balance: i128,
    filled_at_ns: u64,
}

impl Quota {
    /// A full bucket; `None` for a container without a limit (`cpu_millis` of zero).
    pub(crate) fn new(cpu_millis: u64, now_ns: u64) -> Option<Self> {
        let rate = i128::from(cpu_millis);
        (rate > 0).then_some(Self { rate, balance: rate * BURST_NS, filled_at_ns: now_ns })
    }

    fn fill(&mut self, now_ns: u64) {
        let elapsed = i128::from(now_ns.saturating_sub(self.filled_at_ns));
        self.filled_at_ns = self.filled_at_ns.max(now_ns);
        self.balance = (self.balance + elapsed * self.rate).min(self.rate * BURST_NS);
    }

    /// Takes the processor time of one turn out of the bucket.
    pub(crate) fn charge(&mut self, now_ns: u64, used_ns: u64) {
        self.fill(now_ns);
        self.balance -= i128::from(used_ns) * 1000;
    }

    /// In how many nanoseconds the guest may have its next turn; zero for now.
    pub(crate) fn ready_in_ns(&mut self, now_ns: u64) -> u64 {
        self.fill(now_ns);
        if self.balance > 0 {
            return 0;
        }
        // One picosecond above nothing, in whole nanoseconds, rounded up.
        u64::try_from((1 - self.balance + self.rate - 1) / self.rate).unwrap_or(u64::MAX)
    }
}

/// A period, as Linux counts them for `cpu.stat`.
const PERIOD_NS: u64 = 100_000_000;

/// In how many periods a container wanted to compute, and in how many its limit held it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Periods {
    /// `nr_periods`
    pub(crate) wanted: u64,
    /// `nr_throttled`
    pub(crate) held: u64,
    /// `throttled_time`, in nanoseconds.
    pub(crate) held_ns: u64,
    /// Periods before this one are counted, as wanted and as held.
    next_wanted: u64,
    next_held: u64,
    held_until_ns: u64,
}

impl Periods {
    /// It wants to compute.
    pub(crate) fn wanted(&mut self, now_ns: u64) {
        let period = now_ns / PERIOD_NS;
        if period >= self.next_wanted {
            self.wanted += 1;
            self.next_wanted = period + 1;
        }
    }

    /// It is held back for so long, from now on. What several parts of one container wait at once counts once.
    pub(crate) fn held(&mut self, now_ns: u64, wait_ns: u64) {
        let end_ns = now_ns.saturating_add(wait_ns);
        self.held_ns += end_ns.saturating_sub(now_ns.max(self.held_until_ns));
        self.held_until_ns = self.held_until_ns.max(end_ns);
        let (first, end) = (now_ns / PERIOD_NS, end_ns.div_ceil(PERIOD_NS));
        self.held += end.saturating_sub(first.max(self.next_held));
        self.next_held = self.next_held.max(end);
        self.wanted += end.saturating_sub(first.max(self.next_wanted));
        self.next_wanted = self.next_wanted.max(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn quota(cpu_millis: u64) -> Quota {
        Quota::new(cpu_millis, 0).unwrap_or_else(|| panic!("{cpu_millis} is a limit"))
    }

    #[test]
    fn no_limit_is_no_bucket() {
        assert!(Quota::new(0, 0).is_none());
    }

    // EDGE-09
    #[test]
    fn a_busy_guest_gets_its_share_to_the_nanosecond() {
        for (millis, turn_ns) in [(100, 10 * MS), (250, 7 * MS), (500, 10 * MS), (1, MS), (333, 1), (999, 123_457)] {
            let mut quota = quota(millis);
            let (mut now, mut used) = (0, 0_u64);
            let burst = millis * 100 * MS / 1000;
            while now < 60_000 * MS && used < 2_000 * turn_ns + burst {
                now += quota.ready_in_ns(now);
                // The turn takes as long as it computes: the machine has nothing else to do.
                now += turn_ns;
                used += turn_ns;
                quota.charge(now, turn_ns);
            }
            let share = u128::from(now) * u128::from(millis) / 1000;
            let over = i128::try_from(share).unwrap_or(0) + i128::from(burst) - i128::from(used);
            // Never more than its share and the burst, but for the one turn that makes the debt.
            assert!(over >= -i128::from(turn_ns), "{millis}m in turns of {turn_ns} ns: {over}");
            assert!(over <= i128::from(turn_ns) + i128::from(burst), "{millis}m in turns of {turn_ns} ns: {over}");
        }
    }

    #[test]
    fn a_debt_is_paid_at_the_rate_and_then_the_guest_runs() {
        let mut quota = quota(100);
        // The burst of 10 ms and a debt of 10 ms, which a tenth of a core pays in 100 ms.
        quota.charge(0, 20 * MS);
        assert_eq!(quota.ready_in_ns(0), 100 * MS + 1);
        assert_eq!(quota.ready_in_ns(99 * MS), MS + 1);
        assert_eq!(quota.ready_in_ns(100 * MS + 1), 0);
    }

    #[test]
    fn an_idle_guest_saves_up_no_more_than_the_burst() {
        let mut quota = quota(500);
        assert_eq!(quota.ready_in_ns(3_600_000 * MS), 0);
        quota.charge(3_600_000 * MS, 50 * MS);
        assert_eq!(quota.ready_in_ns(3_600_000 * MS), 1);
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let mut quota = quota(1000);
        quota.charge(500 * MS, 100 * MS);
        assert_eq!(quota.ready_in_ns(0), 1);
    }

    #[test]
    fn periods_count_once_however_often_a_guest_asks() {
        let mut periods = Periods::default();
        for now in [0, 10 * MS, 99 * MS] {
            periods.wanted(now);
        }
        assert_eq!((periods.wanted, periods.held), (1, 0));
        // Held from within the first period until within the third, by two of its instances.
        periods.held(50 * MS, 200 * MS);
        periods.held(60 * MS, 190 * MS);
        assert_eq!((periods.wanted, periods.held, periods.held_ns), (3, 3, 200 * MS));
        periods.wanted(260 * MS);
        periods.wanted(1000 * MS);
        assert_eq!((periods.wanted, periods.held), (4, 3));
    }
}
