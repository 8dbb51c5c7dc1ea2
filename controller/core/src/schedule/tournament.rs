//! Who is the best of many, kept while the many change one by one: a change costs the logarithm of how many there are.

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
                prop_assert_eq!(tournament.best().and_then(|best| strengths[best]), strengths.iter().flatten().max().copied());
            }
        }
    }
}
