//! What the objects of one controller have in common, kept once: pods of one template share what it said (DESIGN,
//! decision 3).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::{Object, Owner, Uid};
use crate::selector::Labels;

/// A longer head makes no dictionary: packing takes a time that grows with it.
const MAX_DICTIONARY_BYTES: usize = 16 * 1024;
/// The fewest controllers that are remembered before those that have gone are forgotten.
const MIN_KNOWN: usize = 64;

/// What objects of one template have in common.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) namespace: Arc<str>,
    pub(super) labels: Arc<Labels>,
    pub(super) owners: Arc<[Owner]>,
    /// The head of one of them.
    pub(super) dictionary: Box<str>,
}

/// The templates that are in use, by the uid of the controller. Objects hold them; this only finds them.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    known: BTreeMap<Uid, Weak<Template>>,
    /// How many are known when those that nobody holds are to be forgotten.
    forget_at: usize,
}

impl Templates {
    /// The template for another object of this controller. The first object has none, since it may stay alone; the
    /// second one makes it.
    pub(super) fn of(&mut self, controller: Uid, make: impl FnOnce() -> Template) -> Option<Arc<Template>> {
        if self.known.len() >= self.forget_at.max(MIN_KNOWN) {
            self.known.retain(|_, template| template.strong_count() > 0);
            self.forget_at = self.known.len() * 2;
        }
        let Some(known) = self.known.get_mut(&controller) else {
            self.known.insert(controller, Weak::new());
            return None;
        };
        if let Some(template) = known.upgrade() {
            return Some(template);
        }
        let template = make();
        if template.dictionary.len() > MAX_DICTIONARY_BYTES {
            return None;
        }
        let template = Arc::new(template);
        *known = Arc::downgrade(&template);
        Some(template)
    }

    /// Takes note of the template of an object that was made elsewhere.
    pub(crate) fn note(&mut self, object: &Object) {
        if let (Some(controller), Some(template)) = (object.controller(), object.body.template()) {
            self.known.insert(controller.uid, Arc::downgrade(template));
        }
    }
}
