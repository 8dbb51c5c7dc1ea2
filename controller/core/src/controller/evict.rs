//! `pods/eviction` (policy/v1 Eviction): a deletion that disruption budgets may refuse (PDB-01).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::{ApiError, FieldError, FieldReason};
use crate::object::{Key, Object, Uid};
use crate::reconcile::disruption::{Standing, budgets_of};
use crate::request::{Answer, DeleteOptions, Outcome};
use crate::write::{Writer, check_preconditions, put_condition};

/// Evicts a pod: marks it, and deletes it gracefully.
///
/// # Errors
/// `TooManyRequests` when its budget forbids it; 500 when it has more than one; as for a deletion.
pub(super) fn evict(writer: &mut Writer<'_>, key: &Key, eviction: &Value) -> Result<Answer, ApiError> {
    let stated = eviction["metadata"]["name"].as_str().unwrap_or_default();
    if stated != &*key.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = options(&eviction["deleteOptions"])?;
    if eviction["deleteOptions"]["dryRun"].as_array().is_some_and(|stages| stages.iter().any(|stage| stage == "All")) {
        writer.dry_run = true;
    }
    let pod = writer.current(key)?;
    let runs = pod.row.pod().is_some_and(|row| row.phase == coracle_model::Phase::Running) && !pod.is_deleting();
    if runs {
        ask_budgets(writer, &pod)?;
        check_preconditions(&pod, &options)?;
        mark(writer, &pod)?;
    }
    // The revision has been checked, and the mark has made another one.
    let resource_version = options.resource_version.filter(|_| !runs);
    writer.delete(key, &DeleteOptions { resource_version, ..options })?;
    Ok(Answer { outcome: Outcome::Evicted, warnings: Vec::new() })
}

fn options(found: &Value) -> Result<DeleteOptions, ApiError> {
    let refuse = |field: &str| {
        ApiError::bad_request(format!("deleteOptions.{field} is not what it should be, found {}", found[field]))
    };
    let preconditions = &found["preconditions"];
    let text = |field: &str| match &preconditions[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err(refuse("preconditions")),
    };
    let grace_seconds = match &found["gracePeriodSeconds"] {
        Value::Null => None,
        seconds => Some(seconds.as_u64().ok_or_else(|| refuse("gracePeriodSeconds"))?),
    };
    let uid = text("uid")?.map(|uid| uid.parse::<Uid>().map_err(|_| refuse("preconditions"))).transpose()?;
    let revision = text("resourceVersion")?;
    let resource_version = revision.map(|text| text.parse().map_err(|_| refuse("preconditions"))).transpose()?;
    Ok(DeleteOptions { grace_seconds, propagation: None, uid, resource_version })
}

/// Whether the pod's budget lets it go. One that is not ready counts for nothing, so it may go while enough others are.
fn ask_budgets(writer: &Writer<'_>, pod: &Object) -> Result<(), ApiError> {
    let budgets: Vec<&Arc<Object>> = budgets_of(writer.view, pod).collect();
    let budget = match budgets[..] {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            let words =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError { message: words.to_owned(), ..ApiError::internal("") });
        }
    };
    let standing = Standing::of(writer.view, budget);
    let is_ready = pod.row.pod().is_some_and(|row| row.is_ready());
    let allows_unhealthy = budget.value()["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
    let enough = standing.as_ref().is_ok_and(|standing| standing.healthy >= standing.desired && standing.desired > 0);
    if !is_ready && (allows_unhealthy || enough) {
        return Ok(());
    }
    let cause = match standing {
        Ok(standing) if standing.allowed() > 0 => return Ok(()),
        Ok(standing) => format!(
            "The disruption budget {} needs {} healthy pods and has {} currently",
            budget.name(),
            standing.desired,
            standing.healthy
        ),
        Err(message) => format!("The disruption budget {} cannot be counted: {message}", budget.name()),
    };
    let words = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::too_many_requests(words, 0);
    error.details.causes =
        vec![FieldError { reason: FieldReason::DisruptionBudget, field: String::new(), message: cause }];
    Err(error)
}

/// The condition that says why the pod goes.
fn mark(writer: &mut Writer<'_>, pod: &Object) -> Result<(), ApiError> {
    let mut status = pod.status();
    put_condition(
        &mut status,
        json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": writer.now.stamp(), "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }),
    );
    writer.put_status(&pod.key, pod.revision, &status).map(|_| ())
}

#[cfg(test)]
mod tests;
