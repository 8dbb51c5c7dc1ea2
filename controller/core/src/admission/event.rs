//! v1 Event: it stands in the namespace of what it is about.

use serde_json::Value;

use super::at::{At, Causes, text};
use super::{Rules, no_defaults, nothing_to_admit, nothing_to_keep, syntax};

/// The rules for events.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults: no_defaults,
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update: |_, _, _| {},
    validate_status: |_, _, _| {},
};

fn validate(event: &Value, causes: &mut Causes) {
    let about = &event["involvedObject"];
    let (here, there) = (text(&event["metadata"], "namespace"), text(about, "namespace"));
    let fits = if there.is_empty() { matches!(here, "default" | "kube-system") } else { here == there };
    if !fits {
        let at = At::Root.field("involvedObject");
        causes.push(at.field("namespace").invalid(&Value::String(there.to_owned()), "does not match event.namespace"));
    }
}
