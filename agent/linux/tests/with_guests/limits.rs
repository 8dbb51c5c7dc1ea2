//! Limits that hold, with real guests: memory, processor time, descriptors and disk (EDGE-09, LIF-07).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::workbench::{Bench, arguments, built, container};
use coracle_agent::runtime::{DiskQuota, Preopen};
use coracle_lifecycle::Exit;
use coracle_model::{Container, ContainerUsage, Millis, ResourceAmounts};

const MIB: u64 = 1 << 20;
/// A test that waits for this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How far a measured share may be from the one that was asked for, in thousandths.
const LOOSELY: u64 = 1500;

fn cpu(limit_millis: u64, request_millis: u64) -> Container {
    let amounts = |cpu_millis| ResourceAmounts { cpu_millis, ..ResourceAmounts::default() };
    Container { limits: amounts(limit_millis), requests: amounts(request_millis), ..container() }
}

fn memory(container: Container, memory_bytes: u64) -> Container {
    Container { limits: ResourceAmounts { memory_bytes, ..ResourceAmounts::default() }, ..container }
}

fn usage(bench: &Bench, pod: u128) -> ContainerUsage {
    let found = bench.runtime.usage(Millis(1_000_000)).containers.into_iter().find(|used| used.uid.0 == pod);
    found.unwrap_or_else(|| panic!("pod {pod} does not run"))
}

/// Waits until a pod's numbers are so.
async fn until(bench: &Bench, pod: u128, reached: impl Fn(&ContainerUsage) -> bool) -> ContainerUsage {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let used = usage(bench, pod);
        if reached(&used) {
            return used;
        }
        assert!(Instant::now() < deadline, "{used:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn mounted(directory: &Path, quota: &Arc<DiskQuota>) -> Preopen {
    Preopen {
        host_path: directory.to_owned(),
        guest_path: "/data".into(),
        read_only: false,
        quota: Some(Arc::clone(quota)),
    }
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs `files` with these words to its end, on a volume at `/data`.
async fn files(bench: &mut Bench, pod: u128, preopen: Preopen, words: &str) -> (Exit, String) {
    bench.preopens = vec![preopen];
    let words: Vec<&str> = std::iter::once("files").chain(words.split(' ')).collect();
    let run = bench.start(pod, &built("files"), arguments(&words)).await;
    let exit = bench.exit(&run).await;
    (exit, bench.printed(pod))
}

// LIF-07, EDGE-09
#[tokio::test]
async fn a_guest_without_a_limit_cannot_take_more_than_the_node_has() {
    let mut bench = Bench::with_memory(48 * MIB);
    let neighbour = bench.start(1, &built("stubborn"), container()).await;
    bench.started(&neighbour).await;
    let greedy = bench.start(2, &built("grow"), container()).await;
    assert_eq!(bench.exit(&greedy).await, Exit::NodeOutOfMemory, "{}", bench.printed(2));
    assert!(bench.printed(2).contains("20 MiB"), "{}", bench.printed(2));
    // What it had is there again.
    let modest = bench.start(3, &built("files"), arguments(&["files", "mem", "20000000"])).await;
    assert_eq!(bench.exit(&modest).await, Exit::Code(0), "{}", bench.printed(3));
    assert!(usage(&bench, 1).memory_bytes > 0);
}

/// A program that makes so many sets of HTTP headers, which the host keeps, and then computes for ever.
fn hoards(count: u32) -> Vec<u8> {
    let text = format!(
        r#"(component
            (import "wasi:http/types@0.2.0" (instance $http
                (export "fields" (type $fields (sub resource)))
                (export "[constructor]fields" (func (result (own $fields))))))
            (core func $new (canon lower (func $http "[constructor]fields")))
            (core module $code
                (import "host" "new" (func $new (result i32)))
                (func (export "run") (result i32)
                    (local $left i32)
                    (local.set $left (i32.const {count}))
                    (loop $more
                        (drop (call $new))
                        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                        (br_if $more (local.get $left)))
                    (loop $ever (br $ever))
                    unreachable))
            (core instance $made (instantiate $code (with "host" (instance (export "new" (func $new))))))
            (func $run (result (result)) (canon lift (core func $made "run")))
            (instance $cli (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $cli)))"#
    );
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}

// LIF-07
#[tokio::test]
async fn what_the_host_holds_for_a_guest_counts_against_its_limit() {
    let mut bench = Bench::new();
    let few = bench.start(1, &hoards(100), memory(container(), 8 * MIB)).await;
    let used = until(&bench, 1, |used| used.memory_bytes > 100 * 16 * 1024).await;
    assert!(used.memory_bytes <= 4 * MIB, "{used:?}");
    let many = bench.start(2, &hoards(1000), memory(container(), 8 * MIB)).await;
    assert_eq!(bench.exit(&many).await, Exit::OutOfMemory);
    bench.runtime.kill(&few).await;
    assert_eq!(bench.exit(&few).await, Exit::Killed);
}

// EDGE-09, LIF-10
#[tokio::test]
async fn a_guest_that_holds_too_many_handles_traps_and_says_so() {
    let mut bench = Bench::new();
    let run = bench.start(1, &hoards(1_000_000), container()).await;
    match bench.exit(&run).await {
        Exit::Trapped(reason) => assert_eq!(reason, "it held more than 4096 handles of the host at once"),
        other => panic!("{other:?}"),
    }
}

// LIF-07
#[tokio::test]
async fn the_most_that_was_ever_held_is_told_beside_what_is_held_now() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("files"), memory(arguments(&["files", "mem", "4000000", "wait"]), 8 * MIB)).await;
    let used = until(&bench, 1, |used| used.memory_bytes >= 4_000_000 && used.log_bytes > 0).await;
    assert!(used.memory_peak_bytes >= used.memory_bytes && used.memory_bytes <= 8 * MIB, "{used:?}");
    assert!(used.started_at.0 <= 1_000_000, "{used:?}");
    let node = bench.runtime.usage(Millis(1_000_000));
    assert!(node.cpu_ns >= used.cpu_ns && node.memory_bytes >= 4_000_000, "{node:?}");
    bench.runtime.kill(&run).await;
    assert_eq!(bench.exit(&run).await, Exit::Killed);
    assert!(bench.runtime.usage(Millis(0)).containers.is_empty());
}

// EDGE-09
#[tokio::test]
async fn a_busy_guest_has_no_more_than_its_limit() {
    let mut bench = Bench::new();
    let begun = Instant::now();
    for (pod, limit) in [(1, 50), (2, 250)] {
        bench.start(pod, &built("spin"), cpu(limit, 0)).await;
    }
    let used = until(&bench, 2, |used| used.throttled_periods >= 10).await;
    for (pod, limit) in [(1, 50), (2, 250)] {
        let used_ns = u128::from(usage(&bench, pod).cpu_ns);
        let share_ns = begun.elapsed().as_nanos() * limit / 1000;
        assert!(used_ns <= share_ns * u128::from(LOOSELY) / 1000, "pod {pod}: {used_ns} ns of {share_ns} ns");
    }
    assert!(used.periods >= used.throttled_periods && used.throttled_ns > 0, "{used:?}");
}

// EDGE-09
#[tokio::test]
async fn a_guest_with_a_request_has_more_than_eight_busy_neighbours_without_one_and_none_starves() {
    let mut bench = Bench::new();
    for pod in 1..=8 {
        bench.start(pod, &built("spin"), cpu(0, 0)).await;
        bench.first_line(pod).await;
    }
    bench.start(9, &built("spin"), cpu(0, 900)).await;
    bench.first_line(9).await;
    let before: Vec<u64> = (1..=9).map(|pod| usage(&bench, pod).cpu_ns).collect();
    for pod in 1..=8 {
        until(&bench, pod, |used| used.cpu_ns > before[pod as usize - 1]).await;
    }
    until(&bench, 9, |used| used.cpu_ns > before[8] + 500_000_000).await;
    let gained: Vec<u64> = (1..=9).map(|pod| usage(&bench, pod).cpu_ns - before[pod as usize - 1]).collect();
    let most = gained[..8].iter().max().copied().unwrap_or(0);
    assert!(gained[8] > 2 * most, "{gained:?}");
}

// EDGE-09
#[tokio::test]
async fn a_flood_of_output_is_on_the_account_of_who_writes_it() {
    let mut bench = Bench::new();
    let flood = Container { argv: vec!["misbehave".into(), "flood".into()], ..cpu(100, 0) };
    let run = bench.start(1, &built("misbehave"), memory(flood.clone(), 8 * MIB)).await;
    let quiet = until(&bench, 1, |used| used.log_bytes > MIB).await;
    bench.runtime.kill(&run).await;
    assert_eq!(bench.exit(&run).await, Exit::Killed);
    // However much it writes, the host keeps no more than a little.
    assert!(quiet.memory_bytes <= 4 * MIB && quiet.cpu_ns > 0, "{quiet:?}");
    let begun = Instant::now();
    bench.start(2, &built("misbehave"), flood).await;
    // Long enough that the one turn it may owe at the end is little beside its share.
    let used = until(&bench, 2, |used| used.throttled_periods >= 20).await;
    let share_ns = begun.elapsed().as_nanos() / 10;
    assert!(u128::from(used.cpu_ns) <= share_ns * u128::from(LOOSELY) / 1000, "{used:?}, {share_ns} ns");
}

// EDGE-09
#[tokio::test]
async fn a_guest_that_opens_without_end_is_refused_and_gives_everything_back() {
    let (mut bench, directory, quota) = (Bench::new(), directory(), DiskQuota::new(0, 0));
    for pod in 1..=2 {
        let preopen = mounted(directory.path(), &quota);
        let (exit, printed) = files(&mut bench, pod, preopen, "write /data/a 10 open /data/a 5000 cat /data/a").await;
        assert_eq!(exit, Exit::Code(1), "{printed}");
        assert!(printed.contains("of 5000"), "{printed}");
        let opened = printed.split("after ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        // The adapter of a wasip1 module has room for 128 of its own accord.
        assert!(opened.is_some_and(|opened| (100..1024).contains(&opened)), "{printed}");
    }
}

// EDGE-09
#[tokio::test]
async fn a_volume_that_is_full_takes_nothing_more_until_something_goes() {
    let (mut bench, directory, quota) = (Bench::new(), directory(), DiskQuota::new(64 * 1024, 20));
    let (exit, printed) = files(&mut bench, 1, mounted(directory.path(), &quota), "write /data/a 100000").await;
    assert_eq!(exit, Exit::Code(1), "{printed}");
    assert!(printed.contains("No space left on device") && printed.contains("after 65536 of 100000"), "{printed}");
    assert_eq!((quota.used_bytes(), quota.used_files()), (65536, 1));

    let words = "append /data/b no rm /data/a write /data/c 60000 rm /data/b write /data/c 10";
    let (_, printed) = files(&mut bench, 2, mounted(directory.path(), &quota), words).await;
    assert!(printed.contains("append /data/b: No space left on device"), "{printed}");
    assert!(printed.contains("wrote 60000") && printed.contains("wrote 10"), "{printed}");
    assert_eq!((quota.used_bytes(), quota.used_files()), (4096, 1));

    let (_, printed) = files(&mut bench, 3, mounted(directory.path(), &quota), "mkdir /data/d many /data/d 50").await;
    assert!(printed.contains("made /data/d") && printed.contains("after 18 of 50"), "{printed}");
    let counted = DiskQuota::new(0, 0);
    counted.recount(directory.path()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((counted.used_bytes(), counted.used_files()), (quota.used_bytes(), quota.used_files()));
}

// VOL-01
#[tokio::test]
async fn a_volume_that_is_read_only_is_read_and_not_written() {
    let (mut bench, directory, quota) = (Bench::new(), directory(), DiskQuota::new(0, 0));
    std::fs::write(directory.path().join("a"), "hello").unwrap_or_else(|error| panic!("{error}"));
    let preopen = Preopen { read_only: true, ..mounted(directory.path(), &quota) };
    let (exit, printed) = files(&mut bench, 1, preopen, "cat /data/a append /data/a x rm /data/a mkdir /data/b").await;
    assert_eq!(exit, Exit::Code(1), "{printed}");
    assert!(printed.starts_with("hello\nappend /data/a: ") && !printed.contains("removed"), "{printed}");
    assert_eq!((quota.used_bytes(), quota.used_files()), (0, 0));
}

// VOL-01
#[tokio::test]
async fn a_volume_that_is_not_there_is_named() {
    let mut bench = Bench::new();
    let preopen = mounted(Path::new("/nonexistent/volume"), &DiskQuota::new(0, 0));
    match files(&mut bench, 1, preopen, "ls /data").await {
        (Exit::CannotStart(reason), _) => assert!(reason.contains("the volume at /data"), "{reason}"),
        other => panic!("{other:?}"),
    }
}
