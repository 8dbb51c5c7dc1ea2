//! Whether what the scheduler decides is what the plain objects ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

use super::super::tests::{World, scheduler_of};
use super::super::{Explanation, Scheduler, Verdict};
use super::filters::fits;
use super::history::start_pods;
use super::objects::{Cluster, is_ending, name, namespace, priority, text};
use super::preemption::{Outcome, outcome};
use super::scores::{by_images, totals};
use super::tally::Tally;
use super::volumes::chosen;
use crate::kind::Kind;
use crate::object::Key;
use crate::plan::{Plan, Write};
use crate::store::{Action, Change};

type Agreed = Result<(), TestCaseError>;

/// Decides until nothing is due, and looks at every decision.
pub(super) fn settle(world: &mut World, started: &mut u32, seen: &Tally) -> Agreed {
    start_pods(world, started);
    for _ in 0..1000 {
        let mut twin = world.scheduler.clone();
        let Some(plan) = world.scheduler.step(&world.view, world.now) else { return Ok(()) };
        decision(world, &mut twin, &plan, seen)?;
        world.carry_out(plan);
        start_pods(world, started);
    }
    Err(TestCaseError::fail("decides and decides"))
}

fn decision(world: &World, twin: &mut Scheduler, plan: &Plan, seen: &Tally) -> Agreed {
    let cluster = Cluster::of(world);
    let about = |key: &Key| cluster.pod(key.namespace.as_ref(), key.name.as_ref()).unwrap();
    if let [set_aside @ .., Write::Bind { key, node, .. }] = &plan.writes[..] {
        volumes(&cluster, about(key), node, set_aside, seen)?;
        return binding(world, &cluster, twin, about(key), node, seen);
    }
    let failed = plan.notes.iter().find(|note| note.reason == "FailedScheduling").unwrap();
    let pod = about(&failed.about);
    let fitting = totals(&cluster, pod);
    prop_assert!(fitting.is_empty(), "fits on {fitting:?}: {} {pod}", failed.message);
    preemption(&cluster, pod, plan, seen)
}

/// The volumes that are set aside are those that the pod's claims would have.
fn volumes(cluster: &Cluster, pod: &Value, node: &str, set_aside: &[Write], seen: &Tally) -> Agreed {
    let told = set_aside.iter().filter_map(|write| match write {
        Write::Update { key, value, .. } => Some((key.name.to_string(), value["spec"]["claimRef"]["uid"].clone())),
        _ => None,
    });
    let chosen = chosen(cluster, pod, cluster.node(node).unwrap()).unwrap_or_default();
    let new = chosen.into_iter().map(|(claim, volume)| (volume, claim["metadata"]["uid"].clone()));
    let new = new.filter(|(volume, uid)| volume["spec"]["claimRef"]["uid"] != *uid);
    let want: Vec<_> = new.map(|(volume, uid)| (name(volume).to_owned(), uid)).collect();
    prop_assert_eq!(told.collect::<Vec<_>>(), want.clone(), "volumes of {}", pod);
    if !want.is_empty() {
        seen.saw("bound, and volumes set aside");
    }
    Ok(())
}

fn binding(world: &World, cluster: &Cluster, twin: &mut Scheduler, pod: &Value, chosen: &str, seen: &Tally) -> Agreed {
    let placed = cluster.placed();
    let held = cluster.node(text(&pod["status"], "nominatedNodeName"));
    if let Some(held) = held.filter(|held| fits(cluster, pod, held, &placed).is_ok()) {
        prop_assert_eq!(name(held), chosen, "what is held is used: {}", pod);
        seen.saw("bound where room is held");
        return Ok(());
    }
    let fitting = totals(cluster, pod);
    prop_assert!(fitting.contains_key(chosen), "does not fit on {chosen}, but on {fitting:?}: {pod}");
    prop_assert_eq!(fitting.get(chosen), fitting.values().max(), "the best of {:?} for {}", &fitting, pod);
    if by_images(cluster, pod, cluster.node(chosen).unwrap()) > 0 {
        seen.saw("bound where its images are");
    }
    if !text(&pod["spec"], "schedulerName").is_empty() {
        seen.saw("bound by a second profile");
    }
    seen.saw(if fitting.len() > 1 { "bound, one of several" } else { "bound to the only one" });
    if held.is_some() {
        seen.saw("bound elsewhere than where room is held");
    }
    let object = world.view.get(&Key::new(Kind::POD, namespace(pod), name(pod))).unwrap();
    let told = twin.explain(&world.view, object).best;
    prop_assert_eq!(told.as_deref(), Some(chosen), "what is told is done: {}", pod);
    Ok(())
}

fn preemption(cluster: &Cluster, pod: &Value, plan: &Plan, seen: &Tally) -> Agreed {
    let own = Key::new(Kind::POD, namespace(pod), name(pod));
    let before = text(&pod["status"], "nominatedNodeName");
    let status = |wanted: &Key| {
        plan.writes.iter().find_map(|write| match write {
            Write::Status { key, status, .. } if key == wanted => Some(status),
            _ => None,
        })
    };
    let held = status(&own).map_or(before, |status| text(status, "nominatedNodeName"));
    let delete = |write: &Write| if let Write::Delete { uid, .. } = write { Some(uid.to_string()) } else { None };
    let deleted: Vec<String> = plan.writes.iter().filter_map(delete).collect();
    let (node, victims) = match outcome(cluster, pod) {
        Outcome::Nobody => {
            let is_polite = pod["spec"]["preemptionPolicy"] == "Never";
            seen.saw(if is_polite { "never preempts" } else { "nobody to go" });
            ("".to_owned(), Vec::new())
        }
        Outcome::Waits => {
            seen.saw("waits for victims");
            (before.to_owned(), Vec::new())
        }
        Outcome::Victims { node, victims, violations } => {
            seen.saw(if violations > 0 { "victims though a budget breaks" } else { "victims" });
            if cluster.nominees(cluster.node(&node).unwrap(), pod).next().is_some() {
                seen.saw("victims while room is held for others there");
            }
            let kept = |nominee: &&Value| priority(nominee) < priority(pod);
            for loser in cluster.nominees(cluster.node(&node).unwrap(), pod).filter(kept) {
                let key = Key::new(Kind::POD, namespace(loser), name(loser));
                let left = status(&key).map(|status| text(status, "nominatedNodeName"));
                prop_assert_eq!(left, Some(""), "a loser forgets: {}", loser);
            }
            (node, victims)
        }
    };
    let find = |uid: &str| cluster.pods.iter().find(|pod| pod["metadata"]["uid"] == json!(uid)).unwrap();
    let asked: Vec<&String> = victims.iter().filter(|uid| !is_ending(find(uid))).collect();
    prop_assert_eq!((held, &deleted.iter().collect::<Vec<_>>()), (&*node, &asked), "{}", pod);
    Ok(())
}

fn fitting(explanation: &Explanation) -> BTreeMap<String, i64> {
    let total = |(node, verdict): (&Arc<str>, &Verdict)| match verdict {
        Verdict::Feasible { total, .. } => Some((node.to_string(), *total)),
        Verdict::Refused { .. } => None,
    };
    explanation.verdicts.iter().filter_map(total).collect()
}

/// What a pod is told of every node is what plain objects show, and what a scheduler that was just started says.
pub(super) fn explanation(world: &mut World, fresh: &mut Scheduler, key: &Key) -> Agreed {
    let cluster = Cluster::of(world);
    let object = world.view.get(key).cloned().unwrap();
    let told = world.explain(key);
    let want = totals(&cluster, &object.value());
    prop_assert_eq!(&fitting(&told), &want, "{}: {:#?}", object.value(), told);
    let best = told.best.as_ref().map(|node| want[&**node]);
    prop_assert_eq!(best, want.values().max().copied());
    prop_assert_eq!(told, fresh.explain(&world.view, &object), "whatever came before: {}", object.value());
    Ok(())
}

/// What comes of a pod that is next, as text.
pub(super) fn plan_about(scheduler: &mut Scheduler, world: &World, key: &Key) -> String {
    let plan = scheduler.step(&world.view, world.now).unwrap();
    assert!(plan.notes.iter().any(|note| note.about == *key), "it is next: {plan:?}");
    format!("{plan:?}")
}

/// A scheduler that has just been started, and was shown everything in some order.
pub(super) fn restarted(world: &World, seed: u64, salt: u64) -> Scheduler {
    let mut fresh = scheduler_of(seed, &world.configuration);
    for object in super::history::shuffled(world, salt) {
        let change = Change { revision: world.view.revision(), action: Action::Added, object, previous: None };
        fresh.observe(&world.view, &change, world.now);
    }
    fresh
}
