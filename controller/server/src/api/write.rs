//! Everything that changes something goes to the committer as a [`Request`].

use axum::body::Body;
use bytes::Bytes;
use coracle_controller_core::kind::Subresource;
use coracle_controller_core::plan::Propagation;
use coracle_controller_core::request::{Answer, DeleteOptions, Outcome, Request, Verb};
use coracle_controller_core::{ApiError, Kind};
use http::{HeaderMap, Response};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::App;
use super::body;
use super::query::Query;
use super::respond::{self, Shape};
use super::route::Target;
use super::snapshot::{self, Selection};

/// Deletions of one collection that wait for the committer at once.
const AT_ONCE: usize = 256;

/// `POST`: a new object, or a binding or an eviction of a pod.
pub(super) async fn create(
    app: &App,
    target: &Target,
    query: &Query,
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<Response<Body>, ApiError> {
    if target.kind.info().namespaced && target.namespace.is_none() {
        return Err(ApiError::method_not_allowed());
    }
    let value = match (target.below, &target.name) {
        (None, None) => body::object(target.kind, headers, bytes)?,
        (Some(Subresource::Binding), Some(_)) => {
            let value = body::value(headers, bytes)?;
            body::fits("v1", "Binding", &value)?;
            value
        }
        (Some(Subresource::Eviction), Some(_)) => {
            let value = body::value(headers, bytes)?;
            body::fits("policy/v1", "Eviction", &value)?;
            value
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    execute(app, target, query, Verb::Create(value)).await
}

/// `PUT`
pub(super) async fn replace(
    app: &App,
    target: &Target,
    query: &Query,
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<Response<Body>, ApiError> {
    let value = match target.below {
        None | Some(Subresource::Status | Subresource::Finalize) => body::object(target.kind, headers, bytes)?,
        Some(Subresource::Scale) => {
            let value = body::value(headers, bytes)?;
            body::fits("autoscaling/v1", "Scale", &value)?;
            value
        }
        Some(_) => return Err(ApiError::method_not_allowed()),
    };
    execute(app, target, query, Verb::Replace(value)).await
}

/// `PATCH`
pub(super) async fn patch(
    app: &App,
    target: &Target,
    query: &Query,
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<Response<Body>, ApiError> {
    let (patch_type, value) = body::patch(headers, bytes)?;
    execute(app, target, query, Verb::Patch(patch_type, value)).await
}

/// `DELETE` of one object.
pub(super) async fn delete(
    app: &App,
    target: &Target,
    query: &Query,
    headers: &HeaderMap,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let (options, dry_run) = delete_options(query, headers, bytes)?;
    let mut request = request(target, query, Verb::Delete(options))?;
    request.dry_run |= dry_run;
    let answer = app.cluster.execute(request).await?;
    let response = match &answer.outcome {
        Outcome::Deleted(object) => respond::success(200, Some(object)),
        _ => shown(&answer),
    };
    Ok(respond::warn(response, &answer.warnings))
}

/// `DELETE` of all objects that are meant; the answer lists them.
pub(super) async fn delete_collection(
    app: &App,
    target: &Target,
    query: &Query,
    headers: &HeaderMap,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let cluster_wide = target.kind.info().namespaced && target.namespace.is_none();
    if cluster_wide || target.kind == Kind::NAMESPACE || !target.kind.info().stored {
        return Err(ApiError::method_not_allowed());
    }
    let (options, dry_run) = delete_options(query, headers, bytes)?;
    let selection = Selection::of(target, query)?;
    let (revision, objects) = snapshot::now(app, &selection);
    for some in objects.chunks(AT_ONCE) {
        let mut deletions = JoinSet::new();
        for object in some {
            let verb = Verb::Delete(DeleteOptions { uid: Some(object.uid), ..options.clone() });
            let target = Target { name: Some(object.name().to_owned()), ..target.clone() };
            let mut request = request(&target, query, verb)?;
            request.dry_run |= dry_run;
            let cluster = app.cluster.clone();
            deletions.spawn(async move { cluster.execute(request).await });
        }
        while let Some(done) = deletions.join_next().await {
            match done.map_err(|error| ApiError::internal(error.to_string()))? {
                // One that went by itself meanwhile, or was replaced, is none of ours.
                Err(error) if error.code != 404 && error.code != 409 => return Err(error),
                _ => {}
            }
        }
    }
    let metadata = json!({"resourceVersion": revision.to_string()});
    Ok(respond::json(200, Shape::Whole.list(target.kind, objects.iter().map(|object| &**object), metadata)))
}

fn request(target: &Target, query: &Query, verb: Verb) -> Result<Request, ApiError> {
    Ok(Request {
        kind: target.kind,
        namespace: target.namespace().to_owned(),
        name: target.name.clone().unwrap_or_default(),
        subresource: target.below,
        verb,
        dry_run: query.dry_run()?,
        field_validation: query.field_validation()?,
    })
}

async fn execute(app: &App, target: &Target, query: &Query, verb: Verb) -> Result<Response<Body>, ApiError> {
    let answer = app.cluster.execute(request(target, query, verb)?).await?;
    Ok(respond::warn(shown(&answer), &answer.warnings))
}

fn shown(answer: &Answer) -> Response<Body> {
    match &answer.outcome {
        Outcome::Created(object) => respond::json(201, object.body()),
        Outcome::Updated(object)
        | Outcome::Unchanged(object)
        | Outcome::Deleting(object)
        | Outcome::Deleted(object) => respond::json(200, object.body()),
        Outcome::Bound | Outcome::Evicted => respond::success(201, None),
        Outcome::Scaled(scale) => respond::json(200, scale),
    }
}

/// `metav1.DeleteOptions` from the query and the body, which wins; and whether it is a dry run.
fn delete_options(query: &Query, headers: &HeaderMap, bytes: &Bytes) -> Result<(DeleteOptions, bool), ApiError> {
    let mut options = DeleteOptions {
        grace_seconds: query.number("gracePeriodSeconds")?,
        propagation: propagation(
            query.text("propagationPolicy"),
            query.text("orphanDependents").map(|text| text == "true"),
        )?,
        uid: None,
        resource_version: None,
    };
    if bytes.is_empty() {
        return Ok((options, false));
    }
    let value = body::delete_options(headers, bytes)?;
    match value["kind"].as_str() {
        None | Some("" | "DeleteOptions") => {}
        Some(other) => {
            return Err(ApiError::bad_request(format!("the body of a DELETE is a DeleteOptions, found {other}")));
        }
    }
    if let Some(seconds) = optional(&value, "gracePeriodSeconds", Value::as_u64)? {
        options.grace_seconds = Some(seconds);
    }
    let policy = optional(&value, "propagationPolicy", |found| found.as_str().map(str::to_owned))?;
    let orphan = optional(&value, "orphanDependents", Value::as_bool)?;
    options.propagation = propagation(policy.as_deref(), orphan)?.or(options.propagation);
    let preconditions = &value["preconditions"];
    options.uid = optional(preconditions, "uid", |found| found.as_str()?.parse().ok())?;
    options.resource_version = optional(preconditions, "resourceVersion", |found| found.as_str()?.parse().ok())?;
    let dry_run = optional(&value, "dryRun", |found| Some(found.as_array()?.iter().any(|stage| stage == "All")))?;
    Ok((options, dry_run.unwrap_or_default()))
}

fn optional<T>(value: &Value, field: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, ApiError> {
    match value.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(found) => {
            let refuse =
                || ApiError::bad_request(format!("{field} in DeleteOptions is not what it should be, found {found}"));
            read(found).map(Some).ok_or_else(refuse)
        }
    }
}

fn propagation(policy: Option<&str>, orphan: Option<bool>) -> Result<Option<Propagation>, ApiError> {
    match (policy, orphan) {
        (Some(_), Some(_)) => Err(ApiError::bad_request("orphanDependents and propagationPolicy cannot both be set")),
        (Some("Orphan"), None) | (None, Some(true)) => Ok(Some(Propagation::Orphan)),
        (Some("Background"), None) | (None, Some(false)) => Ok(Some(Propagation::Background)),
        (Some("Foreground"), None) => Ok(Some(Propagation::Foreground)),
        (Some(other), None) => Err(ApiError::bad_request(format!(
            "propagationPolicy is one of \"Orphan\", \"Background\", \"Foreground\", found \"{other}\""
        ))),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str, body: &'static str) -> Result<(DeleteOptions, bool), u16> {
        let query = Query::of(&format!("/x?{query}").parse().expect("a URI")).expect("a query");
        delete_options(&query, &HeaderMap::new(), &Bytes::from_static(body.as_bytes())).map_err(|error| error.code)
    }

    // API-02, GC-03
    #[test]
    fn deletion_is_told_how_by_body_or_query() {
        let with =
            |propagation, grace_seconds| DeleteOptions { propagation, grace_seconds, ..DeleteOptions::default() };
        for (query, body, expected) in [
            ("", "", Ok((with(None, None), false))),
            (
                "",
                r#"{"kind":"DeleteOptions","propagationPolicy":"Orphan"}"#,
                Ok((with(Some(Propagation::Orphan), None), false)),
            ),
            (
                "propagationPolicy=Foreground&gracePeriodSeconds=5",
                "",
                Ok((with(Some(Propagation::Foreground), Some(5)), false)),
            ),
            ("orphanDependents=true", "", Ok((with(Some(Propagation::Orphan), None), false))),
            ("gracePeriodSeconds=5", r#"{"gracePeriodSeconds":0,"dryRun":["All"]}"#, Ok((with(None, Some(0)), true))),
            ("", r#"{"orphanDependents":false,"propagationPolicy":"Orphan"}"#, Err(400)),
            ("propagationPolicy=Sideways", "", Err(400)),
            ("", r#"{"gracePeriodSeconds":-1}"#, Err(400)),
            ("", r#"{"kind":"Pod"}"#, Err(400)),
            ("", r#"{"preconditions":{"uid":"x"}}"#, Err(400)),
        ] {
            assert_eq!(options(query, body), expected, "{query} {body}");
        }
    }
}
