//! The questions that were compiled last. Pods of one template, and those that a user makes in a row, ask the same, so the
//! JSON of all but the first need not be read.

use std::collections::VecDeque;
use std::sync::Arc;

use super::question::Question;
use super::symbols::Symbol;
use super::terms::Labels;
use crate::object::Uid;

/// How many are kept.
const MOST: usize = 8;
/// One with a longer spec is not kept, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// All that a pod's question follows from, but for services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Of the spec, but for the node.
    pub(super) text: String,
    pub(super) node: Option<Arc<str>>,
    pub(super) namespace: Symbol,
    pub(super) labels: Labels,
    /// The controller, and its revision.
    pub(super) controller: Option<(Uid, u64)>,
    /// `schedulerName`
    pub(super) profile: Arc<str>,
}

/// The one that was asked for last is first.
#[derive(Clone, Debug, Default)]
pub(super) struct Compiled(VecDeque<(Source, Question)>);

impl Compiled {
    /// The question that follows from this, if it is known.
    pub(super) fn find(&mut self, source: &Source) -> Option<&Question> {
        let place = self.0.iter().position(|(known, _)| known == source)?;
        let found = self.0.remove(place)?;
        self.0.push_front(found);
        self.0.front().map(|(_, question)| question)
    }

    pub(super) fn keep(&mut self, source: Source, question: &Question) {
        if source.text.len() <= MAX_TEXT_BYTES {
            self.0.truncate(MOST - 1);
            self.0.push_front((source, question.clone()));
        }
    }

    /// Services have changed.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use coracle_model::PodUid;

    use super::super::symbols::Symbols;
    use super::*;

    fn source(text: String) -> Source {
        let namespace = Symbols::new().intern("default");
        Source { text, node: None, namespace, labels: Labels::default(), controller: None, profile: "default".into() }
    }

    #[test]
    fn the_last_few_are_known_and_no_long_ones() {
        let (mut compiled, question) = (Compiled::default(), Question::default());
        for number in 0..MOST + 1 {
            compiled.keep(source(number.to_string()), &question);
            assert!(compiled.find(&source("0".to_owned())).is_some(), "{number}");
        }
        let known = (0..=MOST).filter(|number| compiled.find(&source(number.to_string())).is_some()).count();
        assert_eq!(known, MOST);
        let long = source("x".repeat(MAX_TEXT_BYTES + 1));
        compiled.keep(long.clone(), &question);
        assert!(compiled.find(&long).is_none());
        let other = Source { controller: Some((PodUid(1), 1)), ..source("1".to_owned()) };
        assert!(compiled.find(&other).is_none(), "it follows from more than the text");
        compiled.forget();
        assert!(compiled.find(&source("1".to_owned())).is_none());
    }
}
