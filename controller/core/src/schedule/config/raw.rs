//! The file as it is written: every field that kube-scheduler knows, and no other. What has no meaning here is read all
//! the same, so that a mistyped name is found.

use serde::Deserialize;
use serde_json::Value;

/// `KubeSchedulerConfiguration`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "some fields have no effect here, and are known all the same")]
pub(super) struct Configuration {
    api_version: String,
    kind: String,
    pub(super) parallelism: Option<i64>,
    leader_election: Option<LeaderElection>,
    client_connection: Option<ClientConnection>,
    enable_profiling: Option<bool>,
    enable_contention_profiling: Option<bool>,
    pub(super) percentage_of_nodes_to_score: Option<i64>,
    pub(super) pod_initial_backoff_seconds: Option<i64>,
    pub(super) pod_max_backoff_seconds: Option<i64>,
    delay_cache_until_active: Option<bool>,
    pub(super) profiles: Option<Vec<Profile>>,
    pub(super) extenders: Option<Vec<Value>>,
    /// Coracle's own (PRI-10).
    pub(super) disable_preemption: Option<bool>,
}

/// `LeaderElectionConfiguration`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "there is one scheduler, in the controller")]
struct LeaderElection {
    leader_elect: Option<bool>,
    lease_duration: Option<String>,
    renew_deadline: Option<String>,
    retry_period: Option<String>,
    resource_lock: Option<String>,
    resource_name: Option<String>,
    resource_namespace: Option<String>,
}

/// `ClientConnectionConfiguration`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the scheduler is no client of the API")]
struct ClientConnection {
    kubeconfig: Option<String>,
    accept_content_types: Option<String>,
    content_type: Option<String>,
    qps: Option<f64>,
    burst: Option<i64>,
}

/// `KubeSchedulerProfile`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) scheduler_name: Option<String>,
    pub(super) percentage_of_nodes_to_score: Option<i64>,
    pub(super) plugins: Option<Plugins>,
    pub(super) plugin_config: Option<Vec<PluginConfig>>,
    /// Coracle's own (PRI-10).
    pub(super) disable_preemption: Option<bool>,
}

/// `Plugins`: a set for each extension point.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Plugins {
    pub(super) pre_enqueue: Option<PluginSet>,
    pub(super) queue_sort: Option<PluginSet>,
    pub(super) pre_filter: Option<PluginSet>,
    pub(super) filter: Option<PluginSet>,
    pub(super) post_filter: Option<PluginSet>,
    pub(super) pre_score: Option<PluginSet>,
    pub(super) score: Option<PluginSet>,
    pub(super) reserve: Option<PluginSet>,
    pub(super) permit: Option<PluginSet>,
    pub(super) pre_bind: Option<PluginSet>,
    pub(super) bind: Option<PluginSet>,
    pub(super) post_bind: Option<PluginSet>,
    pub(super) multi_point: Option<PluginSet>,
}

/// `PluginSet`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PluginSet {
    pub(super) enabled: Option<Vec<Plugin>>,
    pub(super) disabled: Option<Vec<Plugin>>,
}

/// `Plugin`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) weight: Option<i64>,
}

/// `PluginConfig`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PluginConfig {
    pub(super) name: String,
    pub(super) args: Option<Value>,
}
