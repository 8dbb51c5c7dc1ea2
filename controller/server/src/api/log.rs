//! `GET …/pods/NAME/log` (POD-11): the words of the refusals are Kubernetes' own.

use axum::body::Body;
use coracle_controller_core::object::Object;
use coracle_controller_core::{ApiError, FieldError, Kind, clock};
use coracle_wire::stream::LogsRequest;
use futures_util::stream;
use http::Response;
use serde_json::{Value, json};

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
    let mut request = request(&object, container.clone(), query)?;
    let previous = request.previous;
    request.previous &= !is_between_runs(&pod, &container);
    let Some(node) = object.row.pod().and_then(|row| row.node.clone()) else {
        return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
    };
    let reader =
        app.streams.logs(&node, request).await.map_err(|error| refusal(&pod, name, &container, previous, error))?;
    let body = stream::unfold(reader, |mut reader| async { reader.next().await.map(|piece| (piece, reader)) });
    Ok(respond::bytes(200, "text/plain", Body::from_stream(body)))
}

fn request(object: &Object, container: String, query: &Query) -> Result<LogsRequest, ApiError> {
    let mut wrong = Vec::new();
    let mut at_least = |name: &str, least: i64| -> Result<Option<u64>, ApiError> {
        let found = query.number::<i64>(name)?;
        if let Some(found) = found.filter(|found| *found < least) {
            let words = if least == 0 { "must be greater than or equal to 0" } else { "must be greater than 0" };
            wrong.push(FieldError::invalid(name, &json!(found), words));
        }
        Ok(found.and_then(|found| u64::try_from(found).ok()))
    };
    let (tail_lines, limit_bytes) = (at_least("tailLines", 0)?, at_least("limitBytes", 1)?);
    let since_seconds = at_least("sinceSeconds", 1)?;
    let since_ms = match (since_seconds, query.text("sinceTime")) {
        (Some(_), Some(_)) => {
            wrong.push(FieldError::forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
            None
        }
        (Some(seconds), None) => Some(seconds.saturating_mul(1000)),
        (None, Some(stamp)) => {
            let then = clock::parse_stamp(stamp);
            let then = then.ok_or_else(|| ApiError::bad_request(format!("sinceTime is not a time: \"{stamp}\"")))?;
            Some(wall_ms().saturating_sub(then))
        }
        (None, None) => None,
    };
    if !wrong.is_empty() {
        let mut error = ApiError::invalid(Kind::POD, object.name(), wrong);
        error.message = format!("PodLogOptions{}", error.message.trim_start_matches("Pod"));
        error.details.kind = "PodLogOptions".to_owned();
        return Err(error);
    }
    Ok(LogsRequest {
        uid: object.uid,
        container,
        follow: query.flag("follow")?,
        previous: query.flag("previous")?,
        timestamps: query.flag("timestamps")?,
        tail_lines,
        since_ms,
        limit_bytes,
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
        [only] => Ok(only.clone()),
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

/// A container's status.
fn status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let statuses = ["containerStatuses", "initContainerStatuses"].map(|field| pod["status"][field].as_array());
    statuses.into_iter().flatten().flatten().find(|status| status["name"] == container)
}

/// What a container waits for, before its first run.
fn waits_for(pod: &Value, container: &str) -> Option<String> {
    let Some(status) = status(pod, container) else { return Some("ContainerCreating".to_owned()) };
    let reason = status["state"]["waiting"]["reason"].as_str()?;
    status["lastState"]["terminated"].is_null().then(|| reason.to_owned())
}

/// Whether a container waits to be run again. The newest run that its node knows is then the previous one, and the
/// current one as well, as with a kubelet.
fn is_between_runs(pod: &Value, container: &str) -> bool {
    status(pod, container)
        .is_some_and(|status| status["state"]["waiting"].is_object() && status["lastState"]["terminated"].is_object())
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
        let with_init = pod(json!([{"name": "a"}]), json!([{"name": "i"}]), json!({}));
        assert_eq!(container(&with_init, "web", None), Ok("a".to_owned()));
        let many = pod(two.clone(), json!([{"name": "i"}]), json!({}));
        let error = container(&many, "web", None).expect_err("refused");
        let words =
            "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]";
        assert_eq!(error.message, words);
        assert_eq!(container(&many, "web", Some("i")), Ok("i".to_owned()));
        let named = pod(two, json!([]), json!({DEFAULT_CONTAINER: "b"}));
        assert_eq!(container(&named, "web", None), Ok("b".to_owned()));
    }

    // POD-11
    #[test]
    fn options_that_make_no_sense_are_named() {
        let value = json!({"metadata": {"name": "web", "uid": "00000000-0000-4000-8000-000000000001"}});
        let pod = Object::from_value(Kind::POD, 1, value).expect("a pod");
        let asked = |query: &str| {
            let query = Query::of(&format!("/x?{query}").parse().expect("a URI")).expect("a query");
            request(&pod, "c".to_owned(), &query).map_err(|error| (error.code, error.message))
        };
        for (query, words) in [
            ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
            (
                "sinceSeconds=1&sinceTime=2026-11-21T03:40:30Z",
                ": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
        ] {
            let words = format!("PodLogOptions \"web\" is invalid: {words}");
            assert_eq!(asked(query).err(), Some((422, words)), "{query}");
        }
        assert_eq!(asked("tailLines=many").err().map(|(code, _)| code), Some(400));
        assert_eq!(asked("sinceTime=yesterday").err().map(|(code, _)| code), Some(400));
        let found = asked("tailLines=0&limitBytes=5&sinceSeconds=2&follow=true&timestamps=1").expect("good options");
        assert_eq!((found.tail_lines, found.limit_bytes, found.since_ms), (Some(0), Some(5), Some(2000)));
        assert!(found.follow && found.timestamps && !found.previous);
    }

    // POD-11
    #[test]
    fn between_two_runs_the_last_one_is_the_previous_one() {
        let ended = json!({"terminated": {"exitCode": 1}});
        for (state, last, expected) in [
            (json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended.clone(), true),
            (json!({"waiting": {"reason": "ContainerCreating"}}), json!({}), false),
            (json!({"running": {}}), ended.clone(), false),
            (ended.clone(), ended, false),
        ] {
            let pod = json!({"status": {"containerStatuses": [{"name": "c", "state": state, "lastState": last}]}});
            assert_eq!(is_between_runs(&pod, "c"), expected, "{pod}");
        }
        assert!(!is_between_runs(&json!({}), "c"));
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
