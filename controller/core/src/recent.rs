//! What followed last from a few texts. Pods of one template, and those that a user makes in a row, say the same, so what
//! was made of the first serves the others.

use std::collections::VecDeque;

/// How many are kept.
const MOST: usize = 8;
/// What follows from a longer text is not kept, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// What something follows from.
pub(crate) trait Source: PartialEq {
    /// The part of it that may be long, in bytes.
    fn text_bytes(&self) -> usize;
}

impl Source for String {
    fn text_bytes(&self) -> usize {
        self.len()
    }
}

/// Each with what it follows from; the one that was asked for last is first.
#[derive(Clone, Debug)]
pub(crate) struct Recent<S, T>(VecDeque<(S, T)>);

impl<S: Source, T: Clone> Recent<S, T> {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// What follows from this: as it is known, or made of it now.
    pub(crate) fn find_or_make(&mut self, source: S, make: impl FnOnce(&S) -> T) -> T {
        let place = self.0.iter().position(|(known, _)| *known == source);
        let known = place.and_then(|place| self.0.remove(place));
        let found = known.map_or_else(|| make(&source), |(_, found)| found);
        if source.text_bytes() <= MAX_TEXT_BYTES {
            self.0.truncate(MOST - 1);
            self.0.push_front((source, found.clone()));
        }
        found
    }

    /// None of it follows any more.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it was known.
    fn knows(recent: &mut Recent<String, usize>, text: &str) -> bool {
        let mut made = false;
        let found = recent.find_or_make(text.to_owned(), |text| {
            made = true;
            text.len()
        });
        assert_eq!(found, text.len());
        !made
    }

    #[test]
    fn the_last_few_are_known_and_no_long_ones() {
        let mut recent = Recent::new();
        assert!(!knows(&mut recent, "first"));
        for number in 1..=MOST {
            assert!(!knows(&mut recent, &number.to_string()));
            assert!(knows(&mut recent, "first"), "asked for again and again: {number}");
        }
        assert!((2..=MOST).all(|number| knows(&mut recent, &number.to_string())));
        assert!(!knows(&mut recent, "1"), "asked for longest ago");
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        assert!(!knows(&mut recent, &long) && !knows(&mut recent, &long));
        assert!(knows(&mut recent, "1"), "a long one takes nobody's place");
        recent.forget();
        assert!(!knows(&mut recent, "1"));
    }
}
