//! v1 Secret: types, keys, size. Values never appear in a refusal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::at::{At, Causes, default, entries, text};
use super::config_map::{MAX_DATA_BYTES, decoded_bytes, frozen};
use super::{Rules, nothing_to_admit, nothing_to_keep, syntax};

/// The rules for secrets.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults,
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update: |old, new, causes| {
        super::at::immutable(old, new, "type", &At::Root, causes);
        frozen(old, new, &["data"], causes);
    },
    validate_status: |_, _, _| {},
};

/// `stringData` is a way to write `data`, and is not kept.
fn defaults(secret: &mut Value) {
    default(secret, "type", || json!("Opaque"));
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let data = fields.entry("data").or_insert_with(|| json!({}));
    for (key, value) in texts {
        data[key] = json!(STANDARD.encode(value.as_str().unwrap_or_default()));
    }
}

fn validate(secret: &Value, causes: &mut Causes) {
    let at = At::Root.field("data");
    let mut bytes = 0;
    for (key, value) in entries(&secret["data"]) {
        syntax::check(key, syntax::config_key, &at.key(key), causes);
        bytes += decoded_bytes(value.as_str().map_or(0, str::len));
    }
    if bytes > MAX_DATA_BYTES {
        causes.push(at.too_long(MAX_DATA_BYTES));
    }
    let mut need = |keys: &[&str], any: bool| {
        let missing: Vec<&str> = keys.iter().copied().filter(|key| secret["data"][*key].is_null()).collect();
        if any && missing.len() < keys.len() {
            return;
        }
        causes.extend(missing.iter().map(|key| at.key(key).required("")));
    };
    match text(secret, "type") {
        "kubernetes.io/basic-auth" => need(&["username", "password"], true),
        "kubernetes.io/ssh-auth" => need(&["ssh-privatekey"], false),
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"], false),
        "kubernetes.io/dockercfg" => json_key(secret, ".dockercfg", causes),
        "kubernetes.io/dockerconfigjson" => json_key(secret, ".dockerconfigjson", causes),
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if text(&secret["metadata"]["annotations"], annotation).is_empty() {
                let at = At::Root.field("metadata");
                causes.push(at.field("annotations").key(annotation).required(""));
            }
        }
        _ => {}
    }
}

/// One key must be there and hold JSON.
fn json_key(secret: &Value, key: &str, causes: &mut Causes) {
    let at = At::Root.field("data");
    let at = at.key(key);
    let Some(encoded) = secret["data"][key].as_str() else {
        causes.push(at.required(""));
        return;
    };
    let read = STANDARD.decode(encoded).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    if read.is_none() {
        causes.push(at.invalid(&json!("<secret contents redacted>"), "must be JSON"));
    }
}
