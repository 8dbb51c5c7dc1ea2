//! Answers: objects in the wanted form, errors as `Status`.

use axum::body::Body;
use coracle_controller_core::object::Object;
use coracle_controller_core::table::{Form, Include, partial, table};
use coracle_controller_core::{ApiError, Kind};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use super::accept::Wanted;
use super::query::Query;
use super::wall_ms;

/// In which form objects are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// As they are.
    Whole,
    /// As rows.
    Table(Form),
    /// Only their metadata; the API version of that form.
    Metadata(&'static str),
}

impl Shape {
    /// The form that `Accept` and `includeObject` ask for.
    pub(super) fn of(wanted: Wanted, query: &Query) -> Result<Self, ApiError> {
        match wanted {
            Wanted::Table(version) => {
                let include = match query.text("includeObject") {
                    None | Some("Metadata") => Include::Metadata,
                    Some("None") => Include::None,
                    Some("Object") => Include::Object,
                    Some(other) => {
                        return Err(ApiError::bad_request(format!(
                            "includeObject is one of \"None\", \"Metadata\", \"Object\", found \"{other}\""
                        )));
                    }
                };
                Ok(Self::Table(Form { version, include }))
            }
            Wanted::Metadata(api_version) => Ok(Self::Metadata(api_version)),
            Wanted::Json | Wanted::Discovery(_) | Wanted::OpenApiProtobuf => Ok(Self::Whole),
        }
    }

    /// One object; `definitions` is whether a Table names its columns.
    pub(super) fn one(self, object: &Object, definitions: bool) -> String {
        match self {
            Self::Whole => object.body(),
            Self::Table(form) => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                table(object.key.kind, [object], metadata, wall_ms(), form, definitions).to_string()
            }
            Self::Metadata(api_version) => partial(api_version, object.value()["metadata"].take()).to_string(),
        }
    }

    /// A list; `metadata` is the list's.
    pub(super) fn list<'a>(self, kind: Kind, objects: impl Iterator<Item = &'a Object>, metadata: Value) -> String {
        let (name, api_version) = match self {
            Self::Table(form) => return table(kind, objects, metadata, wall_ms(), form, true).to_string(),
            Self::Whole => (format!("{}List", kind.info().kind), kind.api_version()),
            Self::Metadata(api_version) => ("PartialObjectMetadataList".to_owned(), api_version.to_owned()),
        };
        let mut text =
            format!("{{\"kind\":\"{name}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[");
        for (index, object) in objects.enumerate() {
            if index > 0 {
                text.push(',');
            }
            match self {
                Self::Whole => object.write(&mut text),
                _ => text.push_str(&self.one(object, false)),
            }
        }
        text.push_str("]}");
        text
    }
}

/// A body of this type.
pub(super) fn bytes(status: u16, media: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// A body of JSON.
pub(super) fn json(status: u16, body: impl ToString) -> Response<Body> {
    bytes(status, "application/json", body.to_string())
}

/// A refusal.
pub(super) fn error(error: &ApiError) -> Response<Body> {
    let mut response = json(error.code, error.to_json());
    if error.details.retry_after_seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(error.details.retry_after_seconds));
    }
    response
}

/// `Status` of a success, about an object.
pub(super) fn success(status: u16, about: Option<&Object>) -> Response<Body> {
    let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let Some(object) = about {
        let info = object.key.kind.info();
        body["details"] = json!({"name": object.name(), "kind": info.plural, "uid": object.uid.to_string()});
        if !info.group.is_empty() {
            body["details"]["group"] = json!(info.group);
        }
    } else {
        body["code"] = json!(status);
    }
    json(status, body)
}

/// Adds `Warning` headers (RFC 7234, code 299), which `kubectl` prints.
pub(super) fn warn(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let plain: String = warning
            .chars()
            .map(|letter| if letter.is_ascii() && !letter.is_ascii_control() { letter } else { ' ' })
            .collect();
        let text = format!("299 - \"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""));
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_fit_a_header() {
        let response = warn(json(200, "{}"), &["unknown field \"spec.é\"\n".to_owned()]);
        assert_eq!(response.headers()[WARNING], "299 - \"unknown field \\\"spec. \\\" \"");
    }

    #[test]
    fn refusals_say_when_to_come_back() {
        let response = error(&ApiError::too_many_requests("busy", 2));
        assert_eq!((response.status().as_u16(), &response.headers()[RETRY_AFTER]), (429, &HeaderValue::from(2)));
    }
}
