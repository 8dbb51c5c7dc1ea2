//! What the API serves, said in the two ways that clients ask: path by path, and all at once (aggregated).
//!
//! *In:* the table of kinds, and [`computed`](mod@computed)'s. *Out:* documents as JSON.
//! *Must never know:* any object.
//! *Tested:* tables here, real `kubectl` of two ages end to end.

pub mod computed;

use serde_json::{Value, json};

use self::computed::{COMPUTED, ComputedInfo};
use crate::kind::{Kind, KindInfo, Subresource};

/// The Kubernetes version whose API this is (`gitVersion`).
pub const GIT_VERSION: &str = "v1.36.0+coracle";

const STORED_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const SHOWN_VERBS: &[&str] = &["get", "list"];

/// What may be done with the objects of a kind.
#[must_use]
pub fn verbs(kind: Kind) -> Vec<&'static str> {
    let all = if kind.info().stored { STORED_VERBS } else { SHOWN_VERBS };
    // As in Kubernetes: namespaces are not deleted by the dozen.
    all.iter().filter(|verb| kind != Kind::NAMESPACE || **verb != "deletecollection").copied().collect()
}

/// What may be done with a path below an object, and as which kind its bodies are: (group, version, kind).
fn below(kind: &'static KindInfo, subresource: Subresource) -> (&'static [&'static str], [&'static str; 3]) {
    let own = [kind.group, kind.version, kind.kind];
    match subresource {
        Subresource::Status => (&["get", "patch", "update"], own),
        Subresource::Scale => (&["get", "patch", "update"], ["autoscaling", "v1", "Scale"]),
        Subresource::Log => (&["get"], own),
        Subresource::Proxy if kind.kind == Kind::NODE.info().kind => (&["get"], ["", "v1", "NodeProxyOptions"]),
        Subresource::Proxy => (&["create", "delete", "get", "patch", "update"], ["", "v1", "PodProxyOptions"]),
        Subresource::Binding => (&["create"], ["", "v1", "Binding"]),
        Subresource::Finalize => (&["update"], own),
        Subresource::Eviction => (&["create"], ["policy", "v1", "Eviction"]),
        Subresource::Placement => (&["get"], ["coracle.dev", "v1", "PodPlacement"]),
    }
}

/// Every group and version of stored kinds, in the order of the table; the core group first.
#[must_use]
pub fn group_versions() -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for kind in Kind::all() {
        let pair = (kind.info().group, kind.info().version);
        if !found.contains(&pair) {
            found.push(pair);
        }
    }
    found
}

/// Every group and version that is served.
fn served() -> Vec<(&'static str, &'static str)> {
    let mut found = group_versions();
    for info in COMPUTED {
        if !found.contains(&(info.group, info.version)) {
            found.push((info.group, info.version));
        }
    }
    found
}

/// What is computed in a group and version.
fn computed(group: &str, version: &str) -> impl Iterator<Item = &'static ComputedInfo> {
    COMPUTED.iter().filter(move |info| info.group == group && info.version == version)
}

/// `v1`, `apps/v1`
#[must_use]
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The kinds of a group and version.
pub fn kinds(group: &str, version: &str) -> impl Iterator<Item = Kind> {
    Kind::all().filter(move |kind| kind.info().group == group && kind.info().version == version)
}

/// `GET /api`: `APIVersions`. `address` is the one under which clients reach the server.
#[must_use]
pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `GET /apis`: `APIGroupList`
#[must_use]
pub fn groups() -> Value {
    let groups: Vec<Value> = served().into_iter().filter(|(group, _)| !group.is_empty()).map(described).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/GROUP`: `APIGroup`; `None` for a group that is not served.
#[must_use]
pub fn group(name: &str) -> Option<Value> {
    let found = served().into_iter().find(|(group, _)| !group.is_empty() && *group == name)?;
    let mut group = described(found);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

fn described((group, version): (&str, &str)) -> Value {
    let version = json!({"groupVersion": group_version(group, version), "version": version});
    json!({"name": group, "versions": [version], "preferredVersion": version})
}

/// `GET /api/v1` or `/apis/GROUP/VERSION`: `APIResourceList`; `None` for one that is not served.
#[must_use]
pub fn resources(group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in kinds(group, version) {
        let info = kind.info();
        let mut resource = json!({
            "name": info.plural, "singularName": info.singular, "namespaced": info.namespaced, "kind": info.kind,
            "verbs": verbs(kind),
        });
        for (field, words) in [("shortNames", info.short_names), ("categories", info.categories)] {
            if !words.is_empty() {
                resource[field] = json!(words);
            }
        }
        resources.push(resource);
        for subresource in info.subresources {
            let (verbs, [kind_group, kind_version, kind]) = below(info, *subresource);
            let mut resource = json!({
                "name": format!("{}/{}", info.plural, subresource.as_str()), "singularName": "",
                "namespaced": info.namespaced, "kind": kind, "verbs": verbs,
            });
            if (kind_group, kind_version) != (group, version) {
                resource["group"] = json!(kind_group);
                resource["version"] = json!(kind_version);
            }
            resources.push(resource);
        }
    }
    resources.extend(computed(group, version).map(|info| {
        json!({
            "name": info.plural, "singularName": info.singular, "namespaced": info.namespaced, "kind": info.kind,
            "verbs": info.verbs,
        })
    }));
    if resources.is_empty() {
        return None;
    }
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version(group, version),
        "resources": resources,
    }))
}

/// `APIGroupDiscoveryList` of the core group (`GET /api`) or of all others (`GET /apis`); `version` is `v2` or
/// `v2beta1`.
#[must_use]
pub fn aggregated(core: bool, version: &str) -> Value {
    let groups = served().into_iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|(group, version)| {
            let mut resources: Vec<Value> = kinds(group, version).map(aggregated_resource).collect();
            resources.extend(computed(group, version).map(aggregated_computed));
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({
                "metadata": metadata,
                "versions": [{"version": version, "resources": resources, "freshness": "Current"}],
            })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {},
        "items": items,
    })
}

fn aggregated_computed(info: &ComputedInfo) -> Value {
    json!({
        "resource": info.plural,
        "responseKind": {"group": info.group, "version": info.version, "kind": info.kind},
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular, "verbs": info.verbs,
    })
}

fn aggregated_resource(kind: Kind) -> Value {
    let info = kind.info();
    let response = |[group, version, kind]: [&str; 3]| json!({"group": group, "version": version, "kind": kind});
    let mut resource = json!({
        "resource": info.plural, "responseKind": response([info.group, info.version, info.kind]),
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular, "verbs": verbs(kind),
    });
    for (field, words) in [("shortNames", info.short_names), ("categories", info.categories)] {
        if !words.is_empty() {
            resource[field] = json!(words);
        }
    }
    let subresources: Vec<Value> = info
        .subresources
        .iter()
        .map(|subresource| {
            let (verbs, kind) = below(info, *subresource);
            json!({"subresource": subresource.as_str(), "responseKind": response(kind), "verbs": verbs})
        })
        .collect();
    if !subresources.is_empty() {
        resource["subresources"] = json!(subresources);
    }
    resource
}

/// `GET /version`; `platform` as `linux/arm64`.
#[must_use]
pub fn version(platform: &str) -> Value {
    let mut numbers = GIT_VERSION.trim_start_matches('v').split('.');
    json!({
        "major": numbers.next().unwrap_or_default(), "minor": numbers.next().unwrap_or_default(),
        "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": platform,
    })
}

/// `GET /`: the paths that may be asked for.
#[must_use]
pub fn paths() -> Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for (group, version) in served() {
        if group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{version}")]);
        }
    }
    paths.extend(
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    json!({"paths": paths})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &Value, field: &str) -> Vec<String> {
        list.as_array()
            .expect("a list")
            .iter()
            .map(|item| item[field].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn every_kind_is_found_path_by_path() {
        for kind in Kind::all() {
            let info = kind.info();
            let list = resources(info.group, info.version).expect("served");
            assert!(names(&list["resources"], "name").contains(&info.plural.to_owned()), "{kind:?}");
        }
        assert_eq!(resources("batch", "v1"), None);
        let named = names(&groups()["groups"], "name");
        let computed = ["authentication.k8s.io", "authorization.k8s.io", "metrics.k8s.io"];
        for name in
            ["apps", "coordination.k8s.io", "scheduling.k8s.io", "policy", "storage.k8s.io"].iter().chain(&computed)
        {
            assert!(named.contains(&(*name).to_owned()), "{name}");
        }
        let list = resources("metrics.k8s.io", "v1beta1").expect("served");
        assert_eq!(names(&list["resources"], "name"), ["nodes", "pods"]);
        assert_eq!(group("apps").expect("served")["preferredVersion"]["groupVersion"], "apps/v1");
        assert_eq!(group(""), None);
    }

    #[test]
    fn scale_is_of_another_group_and_status_is_not() {
        let list = resources("apps", "v1").expect("served");
        let list = list["resources"].as_array().expect("a list");
        let find = |name: &str| list.iter().find(|resource| resource["name"] == name).expect(name);
        assert_eq!(find("deployments/scale")["group"], "autoscaling");
        assert_eq!(find("deployments/scale")["kind"], "Scale");
        assert_eq!(find("deployments/status").get("group"), None);
        assert_eq!(find("deployments")["shortNames"], json!(["deploy"]));
        assert!(!list.iter().any(|resource| resource["name"] == "daemonsets/scale"));
    }

    #[test]
    fn all_is_said_at_once() {
        let core = aggregated(true, "v2");
        assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2");
        assert_eq!(core["items"][0]["metadata"], json!({}));
        let pods = &core["items"][0]["versions"][0]["resources"][2];
        assert_eq!(pods["resource"], "pods");
        assert_eq!(pods["scope"], "Namespaced");
        let below = ["status", "log", "proxy", "binding", "eviction", "placement"];
        assert_eq!(names(&pods["subresources"], "subresource"), below);
        let others = aggregated(false, "v2beta1");
        assert_eq!(others["apiVersion"], "apidiscovery.k8s.io/v2beta1");
        assert_eq!(others["items"][0]["metadata"]["name"], "apps");
        let items = others["items"].as_array().expect("a list");
        let metrics = items.iter().find(|item| item["metadata"]["name"] == "metrics.k8s.io").expect("served");
        assert_eq!(names(&metrics["versions"][0]["resources"], "scope"), ["Cluster", "Namespaced"]);
    }

    #[test]
    fn the_version_is_the_one_whose_api_this_is() {
        let version = version("linux/arm64");
        assert_eq!((version["major"].as_str(), version["minor"].as_str()), (Some("1"), Some("36")));
        assert!(verbs(Kind::LEASE).iter().all(|verb| *verb != "create"));
    }
}
