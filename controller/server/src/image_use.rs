//! What the pods of the cluster have to do with images: how a node wants one, and which must not go.
//!
//! *In:* the committed view. *Out:* wishes for [`crate::images`], which knows no pods.
//! *Must never know:* registries, disks; who asks.
//! *Tested:* beside the code with small views; end to end with a registry that wants a password.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_controller_core::object::{Key, Object};
use coracle_controller_core::{Kind, View};
use coracle_model::Digest;
use serde_json::Value;

use crate::committer::Cluster;
use crate::images::{Credential, Credentials, ImageName, Images, Wish};

/// The fields of a pod's spec with containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// The fields of a pod's status with what they run.
const STATUSES: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// How a node wants an image: as its pods that name the image say with `imagePullPolicy` and `imagePullSecrets`.
pub(crate) fn wish(cluster: &Cluster, node: &str, image: &str) -> Wish {
    // Only few of a node's pods name the image; most are put aside without reading them.
    let names = |pod: &&Arc<Object>| pod.body().contains(image);
    let pods: Vec<_> = cluster.read(|view| view.pods_on(node).filter(names).cloned().collect());
    let (fresh, secrets) = asked_for(&pods, image);
    if secrets.is_empty() {
        return Wish { fresh, credentials: None };
    }
    let secrets = cluster.read(|view| found(view, secrets));
    Wish { fresh, credentials: Some(fitting(&secrets, image)) }
}

/// What one secret opens of an image's registry.
pub(crate) fn opened_by(secret: &Object, image: &str) -> Vec<Credential> {
    fitting(&[credentials(secret)].into_iter().flatten().collect::<Vec<_>>(), image)
}

/// Whether any of these pods wants the image anew, and the secrets that they name, by namespace. A pod that names none
/// still stands for its namespace.
fn asked_for(pods: &[Arc<Object>], image: &str) -> (bool, BTreeMap<String, BTreeSet<String>>) {
    let (mut fresh, mut secrets) = (false, BTreeMap::<String, BTreeSet<String>>::new());
    for pod in pods {
        let spec = pod.value()["spec"].take();
        let containers = CONTAINERS.iter().flat_map(|field| spec[*field].as_array().into_iter().flatten());
        let mut wanted = containers.filter(|container| container["image"] == image).peekable();
        if wanted.peek().is_none() {
            continue;
        }
        fresh |= wanted.any(|container| container["imagePullPolicy"] == "Always");
        let named = secrets.entry(pod.namespace().to_owned()).or_default();
        let references = spec["imagePullSecrets"].as_array().into_iter().flatten();
        named.extend(references.filter_map(|reference| reference["name"].as_str().map(ToOwned::to_owned)));
    }
    (fresh, secrets)
}

fn found(view: &View, secrets: BTreeMap<String, BTreeSet<String>>) -> Vec<Credentials> {
    let keys = secrets.iter().flat_map(|(namespace, names)| names.iter().map(move |name| (namespace, name)));
    let objects = keys.filter_map(|(namespace, name)| view.get(&Key::new(Kind::SECRET, namespace, name)));
    objects.filter_map(|secret| credentials(secret)).collect()
}

/// What is in a secret; `None` when it is of another type. Admission has seen to it that it can be read.
fn credentials(secret: &Object) -> Option<Credentials> {
    let value = secret.value();
    let data = |key: &str| value["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok());
    let read = match value["type"].as_str() {
        Some("kubernetes.io/dockerconfigjson") => Credentials::from_config_json(&data(".dockerconfigjson")?),
        Some("kubernetes.io/dockercfg") => Credentials::from_cfg(&data(".dockercfg")?),
        _ => return None,
    };
    if let Err(error) = &read {
        tracing::warn!(%error, namespace = secret.namespace(), name = secret.name(), "a secret opens no registry");
    }
    read.ok()
}

fn fitting(secrets: &[Credentials], image: &str) -> Vec<Credential> {
    let Ok(name) = image.parse::<ImageName>() else { return Vec::new() };
    let Some(registry) = name.registry() else { return Vec::new() };
    let mut credentials = Vec::new();
    for credential in secrets.iter().flat_map(|secret| secret.fitting(registry, name.path())) {
        if !credentials.contains(credential) {
            credentials.push(credential.clone());
        }
    }
    credentials
}

/// Pods that have not come to their end and name this image, as `NAMESPACE/NAME`.
pub(crate) fn pods_naming(cluster: &Cluster, image: &ImageName) -> Vec<String> {
    let names = |pod: &Arc<Object>| images_of(&pod.value()).any(|name| name == *image);
    let pods = live_pods(cluster).into_iter().filter(names);
    pods.map(|pod| format!("{}/{}", pod.namespace(), pod.name())).collect()
}

/// Removes the images that have no name, but for those that a pod names or runs. Blocks on the disk.
pub(crate) fn collect(cluster: &Cluster, images: &Images) -> usize {
    let mut keep = BTreeSet::new();
    for pod in live_pods(cluster) {
        let pod = pod.value();
        keep.extend(images_of(&pod).filter_map(|name| images.resolve(&name)));
        let statuses = STATUSES.iter().flat_map(|field| pod["status"][*field].as_array().into_iter().flatten());
        keep.extend(statuses.filter_map(|status| status["imageID"].as_str()?.parse::<Digest>().ok()));
    }
    images.collect(&keep)
}

fn live_pods(cluster: &Cluster) -> Vec<Arc<Object>> {
    let is_live = |pod: &&Arc<Object>| pod.row.pod().is_none_or(|row| !row.phase.is_terminal());
    cluster.read(|view| view.list(Kind::POD, None).filter(is_live).cloned().collect())
}

fn images_of(pod: &Value) -> impl Iterator<Item = ImageName> {
    let containers = CONTAINERS.iter().flat_map(|field| pod["spec"][*field].as_array().into_iter().flatten());
    containers.filter_map(|container| container["image"].as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const IMAGE: &str = "r.example.com/team/app:1";

    fn object(kind: Kind, name: &str, mut value: Value) -> Arc<Object> {
        value["metadata"] = json!({"name": name, "namespace": "d", "uid": "00000000-0000-0000-0000-000000000001", "creationTimestamp": "2026-01-01T00:00:00Z"});
        value["apiVersion"] = json!("v1");
        value["kind"] = json!(kind.info().kind);
        Arc::new(Object::from_value(kind, 1, value).unwrap_or_else(|error| panic!("{error}")))
    }

    fn pod(name: &str, image: &str, policy: &str, secrets: &[&str]) -> Arc<Object> {
        let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
        let containers = json!([{"name": "a", "image": image, "imagePullPolicy": policy}]);
        object(Kind::POD, name, json!({"spec": {"containers": containers, "imagePullSecrets": secrets}}))
    }

    fn secret(kind: &str, key: &str, text: &str) -> Arc<Object> {
        object(Kind::SECRET, "s", json!({"type": kind, "data": {key: STANDARD.encode(text)}}))
    }

    // POD-09
    #[test]
    fn the_pods_that_name_an_image_say_how_it_is_wanted() {
        let pods = [
            pod("a", IMAGE, "IfNotPresent", &["one", "two"]),
            pod("b", IMAGE, "IfNotPresent", &["two"]),
            pod("c", "r.example.com/other:1", "Always", &["three"]),
        ];
        let (fresh, secrets) = asked_for(&pods, IMAGE);
        assert!(!fresh);
        assert_eq!(secrets["d"].iter().map(String::as_str).collect::<Vec<_>>(), ["one", "two"]);
        assert!(asked_for(&[pod("a", IMAGE, "Always", &[])], IMAGE).0);
        assert!(asked_for(&pods, "r.example.com/team/app:2").1.is_empty());
    }

    #[test]
    fn secrets_of_both_types_open_what_they_name_and_others_nothing() {
        let entry = r#"{"r.example.com": {"username": "u", "password": "p"}}"#;
        let config = format!(r#"{{"auths": {entry}}}"#);
        for (kind, key, text, opens) in [
            ("kubernetes.io/dockerconfigjson", ".dockerconfigjson", config.as_str(), 1),
            ("kubernetes.io/dockercfg", ".dockercfg", entry, 1),
            ("Opaque", ".dockerconfigjson", config.as_str(), 0),
            ("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{", 0),
        ] {
            let secret = secret(kind, key, text);
            assert_eq!(opened_by(&secret, IMAGE).len(), opens, "{kind}");
            assert!(opened_by(&secret, "other.example.com/app:1").is_empty());
            assert!(opened_by(&secret, "app:1").is_empty());
        }
    }
}
