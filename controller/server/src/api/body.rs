//! Bodies of requests: within bounds, as JSON, YAML or Kubernetes' protobuf.

use std::error::Error as _;

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use coracle_controller_core::request::PatchType;
use coracle_controller_core::{ApiError, Kind, manifest, protobuf};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::LengthLimitError;
use serde_json::Value;

/// Reads a body of at most `limit` bytes.
pub(super) async fn read(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    to_bytes(body, limit).await.map_err(|error| {
        if error.source().is_some_and(|source| source.is::<LengthLimitError>()) {
            ApiError::too_large(limit)
        } else {
            ApiError::bad_request(format!("the body could not be read: {error}"))
        }
    })
}

/// The media type, without its parameters; empty when none is named.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// `metav1.DeleteOptions`. What `curl -d` calls a form is taken as JSON here (API-02): no browser sends a DELETE to
/// another site without asking first, so nobody is tricked into one.
pub(super) fn delete_options(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, ApiError> {
    let form = media_type(headers) == "application/x-www-form-urlencoded";
    if form { json(bytes) } else { value(headers, bytes) }
}

/// A body as one value. `kubectl create namespace` names no type and sends JSON.
pub(super) fn value(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, ApiError> {
    match media_type(headers).as_str() {
        "" | "application/json" => json(bytes),
        "application/yaml" | "application/x-yaml" | "text/yaml" => {
            let documents = manifest::parse(bytes).map_err(|error| ApiError::bad_request(error.to_string()))?;
            let mut values = documents.into_iter().map(|document| document.value);
            match (values.next(), values.next()) {
                (Some(value), None) => Ok(value),
                (None, _) => Err(ApiError::bad_request("the body holds no object")),
                (Some(_), Some(_)) => Err(ApiError::bad_request("the body holds more than one object")),
            }
        }
        protobuf::MEDIA_TYPE => protobuf::to_json(bytes)
            .map_err(|error| ApiError::bad_request(format!("the body is no Kubernetes protobuf: {error}"))),
        other => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf; found {other}"
        ))),
    }
}

fn json(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| ApiError::bad_request(format!("the body is no JSON: {error}")))
}

/// A body as an object of this kind: what it says of itself must fit the path.
pub(super) fn object(kind: Kind, headers: &HeaderMap, bytes: &[u8]) -> Result<Value, ApiError> {
    let value = value(headers, bytes)?;
    fits(&kind.api_version(), kind.info().kind, &value)?;
    Ok(value)
}

/// Refuses an object that says that it is something else.
pub(super) fn fits(api_version: &str, kind: &str, value: &Value) -> Result<(), ApiError> {
    if !value.is_object() {
        return Err(ApiError::bad_request("the body is not an object"));
    }
    let says = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let (found_version, found_kind) = (says("apiVersion"), says("kind"));
    if !found_version.is_empty() && found_version != api_version {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({found_version}) does not match the expected API version ({api_version})"
        )));
    }
    if !found_kind.is_empty() && found_kind != kind {
        return Err(ApiError::bad_request(format!("the object in the data is a {found_kind}, expected a {kind}")));
    }
    Ok(())
}

/// A patch and its type.
pub(super) fn patch(headers: &HeaderMap, bytes: &[u8]) -> Result<(PatchType, Value), ApiError> {
    let patch_type = match media_type(headers).as_str() {
        "application/json-patch+json" => PatchType::Json,
        "application/merge-patch+json" => PatchType::Merge,
        "application/strategic-merge-patch+json" => PatchType::StrategicMerge,
        "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
            return Err(ApiError::unsupported_media_type(
                "server-side apply is not served by this server yet; apply without --server-side",
            ));
        }
        other => {
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json; \
                 found {other}"
            )));
        }
    };
    let value = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("the patch is no JSON: {error}")))?;
    Ok((patch_type, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(media: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !media.is_empty() {
            headers.insert(CONTENT_TYPE, media.parse().expect("a header"));
        }
        headers
    }

    #[test]
    fn bodies_are_read_by_their_type() {
        let pod = br#"{"apiVersion": "v1", "kind": "Pod"}"#;
        for (media, bytes, code) in [
            ("", &pod[..], 0),
            ("application/json; charset=utf-8", pod, 0),
            ("application/yaml", b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n", 0),
            ("application/json", b"{", 400),
            ("application/json", b"[]", 400),
            ("application/json", br#"{"kind": "Node"}"#, 400),
            ("application/json", br#"{"apiVersion": "apps/v1"}"#, 400),
            (protobuf::MEDIA_TYPE, b"k8s\0", 400),
            (protobuf::MEDIA_TYPE, b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod", 0),
            (protobuf::MEDIA_TYPE, b"k8s\0\x0a\x0a\x0a\x02v1\x12\x04Node", 400),
            ("text/html", b"", 415),
        ] {
            let found = object(Kind::POD, &headers(media), bytes).err().map_or(0, |error| error.code);
            assert_eq!(found, code, "{media} {}", String::from_utf8_lossy(bytes));
        }
    }

    // API-02
    #[test]
    fn a_deletion_may_come_as_curl_sends_it() {
        let form = headers("application/x-www-form-urlencoded");
        assert!(delete_options(&form, br#"{"propagationPolicy":"Orphan"}"#).is_ok());
        assert_eq!(value(&form, b"{}").map_err(|error| error.code), Err(415));
    }

    #[test]
    fn patches_name_their_type() {
        let read = |media: &str| patch(&headers(media), b"{}").map(|(kind, _)| kind).map_err(|error| error.code);
        assert_eq!(read("application/merge-patch+json"), Ok(PatchType::Merge));
        assert_eq!(read("application/strategic-merge-patch+json"), Ok(PatchType::StrategicMerge));
        assert_eq!(read("application/apply-patch+yaml"), Err(415));
        assert_eq!(read("application/json"), Err(415));
    }
}
