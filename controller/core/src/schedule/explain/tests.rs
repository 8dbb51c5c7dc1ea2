//! Explanations as data, on the clusters of the scheduler's own tests.

use serde_json::{Value, json};

use super::super::tests::{World, node};
use super::*;

impl World {
    fn placement(&mut self, key: &Key, detail: &Detail) -> Placement {
        let pod = self.view.get(key).cloned().expect("the pod is there");
        self.scheduler.placement(&self.view, &pod, detail)
    }
}

fn pod(name: &str, cpu: &str, priority: i32) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}}, "status": {"phase": "Pending"},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

fn reasons(placement: &Placement) -> Vec<(&str, &str, usize)> {
    placement.reasons.iter().map(|count| (&*count.plugin, &*count.reason, count.nodes)).collect()
}

fn condition(world: &World, key: &Key) -> String {
    let status = world.view.get(key).expect("the pod is there").status();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == "PodScheduled");
    found.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn a_pod_that_fits_nowhere_is_told_why_in_the_words_of_its_condition() {
    // SCH-04
    let mut world = World::new(1);
    for name in ["a", "b", "c"] {
        world.put(Kind::NODE, node(name, "1", "1Gi"));
    }
    let mut tainted = node("d", "8", "8Gi");
    tainted["spec"]["taints"] = json!([{"key": "for", "value": "others", "effect": "NoSchedule"}]);
    world.put(Kind::NODE, tainted);
    let mut closed = node("e", "8", "8Gi");
    closed["spec"]["unschedulable"] = json!(true);
    world.put(Kind::NODE, closed);
    let key = world.put(Kind::POD, pod("big", "2", 0));
    world.settle();
    let placement = world.placement(&key, &Detail::default());
    assert_eq!(placement.message, condition(&world, &key));
    assert_eq!(
        placement.message,
        "0/5 nodes are available: 1 node(s) had untolerated taint {for: others}, 1 node(s) were unschedulable, 3 \
         Insufficient cpu. preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    );
    assert_eq!(placement.state, PlacementState::Waiting);
    assert_eq!((placement.nodes.total, placement.nodes.feasible, placement.nodes.refused), (5, 0, 5));
    let expected = [
        ("NodeResourcesFit", "Insufficient cpu", 3),
        ("TaintToleration", "node(s) had untolerated taint {for: others}", 1),
        ("NodeUnschedulable", "node(s) were unschedulable", 1),
    ];
    assert_eq!(reasons(&placement), expected);
    assert_eq!(placement.chosen_node, None);
    let nodes: Vec<&str> = placement.verdicts.iter().map(|verdict| &*verdict.node).collect();
    assert_eq!(nodes, ["a", "b", "c", "d", "e"]);
    let preemption = placement.preemption.expect("it was looked for");
    assert!(!preemption.helps);
    assert!(placement.message.ends_with(&preemption.message));
}

#[test]
fn points_add_up_to_the_score_and_the_best_comes_first() {
    // SCH-02
    let mut world = World::new(1);
    world.put(Kind::NODE, node("small", "2", "2Gi"));
    world.put(Kind::NODE, node("large", "16", "16Gi"));
    let key = world.put(Kind::POD, pod("p", "1", 0));
    let placement = world.placement(&key, &Detail::default());
    assert_eq!(placement.chosen_node.as_deref(), Some("large"));
    assert_eq!(placement.message, "2/2 nodes are available.");
    assert_eq!(placement.preemption, None);
    let [first, second] = &placement.verdicts[..] else { panic!("{:?}", placement.verdicts) };
    assert_eq!((&*first.node, first.chosen, &*second.node, second.chosen), ("large", true, "small", false));
    for verdict in [first, second] {
        let sum: i64 = verdict.points.iter().map(|points| points.weighted).sum();
        assert_eq!(Some(sum), verdict.score);
        assert!(verdict.points.iter().all(|points| points.points * points.weight == points.weighted));
        assert!(verdict.points.iter().all(|points| (0..=100).contains(&points.points)));
    }
    assert!(first.score > second.score);
}

#[test]
fn a_large_cluster_is_told_of_in_counts_and_a_few_nodes() {
    let mut world = World::new(1);
    for number in 0..300 {
        world.put(Kind::NODE, node(&format!("n{number:03}"), if number < 100 { "1" } else { "4" }, "4Gi"));
    }
    let key = world.put(Kind::POD, pod("p", "2", 0));
    let placement = world.placement(&key, &Detail::default());
    assert_eq!((placement.nodes.total, placement.nodes.feasible, placement.nodes.refused), (300, 200, 100));
    assert_eq!((placement.verdicts.len(), placement.omitted), (20, 280));
    let answer = placement.to_json(world.view.get(&key).expect("it is there")).to_string();
    assert!(answer.len() < 20 * 1024, "{} bytes", answer.len());
    assert_eq!(reasons(&placement), [("NodeResourcesFit", "Insufficient cpu", 100)]);
    let asked = Detail { limit: 1, nodes: vec!["n007".to_owned(), "n008".to_owned(), "nobody".to_owned()] };
    let placement = world.placement(&key, &asked);
    assert!(placement.verdicts[0].chosen);
    let nodes: Vec<&str> = placement.verdicts[1..].iter().map(|verdict| &*verdict.node).collect();
    assert_eq!((nodes, placement.omitted), (vec!["n007", "n008"], 297));
    assert_eq!(placement.verdicts[1].reasons[0].reason, "Insufficient cpu");
    let greedy = Detail { limit: usize::MAX, nodes: Vec::new() };
    assert_eq!(world.placement(&key, &greedy).verdicts.len(), 300);
}

#[test]
fn a_bound_pod_is_looked_at_as_if_it_were_free_and_stays_where_it_is() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "2Gi"));
    let mut spread = pod("p", "2", 0);
    spread["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "p"}},
    }]);
    let key = world.put(Kind::POD, spread);
    world.settle();
    assert_eq!(world.node_of(&key).as_deref(), Some("a"));
    // The node is full of the pod itself, which is not in its own way; and a better one has come.
    let here = world.placement(&key, &Detail::default());
    assert_eq!((here.state, here.chosen_node.as_deref()), (PlacementState::Bound, Some("a")));
    world.put(Kind::NODE, node("b", "8", "8Gi"));
    let detail = Detail { limit: 1, nodes: Vec::new() };
    let before = world.placement(&key, &detail);
    assert_eq!((before.present_node.as_deref(), before.chosen_node.as_deref()), (Some("a"), Some("b")));
    let marks: Vec<(&str, bool, bool)> =
        before.verdicts.iter().map(|verdict| (&*verdict.node, verdict.chosen, verdict.present)).collect();
    assert_eq!(marks, [("b", true, false), ("a", false, true)]);
    // Nothing has moved by asking: the next pod finds node a as full as before.
    assert_eq!(world.placement(&key, &detail), before);
    assert!(world.scheduler.step(&world.view, world.now).is_none());
    let next = world.put(Kind::POD, pod("q", "1", 0));
    world.settle();
    assert_eq!(world.node_of(&next).as_deref(), Some("b"));
    world.delete(&key);
    let last = world.put(Kind::POD, pod("r", "2", 0));
    let free = world.placement(&last, &Detail::default());
    assert_eq!(free.nodes.feasible, 2);
}

#[test]
fn what_preemption_would_do_is_told_and_not_done() {
    // PRI-04
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "2Gi"));
    let low = world.put(Kind::POD, pod("low", "2", 1));
    world.settle();
    let high = world.put(Kind::POD, pod("high", "1", 100));
    let placement = world.placement(&high, &Detail::default());
    let outlook = placement.preemption.clone().expect("it was looked for");
    assert!(outlook.helps);
    assert_eq!(outlook.node.as_deref(), Some("a"));
    let victim = Victim { namespace: "default".to_owned(), name: "low".to_owned(), priority: 1 };
    assert_eq!((outlook.victims, outlook.budget_violations), (vec![victim], 0));
    assert_eq!(placement.message, "0/1 nodes are available: 1 Insufficient cpu.");
    assert!(!world.view.get(&low).expect("it is there").is_deleting());
    // It is done when its turn comes; and while the victim is going, that is what is told.
    world.settle();
    assert!(world.view.get(&low).expect("it is there").is_deleting());
    let waiting = world.placement(&high, &Detail::default());
    assert_eq!(waiting.nominated_node.as_deref(), Some("a"));
    assert_eq!(
        waiting.message,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to a terminating pod on the \
         nominated node."
    );
    assert_eq!(world.placement(&high, &Detail::default()), waiting);
}

#[test]
fn gated_ended_and_foreign_pods_are_told_apart() {
    // SCH-03
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "2Gi"));
    let mut gated = pod("gated", "1", 0);
    gated["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    let mut ended = pod("ended", "1", 0);
    ended["spec"]["nodeName"] = json!("a");
    ended["status"]["phase"] = json!("Succeeded");
    let mut foreign = pod("foreign", "1", 0);
    foreign["spec"]["schedulerName"] = json!("somebody-else");
    for (value, state) in
        [(gated, PlacementState::Gated), (ended, PlacementState::Ended), (foreign, PlacementState::Elsewhere)]
    {
        let key = world.put(Kind::POD, value);
        let placement = world.placement(&key, &Detail::default());
        assert_eq!((placement.state, placement.chosen_node.as_deref()), (state, Some("a")));
    }
}

#[test]
fn without_nodes_there_is_nothing_to_count() {
    let mut world = World::new(1);
    let key = world.put(Kind::POD, pod("p", "1", 0));
    let placement = world.placement(&key, &Detail::default());
    assert_eq!(placement.message, "no nodes available to schedule pods");
    assert_eq!((placement.verdicts.len(), placement.preemption.is_none()), (0, true));
}

#[test]
fn as_json_a_placement_has_the_fields_that_are_documented() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "2Gi"));
    world.put(Kind::NODE, node("b", "1", "2Gi"));
    let key = world.put(Kind::POD, pod("p", "2", 0));
    let placement = world.placement(&key, &Detail::default());
    let value = placement.to_json(world.view.get(&key).expect("it is there"));
    assert_eq!((&value["kind"], &value["apiVersion"]), (&json!("PodPlacement"), &json!("coracle.dev/v1")));
    assert_eq!(value["metadata"]["name"], "p");
    assert_eq!((&value["state"], &value["chosenNode"]), (&json!("Waiting"), &json!("a")));
    assert_eq!(value["nodes"], json!({"total": 2, "feasible": 1, "refused": 1}));
    assert_eq!(value["reasons"], json!([{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 1}]));
    let refused = json!({
        "node": "b", "chosen": false, "present": false,
        "reasons": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu"}],
    });
    assert_eq!(value["verdicts"][1], refused);
    assert_eq!(value["verdicts"][0]["points"][0]["weight"].as_i64(), Some(3));
    assert!(value.get("preemption").is_none());
}
