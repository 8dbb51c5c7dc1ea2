//! Images from everywhere: Debian's registry and `skopeo`, layouts, the command line; and the compiler at its limits.
//!
//! [`registry`] is the registry that nobody here wrote, [`certificates`] are what it may show, [`wasm`] makes files that no
//! toolchain would.

mod certificates;
mod registry;
mod wasm;

mod cache;
mod command_line;
mod compiler;
mod pulls;
mod resume;
mod secure;
mod strangers;

use serde_json::Value;

/// A pod of one container that runs `image` once.
fn pod(name: &str, image: &str, policy: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  containers:\n  - name: main\n    \
         image: {image}\n    imagePullPolicy: {policy}\n    args: ['0', '0']\n{more}"
    )
}

fn has_succeeded(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded"
}

/// Why the pod's container waits: reason and message.
fn waiting(pod: &Value) -> (String, String) {
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    let text = |field: &str| waiting[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// Whether the pod's image cannot be had, with all of these words in the reason.
fn cannot_pull(pod: &Value, words: &[&str]) -> bool {
    let (reason, message) = waiting(pod);
    ["ErrImagePull", "ImagePullBackOff"].contains(&reason.as_str()) && words.iter().all(|word| message.contains(word))
}
