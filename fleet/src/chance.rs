//! The only source of chance: the same seed gives the same fleet.

/// `SplitMix64`, of which every output is reached from any seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The chance of somebody else, that goes on by itself.
    pub(crate) const fn branch(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// An identity of 128 bits.
    pub(crate) fn identity(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    /// From the first to the last, both included.
    pub(crate) const fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.next() % last.saturating_sub(first).saturating_add(1)
    }

    /// True in so many of a thousand cases.
    pub(crate) const fn per_mille(&mut self, cases: u64) -> bool {
        self.next() % 1000 < cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again_and_its_branches_differ() {
        let draw = |mut chance: Chance| [(); 4].map(|()| chance.next());
        assert_eq!(draw(Chance::new(7)), draw(Chance::new(7)));
        let mut trunk = Chance::new(7);
        assert_ne!(draw(trunk.branch()), draw(trunk.branch()));
    }

    #[test]
    fn what_is_drawn_lies_between_first_and_last() {
        let mut chance = Chance::new(7);
        assert!((0..1000).all(|_| (3..=5).contains(&chance.between(3, 5))));
        assert_eq!(chance.between(4, 4), 4);
        assert!((0..1000).all(|_| !chance.per_mille(0) && chance.per_mille(1000)));
    }
}
