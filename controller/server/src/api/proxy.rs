//! `…/pods/NAME/proxy[/PATH]`: one HTTP request to a pod's handler, through the link.

use axum::body::Body;
use bytes::Bytes;
use coracle_controller_core::{ApiError, Kind};
use coracle_wire::stream::HttpRequest;
use futures_util::stream;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;

use super::route::Target;
use super::{App, snapshot};
use crate::link::streams::StreamError;

/// What is between two hops, or between the user and us, and goes no further.
const OURS: &[HeaderName] = &[AUTHORIZATION, CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Passes a request on, and the answer back as it comes.
pub(super) async fn proxy(
    app: &App,
    target: &Target,
    name: &str,
    parts: &Parts,
    body: Bytes,
) -> Result<Response<Body>, ApiError> {
    let (name, port) = address(name)?;
    let object = snapshot::one(app, Kind::POD, target.namespace(), name)?;
    let port = port_number(&object.value(), name, port)?;
    let Some(node) = object.row.pod().and_then(|row| row.node.clone()) else {
        return Err(ApiError::unavailable(format!(
            "error trying to reach service: pod {name} does not have a host assigned"
        )));
    };
    let path = if target.rest.is_empty() { "/" } else { &target.rest };
    let request = HttpRequest {
        uid: object.uid,
        port,
        method: parts.method.as_str().to_owned(),
        path: parts.uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")),
        headers: passed_on(&parts.headers),
    };
    let (status, headers, reader) = app.streams.http(&node, request, body).await.map_err(refusal)?;
    let body = stream::unfold(reader, |mut reader| async { reader.next().await.map(|piece| (piece, reader)) });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| {
        ApiError::unavailable(format!("error trying to reach service: it answered with status {status}"))
    })?;
    for (name, value) in headers {
        let (name, value) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(&value));
        if let (Ok(name), Ok(value)) = (name, value)
            && !is_ours(&name)
        {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

fn is_ours(name: &HeaderName) -> bool {
    OURS.contains(name) || name.as_str().starts_with("proxy-") || name.as_str() == "keep-alive"
}

fn passed_on(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let passed = headers.iter().filter(|(name, _)| !is_ours(name) && **name != CONTENT_LENGTH);
    passed.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// Takes `NAME`, `NAME:PORT` and `SCHEME:NAME:PORT` apart; the port may be empty.
fn address(text: &str) -> Result<(&str, &str), ApiError> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [name] => Ok((name, "")),
        [name, port] | ["http" | "", name, port] => Ok((name, port)),
        ["https", ..] => Err(ApiError::bad_request("guests are reached over http: https is not served")),
        _ => Err(ApiError::bad_request(format!(
            "invalid pod request \"{text}\": want NAME, NAME:PORT or http:NAME:PORT"
        ))),
    }
}

/// A port by number or by name; without one, the first that the pod names, or 0 if it names none.
fn port_number(pod: &Value, name: &str, port: &str) -> Result<u16, ApiError> {
    if let Ok(number) = port.parse::<u16>() {
        return Ok(number);
    }
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let number = |found: &Value| found["containerPort"].as_u64().and_then(|number| u16::try_from(number).ok());
    if port.is_empty() {
        return Ok(ports.next().and_then(number).unwrap_or_default());
    }
    let found = ports.find(|found| found["name"] == port).and_then(number);
    found.ok_or_else(|| ApiError::bad_request(format!("pod {name} has no port named \"{port}\"")))
}

fn refusal(error: StreamError) -> ApiError {
    let why = match error {
        StreamError::NotConnected(node) => format!("node \"{node}\" is not connected"),
        StreamError::Refused { message, .. } | StreamError::Broken(message) => message,
    };
    ApiError::unavailable(format!("error trying to reach service: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_name_pod_and_port() {
        let pod = json!({"spec": {"containers": [
            {"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080, "name": "web"}, {"containerPort": 90}]},
        ]}});
        for (text, expected) in [
            ("web", Ok(("web", 8080))),
            ("web:", Ok(("web", 8080))),
            ("web:90", Ok(("web", 90))),
            ("web:web", Ok(("web", 8080))),
            ("http:web:90", Ok(("web", 90))),
            ("web:nope", Err(400)),
            ("https:web:90", Err(400)),
            ("a:b:c:d", Err(400)),
        ] {
            let found = address(text).and_then(|(name, port)| Ok((name, port_number(&pod, name, port)?)));
            assert_eq!(found.map_err(|error| error.code), expected, "{text}");
        }
    }

    #[test]
    fn credentials_and_hop_by_hop_headers_stay_here() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "connection", "proxy-authorization", "keep-alive", "accept", "x-a"] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        let mut names: Vec<String> = passed_on(&headers).into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["accept", "x-a"]);
    }
}
