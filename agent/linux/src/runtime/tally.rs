//! Counts something that is bounded, for one container or volume, and at the same time for everybody together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who has no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The bound of this tally.
    Own,
    /// A bound that it shares with others.
    Shared,
}

/// A count with a bound. What is taken here is taken from the larger whole as well, if there is one.
#[derive(Debug)]
pub(crate) struct Tally {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
    whole: Option<Arc<Self>>,
    /// So much of the whole is taken already, and what is within it counts there no more.
    reserved: u64,
}

impl Tally {
    /// With this bound; zero for none.
    pub(crate) fn new(limit: u64, whole: Option<Arc<Self>>) -> Self {
        let limit = if limit == 0 { u64::MAX } else { limit };
        Self { limit, used: AtomicU64::new(0), peak: AtomicU64::new(0), whole, reserved: 0 }
    }

    /// With this bound, and with so much of the whole set aside for it, if that is to be had.
    pub(crate) fn reserving(limit: u64, whole: Arc<Self>, reserved: u64) -> Self {
        let reserved = if whole.take(reserved).is_ok() { reserved } else { 0 };
        let mut tally = Self::new(limit, Some(whole));
        tally.reserved = reserved;
        tally
    }

    /// What counts in the whole when so much is used.
    const fn beyond(&self, used: u64) -> u64 {
        used.saturating_sub(self.reserved)
    }

    /// Takes `count` more, everywhere or nowhere.
    pub(crate) fn take(&self, count: u64) -> Result<(), Full> {
        let more = |used: u64| used.checked_add(count).filter(|used| *used <= self.limit);
        let used = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| Full::Own)?;
        let more = self.beyond(used + count) - self.beyond(used);
        if self.whole.as_ref().is_some_and(|whole| whole.take(more).is_err()) {
            self.used.fetch_sub(count, Ordering::Relaxed);
            return Err(Full::Shared);
        }
        self.peak.fetch_max(used + count, Ordering::Relaxed);
        Ok(())
    }

    /// Gives `count` back; more than was taken is as much as was taken.
    pub(crate) fn give_back(&self, count: u64) {
        let less = |used: u64| Some(used.saturating_sub(count));
        let before = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0);
        if let Some(whole) = &self.whole {
            whole.give_back(self.beyond(before) - self.beyond(before.saturating_sub(count)));
        }
    }

    /// Says anew how much is taken, whether or not that is allowed.
    pub(crate) fn put(&self, count: u64) {
        let before = self.used();
        if count < before {
            self.give_back(before - count);
        } else {
            self.force(count - before);
        }
    }

    fn force(&self, count: u64) {
        let before = self.used.fetch_add(count, Ordering::Relaxed);
        let used = before.saturating_add(count);
        self.peak.fetch_max(used, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.force(self.beyond(used) - self.beyond(before));
        }
    }

    /// Taken now.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most that was ever taken.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// The bound; `u64::MAX` for none.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether `count` more would fit into the largest whole that this is a part of.
    pub(crate) fn has_room(&self, count: u64) -> bool {
        let used = self.used();
        let Some(more) = used.checked_add(count) else { return false };
        match &self.whole {
            Some(whole) => whole.has_room(self.beyond(more) - self.beyond(used)),
            None => more <= self.limit,
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if let Some(whole) = &self.whole {
            let used = *self.used.get_mut();
            whole.give_back(used.saturating_sub(self.reserved).saturating_add(self.reserved));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_counts_everywhere_or_nowhere() {
        let whole = Arc::new(Tally::new(10, None));
        let one = Tally::new(8, Some(Arc::clone(&whole)));
        let two = Tally::new(0, Some(Arc::clone(&whole)));
        assert_eq!(one.take(9), Err(Full::Own));
        assert_eq!((one.take(8), whole.used()), (Ok(()), 8));
        assert_eq!(two.take(3), Err(Full::Shared));
        assert_eq!((two.used(), whole.used(), two.peak()), (0, 8, 0));
        assert_eq!((two.take(2), whole.used()), (Ok(()), 10));
        assert!(!two.has_room(1));
    }

    #[test]
    fn what_goes_gives_back_what_it_held_and_no_more() {
        let whole = Arc::new(Tally::new(10, None));
        let one = Tally::new(0, Some(Arc::clone(&whole)));
        let two = Tally::new(0, Some(Arc::clone(&whole)));
        assert_eq!((one.take(4), two.take(5)), (Ok(()), Ok(())));
        one.give_back(100);
        assert_eq!((one.used(), one.peak(), whole.used()), (0, 4, 5));
        drop(two);
        assert_eq!((whole.used(), whole.peak()), (0, 9));
    }

    #[test]
    fn what_is_set_aside_is_there_whatever_others_take() {
        let whole = Arc::new(Tally::new(10, None));
        let modest = Tally::reserving(0, Arc::clone(&whole), 4);
        let greedy = Tally::new(0, Some(Arc::clone(&whole)));
        assert_eq!((greedy.take(7), greedy.take(6), whole.used()), (Err(Full::Shared), Ok(()), 10));
        assert!(modest.has_room(4) && !modest.has_room(5));
        assert_eq!((modest.take(4), modest.take(1), whole.used()), (Ok(()), Err(Full::Shared), 10));
        greedy.give_back(3);
        assert_eq!((modest.take(2), modest.used(), whole.used()), (Ok(()), 6, 9));
        modest.give_back(5);
        assert_eq!((modest.used(), whole.used()), (1, 7));
        // Nothing can be set aside that is not there.
        let late = Tally::reserving(0, Arc::clone(&whole), 4);
        assert_eq!((late.take(4), late.take(3)), (Err(Full::Shared), Ok(())));
        drop((modest, greedy, late));
        assert_eq!(whole.used(), 0);
    }

    #[test]
    fn what_is_found_may_be_more_than_is_allowed() {
        let whole = Arc::new(Tally::new(10, None));
        let one = Tally::new(8, Some(Arc::clone(&whole)));
        one.put(12);
        assert_eq!((one.used(), whole.used(), one.take(1)), (12, 12, Err(Full::Own)));
        one.put(3);
        assert_eq!((one.used(), whole.used(), one.take(1)), (3, 3, Ok(())));
    }
}
