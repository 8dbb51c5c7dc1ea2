//! Refusals in Kubernetes' own shape: a `Status` with code, reason and causes.

use serde_json::{Value, json};

use crate::kind::Kind;

/// Why a request was refused (`metav1.Status`).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// `reason`: `NotFound`, `Invalid`, …
    pub reason: &'static str,
    /// `message`
    pub message: String,
    /// `details`, as far as there are any.
    pub details: Box<Details>,
}

/// `metav1.StatusDetails`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// `name`
    pub name: String,
    /// `group`
    pub group: String,
    /// `kind`; for most errors the plural.
    pub kind: String,
    /// `uid`
    pub uid: String,
    /// `causes`
    pub causes: Vec<FieldError>,
    /// `retryAfterSeconds`; 0 for none.
    pub retry_after_seconds: u32,
}

/// One thing that is wrong with one field (`field.Error`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// `reason` of the cause.
    pub reason: FieldReason,
    /// The path: `spec.containers[0].name`.
    pub field: String,
    /// What was found, and what would be right: the words after `path: `.
    pub message: String,
}

/// What kind of wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldReason {
    /// Missing.
    Required,
    /// Not this value.
    Invalid,
    /// Not one of those.
    NotSupported,
    /// Not here.
    Forbidden,
    /// Not twice.
    Duplicate,
    /// Refers to nothing.
    NotFound,
    /// More bytes than allowed.
    TooLong,
    /// More elements than allowed.
    TooMany,
    /// Another type.
    TypeInvalid,
    /// A pod disruption budget forbids it; of no field.
    DisruptionBudget,
}

impl FieldReason {
    /// The word in a cause.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::DisruptionBudget => "DisruptionBudget",
        }
    }
}

impl FieldError {
    /// `path: Required value: detail`
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: FieldReason::Required, field: field.into(), message }
    }

    /// `path: Invalid value: found: detail`; the value is shown as JSON, as Kubernetes does.
    pub fn invalid(field: impl Into<String>, found: &Value, detail: &str) -> Self {
        Self { reason: FieldReason::Invalid, field: field.into(), message: format!("Invalid value: {found}: {detail}") }
    }

    /// `path: Unsupported value: found: supported values: …`
    pub fn not_supported(field: impl Into<String>, found: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        let message = format!("Unsupported value: {found}: supported values: {}", list.join(", "));
        Self { reason: FieldReason::NotSupported, field: field.into(), message }
    }

    /// `path: Forbidden: detail`
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: FieldReason::Forbidden, field: field.into(), message: format!("Forbidden: {detail}") }
    }

    /// `path: Duplicate value: found`
    pub fn duplicate(field: impl Into<String>, found: &Value) -> Self {
        Self { reason: FieldReason::Duplicate, field: field.into(), message: format!("Duplicate value: {found}") }
    }

    /// `path: Too long: may not be more than N bytes`
    pub fn too_long(field: impl Into<String>, bytes: usize) -> Self {
        let message = format!("Too long: may not be more than {bytes} bytes");
        Self { reason: FieldReason::TooLong, field: field.into(), message }
    }
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Box::default() }
    }

    fn about(mut self, kind: Kind, name: &str) -> Self {
        let info = kind.info();
        info.group.clone_into(&mut self.details.group);
        info.plural.clone_into(&mut self.details.kind);
        name.clone_into(&mut self.details.name);
        self
    }

    /// 404: no such object.
    #[must_use]
    pub fn not_found(kind: Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.qualified_plural())).about(kind, name)
    }

    /// 404: no such path.
    #[must_use]
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409: the name is taken.
    #[must_use]
    pub fn already_exists(kind: Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.qualified_plural()))
            .about(kind, name)
    }

    /// 409: the object is not as the writer thought.
    #[must_use]
    pub fn conflict(kind: Kind, name: &str, detail: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {detail}", kind.qualified_plural());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// 409 with Kubernetes' words for a stale resourceVersion.
    #[must_use]
    pub fn modified(kind: Kind, name: &str) -> Self {
        let detail = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, detail)
    }

    /// 422: fields are wrong. `causes` must not be empty.
    #[must_use]
    pub fn invalid(kind: Kind, name: &str, causes: Vec<FieldError>) -> Self {
        let listed: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let all = if listed.len() == 1 { listed.concat() } else { format!("[{}]", listed.join(", ")) };
        let mut error = Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {all}", kind.qualified_kind()));
        kind.info().group.clone_into(&mut error.details.group);
        kind.info().kind.clone_into(&mut error.details.kind);
        name.clone_into(&mut error.details.name);
        error.details.causes = causes;
        error
    }

    /// 400: the request makes no sense.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: who are you?
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: not allowed.
    #[must_use]
    pub fn forbidden(kind: Kind, name: &str, detail: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {detail}", kind.qualified_plural());
        Self::new(403, "Forbidden", message).about(kind, name)
    }

    /// 405: not this verb here.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// 410: too old a resourceVersion.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413: too many bytes.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// 415: not this encoding.
    #[must_use]
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 429: a queue is full.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut error = Self::new(429, "TooManyRequests", message);
        error.details.retry_after_seconds = retry_after_seconds;
        error
    }

    /// 500: our fault.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        let message: String = message.into();
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// 503: not now.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// 507: the store's disk is full. It has no `Retry-After`, since with one a client would stay silent instead of
    /// showing the message.
    #[must_use]
    pub fn insufficient_storage(message: impl Into<String>) -> Self {
        Self::new(507, "InsufficientStorage", message)
    }

    /// The body of the answer.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let details = &self.details;
        let mut shown = serde_json::Map::new();
        for (name, text) in
            [("name", &details.name), ("group", &details.group), ("kind", &details.kind), ("uid", &details.uid)]
        {
            if !text.is_empty() {
                shown.insert(name.to_owned(), json!(text));
            }
        }
        if !details.causes.is_empty() {
            let causes: Vec<Value> = details
                .causes
                .iter()
                .map(|cause| {
                    let mut shown = json!({"reason": cause.reason.as_str(), "message": cause.message});
                    if !cause.field.is_empty() {
                        shown["field"] = json!(cause.field);
                    }
                    shown
                })
                .collect();
            shown.insert("causes".to_owned(), Value::Array(causes));
        }
        if details.retry_after_seconds > 0 {
            shown.insert("retryAfterSeconds".to_owned(), json!(details.retry_after_seconds));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !shown.is_empty() {
            status["details"] = Value::Object(shown);
        }
        status
    }
}
