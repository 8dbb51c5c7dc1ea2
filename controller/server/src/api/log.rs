//! `GET …/pods/NAME/log` (POD-11): the words of the refusals are Kubernetes' own.

use axum::body::Body;
use coracle_controller_core::object::Object;
use coracle_controller_core::{ApiError, Kind, clock};
use coracle_wire::stream::LogsRequest;
use futures_util::stream;
use http::Response;
use serde_json::Value;

use super::query::Query;
use super::route::Target;
use super::{App, respond, snapshot, wall_ms};
use crate::link::streams::StreamError;

/// Which container is meant, if the pod says so.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// The output of one container, as long as it is followed.
pub(super) async fn log(app: &App, target: &Target, name: &str, query: &Query) -> Result<Response<Body>, ApiError> {
    let object = snapshot::one(app, Kind::POD, target.namespace(), name)?;
    let pod = object.value();
    let container = container(&pod, name, query.text("container"))?;
    let request = request(&object, container.clone(), query)?;
    let Some(node) = object.row.pod().and_then(|row| row.node.clone()) else {
        return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
    };
    let previous = request.previous;
    let reader =
        app.streams.logs(&node, request).await.map_err(|error| refusal(&pod, name, &container, previous, error))?;
    let body = stream::unfold(reader, |mut reader| async { reader.next().await.map(|piece| (piece, reader)) });
    Ok(respond::bytes(200, "text/plain", Body::from_stream(body)))
}

fn request(object: &Object, container: String, query: &Query) -> Result<LogsRequest, ApiError> {
    let positive = |name: &str| -> Result<Option<u64>, ApiError> {
        let found = query.number::<u64>(name)?;
        if found == Some(0) {
            return Err(ApiError::bad_request(format!("{name} must be greater than 0")));
        }
        Ok(found)
    };
    let since_seconds = positive("sinceSeconds")?;
    let since_ms = match (since_seconds, query.text("sinceTime")) {
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request("at most one of sinceTime or sinceSeconds may be specified"));
        }
        (Some(seconds), None) => Some(seconds.saturating_mul(1000)),
        (None, Some(stamp)) => {
            let then = clock::parse_stamp(stamp);
            let then = then.ok_or_else(|| ApiError::bad_request(format!("sinceTime is not a time: \"{stamp}\"")))?;
            Some(wall_ms().saturating_sub(then))
        }
        (None, None) => None,
    };
    Ok(LogsRequest {
        uid: object.uid,
        container,
        follow: query.flag("follow")?,
        previous: query.flag("previous")?,
        timestamps: query.flag("timestamps")?,
        tail_lines: query.number("tailLines")?,
        since_ms,
        limit_bytes: positive("limitBytes")?,
    })
}

fn names(pod: &Value, field: &str) -> Vec<String> {
    let containers = pod["spec"][field].as_array().into_iter().flatten();
    containers.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect()
}

/// The container that is meant: the named one, the one the pod names, or the only one.
fn container(pod: &Value, name: &str, asked: Option<&str>) -> Result<String, ApiError> {
    let (containers, init) = (names(pod, "containers"), names(pod, "initContainers"));
    let known = |container: &str| containers.iter().chain(&init).any(|known| known == container);
    if let Some(asked) = asked {
        return if known(asked) {
            Ok(asked.to_owned())
        } else {
            Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}")))
        };
    }
    if let Some(default) = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str().filter(|default| known(default)) {
        return Ok(default.to_owned());
    }
    match containers.as_slice() {
        [only] if init.is_empty() => Ok(only.clone()),
        _ => {
            let mut message =
                format!("a container name must be specified for pod {name}, choose one of: [{}]", containers.join(" "));
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(ApiError::bad_request(message))
        }
    }
}

/// Why there are no logs: what the container's status says if the agent has none, else the agent's own words.
fn refusal(pod: &Value, name: &str, container: &str, previous: bool, error: StreamError) -> ApiError {
    match error {
        StreamError::NotConnected(node) => ApiError::unavailable(format!(
            "node \"{node}\" is not connected: the logs of pod {name} can be read once it is back"
        )),
        StreamError::Broken(message) => ApiError::unavailable(format!("the stream of logs broke: {message}")),
        StreamError::Refused { status, message } => {
            if previous {
                let words = format!("previous terminated container \"{container}\" in pod \"{name}\" not found");
                return ApiError::bad_request(words);
            }
            if let Some(reason) = waits_for(pod, container) {
                return ApiError::bad_request(format!(
                    "container \"{container}\" in pod \"{name}\" is waiting to start: {reason}"
                ));
            }
            let mut error = ApiError::bad_request(message);
            if status == 404 {
                (error.code, error.reason) = (404, "NotFound");
            } else if status >= 500 {
                (error.code, error.reason) = (500, "InternalError");
            }
            error
        }
    }
}

/// What a container waits for, before its first run.
fn waits_for(pod: &Value, container: &str) -> Option<String> {
    for field in ["containerStatuses", "initContainerStatuses"] {
        let mut statuses = pod["status"][field].as_array().into_iter().flatten();
        if let Some(status) = statuses.find(|status| status["name"] == container) {
            let reason = status["state"]["waiting"]["reason"].as_str()?;
            return status["lastState"]["terminated"].is_null().then(|| reason.to_owned());
        }
    }
    Some("ContainerCreating".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_container_is_the_named_the_default_or_the_only_one() {
        let pod = |containers: Value, init: Value, annotations: Value| json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers, "initContainers": init}});
        let two = json!([{"name": "a"}, {"name": "b"}]);
        let one = pod(json!([{"name": "a"}]), json!([]), json!({}));
        assert_eq!(container(&one, "web", None), Ok("a".to_owned()));
        assert_eq!(container(&one, "web", Some("a")), Ok("a".to_owned()));
        let error = container(&one, "web", Some("x")).expect_err("refused");
        assert_eq!((error.code, error.message.as_str()), (400, "container x is not valid for pod web"));
        let many = pod(two.clone(), json!([{"name": "i"}]), json!({}));
        let error = container(&many, "web", None).expect_err("refused");
        let words =
            "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]";
        assert_eq!(error.message, words);
        assert_eq!(container(&many, "web", Some("i")), Ok("i".to_owned()));
        let named = pod(two, json!([]), json!({DEFAULT_CONTAINER: "b"}));
        assert_eq!(container(&named, "web", None), Ok("b".to_owned()));
    }

    #[test]
    fn refusals_are_in_kubernetes_words() {
        let pod = json!({"status": {"containerStatuses": [
            {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
            {"name": "b", "state": {"running": {}}},
        ]}});
        let refused = |container: &str, previous: bool, status: u16| {
            let error = StreamError::Refused { status, message: "no such run".to_owned() };
            let error = refusal(&pod, "web", container, previous, error);
            (error.code, error.message)
        };
        let words = "container \"a\" in pod \"web\" is waiting to start: ImagePullBackOff";
        assert_eq!(refused("a", false, 404), (400, words.to_owned()));
        let words = "previous terminated container \"b\" in pod \"web\" not found";
        assert_eq!(refused("b", true, 404), (400, words.to_owned()));
        assert_eq!(refused("b", false, 404), (404, "no such run".to_owned()));
    }
}
