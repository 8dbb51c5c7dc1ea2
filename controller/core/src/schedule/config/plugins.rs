//! Which plugins are on, as kube-scheduler makes it out of its defaults, `multiPoint` and the single extension points.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::raw::{self, Plugin, PluginSet};
use crate::error::FieldError;
use crate::schedule::filters::{FILTERS, POD_FILTERS};
use crate::schedule::scores::{POD_SCORES, SCORES};

/// Every plugin that kube-scheduler enables by default, in its order, with its extension points. Those that have no rule
/// in the tables have nothing to do here, and may be named all the same.
const KNOWN: &[(&str, &[&str])] = &[
    ("SchedulingGates", &["preEnqueue"]),
    ("PrioritySort", &["queueSort"]),
    ("NodeUnschedulable", &["filter"]),
    ("NodeName", &["filter"]),
    ("TaintToleration", &["filter", "preScore", "score"]),
    ("NodeAffinity", &["preFilter", "filter", "preScore", "score"]),
    ("NodePorts", &["preFilter", "filter"]),
    ("NodeResourcesFit", &["preFilter", "filter", "preScore", "score"]),
    ("VolumeRestrictions", &["preFilter", "filter"]),
    ("NodeVolumeLimits", &["preFilter", "filter"]),
    ("VolumeBinding", &["preFilter", "filter", "reserve", "preBind", "preScore", "score"]),
    ("VolumeZone", &["preFilter", "filter"]),
    ("PodTopologySpread", &["preFilter", "filter", "preScore", "score"]),
    ("InterPodAffinity", &["preFilter", "filter", "preScore", "score"]),
    ("DefaultPreemption", &["postFilter"]),
    ("NodeResourcesBalancedAllocation", &["preScore", "score"]),
    ("ImageLocality", &["score"]),
    ("DefaultBinder", &["bind"]),
];

/// The highest weight of a score.
const MAX_WEIGHT: i64 = 100;

/// The names of [`KNOWN`].
pub(super) fn known() -> Vec<&'static str> {
    KNOWN.iter().map(|(name, _)| *name).collect()
}

/// What is on.
pub(super) struct Plugins {
    pub(super) filters: BTreeSet<&'static str>,
    pub(super) scores: BTreeMap<&'static str, i64>,
    pub(super) preempts: bool,
}

/// The rows of the tables: the plugins' names, and the default weights of the scores.
pub(super) fn defaults() -> (BTreeSet<&'static str>, BTreeMap<&'static str, i64>) {
    let filters = FILTERS.iter().map(|filter| filter.name).chain(POD_FILTERS.iter().map(|filter| filter.name));
    let scores = SCORES.iter().map(|score| (score.name, score.weight));
    (filters.collect(), scores.chain(POD_SCORES.iter().map(|score| (score.name, score.weight))).collect())
}

/// The sets of a profile.
struct Sets<'a> {
    all: Vec<(&'static str, &'a PluginSet)>,
}

const EMPTY: &PluginSet = &PluginSet { enabled: None, disabled: None };

impl<'a> Sets<'a> {
    fn of(raw: &'a raw::Plugins) -> Self {
        let all = [
            ("preEnqueue", &raw.pre_enqueue),
            ("queueSort", &raw.queue_sort),
            ("preFilter", &raw.pre_filter),
            ("filter", &raw.filter),
            ("postFilter", &raw.post_filter),
            ("preScore", &raw.pre_score),
            ("score", &raw.score),
            ("reserve", &raw.reserve),
            ("permit", &raw.permit),
            ("preBind", &raw.pre_bind),
            ("bind", &raw.bind),
            ("postBind", &raw.post_bind),
            ("multiPoint", &raw.multi_point),
        ];
        Self { all: all.map(|(point, set)| (point, set.as_ref().unwrap_or(EMPTY))).to_vec() }
    }

    fn at(&self, point: &str) -> &'a PluginSet {
        self.all.iter().find(|(known, _)| *known == point).map_or(EMPTY, |(_, set)| set)
    }

    /// The weight of a plugin that is on at an extension point: what is stated (a weight of 0 is 1, as in Kubernetes), or
    /// the default. `None` if it is off.
    fn weight(&self, point: &str, name: &str, default: i64) -> Option<i64> {
        let stated = |weight: Option<i64>| weight.filter(|weight| *weight > 0).unwrap_or(1);
        let (own, multi) = (self.at(point), self.at("multiPoint"));
        if let Some(plugin) = own.enables(name) {
            return Some(stated(plugin.weight));
        }
        if own.disables(name) {
            return None;
        }
        match multi.enables(name) {
            Some(plugin) => Some(stated(plugin.weight)),
            None if multi.disables(name) => None,
            None => Some(default),
        }
    }

    fn is_on(&self, point: &str, name: &str) -> bool {
        self.weight(point, name, 1).is_some()
    }
}

impl PluginSet {
    fn enables(&self, name: &str) -> Option<&Plugin> {
        self.enabled.as_ref()?.iter().find(|plugin| plugin.name == name)
    }

    fn disables(&self, name: &str) -> bool {
        self.disabled.iter().flatten().any(|plugin| plugin.name == name || plugin.name == "*")
    }

    fn check(&self, point: &str, at: &str, causes: &mut Vec<FieldError>) {
        let mut names = BTreeSet::new();
        for (index, plugin) in self.enabled.iter().flatten().enumerate() {
            let at = format!("{at}.enabled[{index}]");
            super::within(plugin.weight, (0, MAX_WEIGHT), format!("{at}.weight"), causes);
            let field = format!("{at}.name");
            match KNOWN.iter().find(|(known, _)| *known == plugin.name) {
                None => causes.push(FieldError::not_supported(field, &json!(plugin.name), &known())),
                Some((_, points)) if point != "multiPoint" && !points.contains(&point) => {
                    let detail = format!("is no plugin for {point}, only for {}", points.join(", "));
                    causes.push(FieldError::invalid(field, &json!(plugin.name), &detail));
                }
                Some(_) if !names.insert(&plugin.name) => {
                    causes.push(FieldError::duplicate(field, &json!(plugin.name)));
                }
                Some(_) => {}
            }
        }
        for (index, plugin) in self.disabled.iter().flatten().enumerate() {
            if plugin.name != "*" && !known().contains(&plugin.name.as_str()) {
                let supported: Vec<&str> = known().into_iter().chain(["*"]).collect();
                let field = format!("{at}.disabled[{index}].name");
                causes.push(FieldError::not_supported(field, &json!(plugin.name), &supported));
            }
        }
    }
}

impl Plugins {
    /// Of a profile's `plugins`.
    pub(super) fn of(raw: &raw::Plugins, at: &str, causes: &mut Vec<FieldError>) -> Self {
        let sets = Sets::of(raw);
        for (point, set) in &sets.all {
            set.check(point, &format!("{at}.{point}"), causes);
        }
        for (point, name) in [("queueSort", "PrioritySort"), ("bind", "DefaultBinder")] {
            if !sets.is_on(point, name) {
                let detail = format!("{name} must be enabled, there is no other plugin for {point}");
                causes.push(FieldError::required(format!("{at}.{point}"), &detail));
            }
        }
        for (before, point) in [("preFilter", "filter"), ("preScore", "score")] {
            for (name, points) in KNOWN {
                let both = points.contains(&before) && points.contains(&point);
                if both && sets.is_on(point, name) && !sets.is_on(before, name) {
                    let detail = format!("{name} needs its {before} for its {point}; disable both, or none");
                    causes.push(FieldError::forbidden(format!("{at}.{before}"), &detail));
                }
            }
        }
        let (mut filters, scores) = defaults();
        filters.retain(|name| sets.is_on("filter", name));
        let weighed = scores.into_iter().filter_map(|(name, weight)| Some((name, sets.weight("score", name, weight)?)));
        Self { filters, scores: weighed.collect(), preempts: sets.is_on("postFilter", "DefaultPreemption") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_tables_is_a_plugin_that_can_be_named() {
        let (filters, scores) = defaults();
        for (point, names) in [("filter", filters), ("score", scores.into_keys().collect())] {
            for name in names {
                let known = KNOWN.iter().find(|(known, _)| *known == name);
                assert!(known.is_some_and(|(_, points)| points.contains(&point)), "{name} has no {point} here");
            }
        }
    }
}
