//! `Recreate` (DEP-03): every old pod is gone before a new one is made.

use crate::reconcile::{Context, claim, pods};

use super::sets::Sets;
use super::spec::Deployment;

/// Sizes the old sets to nothing; whether none of their pods is left, not even one on its way out.
pub(super) fn old_is_gone(context: &Context<'_>, sets: &mut Sets) -> bool {
    for set in sets.old.iter_mut().filter(|set| set.size > 0) {
        set.resize(0);
    }
    !sets.old.iter().any(|set| {
        let mut owned = context.view.owned_by(set.object.uid).filter(|pod| claim::controls(&set.object, pod));
        owned.any(|pod| !pods::is_terminal(pod))
    })
}

/// Sizes the new set to what is wanted.
pub(super) fn fill(deployment: &Deployment, sets: &mut Sets) {
    if let Some(new) = sets.new.as_mut().filter(|new| new.size != deployment.replicas) {
        new.resize(deployment.replicas);
    }
}
