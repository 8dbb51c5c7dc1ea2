//! A Pod object, lowered to what its node is told (POD-08, VOL-01): references resolved, variables expanded, files read,
//! nothing left to look up.
//!
//! *In:* a pod and the view. *Out:* its compact form. What is missing is said in it, in a kubelet's words.
//! *Must never know:* what the node has been told before.
//! *Tested:* tables, one for each kind of reference.

mod downward;
mod environment;
mod expand;
mod volumes;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_model::limits::MAX_POD_CONTENT_BYTES;
use coracle_model::{Container, EnvVar, Pod, PullPolicy, ResourceAmounts, RestartPolicy, Stop, VolumeMount};
use serde::Deserialize;
use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Key, Object, read_spec};
use crate::recent::Recent;
use crate::rows::{cpu_millis, units};
use crate::view::View;

use expand::Known;

/// The annotation that gives a guest the end of its standard input at once.
const STDIN_EOF: &str = "coracle.dev/stdin-eof";

/// The specs that were read last, by their texts.
pub(super) type Specs = Recent<String, Arc<Value>>;

/// What is looked at while one pod is lowered.
#[derive(Clone, Copy)]
struct Scene<'a> {
    view: &'a View,
    pod: &'a Object,
    /// Its spec, which may be without `nodeName`.
    spec: &'a Value,
    metadata: &'a Metadata,
}

/// What a node may want to know of the metadata, beside what every object has at hand.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    annotations: Value,
    deletion_grace_period_seconds: Value,
}

impl<'a> Scene<'a> {
    /// A config map or secret of the pod's namespace.
    fn find(self, kind: Kind, name: &str) -> Option<&'a Arc<Object>> {
        self.view.get(&Key::new(kind, self.pod.namespace(), name))
    }

    /// `spec.nodeName`
    fn node(self) -> &'a str {
        self.pod.row.pod().and_then(|row| row.node.as_deref()).unwrap_or_default()
    }
}

/// `configmap "x" not found`
fn not_found(kind: Kind, name: &str) -> String {
    format!("{} \"{name}\" not found", kind.info().singular)
}

/// The bytes of one entry of `data`; `None` for what is no text, which admission has excluded.
fn bytes_of(kind: Kind, found: &Value) -> Option<Vec<u8>> {
    let text = found.as_str()?;
    if kind == Kind::SECRET { STANDARD.decode(text).ok() } else { Some(text.as_bytes().to_vec()) }
}

/// The pod as its node gets it; `None` for an object that is no pod.
pub(super) fn pod(view: &View, object: &Object, specs: &mut Specs) -> Option<Pod> {
    let spec = &*specs.find_or_make(object.spec_text(), |text| Arc::new(read_spec(text)));
    let metadata = &object.metadata::<Metadata>().unwrap_or_default();
    let scene = Scene { view, pod: object, spec, metadata };
    let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
    let deletion_grace = metadata.deletion_grace_period_seconds.as_u64().unwrap_or(grace);
    let mut containers: Vec<Container> =
        spec["containers"].as_array()?.iter().map(|spec| container(scene, spec)).collect();
    let spoken = bound_words(&mut containers);
    Some(Pod {
        uid: object.uid,
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        restart_policy: match spec["restartPolicy"].as_str() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        },
        termination_grace_ms: grace.saturating_mul(1000),
        containers,
        stop: object.is_deleting().then(|| Stop { grace_ms: deletion_grace.saturating_mul(1000) }),
        volumes: volumes::resolve(scene, spoken),
        priority: spec["priority"].as_i64().and_then(|priority| i32::try_from(priority).ok()).unwrap_or_default(),
    })
}

/// Arguments and variables travel with the pod, so they are bounded; how many bytes they are. A container that goes
/// beyond the bound is not started.
fn bound_words(containers: &mut [Container]) -> usize {
    let mut spoken = 0_usize;
    for container in containers {
        let arguments = container.argv.iter().map(String::len).sum::<usize>();
        let variables = container.env.iter().map(|variable| variable.name.len() + variable.value.len()).sum::<usize>();
        let words = arguments + variables;
        if spoken + words <= MAX_POD_CONTENT_BYTES {
            spoken += words;
            continue;
        }
        container.config_error = Some(format!(
            "the arguments and variables of the pod come to {} bytes; at most {MAX_POD_CONTENT_BYTES} reach a node",
            spoken + words
        ));
        container.argv.clear();
        container.env.clear();
    }
    spoken
}

fn container(scene: Scene<'_>, spec: &Value) -> Container {
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let (env, missing) = match environment::resolve(scene, spec) {
        Ok(env) => (env, None),
        Err(missing) => (Vec::new(), Some(missing)),
    };
    let known = known(&env);
    let words = |field: &str| -> Vec<String> {
        let list = spec[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(|word| expand::expand(word, &known)).collect()
    };
    let mut argv = words("command");
    if argv.is_empty() {
        // An image has no entry point of its own; the container's name stands where a program's would.
        argv.push(text("name"));
    }
    argv.extend(words("args"));
    let (mounts, config_error) = match mounts(spec, &known) {
        Ok(mounts) => (mounts, missing),
        Err(wrong) => (Vec::new(), missing.or(Some(wrong))),
    };
    let ports = spec["ports"].as_array().into_iter().flatten();
    Container {
        name: text("name"),
        image: text("image"),
        pull_policy: match spec["imagePullPolicy"].as_str() {
            Some("Always") => PullPolicy::Always,
            Some("Never") => PullPolicy::Never,
            _ => PullPolicy::IfNotPresent,
        },
        argv,
        working_dir: spec["workingDir"].as_str().map(ToOwned::to_owned),
        ports: ports
            .filter(|port| port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP"))
            .filter_map(|port| {
                let number = u16::try_from(port["containerPort"].as_u64()?).ok()?;
                Some((port["name"].as_str().unwrap_or_default().to_owned(), number))
            })
            .collect(),
        limits: amounts(&spec["resources"]["limits"]),
        requests: amounts(&spec["resources"]["requests"]),
        config_error,
        stdin_eof: scene.metadata.annotations[STDIN_EOF] == "now",
        mounts,
        env,
    }
}

fn known(env: &[EnvVar]) -> Known<'_> {
    env.iter().map(|variable| (variable.name.as_str(), variable.value.as_str())).collect()
}

fn amounts(value: &Value) -> ResourceAmounts {
    ResourceAmounts {
        cpu_millis: cpu_millis(&value["cpu"]),
        memory_bytes: units(&value["memory"]),
        storage_bytes: units(&value["ephemeral-storage"]),
    }
}

/// `volumeMounts`, or why one of them cannot be (`CreateContainerConfigError`).
fn mounts(spec: &Value, known: &Known<'_>) -> Result<Vec<VolumeMount>, String> {
    let list = spec["volumeMounts"].as_array().into_iter().flatten();
    list.map(|mount| {
        let text = |field: &str| mount[field].as_str().unwrap_or_default();
        let sub_path = match text("subPathExpr") {
            "" => text("subPath").to_owned(),
            expression => sub_path(expression, known)?,
        };
        Ok(VolumeMount {
            volume: text("name").to_owned(),
            path: absolute(text("mountPath")),
            sub_path: shortest(&sub_path),
            read_only: mount["readOnly"].as_bool().unwrap_or_default(),
        })
    })
    .collect()
}

/// `subPathExpr`, with the container's variables.
fn sub_path(expression: &str, known: &Known<'_>) -> Result<String, String> {
    let expanded = expand::expand_all(expression, known)?;
    if expanded.starts_with('/') {
        return Err(format!("error SubPath `{expanded}` must not be an absolute path"));
    }
    if expanded.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{expanded}`: must not contain '..'"));
    }
    Ok(expanded)
}

/// A path without empty parts and without `.`
fn shortest(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// A path in the guest: from the root, each `..` taken back.
fn absolute(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}
