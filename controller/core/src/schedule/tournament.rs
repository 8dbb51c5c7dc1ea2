//! Who is the best of many, kept while the many change one by one: a change costs the logarithm of how many there are.

use std::collections::BinaryHeap;

/// A tournament of contestants with numbers from 0, each as strong as it is.
#[derive(Clone, Debug)]
pub(super) struct Tournament<S> {
    strengths: Vec<Option<S>>,
    /// A binary tree in an array: the winner of each match, the final at 1.
    winners: Vec<u32>,
    leaves: usize,
}

const NOBODY: u32 = u32::MAX;

impl<S> Default for Tournament<S> {
    fn default() -> Self {
        Self { strengths: Vec::new(), winners: Vec::new(), leaves: 0 }
    }
}

/// What came of asking the contestants one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// The strongest that is accepted.
    Found(usize),
    /// Nobody is.
    Nobody,
    /// So many were not that it is better to look at all of them.
    GaveUp,
}

impl<S: Ord> Tournament<S> {
    /// Holds all matches anew.
    pub(super) fn start(&mut self, strengths: impl Iterator<Item = Option<S>>) {
        self.strengths.clear();
        self.strengths.extend(strengths);
        self.leaves = self.strengths.len().next_power_of_two();
        self.winners.clear();
        self.winners.resize(2 * self.leaves, NOBODY);
        for (index, strength) in self.strengths.iter().enumerate() {
            if strength.is_some() {
                self.winners[self.leaves + index] = u32::try_from(index).unwrap_or(NOBODY);
            }
        }
        for place in (1..self.leaves).rev() {
            self.winners[place] = self.better(self.winners[2 * place], self.winners[2 * place + 1]);
        }
    }

    /// Changes one contestant; `None` takes it out.
    pub(super) fn set(&mut self, index: usize, strength: Option<S>) {
        if self.strengths[index] == strength {
            return;
        }
        let takes_part = strength.is_some();
        self.strengths[index] = strength;
        let mut place = self.leaves + index;
        self.winners[place] = if takes_part { u32::try_from(index).unwrap_or(NOBODY) } else { NOBODY };
        while place > 1 {
            place /= 2;
            self.winners[place] = self.better(self.winners[2 * place], self.winners[2 * place + 1]);
        }
    }

    /// The winner.
    pub(super) fn best(&self) -> Option<usize> {
        let winner = *self.winners.get(1)?;
        (winner != NOBODY).then_some(winner as usize)
    }

    /// The strongest contestant that is accepted, asking the strongest first and no more than `patience` of them.
    pub(super) fn best_where(&self, patience: usize, mut accept: impl FnMut(usize) -> bool) -> Search {
        // Matches that nobody who was asked has won; the winner of the whole is in one of them.
        let mut open: BinaryHeap<(&S, usize)> = BinaryHeap::new();
        open.extend(self.open(1));
        for _ in 0..patience {
            let Some((_, mut place)) = open.pop() else { return Search::Nobody };
            let winner = self.winners[place] as usize;
            if accept(winner) {
                return Search::Found(winner);
            }
            // Whoever lost against this one, on its way up to here, is next.
            while place < self.leaves {
                let (left, right) = (2 * place, 2 * place + 1);
                let (way, other) = if self.winners[left] as usize == winner { (left, right) } else { (right, left) };
                open.extend(self.open(other));
                place = way;
            }
        }
        if open.is_empty() { Search::Nobody } else { Search::GaveUp }
    }

    fn open(&self, place: usize) -> Option<(&S, usize)> {
        let winner = *self.winners.get(place).filter(|winner| **winner != NOBODY)?;
        Some((self.strengths[winner as usize].as_ref()?, place))
    }

    fn better(&self, one: u32, two: u32) -> u32 {
        if one == NOBODY {
            return two;
        }
        if two == NOBODY || self.strengths[one as usize] >= self.strengths[two as usize] {
            return one;
        }
        two
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_best_is_the_best_after_every_change(
            start in proptest::collection::vec(proptest::option::of((0..5_i64, 0..50_u64)), 0..40),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), proptest::option::of((0..5_i64, 0..50_u64))), 0..40),
        ) {
            let mut strengths = start.clone();
            let mut tournament = Tournament::default();
            tournament.start(start.into_iter());
            for (index, strength) in changes {
                prop_assert_eq!(tournament.best().and_then(|best| strengths[best]), strengths.iter().flatten().max().copied());
                if strengths.is_empty() {
                    break;
                }
                let index = index.index(strengths.len());
                strengths[index] = strength;
                tournament.set(index, strength);
                let odd = |index: usize| strengths[index].is_some_and(|(_, lot)| lot % 2 == 1);
                let best_odd = strengths.iter().flatten().filter(|(_, lot)| lot % 2 == 1).max().copied();
                match tournament.best_where(20, odd) {
                    Search::Found(found) => prop_assert_eq!(strengths[found], best_odd),
                    Search::Nobody => prop_assert_eq!(best_odd, None),
                    Search::GaveUp => prop_assert!(strengths.iter().flatten().count() > 20),
                }
                prop_assert_eq!(tournament.best().and_then(|best| strengths[best]), strengths.iter().flatten().max().copied());
            }
        }
    }
}
