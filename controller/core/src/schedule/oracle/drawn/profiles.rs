//! Configurations of the scheduler, drawn at random.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::{HOSTNAME, Shown, ZONE, some_node_term};

const SCORES: [&str; 7] = [
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
];

/// Filters, and whether they look at a pod before they look at nodes. Those of volumes make no sense without each other.
const FILTERS: [(&str, bool); 8] = [
    ("NodeUnschedulable", false),
    ("NodeName", false),
    ("TaintToleration", false),
    ("NodeAffinity", true),
    ("NodePorts", true),
    ("NodeResourcesFit", true),
    ("PodTopologySpread", true),
    ("InterPodAffinity", true),
];

fn named(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"name": name})).collect()
}

const ABOUT_VOLUMES: [(&str, bool); 3] = [("VolumeRestrictions", true), ("VolumeBinding", true), ("VolumeZone", true)];

/// Weights of some scores, others are off; or all are off but these.
fn some_scores() -> impl Strategy<Value = Value> {
    let weight =
        prop_oneof![1 => Just(Value::Null), 1 => Just(json!(0)), 4 => (1..101_u8).prop_map(|weight| json!(weight))];
    let enabled = subsequence(SCORES.to_vec(), 0..=4).prop_flat_map(move |names| {
        vec(weight.clone(), names.len()).prop_map(move |weights| {
            let of = |(name, weight): (&&str, Value)| match weight {
                Value::Null => json!({"name": name}),
                weight => json!({"name": name, "weight": weight}),
            };
            names.iter().zip(weights).map(of).collect::<Vec<Value>>()
        })
    });
    let disabled = prop_oneof![3 => subsequence(SCORES.to_vec(), 0..=2), 1 => Just(vec!["*"])];
    (enabled, disabled).prop_map(|(enabled, disabled)| json!({"enabled": enabled, "disabled": named(&disabled)}))
}

/// Some filters are off, at their extension points or everywhere; perhaps preemption, too.
fn some_plugins() -> impl Strategy<Value = Value> {
    let off = prop_oneof![3 => Just(Vec::new()), 3 => subsequence(FILTERS.to_vec(), 1..=2), 1 => Just(ABOUT_VOLUMES.to_vec())];
    let everywhere = weighted(0.3, (select(SCORES.to_vec()), prop_oneof![Just(0_u8), 1..101_u8]));
    (weighted(0.7, some_scores()), off, everywhere, prop::bool::weighted(0.05)).prop_map(
        |(scores, off, everywhere, is_tame)| {
            let filters: Vec<&str> = off.iter().map(|(name, _)| *name).collect();
            let before: Vec<&str> = off.iter().filter(|(_, looks_first)| *looks_first).map(|(name, _)| *name).collect();
            let mut plugins =
                json!({"filter": {"disabled": named(&filters)}, "preFilter": {"disabled": named(&before)}});
            if let Some(scores) = scores {
                plugins["score"] = scores;
            }
            match everywhere {
                Some((name, 0)) => {
                    // Off at all its points, and so on at none of them.
                    plugins["multiPoint"] = json!({"disabled": named(&[name])});
                    if let Some(scores) = plugins["score"]["enabled"].as_array_mut() {
                        scores.retain(|plugin| plugin["name"] != name);
                    }
                }
                Some((name, weight)) => {
                    plugins["multiPoint"] = json!({"enabled": [{"name": name, "weight": weight}]});
                }
                None => {}
            }
            if is_tame {
                plugins["postFilter"] = json!({"disabled": named(&["DefaultPreemption"])});
            }
            plugins
        },
    )
}

fn some_default_constraint() -> impl Strategy<Value = Value> {
    let key = select(vec![ZONE, HOSTNAME, "size"]);
    (key, select(vec!["DoNotSchedule", "ScheduleAnyway"]), 1..4_u8, weighted(0.2, Just("Honor"))).prop_map(
        |(key, when, skew, taints)| {
            let mut value = json!({"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": skew});
            if let Some(policy) = taints {
                value["nodeTaintsPolicy"] = json!(policy);
            }
            value
        },
    )
}

fn some_strategy() -> impl Strategy<Value = Value> {
    let kind = select(vec!["LeastAllocated", "MostAllocated"]);
    let names = subsequence(vec!["cpu", "memory", "ephemeral-storage", "example.com/gpio"], 0..=4);
    (kind, names, vec(0..101_u8, 4)).prop_map(|(kind, names, weights)| {
        let resources: Vec<Value> =
            names.iter().zip(weights).map(|(name, weight)| json!({"name": name, "weight": weight})).collect();
        json!({"scoringStrategy": {"type": kind, "resources": resources}})
    })
}

fn some_added_affinity() -> impl Strategy<Value = Value> {
    let preference =
        (1..101_u8, some_node_term()).prop_map(|(weight, term)| json!({"weight": weight, "preference": term}));
    (weighted(0.15, vec(some_node_term(), 1..3)), vec(preference, 0..3)).prop_map(|(required, preferred)| {
        let mut value = json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred});
        if let Some(terms) = required {
            value["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": terms});
        }
        json!({"addedAffinity": value})
    })
}

fn some_arguments() -> impl Strategy<Value = Vec<Value>> {
    let spread = vec(some_default_constraint(), 0..3).prop_map(|mut constraints| {
        let pair = |of: &Value| (of["topologyKey"].to_string(), of["whenUnsatisfiable"].to_string());
        if let [first, second] = &constraints[..]
            && pair(first) == pair(second)
        {
            constraints.truncate(1);
        }
        json!({"defaultingType": "List", "defaultConstraints": constraints})
    });
    let pods = (0..101_u8, any::<bool>()).prop_map(
        |(weight, ignores)| json!({"hardPodAffinityWeight": weight, "ignorePreferredTermsOfExistingPods": ignores}),
    );
    let given = |name: &'static str, args: BoxedStrategy<Value>| {
        weighted(0.4, args).prop_map(move |args| args.map(|args| json!({"name": name, "args": args})))
    };
    let all = (
        given("NodeResourcesFit", some_strategy().boxed()),
        given("NodeAffinity", some_added_affinity().boxed()),
        given("InterPodAffinity", pods.boxed()),
        given("PodTopologySpread", spread.boxed()),
    );
    all.prop_map(|(fit, affinity, pods, spread)| [fit, affinity, pods, spread].into_iter().flatten().collect())
}

fn some_profile(name: &'static str) -> impl Strategy<Value = Value> {
    (some_plugins(), some_arguments(), prop::bool::weighted(0.05)).prop_map(move |(plugins, arguments, is_tame)| {
        json!({"schedulerName": name, "plugins": plugins, "pluginConfig": arguments, "disablePreemption": is_tame})
    })
}

/// Two profiles; the first is often Kubernetes' own.
pub(in super::super) fn some_configuration() -> impl Strategy<Value = Shown> {
    let first = prop_oneof![
        1 => Just(json!({"schedulerName": "default-scheduler"})),
        1 => some_profile("default-scheduler"),
    ];
    let second = some_profile("second");
    (first, second).prop_map(|(first, second)| Shown(json!({"profiles": [first, second]})))
}
