//! Images pushed straight to the controller: the one path that is not Kubernetes'.

use axum::body::Body;
use bytes::Bytes;
use coracle_controller_core::ApiError;
use http::Response;
use serde_json::{Value, json};

use super::query::Query;
use super::{App, respond};
use crate::images::ImageError;

/// `PUT /coracle/v1/images?name=NAME:TAG`; the body is the WebAssembly.
pub(super) async fn push(app: &App, query: &Query, body: Bytes) -> Result<Response<Body>, ApiError> {
    let name = query.text("name");
    let name = name.ok_or_else(|| ApiError::bad_request("the query names no image: want ?name=NAME:TAG"))?.to_owned();
    let (images, pushed) = (app.images.clone(), name.clone());
    // Writing to disk, and making a component of a module, take their time.
    let done = tokio::task::spawn_blocking(move || images.push(&pushed, &body)).await;
    let digest =
        done.map_err(|error| ApiError::internal(error.to_string()))?.map_err(|error| refusal(&name, &error))?;
    Ok(respond::json(201, json!({"name": name, "digest": digest.to_string()})))
}

fn refusal(name: &str, error: &ImageError) -> ApiError {
    let message = format!("failed to push {name}: {error}");
    match error {
        ImageError::Disk(_) => {
            tracing::error!(error = error as &dyn std::error::Error, name, "failed to store an image");
            ApiError::internal(message)
        }
        ImageError::TooLarge { .. } => {
            let mut refusal = ApiError::too_large(coracle_model::limits::MAX_IMAGE_BYTES);
            refusal.message = message;
            refusal
        }
        _ => ApiError::bad_request(message),
    }
}

/// `GET /coracle/v1/images`
pub(super) fn list(app: &App) -> Response<Body> {
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
