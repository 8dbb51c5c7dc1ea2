//! One request: who asks, for what, and which part of the house answers.

use axum::body::Body;
use coracle_controller_core::ApiError;
use coracle_controller_core::kind::Subresource;
use coracle_model::limits::{MAX_IMAGE_BYTES, MAX_MANIFEST_BYTES};
use http::header::HOST;
use http::request::Parts;
use http::{Method, Request, Response};

use super::query::Query;
use super::respond::Shape;
use super::route::{Route, Target, route};
use super::{App, accept, authenticate, body, documents, log, proxy, push, read, respond, watch, write};
use crate::keys::User;

/// Answers a request; `certificate` is the user that the connection's certificate names.
pub(super) async fn handle(app: App, certificate: Option<User>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let answer = answer(&app, certificate, &parts, body).await;
    answer.unwrap_or_else(|error| respond::error(&error))
}

async fn answer(app: &App, certificate: Option<User>, parts: &Parts, body: Body) -> Result<Response<Body>, ApiError> {
    let path = parts.uri.path();
    let found = route(path);
    if !authenticate::is_open(found.as_ref()) {
        let user = authenticate::user(&app.keys, certificate, &parts.headers)?;
        authenticate::authorize(&user, &parts.method, path, found.as_ref())?;
        tracing::debug!(user = user.name, method = %parts.method, path, "request");
    }
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    match found.ok_or_else(ApiError::no_such_path)? {
        Route::Objects(target) => objects(app, &target, parts, body).await,
        Route::Images => {
            let query = Query::of(&parts.uri)?;
            match parts.method {
                Method::PUT => push::push(app, &query, body::read(body, MAX_IMAGE_BYTES).await?).await,
                _ if reads => Ok(push::list(app)),
                _ => Err(ApiError::method_not_allowed()),
            }
        }
        other if reads => documents::answer(app, &other, accept::wanted(&parts.headers), host(parts)),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// How the client names us.
fn host(parts: &Parts) -> &str {
    let header = parts.headers.get(HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default()
}

async fn objects(app: &App, target: &Target, parts: &Parts, body: Body) -> Result<Response<Body>, ApiError> {
    if let (Some(Subresource::Proxy), Some(name)) = (target.below, &target.name) {
        let body = body::read(body, MAX_MANIFEST_BYTES).await?;
        return proxy::proxy(app, target, name, parts, body).await;
    }
    let query = Query::of(&parts.uri)?;
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return shown(app, target, parts, &query).await;
    }
    let bytes = body::read(body, MAX_MANIFEST_BYTES).await?;
    let headers = &parts.headers;
    match (&parts.method, &target.name, target.below) {
        (&Method::POST, _, _) => write::create(app, target, &query, headers, &bytes).await,
        (&Method::PUT, Some(_), _) => write::replace(app, target, &query, headers, &bytes).await,
        (&Method::PATCH, Some(_), _) => write::patch(app, target, &query, headers, &bytes).await,
        (&Method::DELETE, Some(_), None) => write::delete(app, target, &query, headers, &bytes).await,
        (&Method::DELETE, None, None) => write::delete_collection(app, target, &query, headers, &bytes).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn shown(app: &App, target: &Target, parts: &Parts, query: &Query) -> Result<Response<Body>, ApiError> {
    let shape = Shape::of(accept::wanted(&parts.headers), query)?;
    match (&target.name, target.below) {
        (Some(name), Some(Subresource::Log)) => log::log(app, target, name, query).await,
        (Some(name), _) => read::get(app, target, name, shape),
        (None, _) if watch::is_watch(target.kind, query)? => watch::watch(app, target, query, shape),
        (None, _) => read::list(app, target, query, shape),
    }
}
