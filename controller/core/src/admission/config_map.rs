//! v1 `ConfigMap`: keys, size, and that an immutable one stays as it is. Secrets share the rules.

use serde_json::{Value, json};

use super::at::{At, Causes, entries};
use super::{Rules, no_defaults, nothing_to_admit, nothing_to_keep, syntax};

/// The data of one config map or secret (1 MiB).
pub(super) const MAX_DATA_BYTES: usize = 1024 * 1024;

/// The rules for config maps.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults: no_defaults,
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update: |old, new, causes| frozen(old, new, &["data", "binaryData"], causes),
    validate_status: |_, _, _| {},
};

fn validate(map: &Value, causes: &mut Causes) {
    let mut bytes = 0;
    for field in ["data", "binaryData"] {
        let at = At::Root.field(field);
        for (key, value) in entries(&map[field]) {
            syntax::check(key, syntax::config_key, &at.key(key), causes);
            let length = value.as_str().map_or(0, str::len);
            bytes += if field == "data" { length } else { decoded_bytes(length) };
        }
    }
    for (key, _) in entries(&map["data"]).filter(|(key, _)| !map["binaryData"][*key].is_null()) {
        causes.push(At::Root.field("data").key(key).invalid(&json!(key), "duplicate of key present in binaryData"));
    }
    if bytes > MAX_DATA_BYTES {
        causes.push(At::Root.field("data").too_long(MAX_DATA_BYTES));
    }
}

/// How many bytes a base64 text of this length stands for, padding not counted.
pub(super) const fn decoded_bytes(length: usize) -> usize {
    length / 4 * 3
}

/// Once `immutable` is true it stays, and so does the data.
pub(super) fn frozen(old: &Value, new: &Value, fields: &[&str], causes: &mut Causes) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        causes.push(At::Root.field("immutable").forbidden("field is immutable when `immutable` is set"));
    }
    for field in fields {
        if old[*field] != new[*field] {
            causes.push(At::Root.field(field).forbidden("field is immutable when `immutable` is set"));
        }
    }
}
