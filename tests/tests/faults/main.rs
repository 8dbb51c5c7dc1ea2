//! What fails, and what happens then: one test for each line of `docs/failures.md` that needs real processes.

mod broker;
mod full_disk;
mod kills;
mod slow_link;
mod stopped;

use coracle_tests::cluster::{Cluster, condition};
use serde_json::Value;

/// A deployment of pods that run until they are told to stop.
fn web(replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: \
         web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: [{{name: hello, image: \
         'samples/hello:1'}}]\n"
    )
}

/// A pod of one container.
fn pod(name: &str, image: &str, arguments: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  restartPolicy: Never\n  containers:\n  - \
         {{name: main, image: '{image}', args: [{arguments}]}}\n"
    )
}

/// What must not change of healthy pods: each container, and how often it was restarted.
fn runs(pods: &[Value]) -> Vec<(String, String, u64)> {
    let mut runs: Vec<_> = pods
        .iter()
        .map(|pod| {
            let container = &pod["status"]["containerStatuses"][0];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let restarts = container["restartCount"].as_u64().unwrap_or(u64::MAX);
            (text(&pod["metadata"]["uid"]), text(&container["containerID"]), restarts)
        })
        .collect();
    runs.sort();
    runs
}

/// Since when a node is what it is.
fn ready_since(cluster: &Cluster, node: &str) -> (String, String) {
    let node = cluster.get(&["node", node]).unwrap_or_default();
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default();
    (condition(&node, "Ready"), ready["lastTransitionTime"].as_str().unwrap_or_default().to_owned())
}

/// No node was ever taken for lost.
fn nobody_was_given_up(cluster: &Cluster) {
    let events = cluster.list(&["events", "--all-namespaces"]);
    let lost: Vec<_> = events.iter().filter(|event| event["reason"] == "NodeNotReady").collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// Creates a config map; whether that was acknowledged, or what was said instead.
fn note(cluster: &Cluster, name: &str) -> Result<(), String> {
    let output =
        coracle_tests::programs::run(&mut cluster.kubectl(&["create", "configmap", name, "--from-literal=a=b"]));
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
