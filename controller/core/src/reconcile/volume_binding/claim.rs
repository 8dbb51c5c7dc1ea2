//! A claim, one step nearer to its volume.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{COMPONENT, note, volumes_of};
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::plan::{Plan, Write};
use crate::reconcile::Context;
use crate::schedule::set_aside;
use crate::selector::LabelSelector;
use crate::volumes::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, ClaimPhase, ClaimRow, NO_PROVISIONER, VolumeRow, waits_for_consumer,
};

/// The next step.
pub(super) fn plan(context: &Context<'_>, claim: &Arc<Object>, row: &ClaimRow) -> Plan {
    if claim.is_deleting() {
        return Plan::default();
    }
    match &row.volume {
        Some(name) => follow(context, claim, row, name),
        None => find(context, claim, row),
    }
}

/// The claim names its volume, because it was told or because a user says so.
fn follow(context: &Context<'_>, claim: &Arc<Object>, row: &ClaimRow, name: &str) -> Plan {
    let was_bound = !claim.head()["metadata"]["annotations"][BIND_COMPLETED].is_null();
    let volume = context.view.get(&Key::new(Kind::PERSISTENT_VOLUME, "", name));
    let Some((volume, volume_row)) = volume.and_then(|volume| Some((volume, volume.row.volume()?))) else {
        let words = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return if was_bound { lose(claim, row, "ClaimLost", words) } else { wait(claim, row) };
    };
    match &volume_row.reserved {
        Some(reference) if reference.means(claim) && reference.uid.is_some() => complete(claim, row, volume),
        Some(reference) if !reference.means(claim) && was_bound => {
            let words = "Two claims are bound to the same volume, this one is bound incorrectly";
            lose(claim, row, "ClaimMisbound", words)
        }
        Some(reference) if !reference.means(claim) => {
            let mut plan = wait(claim, row);
            let words = format!("volume \"{name}\" already bound to a different claim.");
            plan.notes.push(note(claim, COMPONENT, true, "FailedBinding", words));
            plan
        }
        _ => match mismatch(row, volume_row).filter(|_| !was_bound) {
            Some(words) => {
                let mut plan = wait(claim, row);
                let words = format!("Cannot bind to requested volume \"{name}\": {words}");
                plan.notes.push(note(claim, COMPONENT, true, "VolumeMismatch", words));
                plan
            }
            None => write(set_aside(volume, claim)),
        },
    }
}

/// Why a volume that a user names is not what the claim asks for.
fn mismatch(claim: &ClaimRow, volume: &VolumeRow) -> Option<&'static str> {
    if volume.capacity_bytes < claim.request_bytes {
        Some("requested PV is too small")
    } else if volume.class != claim.class {
        Some("storageClassName does not match")
    } else if volume.is_block != claim.is_block {
        Some("incompatible volumeMode")
    } else if !volume.modes.include(claim.modes) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

/// The claim names no volume.
fn find(context: &Context<'_>, claim: &Arc<Object>, row: &ClaimRow) -> Plan {
    let selector = claim.head()["spec"]["selector"].take();
    let selector =
        (!selector.is_null()).then(|| LabelSelector::of_json(&selector).unwrap_or_else(|_| LabelSelector::nothing()));
    let own = volumes_of(context.view, claim).find(|volume| {
        let reference = volume.row.volume().and_then(|row| row.reserved.as_ref());
        // One that a user has set aside is of no use if it is too small.
        let suits = |volume: &VolumeRow| volume.capacity_bytes >= row.request_bytes && volume.is_block == row.is_block;
        reference.is_some_and(|reference| reference.means(claim)) && volume.row.volume().is_some_and(suits)
    });
    if let Some(volume) = own {
        return write(set_aside(volume, claim).or_else(|| Some(tell(claim, volume))));
    }
    let class = context.view.get(&Key::new(Kind::STORAGE_CLASS, "", &row.class)).map(|class| class.head());
    if class.as_ref().is_some_and(waits_for_consumer) {
        let mut plan = wait(claim, row);
        let words = "waiting for first consumer to be created before binding".to_owned();
        plan.notes.push(note(claim, COMPONENT, false, "WaitForFirstConsumer", words));
        return plan;
    }
    let fits = |volume: &&Arc<Object>| {
        let accepts = |volume_row: &VolumeRow| volume_row.is_free() && volume_row.fits(row);
        !volume.is_deleting()
            && volume.row.volume().is_some_and(accepts)
            && selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
    };
    let size = |volume: &&Arc<Object>| volume.row.volume().map(|row| row.capacity_bytes);
    // Of the same size the first by name.
    match context.view.list(Kind::PERSISTENT_VOLUME, None).filter(fits).min_by_key(size) {
        Some(volume) => write(set_aside(volume, claim)),
        None => {
            let mut plan = wait(claim, row);
            let (warning, reason, words) = none_found(row, class.as_ref());
            plan.notes.push(note(claim, COMPONENT, warning, reason, words));
            plan
        }
    }
}

/// Why there is no volume: no build of this makes any, so people or a provisioner of their own must.
fn none_found(claim: &ClaimRow, class: Option<&Value>) -> (bool, &'static str, String) {
    if claim.class.is_empty() {
        let words = "no persistent volumes available for this claim and no storage class is set";
        return (false, "FailedBinding", words.to_owned());
    }
    match class.map(|class| class["provisioner"].as_str().unwrap_or_default()) {
        None => {
            let words = format!("storageclass.storage.k8s.io \"{}\" not found", claim.class);
            (true, "ProvisioningFailed", words)
        }
        Some(provisioner) if provisioner.is_empty() || provisioner.starts_with("kubernetes.io/") => {
            let provisioner = if provisioner.is_empty() { NO_PROVISIONER } else { provisioner };
            (true, "ProvisioningFailed", format!("no volume plugin matched name: {provisioner}"))
        }
        Some(provisioner) => {
            let words = format!(
                "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
                 system administrator. If volume creation is delayed, please verify that the provisioner is running and \
                 correctly registered."
            );
            (false, "ExternalProvisioning", words)
        }
    }
}

/// The volume knows of the claim; now the claim is told of the volume.
fn tell(claim: &Object, volume: &Object) -> Write {
    let mut value = claim.value();
    value["spec"]["volumeName"] = json!(volume.name());
    value["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
    value["metadata"]["annotations"][BIND_COMPLETED] = json!("yes");
    Write::Update { key: claim.key.clone(), expected: claim.revision, value }
}

/// Each knows of the other; now the claim says so.
fn complete(claim: &Object, row: &ClaimRow, volume: &Object) -> Plan {
    let mut value = claim.value();
    if value["metadata"]["annotations"][BIND_COMPLETED].is_null() {
        value["metadata"]["annotations"][BIND_COMPLETED] = json!("yes");
        return write(Some(Write::Update { key: claim.key.clone(), expected: claim.revision, value }));
    }
    let spec = volume.head()["spec"].take();
    let mut status = value["status"].clone();
    status["phase"] = json!("Bound");
    status["accessModes"] = spec["accessModes"].clone();
    status["capacity"] = spec["capacity"].clone();
    let is_told = row.phase == ClaimPhase::Bound && status == value["status"];
    write((!is_told).then(|| Write::Status { key: claim.key.clone(), expected: claim.revision, status }))
}

/// The claim has had a volume and has it no more.
fn lose(claim: &Object, row: &ClaimRow, reason: &str, words: &str) -> Plan {
    if row.phase == ClaimPhase::Lost {
        return Plan::default();
    }
    let status = json!({"phase": "Lost"});
    let mut plan = write(Some(Write::Status { key: claim.key.clone(), expected: claim.revision, status }));
    plan.notes.push(note(claim, COMPONENT, true, reason, words.to_owned()));
    plan
}

/// The claim waits.
fn wait(claim: &Object, row: &ClaimRow) -> Plan {
    let is_told = row.phase == ClaimPhase::Pending;
    let status = json!({"phase": "Pending"});
    write((!is_told).then(|| Write::Status { key: claim.key.clone(), expected: claim.revision, status }))
}

fn write(write: Option<Write>) -> Plan {
    Plan { writes: write.into_iter().collect(), ..Plan::default() }
}
