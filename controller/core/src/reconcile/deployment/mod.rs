//! Deployment: one replica set a template, and a bounded way from one to the next (DEP-01 to DEP-12).
//!
//! *In:* the deployment and its sets. *Out:* sets made, sized, annotated and cleaned up; the deployment's status.
//! *Must never know:* pods, but for one question of Recreate. What a set says of its pods is true when this runs.
//! *Tested:* transcripts of rollouts, tables of the arithmetic, a property for DEP-02.
//!
//! A plan goes down this list and stops at the first step that wants something written; the write wakes it again:
//! [claim sets](super::claim), note a pause, bring the new set's [revision] up to date, [scale] what a
//! changed `replicas` asks for, take a step of the rollout ([`rolling`], [`recreate`]), [clean up](cleanup), and say
//! how it stands ([`status`]).

mod cleanup;
mod recreate;
mod revision;
mod rolling;
mod scale;
mod sets;
mod spec;
mod status;
#[cfg(test)]
mod tests;

use crate::error::ApiError;
use crate::kind::Kind;
use crate::names::Names;
use crate::object::{Key, Object};
use crate::plan::{Plan, Write};
use crate::selector::LabelSelector;
use crate::store::{Action, Change};
use crate::view::View;

use super::{Context, claim, note};
use sets::Sets;
use spec::{Deployment, Strategy};

pub(super) use spec::resolve;

const COMPONENT: &str = "deployment-controller";

/// A deployment is woken by itself and by its sets.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    match change.object.key.kind {
        Kind::DEPLOYMENT if change.action != Action::Deleted => wake(change.object.key.clone()),
        Kind::REPLICA_SET => claim::wake_owners(view, change, Kind::DEPLOYMENT, wake),
        _ => {}
    }
}

/// The first thing that is to be done.
pub(super) fn plan(context: &Context<'_>, key: &Key, _names: &mut Names) -> Plan {
    let Some(object) = context.view.get(key) else { return Plan::default() };
    let deployment = Deployment::of(object);
    let Ok(selector) = LabelSelector::of_json(&deployment.value["spec"]["selector"]) else { return Plan::default() };
    let claimed = claim::claim(context, object, &selector, Kind::REPLICA_SET);
    if !claimed.writes.is_empty() {
        return Plan { writes: claimed.writes, ..Plan::default() };
    }
    let mut sets = Sets::of(&deployment, &claimed.objects);
    if object.is_deleting() {
        return status::report(context, &deployment, &sets);
    }
    if let Some(plan) = status::note_pause(context, &deployment) {
        return plan;
    }
    if let Some(plan) = revision::sync(context, &deployment, &sets) {
        return plan;
    }
    if deployment.paused || scale::is_needed(&deployment, &sets) {
        scale::scale(&deployment, &mut sets);
        let plan = sets.plan(&deployment);
        if !plan.writes.is_empty() {
            return plan;
        }
    }
    if deployment.paused {
        let plan = cleanup::plan(&deployment, &sets);
        return if plan.writes.is_empty() { status::report(context, &deployment, &sets) } else { plan };
    }
    roll_out(context, &deployment, sets)
}

fn roll_out(context: &Context<'_>, deployment: &Deployment, mut sets: Sets) -> Plan {
    let may_make_set = match deployment.strategy {
        Strategy::RollingUpdate { .. } => true,
        Strategy::Recreate => recreate::old_is_gone(context, &mut sets),
    };
    let scaled_down = sets.plan(deployment);
    if !scaled_down.writes.is_empty() {
        return scaled_down;
    }
    if !may_make_set {
        return status::report(context, deployment, &sets);
    }
    if sets.new.is_none() {
        return revision::create(context, deployment, &sets);
    }
    match deployment.strategy {
        Strategy::RollingUpdate { .. } => rolling::step(deployment, &mut sets),
        Strategy::Recreate => recreate::fill(deployment, &mut sets),
    }
    let scaled = sets.plan(deployment);
    if !scaled.writes.is_empty() {
        return scaled;
    }
    if status::is_complete(deployment, &sets) {
        let cleaned = cleanup::plan(deployment, &sets);
        if !cleaned.writes.is_empty() {
            return cleaned;
        }
    }
    status::report(context, deployment, &sets)
}

/// The new set was refused: `Progressing` is `False`, and an event says why.
pub(super) fn create_failed(context: &Context<'_>, owner: &Object, error: &ApiError) -> Plan {
    let Some(object) = context.view.get(&owner.key) else { return Plan::default() };
    let deployment = Deployment::of(object);
    let name = revision::set_name(&deployment);
    let message = format!("Failed to create new replica set \"{name}\": {}", error.message);
    let mut plan = status::set_refused(context, &deployment, &message);
    plan.notes.push(note(object, COMPONENT, true, status::SET_CREATE_ERROR, message));
    plan
}

/// Writes the deployment's status, if it is another one.
fn write_status(deployment: &Deployment, status: serde_json::Value, plan: &mut Plan) {
    if deployment.value["status"] != status {
        let object = &deployment.object;
        plan.writes.push(Write::Status { key: object.key.clone(), expected: object.revision, status });
    }
}
