//! What a path asks for. Kinds and subresources come from the table of kinds: no path is written down twice.

use std::borrow::Cow;
use std::str::Utf8Error;

use coracle_controller_core::discovery::computed::Computed;
use coracle_controller_core::kind::{Kind, Subresource};
use percent_encoding::percent_decode_str;

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `/`
    Root,
    /// `/healthz`, `/livez`, `/readyz`
    Health,
    /// `/version`
    Version,
    /// `/metrics`
    Metrics,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources(String, String),
    /// `/openapi/v2`
    OpenApiV2,
    /// `/swagger-2.0.0.pb-v1`, where older clients look for it.
    OpenApiV2Protobuf,
    /// `/openapi/v3`
    OpenApiV3Index,
    /// `/openapi/v3/PATH`
    OpenApiV3(String),
    /// `/coracle/v1/images`
    Images,
    /// Objects.
    Objects(Target),
    /// What is worked out when it is asked for.
    Computed(Question),
}

/// What is to be worked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Of which kind.
    pub(super) what: Computed,
    /// In which namespace.
    pub(super) namespace: Option<String>,
    /// Of which one.
    pub(super) name: Option<String>,
}

/// Which objects, or what of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Their kind.
    pub(super) kind: Kind,
    /// Their namespace; `None` for all of them, and for a cluster-scoped kind.
    pub(super) namespace: Option<String>,
    /// The one that is meant.
    pub(super) name: Option<String>,
    /// What of it.
    pub(super) below: Option<Subresource>,
    /// What follows `/proxy`, as it came.
    pub(super) rest: String,
}

impl Target {
    /// The namespace as keys have it: empty for none.
    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }
}

/// Reads a path; `None` for one that is not served.
pub(super) fn route(path: &str) -> Option<Route> {
    let trimmed = path.trim_matches('/');
    let parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
    match parts.as_slice() {
        [] => Some(Route::Root),
        ["healthz" | "livez" | "readyz", ..] => Some(Route::Health),
        ["version"] => Some(Route::Version),
        ["metrics"] => Some(Route::Metrics),
        ["openapi", "v2"] => Some(Route::OpenApiV2),
        ["swagger-2.0.0.pb-v1"] => Some(Route::OpenApiV2Protobuf),
        ["openapi", "v3"] => Some(Route::OpenApiV3Index),
        ["openapi", "v3", rest @ ..] => Some(Route::OpenApiV3(rest.join("/"))),
        ["coracle", "v1", "images"] => Some(Route::Images),
        ["api"] => Some(Route::CoreVersions),
        ["api", version] => Some(Route::Resources(String::new(), (*version).to_owned())),
        ["api", version, rest @ ..] => objects(path, "", version, rest),
        ["apis"] => Some(Route::Groups),
        ["apis", group] => Some(Route::Group((*group).to_owned())),
        ["apis", group, version] => Some(Route::Resources((*group).to_owned(), (*version).to_owned())),
        ["apis", group, version, rest @ ..] => {
            objects(path, group, version, rest).or_else(|| computed(group, version, rest))
        }
        _ => None,
    }
}

fn objects(path: &str, group: &str, version: &str, parts: &[&str]) -> Option<Route> {
    let find = |plural: &str| Kind::of_path(group, version, plural);
    // `namespaces/NAME/PLURAL` is of that namespace, unless PLURAL is a path below the namespace itself.
    let in_namespace = match parts {
        ["namespaces", namespace, plural, rest @ ..]
            if below(Kind::NAMESPACE, plural).is_none() || !group.is_empty() =>
        {
            find(plural).filter(|kind| kind.info().namespaced).map(|kind| (kind, Some(*namespace), rest))
        }
        _ => None,
    };
    let everywhere = match parts {
        [plural, rest @ ..] => find(plural).map(|kind| (kind, None, rest)),
        [] => None,
    };
    let (kind, namespace, rest) = in_namespace.or(everywhere)?;
    let (name, subresource, rest) = match rest {
        [] => (None, None, String::new()),
        [name] => (Some(*name), None, String::new()),
        [name, word, rest @ ..] => {
            let subresource = below(kind, word)?;
            let rest = if subresource == Subresource::Proxy { proxied(path, rest) } else { String::new() };
            let fits = subresource == Subresource::Proxy || parts.last() == Some(word);
            (Some(*name), Some(subresource).filter(|_| fits), rest)
        }
    };
    // One object of a namespaced kind needs its namespace.
    if name.is_some() && kind.info().namespaced && namespace.is_none() {
        return None;
    }
    Some(Route::Objects(Target {
        kind,
        namespace: namespace.map(decode).transpose().ok()?,
        name: name.map(decode).transpose().ok()?,
        below: subresource,
        rest,
    }))
}

fn computed(group: &str, version: &str, parts: &[&str]) -> Option<Route> {
    let (namespace, plural, rest) = match parts {
        ["namespaces", namespace, plural, rest @ ..] => (Some(*namespace), plural, rest),
        [plural, rest @ ..] => (None, plural, rest),
        [] => return None,
    };
    let what = Computed::of_path(group, version, plural)?;
    let name = match rest {
        [] => None,
        [name] => Some(*name),
        _ => return None,
    };
    let namespaced = what.info().namespaced;
    if (namespace.is_some() && !namespaced) || (name.is_some() && namespaced && namespace.is_none()) {
        return None;
    }
    let (namespace, name) = (namespace.map(decode).transpose().ok()?, name.map(decode).transpose().ok()?);
    Some(Route::Computed(Question { what, namespace, name }))
}

fn below(kind: Kind, word: &str) -> Option<Subresource> {
    kind.info().subresources.iter().find(|subresource| subresource.as_str() == word).copied()
}

/// What follows `/proxy`, with the slash at its end if there was one.
fn proxied(path: &str, rest: &[&str]) -> String {
    let slash = if path.ends_with('/') && !rest.is_empty() { "/" } else { "" };
    format!("/{}{slash}", rest.join("/"))
}

fn decode(part: &str) -> Result<String, Utf8Error> {
    percent_decode_str(part).decode_utf8().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(kind: Kind, namespace: &str, name: &str, below: Option<Subresource>, rest: &str) -> Option<Route> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (namespace, name) = (some(namespace), some(name));
        Some(Route::Objects(Target { kind, namespace, name, below, rest: rest.to_owned() }))
    }

    #[test]
    fn paths_of_objects() {
        for (path, expected) in [
            ("/api/v1/pods", target(Kind::POD, "", "", None, "")),
            ("/api/v1/namespaces/default/pods/", target(Kind::POD, "default", "", None, "")),
            ("/api/v1/namespaces/default/pods/web", target(Kind::POD, "default", "web", None, "")),
            ("/api/v1/namespaces/d/pods/web/log", target(Kind::POD, "d", "web", Some(Subresource::Log), "")),
            (
                "/api/v1/namespaces/d/pods/web%3A80/proxy",
                target(Kind::POD, "d", "web:80", Some(Subresource::Proxy), "/"),
            ),
            (
                "/api/v1/namespaces/d/pods/w/proxy/a%20b/c/",
                target(Kind::POD, "d", "w", Some(Subresource::Proxy), "/a%20b/c/"),
            ),
            ("/api/v1/namespaces", target(Kind::NAMESPACE, "", "", None, "")),
            ("/api/v1/namespaces/x", target(Kind::NAMESPACE, "", "x", None, "")),
            ("/api/v1/namespaces/x/status", target(Kind::NAMESPACE, "", "x", Some(Subresource::Status), "")),
            ("/api/v1/namespaces/x/finalize", target(Kind::NAMESPACE, "", "x", Some(Subresource::Finalize), "")),
            (
                "/api/v1/nodes/n/proxy/stats/summary",
                target(Kind::NODE, "", "n", Some(Subresource::Proxy), "/stats/summary"),
            ),
            ("/api/v1/nodes/n/status", target(Kind::NODE, "", "n", Some(Subresource::Status), "")),
            ("/apis/apps/v1/deployments", target(Kind::DEPLOYMENT, "", "", None, "")),
            (
                "/apis/apps/v1/namespaces/d/deployments/web/scale",
                target(Kind::DEPLOYMENT, "d", "web", Some(Subresource::Scale), ""),
            ),
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
                target(Kind::LEASE, "kube-node-lease", "n", None, ""),
            ),
            ("/api/v1/endpoints", None),
            ("/api/v1/namespaces/d/pods/web/eviction", target(Kind::POD, "d", "web", Some(Subresource::Eviction), "")),
            (
                "/api/v1/namespaces/d/pods/web/placement",
                target(Kind::POD, "d", "web", Some(Subresource::Placement), ""),
            ),
            ("/api/v1/pods/web", None),
            ("/api/v1/namespaces/d/nodes", None),
            ("/api/v1/namespaces/d/pods/web/exec", None),
            ("/apis/apps/v1/namespaces/d/daemonsets/x/scale", None),
            ("/apis/batch/v1/jobs", None),
            ("/api/v1/namespaces/%FF/pods", None),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }

    #[test]
    fn paths_of_what_is_worked_out() {
        let question = |what, namespace: &str, name: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Some(Route::Computed(Question { what, namespace: some(namespace), name: some(name) }))
        };
        for (path, expected) in [
            ("metrics.k8s.io/v1beta1/nodes", question(Computed::NodeMetrics, "", "")),
            ("metrics.k8s.io/v1beta1/nodes/a", question(Computed::NodeMetrics, "", "a")),
            ("metrics.k8s.io/v1beta1/pods", question(Computed::PodMetrics, "", "")),
            ("metrics.k8s.io/v1beta1/namespaces/d/pods", question(Computed::PodMetrics, "d", "")),
            ("metrics.k8s.io/v1beta1/namespaces/d/pods/a", question(Computed::PodMetrics, "d", "a")),
            ("metrics.k8s.io/v1beta1/pods/a", None),
            ("metrics.k8s.io/v1beta1/namespaces/d/nodes", None),
            ("metrics.k8s.io/v1/nodes", None),
            ("authentication.k8s.io/v1/selfsubjectreviews", question(Computed::SelfSubjectReview, "", "")),
            (
                "authorization.k8s.io/v1/namespaces/d/localsubjectaccessreviews",
                question(Computed::LocalSubjectAccessReview, "d", ""),
            ),
        ] {
            assert_eq!(route(&format!("/apis/{path}")), expected, "{path}");
        }
    }

    #[test]
    fn other_paths() {
        for (path, expected) in [
            ("/", Some(Route::Root)),
            ("/healthz", Some(Route::Health)),
            ("/readyz/ping", Some(Route::Health)),
            ("/api", Some(Route::CoreVersions)),
            ("/api/v1", Some(Route::Resources(String::new(), "v1".to_owned()))),
            ("/apis/apps", Some(Route::Group("apps".to_owned()))),
            ("/apis/apps/v1", Some(Route::Resources("apps".to_owned(), "v1".to_owned()))),
            ("/openapi/v3/apis/apps/v1", Some(Route::OpenApiV3("apis/apps/v1".to_owned()))),
            ("/coracle/v1/images", Some(Route::Images)),
            ("/favicon.ico", None),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
