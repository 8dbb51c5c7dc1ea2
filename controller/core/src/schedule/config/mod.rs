//! What an operator says of the scheduler: a file of kind `KubeSchedulerConfiguration` (TSC-05, PRI-10).
//!
//! *In:* the text of a file. *Out:* a [`Configuration`] in which nothing is left to be checked, or every field that is
//! wrong, with what would be right.
//! *Must never know:* where the file is; nodes and pods.
//! *Tested:* a table of good and bad files here, the example of the manual too; what they do, in the scheduler's tests.
//!
//! `docs/scheduler-configuration.md` says of every field whether it is honoured, read without effect, or refused.

mod raw;

mod plugins;

mod arguments;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{FieldError, FieldReason};
use crate::manifest::{self, ManifestError};
use crate::rows::SCHEDULER_NAME;

/// `apiVersion`
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// `kind`
const KIND: &str = "KubeSchedulerConfiguration";
/// Profiles in one configuration: far above what anybody needs.
const MAX_PROFILES: usize = 64;
/// `podInitialBackoffSeconds` and `podMaxBackoffSeconds` where they are not given.
const BACK_OFF_SECONDS: (i64, i64) = (1, 10);
/// The longest back-off that is taken: a year.
const MOST_BACK_OFF_SECONDS: i64 = 31_536_000;

/// How pods are placed: a `KubeSchedulerConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// At least one; no two for the same `schedulerName`.
    pub profiles: Vec<Profile>,
    /// `podInitialBackoffSeconds`, in milliseconds: the wait after a pod's first failure; it doubles with each further one.
    pub initial_back_off_ms: u64,
    /// `podMaxBackoffSeconds`, in milliseconds: the longest wait.
    pub most_back_off_ms: u64,
}

/// How pods with one `schedulerName` are placed: a `KubeSchedulerProfile` with its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `schedulerName`
    pub scheduler_name: Arc<str>,
    /// Plugins whose filter is on.
    pub filters: BTreeSet<&'static str>,
    /// Plugins whose score is on, with weights.
    pub scores: BTreeMap<&'static str, i64>,
    /// Whether pods that fit nowhere may take the room of others (PRI-10).
    pub preempts: bool,
    /// `NodeResourcesFitArgs.scoringStrategy`
    pub scoring_strategy: ScoringStrategy,
    /// `PodTopologySpreadArgs`
    pub default_spread: DefaultSpread,
    /// `InterPodAffinityArgs.hardPodAffinityWeight`: what the required affinity of existing pods counts in scores.
    pub hard_pod_affinity_weight: i64,
    /// `InterPodAffinityArgs.ignorePreferredTermsOfExistingPods`, for pods that have no preferences of their own.
    pub ignore_preferred_terms_of_existing_pods: bool,
    /// `NodeAffinityArgs.addedAffinity`: a `NodeAffinity` in which nothing is wrong, or null.
    pub added_affinity: Value,
}

/// `NodeResourcesFitArgs.scoringStrategy`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoringStrategy {
    /// `type`
    pub preference: Preference,
    /// `resources`: names and weights.
    pub resources: Vec<(String, i64)>,
}

/// What the score `NodeResourcesFit` gives points for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// For what is left of a node.
    LeastAllocated,
    /// For what is used of it, so that few nodes are used well.
    MostAllocated,
}

/// `PodTopologySpreadArgs` (TSC-05)
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultSpread {
    /// `defaultingType: System`
    System,
    /// `defaultingType: List`: `defaultConstraints`, which have no `labelSelector`.
    List(Vec<Value>),
}

/// Why a file is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// It cannot be read as YAML or JSON.
    #[error(transparent)]
    Text(#[from] ManifestError),
    /// It holds none, or several.
    #[error("found {0} documents, want one {KIND} of {API_VERSION}")]
    Documents(usize),
    /// Fields are wrong: where, what was found, and what would be right.
    #[error("{}", listed(.0))]
    Fields(Vec<FieldError>),
}

fn listed(causes: &[FieldError]) -> String {
    let listed: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    listed.join("; ")
}

impl Default for Configuration {
    /// One profile, as kube-scheduler has it without a file.
    fn default() -> Self {
        let ms = |seconds: i64| seconds.unsigned_abs() * 1000;
        Self {
            profiles: vec![Profile::new(SCHEDULER_NAME)],
            initial_back_off_ms: ms(BACK_OFF_SECONDS.0),
            most_back_off_ms: ms(BACK_OFF_SECONDS.1),
        }
    }
}

impl Profile {
    /// Kubernetes' defaults, for pods with this `schedulerName`.
    #[must_use]
    pub fn new(scheduler_name: &str) -> Self {
        let (filters, scores) = plugins::defaults();
        Self {
            scheduler_name: scheduler_name.into(),
            filters,
            scores,
            preempts: true,
            scoring_strategy: ScoringStrategy::default(),
            default_spread: DefaultSpread::System,
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
            added_affinity: Value::Null,
        }
    }
}

impl Default for ScoringStrategy {
    fn default() -> Self {
        let resources = ["cpu", "memory"].map(|name| (name.to_owned(), 1)).to_vec();
        Self { preference: Preference::LeastAllocated, resources }
    }
}

/// Reads a file, YAML or JSON.
///
/// # Errors
/// When it is not one `KubeSchedulerConfiguration` in which every field is known and right.
pub fn parse(bytes: &[u8]) -> Result<Configuration, ConfigurationError> {
    let documents = manifest::parse(bytes)?;
    let [document] = &documents[..] else { return Err(ConfigurationError::Documents(documents.len())) };
    let mut causes = Vec::new();
    for (field, want) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        if document.value[field] != want {
            causes.push(FieldError::not_supported(field, &document.value[field], &[want]));
        }
    }
    if !causes.is_empty() {
        return Err(ConfigurationError::Fields(causes));
    }
    let raw: raw::Configuration = read(&document.value, "").map_err(|cause| ConfigurationError::Fields(vec![cause]))?;
    let configuration = configuration(raw, &mut causes);
    if causes.is_empty() { Ok(configuration) } else { Err(ConfigurationError::Fields(causes)) }
}

/// Reads a value as a type that knows all its fields.
fn read<T: DeserializeOwned>(value: &Value, at: &str) -> Result<T, FieldError> {
    let place = |path: &str| match (at, path) {
        (at, "." | "") => at.to_owned(),
        ("", path) => path.to_owned(),
        (at, path) => format!("{at}.{path}"),
    };
    let read = serde_path_to_error::deserialize(value).map_err(|error| {
        let field = place(&error.path().to_string());
        FieldError { reason: FieldReason::TypeInvalid, field, message: error.inner().to_string() }
    })?;
    if let Some(path) = misplaced_list(value, "") {
        let message = "found a list, want an object".to_owned();
        return Err(FieldError { reason: FieldReason::TypeInvalid, field: place(&path), message });
    }
    Ok(read)
}

/// Fields that hold lists.
const LISTS: [&str; 10] = [
    "profiles",
    "extenders",
    "enabled",
    "disabled",
    "pluginConfig",
    "resources",
    "ignoredResources",
    "ignoredResourceGroups",
    "defaultConstraints",
    "shape",
];
/// Fields of which the content is looked at by itself.
const APART: [&str; 4] = ["extenders", "args", "defaultConstraints", "addedAffinity"];

/// The path of a list that stands where an object is wanted: the reader would take its items for the object's fields.
fn misplaced_list(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::Array(_) => Some(path.to_owned()),
        Value::Object(fields) => {
            fields.iter().filter(|(name, _)| !APART.contains(&name.as_str())).find_map(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match value {
                    Value::Array(items) if LISTS.contains(&name.as_str()) => {
                        let mut items = items.iter().enumerate();
                        items.find_map(|(index, item)| misplaced_list(item, &format!("{path}[{index}]")))
                    }
                    value => misplaced_list(value, &path),
                }
            })
        }
        _ => None,
    }
}

/// A number, if it is given, lies between these two.
fn within(found: Option<i64>, (least, most): (i64, i64), at: impl Into<String>, causes: &mut Vec<FieldError>) {
    if let Some(found) = found.filter(|found| !(least..=most).contains(found)) {
        causes.push(FieldError::invalid(at, &json!(found), &format!("must be in the range {least}-{most}")));
    }
}

fn configuration(raw: raw::Configuration, causes: &mut Vec<FieldError>) -> Configuration {
    within(raw.parallelism, (1, i64::MAX), "parallelism", causes);
    within(raw.percentage_of_nodes_to_score, (0, 100), "percentageOfNodesToScore", causes);
    let (first, most) = BACK_OFF_SECONDS;
    let first = raw.pod_initial_backoff_seconds.unwrap_or(first);
    let most = raw.pod_max_backoff_seconds.unwrap_or(most);
    within(Some(first), (1, MOST_BACK_OFF_SECONDS), "podInitialBackoffSeconds", causes);
    within(Some(most), (1, MOST_BACK_OFF_SECONDS), "podMaxBackoffSeconds", causes);
    if most < first {
        let detail = format!("must be greater than or equal to podInitialBackoffSeconds ({first})");
        causes.push(FieldError::invalid("podMaxBackoffSeconds", &json!(most), &detail));
    }
    if raw.extenders.is_some_and(|extenders| !extenders.is_empty()) {
        let detail = "there are no extenders here: the scheduler asks nobody outside of its process";
        causes.push(FieldError::forbidden("extenders", detail));
    }
    let mut profiles = raw.profiles.unwrap_or_default();
    if profiles.len() > MAX_PROFILES {
        let message = format!("Too many: {}: must have at most {MAX_PROFILES} items", profiles.len());
        causes.push(FieldError { reason: FieldReason::TooMany, field: "profiles".to_owned(), message });
        profiles.truncate(MAX_PROFILES);
    }
    if profiles.is_empty() {
        profiles.push(raw::Profile::default());
    }
    let is_only = profiles.len() == 1;
    let mut names = BTreeSet::new();
    let mut made = Vec::new();
    for (index, profile) in profiles.into_iter().enumerate() {
        let at = format!("profiles[{index}]");
        let name = match profile.scheduler_name.as_deref().unwrap_or_default() {
            "" if is_only => SCHEDULER_NAME.to_owned(),
            "" => {
                let detail = "each of several profiles needs a name of its own";
                causes.push(FieldError::required(format!("{at}.schedulerName"), detail));
                continue;
            }
            name => name.to_owned(),
        };
        if !names.insert(name.clone()) {
            causes.push(FieldError::duplicate(format!("{at}.schedulerName"), &json!(name)));
        }
        let may_preempt = raw.disable_preemption != Some(true);
        made.push(self::profile(&name, profile, may_preempt, &at, causes));
    }
    let ms = |seconds: i64| seconds.unsigned_abs().saturating_mul(1000);
    Configuration { profiles: made, initial_back_off_ms: ms(first), most_back_off_ms: ms(most) }
}

fn profile(name: &str, raw: raw::Profile, may_preempt: bool, at: &str, causes: &mut Vec<FieldError>) -> Profile {
    within(raw.percentage_of_nodes_to_score, (0, 100), format!("{at}.percentageOfNodesToScore"), causes);
    let plugins = plugins::Plugins::of(&raw.plugins.unwrap_or_default(), &format!("{at}.plugins"), causes);
    let preempts = may_preempt && raw.disable_preemption != Some(true) && plugins.preempts;
    let mut profile = Profile { filters: plugins.filters, scores: plugins.scores, preempts, ..Profile::new(name) };
    let mut names = BTreeSet::new();
    for (index, given) in raw.plugin_config.unwrap_or_default().into_iter().enumerate() {
        let at = format!("{at}.pluginConfig[{index}]");
        if names.insert(given.name.clone()) {
            arguments::apply(&given, &mut profile, &at, causes);
        } else {
            causes.push(FieldError::duplicate(format!("{at}.name"), &json!(given.name)));
        }
    }
    profile
}
