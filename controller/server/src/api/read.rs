//! `GET` of one object and of lists, page by page.

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coracle_controller_core::kind::Subresource;
use coracle_controller_core::object::Object;
use coracle_controller_core::write::scale_of;
use coracle_controller_core::{ApiError, Kind};
use http::Response;
use serde_json::json;

use super::App;
use super::query::Query;
use super::respond::{self, Shape};
use super::route::Target;
use super::snapshot::{self, Selection};

/// One object, its status (which is the object again) or its Scale.
pub(super) fn get(app: &App, target: &Target, name: &str, shape: Shape) -> Result<Response<Body>, ApiError> {
    let object = snapshot::one(app, target.kind, target.namespace(), name)?;
    match target.below {
        None | Some(Subresource::Status) => Ok(respond::json(200, shape.one(&object, true))),
        Some(Subresource::Scale) => Ok(respond::json(200, scale_of(&object))),
        Some(
            Subresource::Log
            | Subresource::Proxy
            | Subresource::Binding
            | Subresource::Finalize
            | Subresource::Eviction
            | Subresource::Placement,
        ) => Err(ApiError::method_not_allowed()),
    }
}

/// A list, or a page of one.
pub(super) fn list(app: &App, target: &Target, query: &Query, shape: Shape) -> Result<Response<Body>, ApiError> {
    let selection = Selection::of(target, query)?;
    let limit = query.number::<usize>("limit")?.filter(|limit| *limit > 0);
    let page = query.text("continue").map(Page::read).transpose()?;
    let (revision, objects) = match (&page, exact(app, query)?) {
        (Some(page), _) => (page.revision, snapshot::at(app, &selection, page.revision).map_err(page_expired)?),
        (None, Some(revision)) => (revision, snapshot::at(app, &selection, revision)?),
        (None, None) => snapshot::now(app, &selection),
    };
    let start = page.as_ref().map_or(0, |page| objects.partition_point(|object| !page.is_before(object)));
    let end = limit.map_or(objects.len(), |limit| objects.len().min(start.saturating_add(limit)));
    let shown = objects.get(start..end).unwrap_or_default();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some(last) = shown.last().filter(|_| end < objects.len()) {
        metadata["continue"] = json!(Page::after(revision, last).write());
        if selection.is_everything() {
            metadata["remainingItemCount"] = json!(objects.len() - end);
        }
    }
    let body = shape.list(target.kind, shown.iter().map(|object| &**object), metadata);
    Ok(respond::json(200, body))
}

/// The revision that `resourceVersionMatch=Exact` asks for. Everything else is answered with the newest, which must
/// not be older than what was asked for.
fn exact(app: &App, query: &Query) -> Result<Option<u64>, ApiError> {
    let asked = query.number::<u64>("resourceVersion")?.unwrap_or_default();
    let current = app.cluster.revision();
    if asked > current {
        return Err(too_new(asked, current));
    }
    match (query.text("resourceVersionMatch"), asked) {
        (None | Some("NotOlderThan"), _) => Ok(None),
        (Some("Exact"), 0) => {
            Err(ApiError::bad_request("resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""))
        }
        (Some("Exact"), asked) => Ok(Some(asked)),
        (Some(other), _) => Err(ApiError::bad_request(format!(
            "resourceVersionMatch is \"Exact\" or \"NotOlderThan\", found \"{other}\""
        ))),
    }
}

/// A revision that has not been yet: the client has seen another store. It starts over.
pub(super) fn too_new(asked: u64, current: u64) -> ApiError {
    ApiError::expired(format!("Too large resource version: {asked}, current: {current}"))
}

fn page_expired(error: ApiError) -> ApiError {
    if error.code != 410 {
        return error;
    }
    ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You must start a new list \
         without the continue parameter.",
    )
}

/// Where a page ended.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    revision: u64,
    namespace: String,
    name: String,
}

impl Page {
    fn after(revision: u64, last: &Object) -> Self {
        Self { revision, namespace: last.namespace().to_owned(), name: last.name().to_owned() }
    }

    /// Whether an object comes after the page.
    fn is_before(&self, object: &Object) -> bool {
        (self.namespace.as_str(), self.name.as_str()) < (object.namespace(), object.name())
    }

    fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{} {} {}", self.revision, self.namespace, self.name))
    }

    fn read(token: &str) -> Result<Self, ApiError> {
        let refuse = || ApiError::bad_request("continue key is not valid: it is not one that this server gave");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refuse())?;
        let text = String::from_utf8(bytes).map_err(|_| refuse())?;
        let mut parts = text.split(' ');
        match (parts.next().map(str::parse), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(revision)), Some(namespace), Some(name), None) => {
                Ok(Self { revision, namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(refuse()),
        }
    }
}

/// Refuses what only stored kinds can do.
pub(super) fn stored(kind: Kind) -> Result<(), ApiError> {
    if kind.info().stored { Ok(()) } else { Err(ApiError::method_not_allowed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_written_and_read() {
        let page = Page { revision: 7, namespace: String::new(), name: "web".to_owned() };
        assert_eq!(Page::read(&page.write()), Ok(page));
        for token in ["", "!", "Nw", &URL_SAFE_NO_PAD.encode("x a b"), &URL_SAFE_NO_PAD.encode("1 a b c")] {
            assert_eq!(Page::read(token).map_err(|error| error.code), Err(400), "{token}");
        }
    }
}
