//! What a pod's profile says, read from the configuration's file each time.

use serde_json::Value;

use super::objects::{list, text};

/// One of `profiles`; null for Kubernetes' defaults.
#[derive(Clone, Copy)]
pub(super) struct Profile<'a> {
    file: &'a Value,
    profile: &'a Value,
}

impl<'a> Profile<'a> {
    /// That of a pod's `schedulerName`.
    pub(super) fn of(file: &'a Value, pod: &Value) -> Self {
        let name = |of: &Value, field| match text(of, field) {
            "" => "default-scheduler".to_owned(),
            name => name.to_owned(),
        };
        let wanted = name(&pod["spec"], "schedulerName");
        let found = list(&file["profiles"]).find(|profile| name(profile, "schedulerName") == wanted);
        Self { file, profile: found.unwrap_or(&Value::Null) }
    }

    /// What stands at an extension point: how much a plugin counts there, if it is on.
    fn weight_at(self, point: &str, plugin: &str, default: i64) -> Option<i64> {
        for set in [&self.profile["plugins"][point], &self.profile["plugins"]["multiPoint"]] {
            if let Some(enabled) = list(&set["enabled"]).find(|enabled| text(enabled, "name") == plugin) {
                return Some(enabled["weight"].as_i64().unwrap_or(1).max(1));
            }
            if list(&set["disabled"]).any(|disabled| ["*", plugin].contains(&text(disabled, "name"))) {
                return None;
            }
        }
        Some(default)
    }

    /// Whether a plugin's filter is on.
    pub(super) fn filters(self, plugin: &str) -> bool {
        self.weight_at("filter", plugin, 1).is_some()
    }

    /// How much a plugin's score counts; nothing if it is off.
    pub(super) fn weight(self, plugin: &str, default: i64) -> i64 {
        self.weight_at("score", plugin, default).unwrap_or(0)
    }

    pub(super) fn preempts(self) -> bool {
        let is_off = |of: &Value| of["disablePreemption"] == true;
        self.weight_at("postFilter", "DefaultPreemption", 1).is_some() && !is_off(self.file) && !is_off(self.profile)
    }

    /// `args` of `pluginConfig`; null if there are none.
    pub(super) fn args(self, plugin: &str) -> &'a Value {
        let mut given = list(&self.profile["pluginConfig"]);
        given.find(|given| text(given, "name") == plugin).map_or(&Value::Null, |given| &given["args"])
    }

    /// Whether a pod without constraints of its own is spread by the system's.
    pub(super) fn spreads_by_system(self) -> bool {
        text(self.args("PodTopologySpread"), "defaultingType") != "List"
    }
}
