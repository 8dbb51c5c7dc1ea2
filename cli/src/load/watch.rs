//! One watch over the pods of a load, as a client library keeps it: a list, a watch from its revision, and the same again
//! when the watch ends or has fallen behind what the server still remembers.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use serde::Deserialize;

use super::{LABEL, Pods, Seen, Shared, pods_path};
use crate::Failure;
use crate::client::Client;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    items: Vec<Pod<'a>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: Pod<'a>,
}

/// The type of an event whose object is no pod.
#[derive(Deserialize)]
struct EventType<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
}

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(default)]
    name: &'a str,
    #[serde(rename = "resourceVersion", default)]
    revision: &'a str,
}

#[derive(Default, Deserialize)]
struct Spec<'a> {
    #[serde(rename = "nodeName", default)]
    node: &'a str,
}

#[derive(Default, Deserialize)]
struct Status<'a> {
    #[serde(default)]
    phase: &'a str,
}

/// Watches for ever; what goes wrong is said, and tried again.
pub(super) async fn follow(shared: Rc<Shared>) {
    loop {
        match list_and_watch(&shared).await {
            Ok(()) => {}
            Err(error) => eprintln!("coracle: the watch failed: {error}"),
        }
        shared.pods.borrow_mut().relists += 1;
    }
}

/// Until the watch has to begin anew.
async fn list_and_watch(shared: &Shared) -> Result<(), Failure> {
    let options = &shared.options;
    let path = format!("{}?labelSelector={LABEL}%3D{}", pods_path(options), options.name_prefix);
    let mut client = Client::connect(&shared.config).await?;
    let answer = client.ask(Method::GET, &path, "", Vec::new()).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    let list: List<'_> = serde_json::from_slice(&body)?;
    shared.pods.borrow_mut().list(&list.items, shared.started.elapsed());
    shared.moved.notify_waiters();
    let path = format!("{path}&watch=1&resourceVersion={}", list.metadata.revision);
    let answer = client.ask(Method::GET, &path, "", Vec::new()).await?;
    read(shared, answer.into_body()).await
}

async fn read(shared: &Shared, mut body: Incoming) -> Result<(), Failure> {
    let mut buffer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        let arrived = shared.started.elapsed();
        let mut looked_at = buffer.len();
        buffer.extend_from_slice(&bytes);
        while let Some(end) = buffer[looked_at..].iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(looked_at + end + 1);
            looked_at = 0;
            match serde_json::from_slice::<Event<'_>>(&line) {
                Ok(event) => shared.pods.borrow_mut().see(&event.object, event.kind == "DELETED", arrived),
                // Too far behind, most likely: that is what a list is for.
                Err(_) if serde_json::from_slice::<EventType<'_>>(&line)?.kind == "ERROR" => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        shared.moved.notify_waiters();
    }
    Ok(())
}

impl Pods {
    /// What is not in the list is gone, if it ever was there.
    fn list(&mut self, pods: &[Pod<'_>], at: Duration) {
        let listed: HashSet<&str> = pods.iter().map(|pod| pod.metadata.name).collect();
        let missing = self
            .seen
            .iter_mut()
            .filter(|(name, seen)| !seen.is_gone && seen.running.is_some() && !listed.contains(name.as_str()));
        for (_, seen) in missing {
            seen.is_gone = true;
            self.gone += 1;
        }
        for pod in pods {
            self.see(pod, false, at);
        }
    }

    fn see(&mut self, pod: &Pod<'_>, is_gone: bool, at: Duration) {
        let name = pod.metadata.name;
        if !self.seen.contains_key(name) {
            self.seen.insert(name.to_owned(), Seen::new(at));
        }
        let Some(seen) = self.seen.get_mut(name) else { return };
        if is_gone && !seen.is_gone {
            seen.is_gone = true;
            self.gone += 1;
        }
        if !pod.spec.node.is_empty() {
            seen.bound.get_or_insert(at);
        }
        if pod.status.phase == "Running" && seen.running.is_none() {
            seen.running = Some(at);
            self.running += 1;
        }
    }
}
