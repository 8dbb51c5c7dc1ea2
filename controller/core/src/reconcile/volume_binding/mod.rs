//! `PersistentVolume` and `PersistentVolumeClaim`: each claim gets a volume, and a volume is nobody else's from then on
//! (VOL-02).
//!
//! A claim of a class with `Immediate` gets the smallest free volume that fits. One that waits for its first pod gets the
//! one that the scheduler has set aside for it. Either way the volume is told first (`spec.claimRef`), then the claim
//! (`spec.volumeName`): of two claims only one can be told by a volume, so none is ever bound to two.

mod claim;
#[cfg(test)]
mod tests;
mod volume;

use crate::kind::Kind;
use crate::names::Names;
use crate::object::{Key, Object};
use crate::plan::Plan;
use crate::store::{Action, Change};
use crate::view::View;
use crate::volumes::ClaimPhase;

use super::{Context, note};

const COMPONENT: &str = "persistentvolume-controller";

/// Volumes and claims are woken by themselves and by each other; claims that wait also by volumes that they could have,
/// and by their class.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    let object = &change.object;
    let gone = change.action == Action::Deleted;
    match object.key.kind {
        Kind::PERSISTENT_VOLUME => {
            if !gone {
                wake(object.key.clone());
            }
            for state in [Some(object), change.previous.as_ref()].into_iter().flatten() {
                if let Some(reference) = state.row.volume().and_then(|row| row.reserved.as_ref()) {
                    wake(reference.claim.clone());
                }
            }
            let before = change.previous.as_ref().and_then(|before| before.row.volume()?.reserved.as_ref());
            if gone || before.is_none() {
                wake_claims_for(view, object, wake);
            }
        }
        Kind::PERSISTENT_VOLUME_CLAIM => {
            if !gone {
                wake(object.key.clone());
            }
            for volume in volumes_of(view, object) {
                wake(volume.key.clone());
            }
        }
        Kind::STORAGE_CLASS => {
            for claim in
                waiting(view).filter(|claim| claim.row.claim().is_some_and(|row| *row.class == *object.key.name))
            {
                wake(claim.key.clone());
            }
        }
        _ => {}
    }
}

/// Claims that wait for a volume, and those that name it.
fn wake_claims_for(view: &View, volume: &Object, wake: &mut dyn FnMut(Key)) {
    let Some(row) = volume.row.volume() else { return };
    for claim in view.list(Kind::PERSISTENT_VOLUME_CLAIM, None) {
        let Some(claim_row) = claim.row.claim() else { continue };
        let concerns = match &claim_row.volume {
            Some(name) => *name == volume.key.name,
            None => row.is_free() && row.fits(claim_row),
        };
        if concerns {
            wake(claim.key.clone());
        }
    }
}

fn waiting(view: &View) -> impl Iterator<Item = &std::sync::Arc<Object>> {
    let claims = view.list(Kind::PERSISTENT_VOLUME_CLAIM, None);
    claims.filter(|claim| claim.row.claim().is_some_and(|row| row.phase == ClaimPhase::Pending && row.volume.is_none()))
}

/// The volumes that a claim has, or that are set aside for it.
fn volumes_of<'a>(view: &'a View, claim: &'a Object) -> impl Iterator<Item = &'a std::sync::Arc<Object>> {
    let named = claim.row.claim().and_then(|row| row.volume.as_ref());
    let named = named.and_then(|name| view.get(&Key::new(Kind::PERSISTENT_VOLUME, "", name)));
    // Nearly always the claim names its volume, and then no other one is looked at.
    let others = view.list(Kind::PERSISTENT_VOLUME, None).take(if named.is_some() { 0 } else { usize::MAX });
    let others = others.filter(|volume| {
        volume.row.volume().and_then(|row| row.reserved.as_ref()).is_some_and(|reference| reference.claim == claim.key)
    });
    named.into_iter().chain(others)
}

/// What is to be written of a volume or a claim.
pub(super) fn plan(context: &Context<'_>, key: &Key, _names: &mut Names) -> Plan {
    let Some(object) = context.view.get(key) else { return Plan::default() };
    match (object.row.volume(), object.row.claim()) {
        (Some(row), _) => volume::plan(context, object, row),
        (_, Some(row)) => claim::plan(context, object, row),
        _ => Plan::default(),
    }
}
