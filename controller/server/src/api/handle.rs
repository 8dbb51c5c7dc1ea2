//! One request: who asks, for what, and which part of the house answers.

use axum::body::Body;
use coracle_controller_core::discovery::computed::Computed;
use coracle_controller_core::kind::Subresource;
use coracle_controller_core::{ApiError, Kind};
use coracle_model::limits::MAX_MANIFEST_BYTES;
use http::header::HOST;
use http::request::Parts;
use http::{Method, Request, Response};

use super::query::Query;
use super::respond::Shape;
use super::route::{Route, Target, route};
use super::{
    App, accept, authenticate, body, documents, images, log, placement, proxy, read, respond, review, usage, watch,
    write,
};
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
    let mut asking = None;
    if !authenticate::is_open(found.as_ref()) {
        let user = authenticate::user(&app.keys, certificate, &parts.headers)?;
        authenticate::authorize(&user, &parts.method, path, found.as_ref())?;
        tracing::debug!(user = user.name, method = %parts.method, path, "request");
        asking = Some(user);
    }
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    match found.ok_or_else(ApiError::no_such_path)? {
        Route::Objects(target) => objects(app, &target, parts, body).await,
        Route::Images => images::answer(app, parts, body).await,
        Route::Computed(question) => match question.what {
            Computed::NodeMetrics | Computed::PodMetrics if reads => {
                usage::metrics(app, &question, &Query::of(&parts.uri)?).await
            }
            Computed::NodeMetrics | Computed::PodMetrics => Err(ApiError::method_not_allowed()),
            _ if parts.method != Method::POST || question.name.is_some() => Err(ApiError::method_not_allowed()),
            _ => {
                let user = asking.ok_or_else(ApiError::unauthorized)?;
                review::review(&user, &question, &parts.headers, &body::read(body, MAX_MANIFEST_BYTES).await?)
            }
        },
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
        if target.kind == Kind::NODE {
            return usage::of_node(app, &parts.method, name, &target.rest).await;
        }
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
        (Some(name), Some(Subresource::Placement)) => placement::placement(app, target, name, query).await,
        (Some(name), _) => read::get(app, target, name, shape),
        (None, _) if watch::is_watch(target.kind, query)? => watch::watch(app, target, query, shape),
        (None, _) => read::list(app, target, query, shape),
    }
}
