//! A scheduler that looks at plain objects, slowly and obviously, and the property that the fast one comes to the same
//! answers after any history.
//!
//! *In:* the objects of a view, as JSON. *Out:* where a pod fits, what each node is worth, and who goes if it fits
//! nowhere. *Must never know:* anything of the scheduler but what everybody is told. Written from what kube-scheduler
//! is documented to do. Profiles, volumes and images are drawn as well. `CORACLE_CASES` says how many histories are played, `CORACLE_SEED` which.

mod objects;
mod profile;

mod selectors;
mod spread;

mod requests;
mod volumes;

mod filters;
mod scores;

mod preemption;

mod drawn;
mod history;

mod decisions;
mod tally;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Key;

use drawn::{Shown, some_configuration, some_pod};
use history::{Step, some_history};
use tally::{EVERYTHING, Tally};

const SEED: u64 = 7;

#[expect(clippy::disallowed_methods, reason = "whoever runs a test says how long it may take")]
fn stated(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: u32::try_from(stated("CORACLE_CASES", 200)).unwrap_or(u32::MAX),
        rng_seed: RngSeed::Fixed(stated("CORACLE_SEED", 1)),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

// SCH-01, SCH-02, SCH-04, SCH-06, TSC-03, TSC-04, TSC-05, PRI-04, PRI-05, PRI-07, PRI-08, INI-03
#[test]
fn after_any_history_every_decision_is_the_one_that_plain_objects_ask_for() {
    let seen = Tally::default();
    let histories = (some_configuration(), some_history(), vec(some_pod(), 3), any::<u64>());
    let played = TestRunner::new(config()).run(&histories, |(Shown(configuration), steps, probes, salt)| {
        whole_history(&configuration, steps, probes, salt, &seen)
    });
    if let Err(error) = played {
        panic!("{error}");
    }
    // A property that sees nothing of what matters is worth nothing. Some of it is rare.
    let enough = if stated("CORACLE_SEED", 1) == 1 { 200 } else { 1000 };
    let missing: Vec<_> = EVERYTHING.iter().filter(|what| seen.times(what) == 0).collect();
    assert!(missing.is_empty() || config().cases < enough, "never seen: {missing:?} in {seen:?}");
}

fn whole_history(
    configuration: &Value,
    steps: Vec<Step>,
    probes: Vec<Shown>,
    salt: u64,
    seen: &Tally,
) -> Result<(), TestCaseError> {
    let mut world = history::empty_world(SEED, configuration);
    let mut started = 0;
    for (number, step) in steps.into_iter().enumerate() {
        let waits = matches!(step, Step::Wait(10..));
        history::play(&mut world, step, number);
        if waits {
            history::reap(&mut world);
        }
        decisions::settle(&mut world, &mut started, seen)?;
    }
    let mut fresh = decisions::restarted(&world, SEED, salt);
    for (number, Shown(mut probe)) in probes.into_iter().enumerate() {
        probe["spec"].as_object_mut().unwrap().remove("nodeName");
        // More important than all that wait, so that it is next.
        probe["spec"]["priority"] = json!(9);
        let key = history::put_pod(&mut world, probe, &format!("probe{number}"));
        decisions::explanation(&mut world, &mut fresh, &key)?;
        let plan = decisions::plan_about(&mut world.scheduler.clone(), &world, &key);
        let anew = decisions::plan_about(&mut decisions::restarted(&world, SEED, salt), &world, &key);
        prop_assert_eq!(plan, anew, "whatever came before");
        world.delete(&key);
    }
    // Whatever could help has been seen: once every back-off is over, no pod waits that would fit.
    for _ in 0..8 {
        world.now.mono = world.now.mono + 10_000;
        history::reap(&mut world);
        world.bind_volumes();
        decisions::settle(&mut world, &mut started, seen)?;
    }
    let cluster = objects::Cluster::of(&world);
    for pod in cluster.waiting() {
        let fitting = scores::totals(&cluster, pod);
        prop_assert!(fitting.is_empty(), "{} waits and would fit: {:?}", pod, fitting);
    }
    let waiting: Vec<Key> =
        cluster.waiting().map(|pod| Key::new(Kind::POD, objects::namespace(pod), objects::name(pod))).collect();
    let mut fresh = decisions::restarted(&world, SEED, salt.rotate_left(9));
    for key in waiting {
        decisions::explanation(&mut world, &mut fresh, &key)?;
    }
    Ok(())
}
