//! Priority and preemption: the examples of the seed, and Kubernetes' order of choice.

use serde_json::{Value, json};

use super::{World, node, pod};
use crate::kind::Kind;
use crate::object::Key;

fn asking(name: &str, cpu: &str, priority: i64) -> Value {
    let spec = json!({"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
    pod(name, spec)
}

/// A pod that runs on a node since so many seconds after midnight.
fn running(world: &mut World, name: &str, node: &str, cpu: &str, priority: i64, since: u32) -> Key {
    let mut value = asking(name, cpu, priority);
    value["spec"]["nodeName"] = json!(node);
    value["status"] =
        json!({"phase": "Running", "startTime": format!("2026-11-21T00:{:02}:{:02}Z", since / 60, since % 60)});
    world.put(Kind::POD, value)
}

fn is_going(world: &World, name: &str) -> bool {
    world.view.get(&Key::new(Kind::POD, "default", name)).is_some_and(|pod| pod.is_deleting())
}

fn nominated(world: &World, key: &Key) -> Option<String> {
    let value = world.view.get(key)?.value();
    value["status"]["nominatedNodeName"].as_str().map(ToOwned::to_owned)
}

fn end(world: &mut World, name: &str) {
    world.delete(&Key::new(Kind::POD, "default", name));
}

// PRI-04
#[test]
fn victims_end_gracefully_their_room_is_held_and_then_used() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    running(&mut world, "low", "a", "2", 0, 0);
    let high = world.put(Kind::POD, asking("high", "2", 10));
    world.settle();
    assert!(is_going(&world, "low"));
    assert_eq!(nominated(&world, &high).as_deref(), Some("a"));
    let victim = world.view.get(&Key::new(Kind::POD, "default", "low")).unwrap().value();
    let condition = &victim["status"]["conditions"][0];
    assert_eq!(
        (condition["type"].as_str(), condition["reason"].as_str()),
        (Some("DisruptionTarget"), Some("PreemptionByScheduler"))
    );
    assert!(world.notes.iter().any(|note| note.reason == "Preempted" && note.about.name.as_ref() == "low"));
    // The room is held against those that are no more important, also while nothing is in it.
    let rival = world.put(Kind::POD, asking("rival", "2", 10));
    end(&mut world, "low");
    let equal = world.put(Kind::POD, asking("equal", "1", 9));
    world.wake_all();
    assert_eq!(world.node_of(&high).as_deref(), Some("a"));
    assert_eq!((world.node_of(&rival), world.node_of(&equal)), (None, None));
}

// PRI-06
#[test]
fn a_pod_that_never_preempts_waits_and_can_be_a_victim_itself() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    running(&mut world, "low", "a", "2", 0, 0);
    let mut value = asking("polite", "2", 10);
    value["spec"]["preemptionPolicy"] = json!("Never");
    let polite = world.put(Kind::POD, value);
    world.settle();
    assert!(!is_going(&world, "low"));
    assert!(world.notes.last().unwrap().message.ends_with("preemption: not eligible due to preemptionPolicy=Never."));
    end(&mut world, "low");
    world.wake_all();
    assert_eq!(world.node_of(&polite).as_deref(), Some("a"));
    world.put(Kind::POD, asking("higher", "2", 11));
    world.settle();
    assert!(is_going(&world, "polite"));
}

// PRI-07
#[test]
fn nobody_goes_for_an_equal_and_nobody_goes_in_vain() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    running(&mut world, "same", "a", "2", 5, 0);
    world.put(Kind::POD, asking("p", "1", 5));
    world.put(Kind::POD, asking("giant", "3", 50));
    world.settle();
    assert!(!is_going(&world, "same"));
    let words = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert!(world.notes.iter().any(|note| note.message.ends_with(words)), "{:?}", world.notes);
    let words = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert!(world.notes.iter().any(|note| note.message.ends_with(words)), "{:?}", world.notes);
}

// PRI-05
#[test]
fn as_few_as_possible_go_and_the_most_important_stay() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "4", "8Gi"));
    for (name, priority, since) in [("one", 1, 0), ("two", 2, 0), ("late", 1, 60), ("three", 3, 0)] {
        running(&mut world, name, "a", "1", priority, since);
    }
    world.put(Kind::POD, asking("p", "1", 10));
    world.settle();
    let going: Vec<_> = ["one", "two", "late", "three"].into_iter().filter(|name| is_going(&world, name)).collect();
    assert_eq!(going, ["late"]);
}

// PRI-05
#[test]
fn the_node_with_the_least_harm_is_chosen() {
    // On each node: pods of (cpu, priority, since); the pod that comes wants two.
    type There = &'static [(&'static str, i64, u32)];
    let cases: &[(&str, There, There)] = &[
        ("the lowest of the highest priorities", &[("2", 5, 0)], &[("2", 4, 0)]),
        ("the smallest sum", &[("1", 4, 0), ("1", 3, 0)], &[("1", 4, 0), ("1", 2, 0)]),
        ("the fewest victims", &[("1", 4, 0), ("1", 4, 0)], &[("2", 4, 0)]),
        ("the latest start of the most important", &[("2", 4, 10)], &[("2", 4, 20)]),
    ];
    for (why, worse, better) in cases {
        for swapped in [false, true] {
            let mut world = World::new(7);
            let names = if swapped { ["b", "a"] } else { ["a", "b"] };
            for (name, there) in names.iter().zip([worse, better]) {
                world.put(Kind::NODE, node(name, "2", "8Gi"));
                for (number, (cpu, priority, since)) in there.iter().enumerate() {
                    running(&mut world, &format!("{name}-{number}"), name, cpu, *priority, *since);
                }
            }
            let key = world.put(Kind::POD, asking("p", "2", 10));
            world.settle();
            assert_eq!(nominated(&world, &key).as_deref(), Some(names[1]), "{why}");
        }
    }
}

// PRI-07: the seed's example of a pod Q in the same zone.
#[test]
fn a_pod_on_another_node_is_no_victim() {
    let mut world = World::new(1);
    for name in ["n", "m"] {
        let mut value = node(name, "2", "8Gi");
        value["metadata"]["labels"]["zone"] = json!("z");
        world.put(Kind::NODE, value);
    }
    let mut q = asking("q", "1", 0);
    q["metadata"]["labels"] = json!({"app": "q"});
    q["spec"]["nodeName"] = json!("m");
    world.put(Kind::POD, q);
    running(&mut world, "full", "m", "1", 50, 0);
    let mut p = asking("p", "1", 10);
    p["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "q"}}}]}});
    p["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n"});
    let p = world.put(Kind::POD, p);
    world.settle();
    assert!(!is_going(&world, "q") && nominated(&world, &p).is_none());
    end(&mut world, "q");
    world.wake_all();
    assert_eq!(world.node_of(&p).as_deref(), Some("n"));
}

// PRI-07
#[test]
fn a_node_whose_affinity_needs_the_victims_is_skipped() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    let mut friend = asking("friend", "2", 0);
    friend["metadata"]["labels"] = json!({"app": "friend"});
    friend["spec"]["nodeName"] = json!("a");
    world.put(Kind::POD, friend);
    let mut p = asking("p", "1", 10);
    p["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "friend"}}}]}});
    world.put(Kind::POD, p);
    world.settle();
    assert!(!is_going(&world, "friend"));
}

// PRI-08
#[test]
fn a_more_important_pod_takes_the_room_and_the_loser_forgets_it() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    running(&mut world, "low", "a", "2", 0, 0);
    let first = world.put(Kind::POD, asking("first", "2", 10));
    world.settle();
    assert_eq!(nominated(&world, &first).as_deref(), Some("a"));
    end(&mut world, "low");
    let second = world.put(Kind::POD, asking("second", "2", 20));
    world.settle();
    assert_eq!(world.node_of(&second).as_deref(), Some("a"));
    world.wake_all();
    assert_eq!((world.node_of(&first), nominated(&world, &first)), (None, None));
}

// PRI-08
#[test]
fn another_node_that_frees_up_first_is_used() {
    let mut world = World::new(1);
    for name in ["a", "b"] {
        world.put(Kind::NODE, node(name, "2", "8Gi"));
    }
    running(&mut world, "low", "a", "2", 0, 0);
    running(&mut world, "busy", "b", "2", 50, 0);
    let p = world.put(Kind::POD, asking("p", "2", 10));
    world.settle();
    assert_eq!(nominated(&world, &p).as_deref(), Some("a"));
    end(&mut world, "busy");
    world.wake_all();
    assert_eq!(world.node_of(&p).as_deref(), Some("b"));
}

// PRI-04: victims on their way out are not joined by others.
#[test]
fn a_pod_whose_victims_are_ending_preempts_nobody_else() {
    let mut world = World::new(1);
    for name in ["a", "b"] {
        world.put(Kind::NODE, node(name, "2", "8Gi"));
        running(&mut world, &format!("low-{name}"), name, "2", 0, 0);
    }
    world.put(Kind::POD, asking("p", "2", 10));
    for _ in 0..3 {
        world.wake_all();
    }
    assert_ne!(is_going(&world, "low-a"), is_going(&world, "low-b"));
}

/// A budget over the pods with the label `app` of its own name.
fn budget(world: &mut World, app: &str, allowed: i64) -> Key {
    let value = json!({"metadata": {"name": app}, "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed}});
    world.put(Kind::POD_DISRUPTION_BUDGET, value)
}

fn mark(world: &mut World, name: &str, app: &str) {
    world.edit(&Key::new(Kind::POD, "default", name), |pod| pod["metadata"]["labels"] = json!({"app": app}));
}

// PRI-05: whatever else speaks for a node.
#[test]
fn the_node_where_fewer_budgets_break_is_chosen() {
    for allowed in [0, 1] {
        let mut world = World::new(1);
        for (name, priority) in [("a", 1), ("b", 5)] {
            world.put(Kind::NODE, node(name, "2", "8Gi"));
            running(&mut world, &format!("on-{name}"), name, "2", priority, 0);
        }
        mark(&mut world, "on-a", "db");
        budget(&mut world, "db", allowed);
        let p = world.put(Kind::POD, asking("p", "2", 10));
        world.settle();
        // While the budget allows it, the least important pod goes.
        let expected = if allowed == 0 { "b" } else { "a" };
        assert_eq!(nominated(&world, &p).as_deref(), Some(expected), "{allowed}");
    }
}

// PRI-05
#[test]
fn a_pod_whose_end_breaks_a_budget_is_reprieved_first() {
    for (allowed, victim) in [(0, "free"), (1, "guarded")] {
        let mut world = World::new(1);
        world.put(Kind::NODE, node("a", "2", "8Gi"));
        running(&mut world, "guarded", "a", "1", 1, 0);
        running(&mut world, "free", "a", "1", 2, 0);
        mark(&mut world, "guarded", "db");
        budget(&mut world, "db", allowed);
        world.put(Kind::POD, asking("p", "1", 10));
        world.settle();
        for name in ["guarded", "free"] {
            assert_eq!(is_going(&world, name), name == victim, "{name} {allowed}");
        }
    }
}

// PRI-05: two pods and one allowance.
#[test]
fn of_two_pods_of_one_budget_the_second_breaks_it() {
    let mut world = World::new(1);
    for name in ["a", "b"] {
        world.put(Kind::NODE, node(name, "2", "8Gi"));
    }
    for name in ["one", "two"] {
        running(&mut world, name, "a", "1", 1, 0);
        mark(&mut world, name, "db");
    }
    running(&mut world, "other", "b", "2", 9, 0);
    budget(&mut world, "db", 1);
    let p = world.put(Kind::POD, asking("p", "2", 10));
    world.settle();
    assert_eq!(nominated(&world, &p).as_deref(), Some("b"));
}

// PRI-07
#[test]
fn budgets_are_best_effort_and_follow_their_objects() {
    let mut world = World::new(1);
    world.put(Kind::NODE, node("a", "2", "8Gi"));
    running(&mut world, "guarded", "a", "2", 1, 0);
    mark(&mut world, "guarded", "db");
    budget(&mut world, "db", 0);
    world.put(Kind::POD, asking("p", "2", 10));
    world.settle();
    assert!(is_going(&world, "guarded"), "there is no other way");
    // To Kubernetes' scheduler an empty selector protects nobody, as a missing one; one that is gone guards nobody.
    let some = |operator: &str, key: &str| json!({"matchExpressions": [{"key": key, "operator": operator}]});
    let selectors = [
        (Some(some("Exists", "app")), "default", "b"),
        (Some(some("DoesNotExist", "x")), "default", "b"),
        (Some(some("Exists", "app")), "other", "a"),
        (Some(json!({})), "default", "a"),
        (None, "default", "a"),
    ];
    for (selector, namespace, expected) in selectors {
        for deleted in [false, true] {
            let mut world = World::new(1);
            for (name, priority) in [("a", 1), ("b", 5)] {
                world.put(Kind::NODE, node(name, "2", "8Gi"));
                let mut value = asking(&format!("on-{name}"), "2", priority);
                value["metadata"]["namespace"] = json!(if name == "a" { "default" } else { "far" });
                value["metadata"]["labels"] = json!({"app": "db"});
                value["spec"]["nodeName"] = json!(name);
                world.put(Kind::POD, value);
            }
            let mut value = json!({"metadata": {"name": "all", "namespace": namespace}, "spec": {},
                "status": {"disruptionsAllowed": 0}});
            if let Some(selector) = &selector {
                value["spec"]["selector"] = selector.clone();
            }
            let all = world.put(Kind::POD_DISRUPTION_BUDGET, value);
            if deleted {
                world.delete(&all);
            }
            let p = world.put(Kind::POD, asking("p", "2", 10));
            world.settle();
            let expected = if deleted { "a" } else { expected };
            assert_eq!(nominated(&world, &p).as_deref(), Some(expected), "{selector:?} {namespace} {deleted}");
        }
    }
}

// PRI-07
#[test]
fn a_budget_that_excludes_some_labels_protects_no_pod_without_labels() {
    let mut world = World::new(1);
    for (name, priority) in [("a", 1), ("b", 5)] {
        world.put(Kind::NODE, node(name, "2", "8Gi"));
        running(&mut world, &format!("on-{name}"), name, "2", priority, 0);
    }
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]});
    let budget =
        json!({"metadata": {"name": "others"}, "spec": {"selector": selector}, "status": {"disruptionsAllowed": 0}});
    world.put(Kind::POD_DISRUPTION_BUDGET, budget);
    let p = world.put(Kind::POD, asking("p", "2", 10));
    world.settle();
    assert_eq!(nominated(&world, &p).as_deref(), Some("a"));
}
