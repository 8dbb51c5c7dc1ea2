//! What the objects of one controller have in common, kept once: pods of one template share what it said (DESIGN,
//! decision 3).

use std::sync::{Arc, Weak};

use super::sharing::{Known, Sharing};
use super::{Object, Owner, Uid};
use crate::selector::Labels;

/// A longer head makes no dictionary: packing takes a time that grows with it.
const MAX_DICTIONARY_BYTES: usize = 16 * 1024;

/// What the heads of objects of one template have in common.
#[derive(Debug)]
pub(super) struct Template {
    /// The head of one of them.
    pub(super) dictionary: Box<str>,
}

/// What is in use of what objects have in common.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    /// By the uid of the controller.
    heads: Known<Uid, Template>,
    texts: Known<u64, str>,
    labels: Known<u64, Labels>,
    owners: Known<u64, [Owner]>,
}

impl Templates {
    /// The template for another object of this controller, of which `head` is the head. The first object has none, since
    /// it may stay alone; the second one makes it.
    pub(super) fn of(&mut self, controller: Uid, head: &str) -> Option<Arc<Template>> {
        match self.heads.find(&controller) {
            None => {
                self.heads.note(controller, Weak::new());
                None
            }
            Some(Some(template)) => Some(template),
            Some(None) if head.len() > MAX_DICTIONARY_BYTES => None,
            Some(None) => {
                let template = Arc::new(Template { dictionary: head.into() });
                self.heads.note(controller, Arc::downgrade(&template));
                Some(template)
            }
        }
    }

    /// A name that an object may have already.
    pub(crate) fn name(&mut self, text: &str) -> Arc<str> {
        self.texts.share(text)
    }

    /// Takes note of what an object that was made elsewhere has.
    pub(crate) fn note(&mut self, object: &Object) {
        if let (Some(controller), Some(template)) = (object.controller(), object.body.template()) {
            self.heads.note(controller.uid, Arc::downgrade(template));
        }
        let node = object.row.pod().and_then(|row| row.node.as_ref());
        for text in [Some(&object.key.namespace), node].into_iter().flatten() {
            self.texts.share(Arc::clone(text));
        }
        self.labels.share(Arc::clone(&object.labels));
        self.owners.share(Arc::clone(&object.owners));
    }
}

impl Sharing for Templates {
    fn text(&mut self, text: &str) -> Arc<str> {
        self.name(text)
    }

    fn labels(&mut self, labels: Labels) -> Arc<Labels> {
        self.labels.share(labels)
    }

    fn owners(&mut self, owners: Vec<Owner>) -> Arc<[Owner]> {
        self.owners.share(owners)
    }
}
