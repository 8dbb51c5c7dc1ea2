//! Images of the controller: pushed, pulled, listed, looked at and removed. The one path that is not Kubernetes'.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use coracle_controller_core::object::Key;
use coracle_controller_core::store::Room;
use coracle_controller_core::{ApiError, Kind};
use coracle_model::Digest;
use coracle_model::limits::MAX_IMAGE_BYTES;
use futures_util::stream;
use http::request::Parts;
use http::{Method, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::query::Query;
use super::{App, body, respond};
use crate::image_use;
use crate::images::{ArtifactInfo, Credential, Description, ImageError, ImageName, Inspection};

/// Lines of progress that a slow reader may leave unread.
const MAX_LINES: usize = 16;
/// Pods that a message names.
const PODS_SHOWN: usize = 5;

/// `/coracle/v1/images`: GET lists, or with `name` looks at one; PUT pushes what is in the body under `name`; POST pulls
/// `name` from its registry; DELETE takes `name` away.
pub(super) async fn answer(app: &App, parts: &Parts, body: Body) -> Result<Response<Body>, ApiError> {
    let query = Query::of(&parts.uri)?;
    match parts.method {
        Method::PUT => push(app, &query, body::read(body, MAX_IMAGE_BYTES).await?).await,
        Method::POST => pull(app, &query),
        Method::DELETE => remove(app, &query).await,
        Method::GET | Method::HEAD if query.text("name").is_some() => inspect(app, &query).await,
        Method::GET | Method::HEAD => Ok(list(app)),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn named(query: &Query) -> Result<(&str, ImageName), ApiError> {
    let text = query.text("name");
    let text = text.ok_or_else(|| ApiError::bad_request("the query names no image: want ?name=NAME:TAG"))?;
    Ok((text, text.parse().map_err(|error| ApiError::bad_request(format!("{error}")))?))
}

async fn push(app: &App, query: &Query, wasm: Bytes) -> Result<Response<Body>, ApiError> {
    let (text, _) = named(query)?;
    // What is left of the disk is the store's.
    if let Room::Full(what) = app.cluster.room() {
        return Err(ApiError::insufficient_storage(what));
    }
    let pushed = app.images.push(text, wasm).await;
    let digest = pushed.map_err(|error| refusal(&format!("failed to push {text}"), &error))?;
    tidy(app).await;
    Ok(respond::json(201, described(app, text, digest).await?))
}

/// Name, digest and what is needed to run it.
async fn described(app: &App, name: &str, digest: Digest) -> Result<Value, ApiError> {
    let description = app.images.description(digest).await;
    let description = description.map_err(|error| refusal(&format!("failed to read {name}"), &error))?;
    let mut value = description_json(app, &description);
    value["name"] = json!(name);
    value["digest"] = json!(digest.to_string());
    Ok(value)
}

fn description_json(app: &App, description: &Description) -> Value {
    let Description { form, imports, exports } = description;
    let nodes = app.streams.offering(imports);
    json!({
        "form": form.as_str(), "imports": imports, "exports": exports,
        "nodes": {"connected": nodes.connected, "offering": nodes.offering, "unknown": nodes.unknown},
    })
}

fn list(app: &App) -> Response<Body> {
    let images: Vec<Value> = app
        .images
        .list()
        .into_iter()
        .map(|image| {
            json!({
                "name": image.name, "digest": image.digest.to_string(), "sizeBytes": image.size_bytes,
                "builtIn": image.built_in,
            })
        })
        .collect();
    respond::json(200, json!({"images": images}))
}

async fn inspect(app: &App, query: &Query) -> Result<Response<Body>, ApiError> {
    let (text, name) = named(query)?;
    let found = app.images.inspect(&name).await;
    let found = found.map_err(|error| refusal(&format!("failed to read {text}"), &error))?;
    let Inspection { digest, size_bytes, names, description, artifacts } = found.ok_or_else(|| missing(&name))?;
    let mut value = description_json(app, &description);
    value["digest"] = json!(digest.to_string());
    value["sizeBytes"] = json!(size_bytes);
    let names = names.iter().map(|entry| {
        let manifest = entry.manifest.map(|manifest| manifest.to_string());
        json!({"name": entry.name, "builtIn": entry.built_in, "manifest": manifest})
    });
    value["names"] = names.collect();
    value["artifacts"] = artifacts.iter().map(artifact_json).collect();
    Ok(respond::json(200, value))
}

fn artifact_json(artifact: &ArtifactInfo) -> Value {
    let wanted = i64::try_from(artifact.wanted_ms).ok().filter(|wanted| *wanted > 0);
    let wanted = wanted.and_then(|wanted| Timestamp::from_second(wanted / 1000).ok()).map(|time| time.to_string());
    json!({
        "target": artifact.target, "digest": artifact.artifact.to_string(), "sizeBytes": artifact.size_bytes,
        "lastUsed": wanted,
    })
}

async fn remove(app: &App, query: &Query) -> Result<Response<Body>, ApiError> {
    let (text, name) = named(query)?;
    let pods = if query.flag("force")? { Vec::new() } else { image_use::pods_naming(&app.cluster, &name) };
    if !pods.is_empty() {
        let shown = pods.iter().take(PODS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = pods.len().saturating_sub(PODS_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let mut error = ApiError::bad_request(format!(
            "failed to remove {text}: it is named by the pods {shown}{more}; remove them first, or use --force"
        ));
        (error.code, error.reason) = (409, "Conflict");
        return Err(error);
    }
    let (images, removed) = (app.images.clone(), name.clone());
    let removed = tokio::task::spawn_blocking(move || images.remove(&removed)).await;
    let removed = removed.map_err(|error| ApiError::internal(error.to_string()))?;
    let removed = removed.map_err(|error| refusal(&format!("failed to remove {text}"), &error))?;
    let digest = removed.ok_or_else(|| missing(&name))?;
    let collected = tidy(app).await;
    Ok(respond::json(200, json!({"name": text, "digest": digest.to_string(), "imagesRemoved": collected})))
}

/// Removes what has lost its last name; gives how many went.
async fn tidy(app: &App) -> usize {
    if !app.images.has_lost_a_name() {
        return 0;
    }
    let (cluster, images) = (app.cluster.clone(), app.images.clone());
    tokio::task::spawn_blocking(move || image_use::collect(&cluster, &images)).await.unwrap_or_default()
}

/// Answers at once, with a line of JSON for each step: bytes and bytes in all; at the end the image, or an error.
fn pull(app: &App, query: &Query) -> Result<Response<Body>, ApiError> {
    let (text, name) = named(query)?;
    if name.registry().is_none() {
        return Err(ApiError::bad_request(format!(
            "failed to pull {text}: it has no registry; want a host before the first '/', as in registry.example.com/{text}"
        )));
    }
    let credentials = query.text("secret").map_or(Ok(Vec::new()), |secret| opened_by(app, secret, text))?;
    let (lines, reading) = mpsc::channel(MAX_LINES);
    tokio::spawn(tell(app.clone(), text.to_owned(), name, credentials, lines));
    let read = |mut reading: mpsc::Receiver<String>| async {
        let line = reading.recv().await?;
        Some((Ok::<_, Infallible>(line), reading))
    };
    let body = Body::from_stream(stream::unfold(reading, read));
    Ok(respond::bytes(200, "application/x-ndjson", body))
}

/// What a secret, as `NAMESPACE/NAME`, opens.
fn opened_by(app: &App, secret: &str, image: &str) -> Result<Vec<Credential>, ApiError> {
    let want = || ApiError::bad_request(format!("want secret=NAMESPACE/NAME, found \"{secret}\""));
    let (namespace, name) = secret.split_once('/').ok_or_else(want)?;
    let key = Key::new(Kind::SECRET, namespace, name);
    let found = app.cluster.read(|view| view.get(&key).cloned());
    let found = found.ok_or_else(|| ApiError::not_found(Kind::SECRET, name))?;
    Ok(image_use::opened_by(&found, image))
}

async fn tell(app: App, text: String, name: ImageName, credentials: Vec<Credential>, lines: mpsc::Sender<String>) {
    let (progress, mut steps) = watch::channel((0, 0));
    let last = {
        let mut pulling = std::pin::pin!(app.images.pull(&name, &credentials, &progress));
        loop {
            tokio::select! {
                pulled = &mut pulling => break pulled,
                // The sender is ours, so this cannot fail.
                _ = steps.changed() => {
                    let (bytes, total) = *steps.borrow_and_update();
                    if lines.send(format!("{}\n", json!({"bytes": bytes, "total": total}))).await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    tidy(&app).await;
    let last = match last {
        Ok(digest) => described(&app, &text, digest).await.unwrap_or_else(|error| json!({"error": error.message})),
        Err(error) => json!({"error": refusal(&format!("failed to pull image \"{text}\""), &error).message}),
    };
    // Whoever asked may have gone by now.
    let _: Result<(), _> = lines.send(format!("{last}\n")).await;
}

fn missing(name: &ImageName) -> ApiError {
    let mut error = ApiError::bad_request(format!("there is no image {name}"));
    (error.code, error.reason) = (404, "NotFound");
    error
}

fn refusal(what: &str, error: &ImageError) -> ApiError {
    let message = format!("{what}: {error}");
    match error {
        ImageError::Disk(_) | ImageError::Compiler(_) => {
            tracing::error!(error = error as &dyn std::error::Error, what, "an image cannot be dealt with");
            ApiError::internal(message)
        }
        ImageError::TooLarge { .. } => {
            let mut refusal = ApiError::too_large(MAX_IMAGE_BYTES);
            refusal.message = message;
            refusal
        }
        _ => ApiError::bad_request(message),
    }
}
