//! Uids and generated names, from a generator that is passed in: the same seed makes the same names.

/// `SplitMix64`; enough for names, never for secrets.
#[derive(Clone, Debug)]
pub struct Names {
    state: u64,
}

/// The letters of Kubernetes' generated suffixes: no vowels and no look-alikes, so that no word appears.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Names {
    /// A generator for this start of the controller: `entropy` differs at every start.
    #[must_use]
    pub const fn new(entropy: u64) -> Self {
        Self { state: entropy }
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A `metadata.uid`: a UUID of version 4.
    pub const fn uid(&mut self) -> u128 {
        let bits = ((self.next() as u128) << 64) | self.next() as u128;
        (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62)
    }

    /// The five letters behind `generateName`.
    pub fn suffix(&mut self) -> String {
        let mut bits = self.next();
        let letters = LETTERS.len() as u64;
        let mut text = String::with_capacity(5);
        for _ in 0..5 {
            text.push(char::from(LETTERS[usize::try_from(bits % letters).unwrap_or(0)]));
            bits /= letters;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_model::PodUid;

    #[test]
    fn one_seed_makes_one_sequence() {
        let (mut one, mut two) = (Names::new(7), Names::new(7));
        assert_eq!(one.suffix(), two.suffix());
        let uid = PodUid(one.uid()).to_string();
        assert_eq!(uid, PodUid(two.uid()).to_string());
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uid.as_bytes()[19]));
    }
}
