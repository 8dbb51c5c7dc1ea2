//! The cells of volumes, claims and storage classes.

use serde_json::{Value, json};

use super::cells::{list, text};

/// What Kubernetes shows for a class or a mode that is not given.
const UNSET: &str = "<unset>";

/// `ReadWriteOnce` as `RWO`.
fn access_modes(modes: &Value) -> String {
    let mut short = Vec::new();
    for (mode, word) in
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")]
    {
        if list(modes).iter().any(|found| found == mode) {
            short.push(word);
        }
    }
    short.join(",")
}

fn phase<'a>(object: &'a Value, missing: &'a str) -> &'a str {
    if object["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else {
        text(&object["status"]["phase"], missing)
    }
}

pub(super) fn volume(name: Value, age: Value, volume: &Value) -> Vec<Value> {
    let spec = &volume["spec"];
    let claim = &spec["claimRef"];
    let claim = match text(&claim["name"], "") {
        "" => String::new(),
        name => format!("{}/{name}", text(&claim["namespace"], "")),
    };
    vec![
        name,
        json!(text(&spec["capacity"]["storage"], "0")),
        json!(access_modes(&spec["accessModes"])),
        json!(text(&spec["persistentVolumeReclaimPolicy"], "")),
        json!(phase(volume, "")),
        json!(claim),
        json!(text(&spec["storageClassName"], "")),
        json!(text(&spec["volumeAttributesClassName"], UNSET)),
        json!(text(&volume["status"]["reason"], "")),
        age,
        json!(text(&spec["volumeMode"], UNSET)),
    ]
}

pub(super) fn claim(name: Value, age: Value, claim: &Value) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let volume = text(&spec["volumeName"], "");
    // What a claim has got is known once it is bound.
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (text(&status["capacity"]["storage"], "0").to_owned(), access_modes(&status["accessModes"])),
    };
    vec![
        name,
        json!(phase(claim, "")),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(text(&spec["storageClassName"], "")),
        json!(text(&spec["volumeAttributesClassName"], UNSET)),
        age,
        json!(text(&spec["volumeMode"], UNSET)),
    ]
}

pub(super) fn class(name: &Value, age: Value, class: &Value) -> Vec<Value> {
    let is_default = class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
    let name = format!("{}{}", text(name, ""), if is_default { " (default)" } else { "" });
    vec![
        json!(name),
        json!(text(&class["provisioner"], "")),
        json!(text(&class["reclaimPolicy"], "Delete")),
        json!(text(&class["volumeBindingMode"], "Immediate")),
        json!(class["allowVolumeExpansion"] == true),
        age,
    ]
}
