//! The paths of a group and version, and what each may be asked: one row a verb.

use serde_json::{Map, Value, json};

use crate::discovery;
use crate::kind::{Kind, Subresource};

/// Query parameters of every change.
pub(super) const WRITE_PARAMETERS: &[(&str, &str)] = &[
    ("dryRun", "All: check the request and change nothing."),
    ("fieldManager", "The name of who makes the change."),
    ("fieldValidation", "What unknown and duplicate fields mean: Ignore, Warn (the default) or Strict."),
];

const LIST_PARAMETERS: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "Whether a watch may send bookmarks."),
    ("continue", "Where the page before this one ended."),
    ("fieldSelector", "Only objects with these fields."),
    ("labelSelector", "Only objects with these labels."),
    ("limit", "The most objects in one page."),
    ("resourceVersion", "The revision from which a watch starts."),
    ("resourceVersionMatch", "How resourceVersion is meant."),
    ("sendInitialEvents", "Whether a watch starts with what is there."),
    ("timeoutSeconds", "How long a watch lasts at most."),
    ("watch", "Whether to stay and report changes."),
];

const DELETE_PARAMETERS: &[(&str, &str)] = &[
    ("dryRun", "All: check the request and change nothing."),
    ("gracePeriodSeconds", "The time to come to an end in, in seconds; 0 is at once."),
    ("orphanDependents", "Whether what the object owns stays."),
    ("propagationPolicy", "What happens to what the object owns: Orphan, Background or Foreground."),
];

/// All paths of a group and version.
pub(super) fn of(group: &str, version: &str) -> Map<String, Value> {
    let mut paths = Map::new();
    for kind in discovery::kinds(group, version) {
        let info = kind.info();
        let (all, one) = templates(kind);
        if info.namespaced {
            let prefix = prefix(kind);
            paths.insert(format!("{prefix}/{}", info.plural), item(kind, "", &["list"]));
        }
        let collection: &[&str] = match (info.stored, kind == Kind::NAMESPACE) {
            (false, _) => &["list"],
            (true, true) => &["list", "post"],
            (true, false) => &["list", "post", "deletecollection"],
        };
        paths.insert(all, item(kind, "", collection));
        paths.insert(
            one.clone(),
            item(kind, "", if info.stored { &["get", "put", "patch", "delete"] } else { &["get"] }),
        );
        for subresource in info.subresources {
            let verbs: &[&str] = match subresource {
                Subresource::Status | Subresource::Scale => &["get", "put", "patch"],
                Subresource::Log | Subresource::Placement => &["get"],
                Subresource::Binding | Subresource::Eviction => &["post"],
                Subresource::Finalize => &["put"],
                Subresource::Proxy => &["connect"],
            };
            let word = subresource.as_str();
            paths.insert(format!("{one}/{word}"), item(kind, word, verbs));
        }
    }
    paths
}

/// `/api/v1`, `/apis/apps/v1`
pub(super) fn prefix(kind: Kind) -> String {
    let info = kind.info();
    if info.group.is_empty() {
        format!("/api/{}", info.version)
    } else {
        format!("/apis/{}/{}", info.group, info.version)
    }
}

/// The paths of all objects (of a namespace), and of one.
pub(super) fn templates(kind: Kind) -> (String, String) {
    let info = kind.info();
    let namespace = if info.namespaced { "/namespaces/{namespace}" } else { "" };
    let all = format!("{}{namespace}/{}", prefix(kind), info.plural);
    let one = format!("{all}/{{name}}");
    (all, one)
}

fn item(kind: Kind, below: &str, verbs: &[&str]) -> Value {
    let mut item = Map::new();
    for verb in verbs {
        let method = match *verb {
            "list" | "connect" => "get",
            "deletecollection" => "delete",
            other => other,
        };
        item.insert(method.to_owned(), operation(kind, below, verb));
    }
    Value::Object(item)
}

fn operation(kind: Kind, below: &str, verb: &str) -> Value {
    let info = kind.info();
    let parameters = match verb {
        "list" => LIST_PARAMETERS,
        "delete" | "deletecollection" => DELETE_PARAMETERS,
        "post" | "put" | "patch" => WRITE_PARAMETERS,
        _ => &[],
    };
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, description)| {
            json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}})
        })
        .collect();
    let named = if below == Subresource::Scale.as_str() {
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    } else {
        json!({"group": info.group, "version": info.version, "kind": info.kind})
    };
    json!({
        "operationId": format!("{verb}{}{}{}", info.group.split('.').next().unwrap_or_default(), info.kind, below),
        "x-kubernetes-action": verb, "x-kubernetes-group-version-kind": named, "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    })
}
