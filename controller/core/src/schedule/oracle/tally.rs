//! What has been seen in all histories together.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// What random histories must lead to now and then, or the property would prove little.
pub(super) const EVERYTHING: [&str; 13] = [
    "bound, one of several",
    "bound to the only one",
    "bound where room is held",
    "bound elsewhere than where room is held",
    "victims",
    "victims though a budget breaks",
    "victims while room is held for others there",
    "waits for victims",
    "nobody to go",
    "never preempts",
    "bound, and volumes set aside",
    "bound where its images are",
    "bound by a second profile",
];

/// How often what was seen.
#[derive(Debug, Default)]
pub(super) struct Tally {
    all: RefCell<BTreeMap<&'static str, u64>>,
}

impl Tally {
    pub(super) fn saw(&self, what: &'static str) {
        *self.all.borrow_mut().entry(what).or_default() += 1;
    }

    pub(super) fn times(&self, what: &str) -> u64 {
        self.all.borrow().get(what).copied().unwrap_or_default()
    }
}
