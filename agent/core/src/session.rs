//! The session with the controller: birth, welcome, lease.

use coracle_model::limits::LEASE_RENEW_MS;
use coracle_model::{Millis, SessionNumber};

/// How long a birth waits for its welcome before it is repeated; doubles with every try.
const FIRST_WAIT_MS: u64 = 500;
/// The longest such wait: with its jitter below the time that a lease lasts, so that a controller which comes back hears
/// everybody before it gives anybody up.
const LONGEST_WAIT_MS: u64 = 20_000;
/// A lease is not renewed more often than this, whatever the controller says.
const SHORTEST_RENEWAL_MS: u64 = 100;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no MQTT session, or it is to end.
    Apart,
    /// The birth is published and no welcome has come.
    Born { number: SessionNumber, tries: u32, again_at: Millis },
    /// The controller knows this session.
    Welcome { number: SessionNumber, renew_ms: u64, renew_at: Millis },
    /// The agent must not run.
    Over,
}

/// The machine of one agent's sessions, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    state: State,
    seed: u64,
}

/// What time asks of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Publish the birth again.
    Birth,
    /// Renew the lease.
    Lease,
}

impl Session {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: State::Apart, seed }
    }

    /// A new MQTT session stands; its birth is to be published.
    pub(crate) fn connected(&mut self, number: SessionNumber, now: Millis) {
        self.state = State::Born { number, tries: 1, again_at: now + self.wait(number, 0) };
    }

    /// There is none any more.
    pub(crate) const fn disconnected(&mut self) {
        self.state = State::Apart;
    }

    /// The agent must not run.
    pub(crate) const fn end(&mut self) {
        self.state = State::Over;
    }

    /// The controller knows `number`; whether that is news.
    pub(crate) fn welcomed(&mut self, renew_ms: u64, now: Millis) -> bool {
        let wanted = if renew_ms == 0 { LEASE_RENEW_MS } else { renew_ms.max(SHORTEST_RENEWAL_MS) };
        match &mut self.state {
            State::Born { number, .. } => {
                self.state = State::Welcome { number: *number, renew_ms: wanted, renew_at: now + wanted };
                true
            }
            State::Welcome { renew_ms, renew_at, .. } => {
                *renew_ms = wanted;
                *renew_at = (*renew_at).min(now + wanted);
                false
            }
            State::Apart | State::Over => false,
        }
    }

    /// The number of the session that stands, welcome or not.
    pub(crate) const fn number(&self) -> Option<SessionNumber> {
        match self.state {
            State::Born { number, .. } | State::Welcome { number, .. } => Some(number),
            State::Apart | State::Over => None,
        }
    }

    /// The number of the session, once it is welcome.
    pub(crate) const fn welcome(&self) -> Option<SessionNumber> {
        match self.state {
            State::Welcome { number, .. } => Some(number),
            State::Apart | State::Born { .. } | State::Over => None,
        }
    }

    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// What is due now; the next one is set.
    pub(crate) fn due(&mut self, now: Millis) -> Option<Due> {
        let wait = match self.state {
            State::Born { number, tries, .. } => self.wait(number, tries),
            _ => 0,
        };
        match &mut self.state {
            State::Born { tries, again_at, .. } if *again_at <= now => {
                *tries = tries.saturating_add(1);
                *again_at = now + wait;
                Some(Due::Birth)
            }
            State::Welcome { renew_ms, renew_at, .. } if *renew_at <= now => {
                *renew_at = now + *renew_ms;
                Some(Due::Lease)
            }
            _ => None,
        }
    }

    pub(crate) const fn wake_at(&self) -> Option<Millis> {
        match self.state {
            State::Born { again_at, .. } => Some(again_at),
            State::Welcome { renew_at, .. } => Some(renew_at),
            State::Apart | State::Over => None,
        }
    }

    /// 0.5 s, 1 s, 2 s … 20 s, each up to a quarter more, so that a fleet that lost its controller does not speak as
    /// one.
    fn wait(&self, number: SessionNumber, tries: u32) -> u64 {
        let wait = FIRST_WAIT_MS.saturating_mul(1 << tries.min(8)).min(LONGEST_WAIT_MS);
        wait + mixed(self.seed ^ number.0.rotate_left(32) ^ u64::from(tries)) % (wait / 4)
    }
}

/// A number that looks like chance and is not (the finaliser of SplitMix64).
const fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_birth_that_nobody_answers_is_repeated_ever_more_rarely() {
        let mut session = Session::new(7);
        session.connected(SessionNumber(3), Millis::ZERO);
        let mut now = Millis::ZERO;
        for (least, most) in [(500, 626), (1000, 1251), (2000, 2501), (4000, 5001), (8000, 10_001), (16_000, 20_001)] {
            let at = session.wake_at().expect("a birth waits");
            let waited = at.since(now);
            assert!((least..most).contains(&waited), "{waited}");
            assert_eq!(session.due(at - 1), None);
            assert_eq!(session.due(at), Some(Due::Birth));
            now = at;
        }
    }

    #[test]
    fn a_lease_is_renewed_in_the_rhythm_that_the_controller_set() {
        let mut session = Session::new(7);
        session.connected(SessionNumber(3), Millis::ZERO);
        assert!(session.welcomed(10_000, Millis(1)));
        assert!(!session.welcomed(10_000, Millis(2)));
        assert_eq!(session.due(Millis(10_000)), None);
        assert_eq!(session.due(Millis(10_001)), Some(Due::Lease));
        assert_eq!(session.wake_at(), Some(Millis(20_001)));
    }
}
