//! A volume's phase, and what becomes of it when its claim is gone.

use serde_json::json;

use super::{COMPONENT, note};
use crate::object::Object;
use crate::plan::{Plan, Write};
use crate::reconcile::Context;
use crate::volumes::{VolumePhase, VolumeRow};

/// Sets the phase.
pub(super) fn plan(context: &Context<'_>, volume: &Object, row: &VolumeRow) -> Plan {
    let mut plan = Plan::default();
    if is_given_up(context, volume, row) {
        let mut value = volume.value();
        if let Some(spec) = value["spec"].as_object_mut() {
            spec.remove("claimRef");
        }
        plan.writes.push(Write::Update { key: volume.key.clone(), expected: volume.revision, value });
        return plan;
    }
    let phase = phase(context, volume, row);
    let value = volume.head();
    let policy = value["spec"]["persistentVolumeReclaimPolicy"].as_str().unwrap_or("Retain");
    let (phase, failure) = match (phase, policy) {
        (VolumePhase::Released, "Delete") => {
            let words = format!(
                "error getting deleter volume plugin for volume \"{}\": no deletable volume plugin matched",
                volume.name()
            );
            (VolumePhase::Failed, Some(("VolumeFailedDelete", words)))
        }
        (VolumePhase::Released, "Recycle") => {
            let words = "no recyclable volume plugin matched".to_owned();
            (VolumePhase::Failed, Some(("VolumeFailedRecycle", words)))
        }
        (phase, _) => (phase, None),
    };
    if phase == row.phase {
        return plan;
    }
    let mut status = json!({"phase": phase.as_str(), "lastPhaseTransitionTime": context.now.stamp()});
    if let Some((reason, words)) = failure {
        status["message"] = json!(words);
        plan.notes.push(note(volume, COMPONENT, true, reason, words));
    }
    plan.writes.push(Write::Status { key: volume.key.clone(), expected: volume.revision, status });
    plan
}

/// Whether the claim for which it was set aside has another volume.
fn is_given_up(context: &Context<'_>, volume: &Object, row: &VolumeRow) -> bool {
    let Some(reference) = row.reserved.as_ref().filter(|_| row.phase == VolumePhase::Available) else { return false };
    let claim = context.view.get(&reference.claim).filter(|claim| reference.uid == Some(claim.uid));
    let named = claim.and_then(|claim| claim.row.claim()?.volume.as_deref());
    named.is_some_and(|named| named != volume.name())
}

fn phase(context: &Context<'_>, volume: &Object, row: &VolumeRow) -> VolumePhase {
    let Some(reference) = &row.reserved else { return VolumePhase::Available };
    if reference.uid.is_none() {
        // Set aside by a user for a claim that has not come.
        return VolumePhase::Available;
    }
    let claim = context.view.get(&reference.claim).filter(|claim| reference.means(claim));
    match claim.and_then(|claim| claim.row.claim()) {
        None => VolumePhase::Released,
        Some(claim) if claim.volume.as_ref() == Some(&volume.key.name) => VolumePhase::Bound,
        // The claim is about to be told, or has another one.
        Some(_) => row.phase,
    }
}
