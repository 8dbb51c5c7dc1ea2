//! What nodes and containers use, as Kubernetes shows it: metrics.k8s.io (`kubectl top`), the kubelet's summary and its
//! metrics.
//!
//! *In:* [`coracle_model::NodeUsage`] of nodes that were asked, pods and nodes as they are stored, the wall time. *Out:*
//! JSON, and the text that Prometheus reads.
//! *Must never know:* how a node is asked; anything that decides: usage is shown, never stored.
//! *Tested:* tables here; `kubectl top` of two ages end to end.
//!
//! Agents count, they do not average: [`rates`] takes the rate between two samples of one node, and says how long the
//! time between them was. [`metrics`], [`summary`] and [`exposition`] write it down.

pub mod rates;

pub mod metrics;
pub mod summary;

pub mod exposition;

pub use rates::{Measured, Samples};

use coracle_model::PodUid;
use serde_json::Value;

use crate::object::Object;

/// A container of a pod, as far as its usage is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Running {
    name: String,
    image: String,
}

/// The containers of a pod that run, by the status that the node has last reported.
fn running(pod: &Value) -> Vec<Running> {
    let statuses = ["initContainerStatuses", "containerStatuses"].map(|field| pod["status"][field].as_array());
    let statuses = statuses.into_iter().flatten().flatten();
    let running = statuses.filter(|status| status["state"]["running"].is_object());
    let text = |status: &Value, field: &str| status[field].as_str().unwrap_or_default().to_owned();
    running.map(|status| Running { name: text(status, "name"), image: text(status, "image") }).collect()
}

/// A pod whose usage is to be shown.
struct Shown {
    uid: PodUid,
    value: Value,
    running: Vec<Running>,
}

impl Shown {
    fn of(pod: &Object) -> Self {
        let value = pod.value();
        let running = running(&value);
        Self { uid: pod.uid, value, running }
    }

    fn text(&self, section: &str, field: &str) -> &str {
        self.value[section][field].as_str().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
