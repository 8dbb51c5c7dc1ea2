//! The specs that were read last. Pods of one template, and those that a user makes in a row, say the same in theirs.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::object::{Object, read_spec};

/// How many are kept.
const MOST: usize = 8;
/// A longer one is not kept, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// Each with its text; the one that was asked for last is first.
#[derive(Debug)]
pub(crate) struct Specs(VecDeque<(String, Arc<Value>)>);

impl Specs {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// The spec of a pod, which may be without its `nodeName`.
    pub(super) fn of(&mut self, pod: &Object) -> Arc<Value> {
        let text = pod.spec_text();
        let place = self.0.iter().position(|(known, _)| *known == text);
        let known = place.and_then(|place| self.0.remove(place));
        let spec = known.map_or_else(|| Arc::new(read_spec(&text)), |(_, spec)| spec);
        if text.len() <= MAX_TEXT_BYTES {
            self.0.truncate(MOST - 1);
            self.0.push_front((text, Arc::clone(&spec)));
        }
        spec
    }
}
