//! `pluginConfig`: what single plugins are told.

use serde::Deserialize;
use serde_json::{Value, json};

use super::raw::PluginConfig;
use super::{API_VERSION, DefaultSpread, Preference, Profile, ScoringStrategy, read, within};
use crate::admission;
use crate::error::FieldError;

/// Takes over the arguments of one plugin.
pub(super) fn apply(given: &PluginConfig, profile: &mut Profile, at: &str, causes: &mut Vec<FieldError>) {
    let take = match given.name.as_str() {
        "DefaultPreemption" => default_preemption,
        "InterPodAffinity" => inter_pod_affinity,
        "NodeAffinity" => node_affinity,
        "NodeResourcesBalancedAllocation" => balanced_allocation,
        "NodeResourcesFit" => node_resources_fit,
        "PodTopologySpread" => pod_topology_spread,
        "VolumeBinding" => volume_binding,
        _ => {
            let with_arguments = [
                "DefaultPreemption",
                "InterPodAffinity",
                "NodeAffinity",
                "NodeResourcesBalancedAllocation",
                "NodeResourcesFit",
                "PodTopologySpread",
                "VolumeBinding",
            ];
            causes.push(FieldError::not_supported(format!("{at}.name"), &json!(given.name), &with_arguments));
            return;
        }
    };
    let at = format!("{at}.args");
    let mut args = given.args.clone().unwrap_or_else(|| json!({}));
    if let Some(fields) = args.as_object_mut() {
        let kind = format!("{}Args", given.name);
        for (field, want) in [("apiVersion", API_VERSION), ("kind", kind.as_str())] {
            if let Some(found) = fields.remove(field).filter(|found| found != want) {
                causes.push(FieldError::not_supported(format!("{at}.{field}"), &found, &[want]));
            }
        }
    }
    if let Err(cause) = take(&args, profile, &at, causes) {
        causes.push(cause);
    }
}

type Outcome = Result<(), FieldError>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DefaultPreemption {
    min_candidate_nodes_percentage: Option<i64>,
    min_candidate_nodes_absolute: Option<i64>,
}

/// Every node is looked at, which is never fewer than are asked for.
fn default_preemption(args: &Value, _: &mut Profile, at: &str, causes: &mut Vec<FieldError>) -> Outcome {
    let args: DefaultPreemption = read(args, at)?;
    within(args.min_candidate_nodes_percentage, (0, 100), format!("{at}.minCandidateNodesPercentage"), causes);
    within(args.min_candidate_nodes_absolute, (0, i64::MAX), format!("{at}.minCandidateNodesAbsolute"), causes);
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InterPodAffinity {
    hard_pod_affinity_weight: Option<i64>,
    ignore_preferred_terms_of_existing_pods: Option<bool>,
}

fn inter_pod_affinity(args: &Value, profile: &mut Profile, at: &str, causes: &mut Vec<FieldError>) -> Outcome {
    let args: InterPodAffinity = read(args, at)?;
    within(args.hard_pod_affinity_weight, (0, 100), format!("{at}.hardPodAffinityWeight"), causes);
    profile.hard_pod_affinity_weight = args.hard_pod_affinity_weight.unwrap_or(profile.hard_pod_affinity_weight);
    profile.ignore_preferred_terms_of_existing_pods = args.ignore_preferred_terms_of_existing_pods.unwrap_or_default();
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeAffinityArguments {
    added_affinity: Option<Value>,
}

fn node_affinity(args: &Value, profile: &mut Profile, at: &str, causes: &mut Vec<FieldError>) -> Outcome {
    let args: NodeAffinityArguments = read(args, at)?;
    let Some(affinity) = args.added_affinity else { return Ok(()) };
    let at = format!("{at}.addedAffinity");
    causes.extend(admission::check_node_affinity(&affinity, &at));
    profile.added_affinity = affinity;
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceSpec {
    name: String,
    weight: Option<i64>,
}

/// Names and weights; a weight that is not given, or 0, is 1.
fn resources(found: Vec<ResourceSpec>, at: &str, causes: &mut Vec<FieldError>) -> Vec<(String, i64)> {
    let mut resources: Vec<(String, i64)> = Vec::new();
    for (index, ResourceSpec { name, weight }) in found.into_iter().enumerate() {
        let at = format!("{at}[{index}]");
        within(weight, (0, 100), format!("{at}.weight"), causes);
        if name.is_empty() {
            causes.push(FieldError::required(format!("{at}.name"), "the name of a resource, such as cpu"));
        } else if resources.iter().any(|(known, _)| *known == name) {
            causes.push(FieldError::duplicate(format!("{at}.name"), &json!(name)));
        }
        resources.push((name, weight.filter(|weight| *weight > 0).unwrap_or(1)));
    }
    resources
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BalancedAllocation {
    resources: Option<Vec<ResourceSpec>>,
}

fn balanced_allocation(args: &Value, _: &mut Profile, at: &str, causes: &mut Vec<FieldError>) -> Outcome {
    let args: BalancedAllocation = read(args, at)?;
    let Some(found) = args.resources.filter(|found| !found.is_empty()) else { return Ok(()) };
    let at = format!("{at}.resources");
    let mut found = resources(found, &at, causes);
    found.sort();
    if found != ScoringStrategy::default().resources {
        let names: Vec<String> = found.iter().map(|(name, weight)| format!("{name} x {weight}")).collect();
        causes.push(FieldError::invalid(at, &json!(names.join(", ")), "must be cpu and memory, each with weight 1"));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeResourcesFit {
    ignored_resources: Option<Vec<String>>,
    ignored_resource_groups: Option<Vec<String>>,
    scoring_strategy: Option<Strategy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Strategy {
    #[serde(rename = "type")]
    preference: Option<String>,
    resources: Option<Vec<ResourceSpec>>,
    requested_to_capacity_ratio: Option<Value>,
}

fn node_resources_fit(args: &Value, profile: &mut Profile, at: &str, causes: &mut Vec<FieldError>) -> Outcome {
    let args: NodeResourcesFit = read(args, at)?;
    for (field, found) in
        [("ignoredResources", args.ignored_resources), ("ignoredResourceGroups", args.ignored_resource_groups)]
    {
        if found.is_some_and(|found| !found.is_empty()) {
            let detail = "every resource that a pod asks for counts here; leave it out";
            causes.push(FieldError::forbidden(format!("{at}.{field}"), detail));
        }
    }
    let Some(strategy) = args.scoring_strategy else { return Ok(()) };
    let at = format!("{at}.scoringStrategy");
    let preference = match strategy.preference.as_deref() {
        None | Some("LeastAllocated") => Preference::LeastAllocated,
        Some("MostAllocated") => Preference::MostAllocated,
        Some(other) => {
            let supported = ["LeastAllocated", "MostAllocated"];
            causes.push(FieldError::not_supported(format!("{at}.type"), &json!(other), &supported));
            return Ok(());
        }
    };
    if strategy.requested_to_capacity_ratio.is_some() {
        let detail = "belongs to the type RequestedToCapacityRatio, which is not supported";
        causes.push(FieldError::forbidden(format!("{at}.requestedToCapacityRatio"), detail));
    }
    profile.scoring_strategy.preference = preference;
    if let Some(found) = strategy.resources.filter(|found| !found.is_empty()) {
        profile.scoring_strategy.resources = resources(found, &format!("{at}.resources"), causes);
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodTopologySpread {
    default_constraints: Option<Vec<Value>>,
    defaulting_type: Option<String>,
}

fn pod_topology_spread(args: &Value, profile: &mut Profile, at: &str, causes: &mut Vec<FieldError>) -> Outcome {
    let args: PodTopologySpread = read(args, at)?;
    let mut constraints = args.default_constraints.unwrap_or_default();
    match args.defaulting_type.as_deref() {
        None | Some("System") if constraints.is_empty() => return Ok(()),
        None | Some("System") => {
            let detail = "must be left out when defaultingType is System; use defaultingType: List";
            let found = Value::from(constraints);
            causes.push(FieldError::invalid(format!("{at}.defaultConstraints"), &found, detail));
            return Ok(());
        }
        Some("List") => {}
        Some(other) => {
            let field = format!("{at}.defaultingType");
            causes.push(FieldError::not_supported(field, &json!(other), &["System", "List"]));
            return Ok(());
        }
    }
    let at = format!("{at}.defaultConstraints");
    for (index, constraint) in constraints.iter_mut().enumerate() {
        let selector = constraint.as_object_mut().and_then(|fields| fields.remove("labelSelector"));
        let is_empty = |found: &Value| found.is_null() || found.as_object().is_some_and(serde_json::Map::is_empty);
        if selector.is_some_and(|found| !is_empty(&found)) {
            let detail = "constraint must not define a selector, as they are deduced for each pod";
            causes.push(FieldError::forbidden(format!("{at}[{index}].labelSelector"), detail));
        }
    }
    causes.extend(admission::check_spread(&constraints, &at));
    profile.default_spread = DefaultSpread::List(constraints);
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VolumeBinding {
    bind_timeout_seconds: Option<i64>,
    shape: Option<Vec<Value>>,
}

/// A volume is bound together with its pod, so there is nothing to wait for.
fn volume_binding(args: &Value, _: &mut Profile, at: &str, causes: &mut Vec<FieldError>) -> Outcome {
    let args: VolumeBinding = read(args, at)?;
    within(args.bind_timeout_seconds, (0, i64::MAX), format!("{at}.bindTimeoutSeconds"), causes);
    if args.shape.is_some_and(|shape| !shape.is_empty()) {
        causes.push(FieldError::forbidden(format!("{at}.shape"), "volumes are not scored by their capacity here"));
    }
    Ok(())
}
