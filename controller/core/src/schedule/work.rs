//! How many small steps this thread has made, for the tests of growth: looks whether a rule means a pod, reads of labels and
//! of domains, counters that are moved. Steps are counted, since time is not to be asserted.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// One more.
pub(super) fn note() {
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// How many it takes to do something.
pub(super) fn of(act: impl FnOnce()) -> u64 {
    let before = STEPS.with(Cell::get);
    act();
    STEPS.with(Cell::get) - before
}
