//! Manifests over MQTT (EDGE-04): one payload, any number of documents, one outcome each.
//!
//! A payload that cannot be read as a whole changes nothing. Otherwise its documents are carried out in order, each whole
//! or not at all: a refused one leaves nothing behind and does not hold up those after it, as with `kubectl apply`. They
//! are not tried out beforehand, because a document may need one before it (a namespace, say). Payloads are taken one at
//! a time, so that what one publisher says is carried out in the order of saying it.

use bytes::Bytes;
use coracle_controller_core::kind::Kind;
use coracle_controller_core::manifest::{self, Document};
use coracle_controller_core::request::{Answer, DeleteOptions, FieldValidation, Outcome, Request, Verb};
use coracle_controller_core::{ApiError, Object};
use coracle_link::{Message, PublishError, Publisher};
use coracle_model::limits::MAX_MESSAGE_BYTES;
use coracle_wire::topic;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::access::Access;
use crate::committer::Cluster;

/// Payloads that may wait for the one before.
const QUEUE: usize = 64;

/// What to do with manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Apply,
    Delete,
}

/// A payload, and the session through which its outcome is published.
struct Job {
    wish: Wish,
    message: Message,
    link: Publisher,
}

/// Takes manifests in.
#[derive(Clone)]
pub(crate) struct Manifests {
    cluster_name: String,
    queue: mpsc::Sender<Job>,
}

/// Carries them out.
pub(crate) struct Worker {
    cluster_name: String,
    cluster: Cluster,
    queue: mpsc::Receiver<Job>,
}

pub(crate) fn new(cluster_name: String, cluster: Cluster) -> (Manifests, Worker) {
    let (sender, queue) = mpsc::channel(QUEUE);
    (Manifests { cluster_name: cluster_name.clone(), queue: sender }, Worker { cluster_name, cluster, queue })
}

impl Manifests {
    /// Queues a payload; never blocks. When too many wait, that is its outcome.
    pub(crate) fn take(&self, wish: Wish, message: Message, link: &Publisher) {
        if let Err(error) = self.queue.try_send(Job { wish, message, link: link.clone() }) {
            let job = error.into_inner();
            let error = json!({"results": [], "error": "too many manifests wait, please try again later"});
            let (topic, _) = reply_topic(&self.cluster_name, job.message.response_topic.as_deref());
            if let Err(error) = job.link.publish_reply(&topic, text(&error), job.message.correlation) {
                tracing::warn!(%error, "the outcome of a manifest was not published");
            }
        }
    }
}

impl Worker {
    /// Works until nobody can hand in manifests any more.
    pub(crate) async fn run(mut self) {
        while let Some(job) = self.queue.recv().await {
            let (topic, refused) = reply_topic(&self.cluster_name, job.message.response_topic.as_deref());
            let outcome = match refused {
                Some(error) => json!({"results": [], "error": error}),
                None => self.carry_out(job.wish, job.message.payload).await,
            };
            self.publish(&job.link, &topic, job.message.correlation, &outcome).await;
        }
    }

    async fn carry_out(&self, wish: Wish, payload: Bytes) -> Value {
        if payload.len() > MAX_MESSAGE_BYTES {
            let found = payload.len();
            let error = format!("the manifest has {found} bytes, at most {MAX_MESSAGE_BYTES} travel over MQTT");
            return json!({"results": [], "error": error});
        }
        // A megabyte of YAML keeps a thread busy for a while.
        let documents = match tokio::task::spawn_blocking(move || manifest::parse(&payload)).await {
            Ok(Ok(documents)) => documents,
            Ok(Err(error)) => return json!({"results": [], "error": error.to_string()}),
            Err(_) => return json!({"results": [], "error": "the manifest cannot be read"}),
        };
        let mut results = Vec::with_capacity(documents.len());
        for document in documents {
            let named = Named::of(&document);
            let outcome = match request(wish, document) {
                Ok(request) => self.cluster.execute(request).await,
                Err(error) => Err(error),
            };
            results.push(result(named, outcome));
        }
        json!({"results": results, "error": null})
    }

    async fn publish(&self, link: &Publisher, topic: &str, correlation: Option<Bytes>, outcome: &Value) {
        let mut published = link.publish_reply_in_turn(topic, text(outcome), correlation.clone()).await;
        if let Err(PublishError::TooLarge { found, .. }) = published {
            let results = outcome["results"].as_array().map_or(&[][..], Vec::as_slice);
            let refused = results.iter().filter(|result| result["outcome"] == "refused").count();
            let error = format!(
                "the outcome has {found} bytes, which is too large for one message: {} documents were carried out, {refused} refused",
                results.len() - refused
            );
            let shorter = json!({"results": [], "error": error});
            published = link.publish_reply_in_turn(topic, text(&shorter), correlation).await;
        }
        if let Err(error) = published {
            tracing::warn!(%error, topic, "the outcome of a manifest was not published");
        }
    }
}

/// Where the outcome goes, and why the payload is refused if that is not where its publisher wants it.
fn reply_topic(cluster_name: &str, wanted: Option<&str>) -> (String, Option<String>) {
    match wanted.filter(|topic| !topic.is_empty()) {
        None => (topic::manifests_result(cluster_name), None),
        Some(topic) if Access::may_answer_on(cluster_name, topic) => (topic.to_owned(), None),
        Some(topic) => {
            let error = format!("the response topic \"{topic}\" is not allowed: it must lie outside of coracle/");
            (topic::manifests_result(cluster_name), Some(error))
        }
    }
}

/// What a document says it is, as far as it says so; for a result, even of one that is refused.
struct Named {
    index: usize,
    kind: String,
    namespace: String,
    name: String,
}

impl Named {
    fn of(document: &Document) -> Self {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let value = &document.value;
        let (kind, stated) = (word(&value["kind"]), word(&value["metadata"]["namespace"]));
        let namespace = match Kind::of_manifest(value["apiVersion"].as_str().unwrap_or_default(), &kind) {
            Some(kind) if !kind.info().namespaced => String::new(),
            Some(_) if stated.is_empty() => "default".to_owned(),
            _ => stated,
        };
        Self { index: document.index, kind, namespace, name: word(&value["metadata"]["name"]) }
    }
}

fn request(wish: Wish, document: Document) -> Result<Request, ApiError> {
    let (kind, namespace, name) = manifest::identify(&document.value)?;
    if name.is_empty() {
        return Err(ApiError::bad_request("metadata.name: Required value: generateName makes a new object every time"));
    }
    let verb = match wish {
        Wish::Apply => Verb::Apply(document.value),
        Wish::Delete => Verb::Delete(DeleteOptions::default()),
    };
    let field_validation = FieldValidation::Strict;
    Ok(Request { kind, namespace, name, subresource: None, verb, dry_run: false, field_validation })
}

fn result(named: Named, outcome: Result<Answer, ApiError>) -> Value {
    let mut result = json!({
        "index": named.index, "kind": named.kind, "namespace": named.namespace, "name": named.name,
    });
    match outcome {
        Ok(answer) => {
            let (word, object) = described(&answer.outcome);
            result["outcome"] = json!(word);
            result["message"] = json!(answer.warnings.join("; "));
            if let Some(object) = object {
                result["name"] = json!(object.name());
            }
        }
        Err(error) => {
            let cause =
                |cause: &coracle_controller_core::FieldError| json!({"field": cause.field, "message": cause.message});
            result["outcome"] = json!("refused");
            result["message"] = json!(error.message);
            result["reason"] = json!(error.reason);
            result["causes"] = error.details.causes.iter().map(cause).collect();
        }
    }
    result
}

/// In `kubectl`'s words.
fn described(outcome: &Outcome) -> (&'static str, Option<&Object>) {
    match outcome {
        Outcome::Created(object) => ("created", Some(object)),
        Outcome::Updated(object) => ("configured", Some(object)),
        Outcome::Unchanged(object) => ("unchanged", Some(object)),
        Outcome::Deleting(object) | Outcome::Deleted(object) => ("deleted", Some(object)),
        Outcome::Bound | Outcome::Evicted | Outcome::Scaled(_) => ("configured", None),
    }
}

fn text(outcome: &Value) -> Vec<u8> {
    outcome.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use coracle_controller_core::FieldError;

    use super::*;

    fn document(value: Value) -> Document {
        Document { index: 2, value }
    }

    // EDGE-04
    #[test]
    fn a_refusal_names_the_document_the_field_and_the_reason() {
        let pod = document(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}));
        let error = ApiError::invalid(Kind::POD, "p", vec![FieldError::required("spec.containers", "")]);
        assert_eq!(
            result(Named::of(&pod), Err(error)),
            json!({
                "index": 2, "kind": "Pod", "namespace": "default", "name": "p", "outcome": "refused",
                "message": "Pod \"p\" is invalid: spec.containers: Required value", "reason": "Invalid",
                "causes": [{"field": "spec.containers", "message": "Required value"}],
            })
        );
    }

    #[test]
    fn a_document_that_is_nothing_is_refused_under_the_names_it_has() {
        let thing = document(json!({"kind": "Thing", "metadata": {"name": "t", "namespace": "n"}}));
        let named = Named::of(&thing);
        let error = request(Wish::Apply, thing).expect_err("no such kind");
        let shown = result(named, Err(error));
        assert_eq!((&shown["kind"], &shown["namespace"], &shown["name"]), (&json!("Thing"), &json!("n"), &json!("t")));
        assert_eq!(shown["outcome"], "refused");
    }

    #[test]
    fn manifests_are_checked_strictly_and_need_a_name() {
        let node = document(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}));
        let wanted = request(Wish::Delete, node).expect("a request");
        assert_eq!((wanted.kind, wanted.namespace.as_str(), wanted.name.as_str()), (Kind::NODE, "", "n"));
        assert_eq!(wanted.field_validation, FieldValidation::Strict);
        let unnamed = document(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}}));
        assert!(request(Wish::Apply, unnamed).is_err());
    }

    #[test]
    fn outcomes_never_become_messages_to_agents() {
        let (topic, refused) = reply_topic("default", Some("coracle/default/n/pi/down"));
        assert_eq!(topic, "coracle/default/manifests/result");
        assert!(refused.expect("a refusal").contains("not allowed"));
        assert_eq!(reply_topic("default", Some("replies/1")), ("replies/1".to_owned(), None));
        assert_eq!(reply_topic("default", None).0, "coracle/default/manifests/result");
    }
}
