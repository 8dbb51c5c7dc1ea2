//! Manifests on clusters that are given: where their pods land, and that nothing else happens.

use super::*;

fn node(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": {"cpu": cpu, "memory": "4Gi", "pods": "10"}},
    })
}

fn pod_spec(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(cpu)})
}

fn deployment(name: &str, replicas: u32, spec: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    })
}

fn class(name: &str, value: i64) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
    })
}

fn started(cluster: Vec<Value>, seed: u64) -> Result<WhatIf, GivenError> {
    WhatIf::new(cluster, &Configuration::default(), Detail::default(), seed)
}

fn what_if(cluster: Vec<Value>) -> WhatIf {
    started(cluster, 1).expect("a cluster")
}

fn forecast(cluster: Vec<Value>, manifests: Vec<Value>) -> Forecast {
    let mut what_if = what_if(cluster);
    for manifest in manifests {
        what_if.apply(manifest).expect("a good manifest");
    }
    what_if.finish()
}

fn nodes(forecast: &Forecast) -> Vec<&str> {
    let mut nodes: Vec<&str> = forecast.pods.iter().map(|pod| pod.node.as_deref().unwrap_or("-")).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn the_pods_of_a_deployment_land_where_the_rules_say() {
    let mut spec = pod_spec("1");
    spec["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    let cluster = vec![node("a", "4"), node("b", "4"), node("c", "4")];
    let forecast = forecast(cluster, vec![deployment("web", 6, spec)]);
    assert_eq!(nodes(&forecast), ["a", "a", "b", "b", "c", "c"]);
    assert!(forecast.is_complete());
    for pod in &forecast.pods {
        assert!(pod.of_manifest && !pod.is_old);
        // Why, as of the moment of the decision.
        let placement = pod.placement.as_ref().expect("it was decided on");
        assert_eq!(placement.chosen_node, pod.node);
        assert!(placement.verdicts[0].chosen && !placement.verdicts[0].points.is_empty());
    }
}

#[test]
fn what_does_not_fit_stays_pending_with_its_reason() {
    let forecast = forecast(vec![node("a", "2"), node("b", "2")], vec![deployment("web", 3, pod_spec("2"))]);
    assert_eq!(nodes(&forecast), ["-", "a", "b"]);
    assert!(!forecast.is_complete());
    let left = forecast.pods.iter().find(|pod| pod.node.is_none()).expect("one is left");
    assert_eq!(
        left.message,
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims \
         found for incoming pod."
    );
}

#[test]
fn whom_a_pod_of_higher_priority_would_cost_is_told_and_it_has_the_room_then() {
    // PRI-04
    let mut low = pod("low", "2");
    low["spec"]["nodeName"] = json!("a");
    let mut high = pod("high", "2");
    high["spec"]["priorityClassName"] = json!("high");
    let forecast = forecast(vec![low, node("a", "2")], vec![class("high", 1000), high]);
    let [landed] = &forecast.pods[..] else { panic!("{forecast:?}") };
    assert_eq!((&*landed.name, landed.node.as_deref()), ("high", Some("a")));
    let [victim] = &forecast.preempted[..] else { panic!("{forecast:?}") };
    assert_eq!((&*victim.name, victim.priority, &*victim.node), ("low", 0, "a"));
    assert_eq!(victim.by, "default/high");
    assert!(forecast.is_complete());
}

#[test]
fn a_pod_in_the_place_of_one_that_had_to_go_is_none_of_the_manifest() {
    let mut set = deployment("old", 1, pod_spec("2"));
    set["kind"] = json!("ReplicaSet");
    let mut high = pod("high", "2");
    high["spec"]["priorityClassName"] = json!("high");
    let forecast = forecast(vec![node("a", "2"), set], vec![class("high", 1000), high]);
    let told: Vec<_> = forecast.pods.iter().map(|pod| (pod.of_manifest, pod.node.as_deref())).collect();
    assert_eq!(told, [(true, Some("a")), (false, None)]);
    assert!(forecast.is_complete());
}

#[test]
fn a_pod_that_comes_too_early_lands_once_the_one_it_wants_is_there() {
    let mut follower = pod("follower", "1");
    follower["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "leader"}}}]}});
    let mut leader = pod("leader", "1");
    leader["metadata"]["labels"] = json!({"app": "leader"});
    let forecast = forecast(vec![node("a", "4"), node("b", "4")], vec![follower, leader]);
    let [one, two] = &forecast.pods[..] else { panic!("{forecast:?}") };
    assert!(one.node.is_some());
    assert_eq!(one.node, two.node);
}

#[test]
fn objects_that_were_read_from_a_cluster_are_taken_as_they_are() {
    let uid = |number: u32| json!(format!("00000000-0000-4000-8000-{number:012}"));
    let mut ready = node("a", "2");
    ready["metadata"]["uid"] = uid(1);
    let mut silent = node("b", "2");
    silent["metadata"]["uid"] = uid(2);
    silent["metadata"]["creationTimestamp"] = json!("2026-11-21T03:40:30Z");
    silent["status"]["conditions"] = json!([{"type": "Ready", "status": "Unknown"}]);
    // Its owner and its class are not given; it stays, with the priority that it had.
    let mut bound = pod("bound", "1");
    bound["metadata"]["uid"] = uid(3);
    bound["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid(9), "controller": true}]);
    bound["metadata"]["namespace"] = json!("elsewhere");
    bound["spec"]["nodeName"] = json!("a");
    bound["spec"]["priority"] = json!(7);
    bound["spec"]["priorityClassName"] = json!("not-given");
    bound["spec"]["aFieldOfTheFuture"] = json!(true);
    bound["status"] = json!({"phase": "Running"});
    let cluster = vec![ready, silent, bound];
    let forecast = forecast(cluster, vec![pod("one", "1"), pod("two", "1")]);
    let told: Vec<_> = forecast.pods.iter().map(|pod| pod.node.as_deref()).collect();
    assert_eq!(told, [Some("a"), None]);
    let message = &forecast.pods[1].message;
    assert!(
        message.starts_with("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {node.kube")
    );
}

#[test]
fn daemon_sets_reach_every_node_and_gated_pods_wait() {
    // SCH-03
    let mut daemon = deployment("agent", 1, pod_spec("1"));
    daemon["kind"] = json!("DaemonSet");
    daemon["spec"].as_object_mut().expect("a spec").remove("replicas");
    let mut gated = pod("gated", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "later"}]);
    let mut foreign = pod("foreign", "1");
    foreign["spec"]["schedulerName"] = json!("somebody-else");
    let forecast = forecast(vec![node("a", "4"), node("b", "4")], vec![daemon, gated, foreign]);
    assert_eq!(nodes(&forecast), ["-", "-", "a", "b"]);
    let message = |name: &str| {
        let found = forecast.pods.iter().find(|pod| pod.name == name);
        found.map(|pod| pod.message.clone()).unwrap_or_default()
    };
    assert_eq!(message("gated"), "Scheduling is blocked due to non-empty scheduling gates");
    assert_eq!(message("foreign"), "no scheduler here is called \"somebody-else\"");
    assert!(!forecast.is_complete());
}

#[test]
fn the_same_seed_gives_the_same_forecast_and_names_too() {
    let cluster = || (0..9).map(|number| node(&format!("n{number}"), "4")).collect::<Vec<_>>();
    let run = |seed: u64| {
        let mut what_if = started(cluster(), seed).expect("a cluster");
        what_if.apply(deployment("web", 5, pod_spec("1"))).expect("a good manifest");
        what_if.finish()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8), "other names, and other nodes of the nine that are equally good");
}

#[test]
fn bad_manifests_are_refused_in_the_words_of_admission() {
    let mut what_if = what_if(vec![node("a", "4")]);
    let mut refused = |value: Value| what_if.apply(value).expect_err("it is bad").message;
    let mut skewed = pod("p", "1");
    skewed["spec"]["topologySpreadConstraints"] =
        json!([{"maxSkew": 0, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}]);
    let message = refused(skewed);
    assert!(message.contains("spec.topologySpreadConstraints[0].maxSkew: Invalid value"), "{message}");
    let unknown = json!({"apiVersion": "batch/v9", "kind": "Job", "metadata": {"name": "j"}});
    assert_eq!(refused(unknown), "no matches for kind \"Job\" in version \"batch/v9\"");
    let mut elsewhere = pod("p", "1");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    assert_eq!(refused(elsewhere.clone()), "namespaces \"elsewhere\" not found");
    what_if.assume_namespace("elsewhere");
    assert!(what_if.apply(elsewhere).is_ok());
    let mut classless = pod("classless", "1");
    classless["spec"]["priorityClassName"] = json!("nobody");
    let message = what_if.apply(classless).expect_err("it is bad").message;
    assert_eq!(message, "pods \"classless\" is forbidden: no PriorityClass with name nobody was found");
}

#[test]
fn pods_that_a_controller_may_not_make_are_told_of() {
    let mut spec = pod_spec("1");
    spec["priorityClassName"] = json!("nobody");
    let forecast = forecast(vec![node("a", "4")], vec![deployment("web", 1, spec)]);
    assert!(forecast.pods.is_empty());
    let [refused] = &forecast.refused[..] else { panic!("{forecast:?}") };
    assert!(refused.owner.starts_with("ReplicaSet default/web-"), "{}", refused.owner);
    assert!(refused.message.contains("no PriorityClass with name nobody was found"), "{}", refused.message);
    assert!(!forecast.is_complete());
}

#[test]
fn a_cluster_that_is_none_is_refused_with_the_place_of_the_object() {
    let wrong =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b", "uid": "1"}, "spec": {"taints": 7}});
    let error = started(vec![node("a", "1"), wrong], 1).expect_err("it is bad");
    assert_eq!((error.index, error.error.code), (1, 400));
    let mut hand = node("c", "1");
    hand["status"]["capacity"]["cpu"] = json!("much");
    let error = started(vec![node("a", "1"), hand], 1).expect_err("it is bad");
    assert_eq!(error.index, 1);
    assert!(error.error.message.contains("status.capacity"), "{}", error.error.message);
}

#[test]
fn as_json_a_forecast_says_where_and_why() {
    let value = forecast(vec![node("a", "1")], vec![pod("one", "1"), pod("two", "1")]).to_json();
    assert_eq!((&value["kind"], &value["complete"]), (&json!("PlacementForecast"), &json!(false)));
    assert_eq!((&value["pods"][0]["node"], &value["pods"][0]["ofManifest"]), (&json!("a"), &json!(true)));
    assert_eq!(value["pods"][0]["placement"]["chosenNode"], "a");
    assert!(value["pods"][1].get("node").is_none());
    assert_eq!(value["pods"][1]["placement"]["reasons"][0]["reason"], "Insufficient cpu");
}
