//! What nodes and pods use now: metrics.k8s.io, and a node's own pages behind its proxy. Nodes are asked when somebody
//! asks; a node that does not answer in time is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use coracle_controller_core::discovery::computed::Computed;
use coracle_controller_core::object::Object;
use coracle_controller_core::usage::{Measured, exposition, metrics, summary};
use coracle_controller_core::{ApiError, Kind};
use coracle_model::NodeUsage;
use http::{Method, Response};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::query::Query;
use super::route::{Question, Target};
use super::snapshot::{self, Selection};
use super::{App, respond, wall_ms};
use crate::link::streams::StreamError;

/// Nodes that are asked at once; fewer than there may be streams.
const AT_ONCE: usize = 512;
/// For one node to answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// Between two samples of a node that nobody has asked lately.
const BETWEEN: Duration = Duration::from_secs(1);

/// `NodeMetrics` and `PodMetrics`: all, of a namespace, or one.
pub(super) async fn metrics(app: &App, question: &Question, query: &Query) -> Result<Response<Body>, ApiError> {
    let kind = if question.what == Computed::NodeMetrics { Kind::NODE } else { Kind::POD };
    let objects = match &question.name {
        Some(name) => vec![snapshot::one(app, kind, question.namespace.as_deref().unwrap_or_default(), name)?],
        None => {
            let namespace = question.namespace.clone();
            let target = Target { kind, namespace, name: None, below: None, rest: String::new() };
            snapshot::now(app, &Selection::of(&target, query)?).1
        }
    };
    let measured = measure(app, objects.iter().filter_map(|object| node_of(object)).collect()).await;
    let now = wall_ms();
    let items = objects.iter().filter_map(|object| {
        let measured = measured.get(node_of(object)?)?;
        if kind == Kind::NODE {
            Some(metrics::node(object, measured, now))
        } else {
            metrics::pod(object, measured, now)
        }
    });
    let items: Vec<Value> = items.collect();
    match (&question.name, items.into_iter()) {
        (None, items) => Ok(respond::json(200, metrics::list(question.what.info().kind, items.collect()))),
        (Some(name), mut items) => {
            items.next().map(|item| respond::json(200, item)).ok_or_else(|| missing(question, name))
        }
    }
}

/// The node that knows what this object uses: the one that it is, or the one that it runs on.
fn node_of(object: &Object) -> Option<&str> {
    if object.key.kind == Kind::NODE { Some(object.name()) } else { object.row.pod()?.node.as_deref() }
}

/// 404 in the words of Kubernetes' metrics server.
fn missing(question: &Question, name: &str) -> ApiError {
    let info = question.what.info();
    let mut error = ApiError::no_such_path();
    let full = question.namespace.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("/");
    error.message = format!("{}.{} \"{full}\" not found", info.kind.to_lowercase(), info.group);
    (error.details.group, error.details.kind, error.details.name) = (info.group.into(), info.plural.into(), full);
    error
}

/// `nodes/NAME/proxy/…`: what a kubelet would answer, as far as it is about usage.
pub(super) async fn of_node(app: &App, method: &Method, name: &str, path: &str) -> Result<Response<Body>, ApiError> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(ApiError::method_not_allowed());
    }
    let name = node_name(name);
    let _exists = snapshot::one(app, Kind::NODE, "", name)?;
    let pods: Vec<Arc<Object>> = app.cluster.read(|view| view.pods_on(name).cloned().collect());
    let shown = pods.iter().map(|pod| &**pod);
    // Some clients write the slashes of the path as %2F.
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    match path.trim_end_matches('/') {
        "/stats/summary" => {
            let first = ask(app, name).await?;
            let compared = app.samples.lock().take(name, first);
            let measured = match compared {
                Some(measured) => Some(measured),
                None => {
                    sleep(BETWEEN).await;
                    let second = ask(app, name).await?;
                    app.samples.lock().take(name, second)
                }
            };
            let measured = measured
                .ok_or_else(|| ApiError::unavailable(format!("node \"{name}\" has just started: try again")))?;
            Ok(respond::json(200, summary::summary(name, shown, &measured, wall_ms())))
        }
        "/metrics/cadvisor" => Ok(exposed(exposition::cadvisor(shown, &ask(app, name).await?, wall_ms()))),
        "/metrics/resource" => Ok(exposed(exposition::resource(shown, &ask(app, name).await?, wall_ms()))),
        other => {
            let mut error = ApiError::no_such_path();
            error.message =
                format!("a node serves /stats/summary, /metrics/cadvisor and /metrics/resource, found \"{other}\"");
            Err(error)
        }
    }
}

/// Takes scheme and port off: a node here has neither.
fn node_name(text: &str) -> &str {
    let text = text.strip_prefix("https:").or_else(|| text.strip_prefix("http:")).unwrap_or(text);
    text.split(':').next().unwrap_or(text)
}

fn exposed(text: String) -> Response<Body> {
    respond::bytes(200, "text/plain; version=0.0.4", text)
}

/// What one node uses.
async fn ask(app: &App, node: &str) -> Result<NodeUsage, ApiError> {
    let answer = timeout(DEADLINE, app.streams.usage(node)).await;
    let answer = answer.unwrap_or_else(|_| Err(StreamError::Broken("it did not answer in time".to_owned())));
    answer.map_err(|error| ApiError::unavailable(format!("error trying to reach node \"{node}\": {error}")))
}

/// What these nodes use, with rates: nodes that nobody has asked lately are asked twice.
async fn measure(app: &App, nodes: BTreeSet<&str>) -> BTreeMap<String, Measured> {
    let mut measured = BTreeMap::new();
    let again = sample(app, nodes.into_iter().map(str::to_owned).collect(), &mut measured).await;
    if !again.is_empty() {
        sleep(BETWEEN).await;
        let _just_started = sample(app, again, &mut measured).await;
    }
    measured
}

/// Asks all of them; returns those that must be asked again in a while.
async fn sample(app: &App, nodes: Vec<String>, measured: &mut BTreeMap<String, Measured>) -> Vec<String> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut asked = JoinSet::new();
    for node in nodes {
        let (streams, places) = (app.streams.clone(), Arc::clone(&places));
        asked.spawn(async move {
            // The semaphore is never closed.
            let _place = places.acquire().await;
            let answer = timeout(DEADLINE, streams.usage(&node)).await;
            (node, answer)
        });
    }
    let mut again = Vec::new();
    while let Some(done) = asked.join_next().await {
        match done {
            Ok((node, Ok(Ok(usage)))) => match app.samples.lock().take(&node, usage) {
                Some(found) => {
                    measured.insert(node, found);
                }
                None => again.push(node),
            },
            Ok((node, Ok(Err(error)))) => tracing::debug!(node, %error, "a node did not say what it uses"),
            Ok((node, Err(_))) => tracing::debug!(node, "a node did not say in time what it uses"),
            Err(error) => tracing::debug!(%error, "asking a node for its usage failed"),
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_whatever_stands_around_their_name() {
        for text in ["pi-1", "pi-1:10250", "https:pi-1:10250", "http:pi-1:", "https:pi-1:"] {
            assert_eq!(node_name(text), "pi-1", "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_named_as_by_the_metrics_server() {
        let question = |what, namespace: &str| {
            let namespace = Some(namespace.to_owned()).filter(|name| !name.is_empty());
            Question { what, namespace, name: None }
        };
        let error = missing(&question(Computed::PodMetrics, "d"), "web");
        assert_eq!((error.code, &*error.message), (404, "podmetrics.metrics.k8s.io \"d/web\" not found"));
        let error = missing(&question(Computed::NodeMetrics, ""), "pi-1");
        assert_eq!(error.message, "nodemetrics.metrics.k8s.io \"pi-1\" not found");
    }
}
