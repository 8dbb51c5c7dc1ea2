//! Bad guests in a real runtime, all at once beside good ones (LIF-10, EDGE-09).

use std::collections::BTreeMap;
use std::path::Path;

use crate::streams::{Door, get, web};
use crate::workbench::{Bench, arguments, built, container};
use coracle_agent::runtime::{DiskQuota, Preopen, Report};
use coracle_agent_core::RuntimeEvent;
use coracle_lifecycle::{Exit, Run};
use coracle_model::{Container, ResourceAmounts};
use coracle_wire::stream::StreamEnd;

/// The good neighbours.
const SENSOR: u128 = 1;
const WEB: u128 = 2;
/// The first bad one.
const FIRST_BAD: u128 = 100;
/// What each bad guest may have.
const MEMORY_BYTES: u64 = 8 << 20;

/// How a bad guest must end.
#[derive(Clone, Copy, Debug)]
enum End {
    Code(i32),
    /// With these words in the trap.
    Trap(&'static str),
    OutOfMemory,
    /// With these words in the reason.
    CannotStart(&'static str),
    /// Not by itself, and not when it is asked to.
    Killed,
}

struct Bad {
    file: &'static str,
    words: &'static [&'static str],
    end: End,
}

const fn bad(file: &'static str, words: &'static [&'static str], end: End) -> Bad {
    Bad { file, words, end }
}

const BAD: &[Bad] = &[
    bad("misbehave", &["misbehave", "exit", "1"], End::Code(1)),
    bad("misbehave", &["misbehave", "noise"], End::Code(0)),
    bad("deep", &[], End::Code(0)),
    bad("files", &["files", "many", "/data", "100000"], End::Code(1)),
    bad("trap", &[], End::Trap("wasm trap: wasm `unreachable` instruction executed")),
    bad("out-of-bounds", &[], End::Trap("wasm trap: out of bounds memory access")),
    bad("start-trap", &[], End::Trap("wasm trap: integer divide by zero")),
    bad("recursion", &[], End::Trap("wasm trap: call stack exhausted")),
    bad("misbehave", &["misbehave", "overflow"], End::Trap("wasm trap: out of bounds memory access")),
    bad("grow", &[], End::OutOfMemory),
    bad("tables", &[], End::OutOfMemory),
    bad("huge-table", &[], End::OutOfMemory),
    bad("huge-memory", &[], End::OutOfMemory),
    bad("no-entry", &[], End::CannotStart("it exports neither wasi:cli/run nor wasi:http/incoming-handler")),
    bad("other-world", &[], End::CannotStart("it exports neither wasi:cli/run nor wasi:http/incoming-handler")),
    bad("missing-import", &[], End::CannotStart("acme:gpio/pins@1.0.0")),
    bad("wrong-import", &[], End::CannotStart("wasi:cli/environment@0.2.12")),
    bad("spin", &[], End::Killed),
    bad("stubborn", &[], End::Killed),
    bad("start-loop", &[], End::Killed),
    bad("misbehave", &["misbehave", "flood"], End::Killed),
    bad("misbehave", &["misbehave", "sleep"], End::Killed),
    bad("misbehave", &["misbehave", "deaf"], End::Killed),
    bad("misbehave", &["misbehave", "calls"], End::Killed),
];

fn limited(container: Container) -> Container {
    Container { limits: ResourceAmounts { memory_bytes: MEMORY_BYTES, ..ResourceAmounts::default() }, ..container }
}

/// A volume that holds a thousand files, for each of them.
fn data(directory: &Path) -> Preopen {
    let quota = Some(DiskQuota::new(1 << 20, 1000));
    Preopen { host_path: directory.to_owned(), guest_path: "/data".into(), read_only: false, quota }
}

/// Reads reports until every bad guest has ended that ends by itself; the good ones must not.
async fn ends(bench: &mut Bench, runs: &BTreeMap<u128, Run>, wanted: usize) -> BTreeMap<u128, Exit> {
    let mut ends = BTreeMap::new();
    while ends.len() < wanted {
        if let Report::Event(RuntimeEvent::Exited { run, exit }) = bench.report().await {
            assert!(runs.contains_key(&run.pod.0), "a good neighbour has ended: {run:?} {exit:?}");
            ends.insert(run.pod.0, exit);
        }
    }
    ends
}

/// The sensor goes on printing and the web answers, whatever goes on beside them.
async fn neighbours_are_well(bench: &Bench, door: &mut Door, id: u64) {
    let sensor = bench.output(SENSOR);
    let (_, end) = sensor.start(None);
    sensor.wait(end + 2).await;
    door.open(bench, id, 1 << 16, get(WEB, 8080, "/"));
    let served = door.finish(id).await;
    assert_eq!(served.head.as_ref().map(|head| head.status), Some(200), "{served:?}");
}

fn check(bad: &Bad, exit: &Exit, printed: &str) {
    let right = match (bad.end, exit) {
        (End::Code(want), Exit::Code(code)) => want == *code,
        (End::Trap(words), Exit::Trapped(message)) => message.contains(words),
        (End::CannotStart(words), Exit::CannotStart(message)) => message.contains(words),
        (End::OutOfMemory, Exit::OutOfMemory) | (End::Killed, Exit::Killed) => true,
        _ => false,
    };
    assert!(right, "{} {:?}: want {:?}, got {exit:?}\n{printed}", bad.file, bad.words, bad.end);
}

// LIF-10, EDGE-09, TRM-03
#[tokio::test]
async fn every_bad_guest_ends_as_it_must_and_no_neighbour_feels_it() {
    let mut bench = Bench::new();
    let mut door = Door::new(&bench);
    let sensor = bench.start(SENSOR, &built("sensor-1"), arguments(&["sensor", "10"])).await;
    bench.started(&sensor).await;
    let hello = bench.start(WEB, &built("hello-1"), web()).await;
    bench.started(&hello).await;
    let (mut runs, mut directories) = (BTreeMap::new(), Vec::new());
    for (pod, bad) in (FIRST_BAD..).zip(BAD) {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        bench.preopens = vec![data(directory.path())];
        directories.push(directory);
        let run = bench.start(pod, &built(bad.file), limited(arguments(bad.words))).await;
        runs.insert(pod, run);
    }
    let killed: Vec<_> =
        (FIRST_BAD..).zip(BAD).filter(|(_, bad)| matches!(bad.end, End::Killed)).map(|(pod, _)| pod).collect();
    let mut ended = ends(&mut bench, &runs, BAD.len() - killed.len()).await;
    neighbours_are_well(&bench, &mut door, 1).await;
    for pod in &killed {
        bench.runtime.signal(&runs[pod], 0);
    }
    neighbours_are_well(&bench, &mut door, 2).await;
    for pod in &killed {
        bench.runtime.kill(&runs[pod]).await;
    }
    ended.extend(ends(&mut bench, &runs, killed.len()).await);
    for (pod, bad) in (FIRST_BAD..).zip(BAD) {
        check(bad, &ended[&pod], &bench.printed(pod));
    }
    neighbours_are_well(&bench, &mut door, 3).await;
    bench.runtime.signal(&sensor, 30_000);
    assert_eq!(bench.exit(&sensor).await, Exit::Code(0));
}

// LIF-10
#[tokio::test]
async fn a_start_function_that_never_ends_is_a_running_guest() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("start-loop"), container()).await;
    bench.started(&run).await;
    bench.runtime.kill(&run).await;
    assert_eq!(bench.exit(&run).await, Exit::Killed);
}

// LIF-10
#[tokio::test]
async fn a_request_that_goes_wrong_says_how_and_harms_no_other() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("bad-handler"), web()).await;
    bench.started(&run).await;
    let mut door = Door::new(&bench);
    for (id, path, want) in [
        (1, "/trap", "the container failed to answer: wasm trap: wasm `unreachable` instruction executed"),
        (2, "/nothing", "the container failed to answer: it ended without an answer"),
        (3, "/half", "the container broke its answer off: wasm trap: wasm `unreachable` instruction executed"),
    ] {
        door.open(&bench, id, 1 << 16, get(1, 8080, path));
        let served = door.finish(id).await;
        assert!(served.error.as_deref().is_some_and(|error| error.starts_with(want)), "{path}: {served:?}");
    }
    // It had finished its answer before it gave the handle away once more.
    door.open(&bench, 4, 1 << 16, get(1, 8080, "/twice"));
    let served = door.finish(4).await;
    assert_eq!((served.text(), &served.error), ("once\n".into(), &None), "{served:?}");
    door.open(&bench, 5, 1 << 16, get(1, 8080, "/"));
    assert_eq!(door.finish(5).await.text(), "still here\n");
    bench.runtime.signal(&run, 30_000);
    assert_eq!(bench.exit(&run).await, Exit::Code(0), "{}", bench.printed(1));
    for how in ["wasm trap: ", "unknown handle index"] {
        let line = format!("coracle: a request was ended: {how}");
        assert!(bench.printed(1).contains(&line), "{line}: {}", bench.printed(1));
    }
}

// LIF-10
#[tokio::test]
async fn requests_that_are_never_answered_give_their_place_back_when_their_clients_leave() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("bad-handler"), web()).await;
    bench.started(&run).await;
    let mut door = Door::new(&bench);
    // More than one container works on at the same time.
    for id in 1..=40 {
        let path = if id % 8 == 0 { "/spin" } else { "/never" };
        door.open(&bench, id, 1 << 16, get(1, 8080, path));
    }
    for id in 1..=40 {
        door.streams.end(&StreamEnd { id, error: Some("the client went away".into()) });
    }
    door.open(&bench, 41, 1 << 16, get(1, 8080, "/"));
    assert_eq!(door.finish(41).await.text(), "still here\n");
}

// TRM-03
#[tokio::test]
async fn files_does_one_verb_after_the_other_until_it_is_asked_to_stop() {
    let mut bench = Bench::new();
    let words = ["files", "cat", "/absent", "mem", "1000000", "env", "HOSTNAME", "watch", "/absent", "wait"];
    let run = bench.start(1, &built("files"), arguments(&words)).await;
    bench.started(&run).await;
    bench.first_line(1).await;
    bench.runtime.signal(&run, 30_000);
    assert_eq!(bench.exit(&run).await, Exit::Code(1));
    let printed = bench.printed(1);
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines[0].starts_with("cat /absent: "), "{printed}");
    assert_eq!(lines[1..3], ["touched 1000000", "HOSTNAME=pod-1"]);
    assert!(lines[3].starts_with("watch /absent: "), "{printed}");
    assert_eq!(lines[4..], ["waiting", "asked to stop"]);
}
