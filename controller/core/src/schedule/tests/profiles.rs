//! What a configuration does: profiles, weights, plugins that are off, and pods that no profile is for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Verdict, World, asking, node, pod, refusals};
use crate::kind::Kind;
use crate::object::Key;

fn of(scheduler: &str, mut pod: Value) -> Value {
    pod["spec"]["schedulerName"] = json!(scheduler);
    pod
}

fn labelled(name: &str, key: &str, value: &str) -> Value {
    let mut found = node(name, "8", "8Gi");
    found["metadata"]["labels"][key] = json!(value);
    found
}

/// What one score gives to each node.
fn points(world: &mut World, key: &Key, score: &str) -> BTreeMap<String, i64> {
    let found = world.explain(key);
    let of = |verdict: &Verdict| match verdict {
        Verdict::Feasible { points, .. } => {
            points.iter().find(|points| points.score == score).map(|found| found.points)
        }
        Verdict::Refused { .. } => None,
    };
    found.verdicts.iter().filter_map(|(node, verdict)| Some((node.to_string(), of(verdict)?))).collect()
}

/// A pod that would rather be where the disk is fast, while the node without is emptier.
fn choosy(name: &str) -> Value {
    let mut value = asking(name, "2", "1Gi");
    value["spec"]["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}}]}});
    value
}

fn fast_and_empty(world: &mut World) {
    world.put(Kind::NODE, labelled("fast", "disk", "fast"));
    world.put(Kind::NODE, node("empty", "8", "8Gi"));
    let mut busy = asking("busy", "4", "4Gi");
    busy["spec"]["nodeName"] = json!("fast");
    world.put(Kind::POD, busy);
}

// SCH-02
#[test]
fn weights_decide_where_a_pod_goes() {
    let score = |enabled: Value| json!({"profiles": [{"plugins": {"score": {"enabled": enabled}}}]});
    for (fields, want) in [
        (json!({}), "fast"),
        (score(json!([{"name": "NodeResourcesFit", "weight": 10}])), "empty"),
        (score(json!([{"name": "NodeResourcesFit", "weight": 10}, {"name": "NodeAffinity", "weight": 100}])), "fast"),
        (json!({"profiles": [{"plugins": {"score": {"disabled": [{"name": "NodeAffinity"}]}}}]}), "empty"),
    ] {
        let mut world = World::configured(1, &fields);
        fast_and_empty(&mut world);
        let key = world.put(Kind::POD, choosy("p"));
        let told = world.explain(&key).best;
        world.settle();
        assert_eq!(world.node_of(&key).as_deref(), Some(want), "{fields}");
        assert_eq!(told.as_deref(), Some(want), "{fields}");
    }
}

// TSC-04: without the filter NodeAffinity a pod may go to a node that does not count for its constraint, and Kubernetes
// scores by host name whatever is there.
#[test]
fn by_host_name_a_node_is_scored_by_its_pods_even_if_it_does_not_count() {
    let off = json!([{"name": "NodeAffinity"}]);
    let plugins = json!({"filter": {"disabled": off}, "preFilter": {"disabled": off},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "PodTopologySpread"}]}});
    let mut world = World::configured(1, &json!({"profiles": [{"plugins": plugins}]}));
    for name in ["a", "b"] {
        world.put(Kind::NODE, labelled(name, "disk", if name == "a" { "slow" } else { "fast" }));
    }
    let spread = |name: &str| {
        let mut value = asking(name, "1", "1Gi");
        value["metadata"]["labels"] = json!({"app": "x"});
        value["spec"]["nodeSelector"] = json!({"disk": "fast"});
        value["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "x"}}}]);
        value
    };
    for name in ["one", "two"] {
        let mut there = spread(name);
        there["spec"]["nodeName"] = json!("a");
        world.put(Kind::POD, there);
    }
    let key = world.put(Kind::POD, spread("p"));
    let found = points(&mut world, &key, "PodTopologySpread");
    assert_eq!(found, BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 100)]));
}

// SCH-02: pods that ask the same of two profiles do not share what was found.
#[test]
fn two_profiles_place_the_same_pod_each_by_its_own_rules() {
    let batch = json!({"schedulerName": "batch", "plugins": {
        "filter": {"disabled": [{"name": "TaintToleration"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}}});
    let mut world = World::configured(1, &json!({"profiles": [{"schedulerName": "default-scheduler"}, batch]}));
    fast_and_empty(&mut world);
    let mut tainted = node("tainted", "64", "64Gi");
    tainted["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    world.put(Kind::NODE, tainted);
    let keys: Vec<_> = (0..3)
        .flat_map(|number| {
            let usual = world.put(Kind::POD, choosy(&format!("usual-{number}")));
            [usual, world.put(Kind::POD, of("batch", choosy(&format!("batch-{number}"))))]
        })
        .collect();
    assert_eq!(
        refusals(&world.explain(&keys[0]), "tainted"),
        ["TaintToleration: node(s) had untolerated taint {k: v}"]
    );
    assert_eq!(refusals(&world.explain(&keys[1]), "tainted"), [""; 0]);
    world.settle();
    let nodes: Vec<_> = keys.iter().map(|key| world.node_of(key).unwrap()).collect();
    assert_eq!(nodes, ["fast", "tainted", "fast", "tainted", "empty", "tainted"]);
    let authors: Vec<_> = world.notes.iter().map(|note| (&*note.about.name, &*note.component)).collect();
    assert!(authors.contains(&("usual-0", "default-scheduler")) && authors.contains(&("batch-0", "batch")));
}

// SCH-01
#[test]
fn a_filter_that_is_off_refuses_nobody() {
    let off = |name: &str| {
        let disabled = json!({"disabled": [{"name": name}]});
        json!({"profiles": [{"plugins": {"multiPoint": disabled}}]})
    };
    let elsewhere = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["nowhere"]}]}]}}});
    let alone = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}});
    let skewed = json!([{"maxSkew": 1, "topologyKey": "missing", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {}}]);
    let port = json!([{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]);
    for (filter, spec) in [
        ("NodeAffinity", json!({"affinity": elsewhere})),
        ("NodeAffinity", json!({"nodeSelector": {"a": "b"}})),
        ("InterPodAffinity", json!({"affinity": alone})),
        ("PodTopologySpread", json!({"topologySpreadConstraints": skewed})),
        ("NodePorts", json!({"containers": port})),
        ("NodeResourcesFit", json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]})),
    ] {
        for (fields, want) in [(json!({}), None), (off(filter), Some("a"))] {
            let mut world = World::configured(1, &fields);
            world.put(Kind::NODE, node("a", "8", "8Gi"));
            let mut there = pod("there", json!({"containers": port}));
            there["spec"]["nodeName"] = json!("a");
            world.put(Kind::POD, there);
            let key = world.put(Kind::POD, pod("p", spec.clone()));
            world.settle();
            assert_eq!(world.node_of(&key).as_deref(), want, "{filter} {fields}");
        }
    }
}

fn fit(strategy: Value) -> Value {
    json!({"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}]})
}

#[test]
fn what_is_allocated_most_or_least_and_by_which_resources_is_scored_as_kubernetes_does() {
    for (strategy, device, want) in [
        // Used with the pod: cpu 6 of 8 and 2 of 8, memory 5 of 8 and 1 of 8, devices 1 of 4 and none.
        (json!({}), 0, [(100 - 75 + 37) / 2, (75 + 87) / 2]),
        (json!({"type": "MostAllocated"}), 0, [(75 + 62) / 2, (25 + 12) / 2]),
        (json!({"type": "MostAllocated", "resources": [{"name": "cpu"}]}), 0, [75, 25]),
        (
            json!({"resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]}),
            0,
            [(3 * 25 + 37) / 4, (3 * 75 + 87) / 4],
        ),
        // A device that is not asked for is not scored; a node that has none is scored by the rest.
        (json!({"resources": [{"name": "example.com/gpu"}]}), 0, [0, 0]),
        (json!({"resources": [{"name": "example.com/gpu", "weight": 5}, {"name": "cpu"}]}), 0, [25, 75]),
        (json!({"type": "MostAllocated", "resources": [{"name": "example.com/gpu"}]}), 1, [50, 25]),
    ] {
        let mut world = World::configured(1, &fit(strategy.clone()));
        for name in ["full", "free"] {
            let mut value = node(name, "8", "8Gi");
            value["status"]["allocatable"]["example.com/gpu"] = json!("4");
            world.put(Kind::NODE, value);
        }
        let mut there = asking("there", "4", "4Gi");
        there["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = json!("1");
        there["spec"]["nodeName"] = json!("full");
        world.put(Kind::POD, there);
        let mut value = asking("p", "2", "1Gi");
        if device > 0 {
            value["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = json!("1");
        }
        let key = world.put(Kind::POD, value);
        let found = points(&mut world, &key, "NodeResourcesFit");
        assert_eq!([found["full"], found["free"]], want, "{strategy}");
    }
    // Filled one after the other.
    let mut world = World::configured(1, &fit(json!({"type": "MostAllocated"})));
    for name in ["a", "b", "c"] {
        world.put(Kind::NODE, node(name, "8", "8Gi"));
    }
    let keys: Vec<_> = (0..4).map(|index| world.put(Kind::POD, asking(&format!("p{index}"), "2", "2Gi"))).collect();
    world.settle();
    let nodes: Vec<_> = keys.iter().map(|key| world.node_of(key).unwrap()).collect();
    assert!(nodes.iter().all(|node| *node == nodes[0]), "{nodes:?}");
}

// PRI-10
#[test]
fn without_preemption_pods_wait_and_the_profile_beside_it_still_preempts() {
    let post_filter = json!({"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}});
    let mut beside = post_filter.clone();
    beside["schedulerName"] = json!("calm");
    for (fields, scheduler, goes) in [
        (json!({}), "default-scheduler", true),
        (json!({"disablePreemption": true}), "default-scheduler", false),
        (json!({"profiles": [post_filter]}), "default-scheduler", false),
        (json!({"profiles": [{"disablePreemption": true}]}), "default-scheduler", false),
        (json!({"profiles": [{"schedulerName": "default-scheduler"}, beside]}), "calm", false),
        (json!({"profiles": [{"schedulerName": "default-scheduler"}, beside]}), "default-scheduler", true),
    ] {
        let mut world = World::configured(1, &fields);
        world.put(Kind::NODE, node("a", "2", "8Gi"));
        let low = world.put(Kind::POD, asking("low", "2", "1Gi"));
        world.settle();
        let mut high = of(scheduler, asking("high", "2", "1Gi"));
        high["spec"]["priority"] = json!(10);
        let high = world.put(Kind::POD, high);
        world.settle();
        assert_eq!(world.view.get(&low).unwrap().is_deleting(), goes, "{fields} {scheduler}");
        if !goes {
            // Nothing is said of what is not tried.
            assert_eq!(world.condition(&high)["message"], "0/1 nodes are available: 1 Insufficient cpu.");
            world.delete(&low);
            world.wake_all();
            assert_eq!(world.node_of(&high).as_deref(), Some("a"));
        }
    }
}

fn zones(world: &mut World) {
    for (name, zone) in [("a", "one"), ("b", "two")] {
        world.put(Kind::NODE, labelled(name, "topology.kubernetes.io/zone", zone));
    }
    // In none.
    world.put(Kind::NODE, node("c", "64", "64Gi"));
    world.put(Kind::SERVICE, json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}));
}

// TSC-05
#[test]
fn default_constraints_of_a_profile_spread_pods_that_belong_to_somebody_and_state_none() {
    let constraint = json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule"});
    let args = json!({"defaultingType": "List", "defaultConstraints": [constraint]});
    let fields = json!({"profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}]});
    let mut world = World::configured(1, &fields);
    zones(&mut world);
    let web = |name: &str, app: &str| {
        let mut value = asking(name, "1", "1Gi");
        value["metadata"]["labels"] = json!({"app": app});
        value
    };
    let mut there = web("there", "web");
    there["spec"]["nodeName"] = json!("a");
    world.put(Kind::POD, there);
    let key = world.put(Kind::POD, web("p", "web"));
    const WORDS: &str = "PodTopologySpread: node(s) didn't match pod topology spread constraints";
    let found = world.explain(&key);
    assert_eq!(refusals(&found, "a"), [WORDS]);
    assert_eq!(refusals(&found, "c"), [format!("{WORDS} (missing required label)")]);
    world.settle();
    assert_eq!(world.node_of(&key).as_deref(), Some("b"));
    // Those that belong to nobody, and those with constraints of their own, are not held to them.
    let nobodys = world.put(Kind::POD, web("nobodys", "other"));
    assert_eq!(world.explain(&nobodys).best.as_deref(), Some("c"));
    let mut own = web("own", "web");
    own["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let own = world.put(Kind::POD, own);
    let found = world.explain(&own);
    assert_eq!((refusals(&found, "a"), refusals(&found, "c")), (vec![WORDS.to_owned()], vec![]));
}

// TSC-05, TSC-04: under the system's constraints a node in no zone is as good as any; under an operator's it gets nothing.
#[test]
fn a_node_without_the_key_is_ignored_only_under_an_operators_constraints() {
    let soft =
        json!({"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let list = |constraints: Value| json!({"defaultingType": "List", "defaultConstraints": constraints});
    let in_no_zone = |args: Value| {
        let fields = json!({"profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}]});
        let mut world = World::configured(1, &fields);
        zones(&mut world);
        let mut value = asking("p", "1", "1Gi");
        value["metadata"]["labels"] = json!({"app": "web"});
        let key = world.put(Kind::POD, value);
        points(&mut world, &key, "PodTopologySpread")["c"]
    };
    assert_eq!(in_no_zone(json!({})), 200);
    assert_eq!(in_no_zone(list(json!([soft]))), 0);
    // No constraints at all: nothing to say.
    assert_eq!(in_no_zone(list(json!([]))), 0);
}

fn affinity(args: Value) -> Value {
    json!({"profiles": [{"pluginConfig": [{"name": "InterPodAffinity", "args": args}]}]})
}

#[test]
fn what_affinity_of_existing_pods_counts_is_the_profiles_to_say() {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}});
    let required = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let preferred = |weight: i64| {
        let terms = json!([{"weight": weight, "podAffinityTerm": term}]);
        json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})
    };
    // Node "a" has a pod that must be with databases, "b" one that would rather.
    for (args, own, want) in [
        (json!({}), None, [0, 200]),
        (json!({"hardPodAffinityWeight": 100}), None, [200, 0]),
        (json!({"hardPodAffinityWeight": 0}), None, [0, 200]),
        (json!({"ignorePreferredTermsOfExistingPods": true}), None, [0, 0]),
        (json!({"ignorePreferredTermsOfExistingPods": true}), Some(preferred(1)), [0, 200]),
    ] {
        let mut world = World::configured(1, &affinity(args.clone()));
        world.put(Kind::NODE, node("a", "8", "8Gi"));
        world.put(Kind::NODE, node("b", "8", "8Gi"));
        for (name, node, rules) in [("must", "a", required.clone()), ("rather", "b", preferred(50))] {
            world.put(Kind::POD, pod(name, json!({"nodeName": node, "affinity": rules})));
        }
        let mut value = pod("db", own.map_or(json!({}), |own| json!({"affinity": own})));
        value["metadata"]["labels"] = json!({"app": "db"});
        let key = world.put(Kind::POD, value);
        let found = points(&mut world, &key, "InterPodAffinity");
        assert_eq!([found["a"], found["b"]], want, "{args}");
    }
}

#[test]
fn added_affinity_holds_for_every_pod_of_the_profile_and_for_no_other() {
    let rule = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    let added = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [rule("batch")]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": rule("cheap")}]});
    let args = json!([{"name": "NodeAffinity", "args": {"addedAffinity": added}}]);
    let fields =
        json!({"profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "batch", "pluginConfig": args}]});
    let mut world = World::configured(1, &fields);
    world.put(Kind::NODE, node("plain", "64", "64Gi"));
    world.put(Kind::NODE, labelled("batch", "batch", ""));
    let mut cheap = labelled("cheap", "batch", "");
    cheap["metadata"]["labels"]["cheap"] = json!("");
    world.put(Kind::NODE, cheap);
    let batch = world.put(Kind::POD, of("batch", asking("batch", "1", "1Gi")));
    let words = "NodeAffinity: node(s) didn't match scheduler-enforced node affinity";
    assert_eq!(refusals(&world.explain(&batch), "plain"), [words]);
    let usual = world.put(Kind::POD, asking("usual", "1", "1Gi"));
    world.settle();
    assert_eq!(world.node_of(&batch).as_deref(), Some("cheap"));
    assert_eq!(world.node_of(&usual).as_deref(), Some("plain"));
}

#[test]
fn a_pod_that_nobody_here_places_says_so_once_and_may_be_bound_by_others() {
    // SCH-03
    let fields = json!({"profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "batch"}]});
    let mut world = World::configured(1, &fields);
    world.put(Kind::NODE, node("a", "2", "4Gi"));
    let key = world.put(Kind::POD, of("mine", asking("p", "2", "1Gi")));
    let mut gated = of("mine", asking("gated", "1", "1Gi"));
    gated["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    world.put(Kind::POD, gated);
    world.settle();
    let said = |world: &World| world.notes.iter().map(|note| note.message.clone()).collect::<Vec<_>>();
    let words = "no profile of this scheduler is named \"mine\", want one of \"default-scheduler\", \"batch\"";
    assert_eq!(said(&world), [words]);
    assert_eq!((world.notes[0].warning, world.notes[0].reason.as_str()), (true, "FailedScheduling"));
    assert_eq!(world.condition(&key), Value::Null);
    // Whatever changes, it was said.
    world.edit(&key, |pod| pod["metadata"]["labels"] = json!({"a": "b"}));
    world.put(Kind::NODE, node("b", "1", "4Gi"));
    world.wake_all();
    assert_eq!(said(&world).len(), 1);
    assert_eq!(world.node_of(&key), None);
    // Somebody else binds it, and what it uses counts.
    world.edit(&key, |pod| pod["spec"]["nodeName"] = json!("a"));
    let late = world.put(Kind::POD, asking("late", "2", "1Gi"));
    world.settle();
    assert_eq!(world.node_of(&late), None);
    // A new pod of the same name is another pod.
    world.delete(&key);
    let again = world.put(Kind::POD, of("mine", asking("p", "2", "1Gi")));
    world.wake_all();
    assert_eq!(said(&world).iter().filter(|message| *message == words).count(), 2);
    // A controller that starts anew finds the event.
    let event = json!({"metadata": {"name": "p.0123456789abcdef"}, "message": words, "reason": "FailedScheduling",
        "involvedObject": {"uid": world.view.get(&again).unwrap().uid.to_string()}});
    world.put(Kind::EVENT, event);
    let pod = world.view.get(&again).cloned().unwrap();
    assert_eq!(super::super::words::unknown_scheduler(&world.view, &pod, "\"default-scheduler\", \"batch\""), None);
}

// SCH-04
#[test]
fn the_back_off_is_the_configurations() {
    let mut world = World::configured(1, &json!({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 5}));
    world.put(Kind::NODE, node("a", "1", "1Gi"));
    world.put(Kind::POD, asking("p", "2", "1Gi"));
    for seconds in [3, 5, 5] {
        world.settle();
        let failed = world.now.mono;
        world.edit(&Key::new(Kind::NODE, "", "a"), |node| {
            let taken = node["status"]["allocatable"]["memory"] == "1Gi";
            node["status"]["allocatable"]["memory"] = json!(if taken { "2Gi" } else { "1Gi" });
        });
        assert_eq!(world.scheduler.wake_at(), Some(failed + seconds * 1000));
        world.now.mono = failed + seconds * 1000;
    }
}
