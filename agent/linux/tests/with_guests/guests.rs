//! Real guests in a real runtime: how they start, what they see and how they end.

use crate::workbench::{Bench, arguments, built, container, variable};
use coracle_agent::runtime::Report;
use coracle_lifecycle::Exit;
use coracle_model::{Container, Digest, ResourceAmounts};

/// A WASI program that grows its memory for ever: `loop (drop (memory.grow (i32.const 16))) (br 0) end`.
const GROWS: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x08\x02\x60\0\0\x60\x01\x7f\0\
    \x02\x24\x01\x16wasi_snapshot_preview1\x09proc_exit\0\x01\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x07\x13\x02\x06memory\x02\0\x06_start\0\x01\
    \x0a\x0e\x01\x0c\0\x03\x40\x41\x10\x40\0\x1a\x0c\0\x0b\x0b";

fn limited(container: Container, cpu_millis: u64, memory_bytes: u64) -> Container {
    Container { limits: ResourceAmounts { cpu_millis, memory_bytes, storage_bytes: 0 }, ..container }
}

// LIF-10
#[tokio::test]
async fn a_program_ends_with_its_own_exit_code() {
    let mut bench = Bench::new();
    for (pod, code) in [(1, 0), (2, 1)] {
        let run = bench.start(pod, &built("job-1"), arguments(&["job", "0", &code.to_string()])).await;
        bench.started(&run).await;
        assert_eq!(bench.exit(&run).await, Exit::Code(code), "{}", bench.printed(pod));
    }
    assert!(bench.printed(2).contains("done, exit code 1"), "{}", bench.printed(2));
    // The only way by which a component can name a code: the sensor does it when it dislikes its arguments.
    let run = bench.start(3, &built("sensor-1"), arguments(&["sensor", "never"])).await;
    assert_eq!(bench.exit(&run).await, Exit::Code(2), "{}", bench.printed(3));
    assert!(bench.runtime.is_idle());
}

// LIF-10
#[tokio::test]
async fn a_trap_is_told_in_words() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("trap"), container()).await;
    assert_eq!(bench.exit(&run).await, Exit::Trapped("wasm trap: wasm `unreachable` instruction executed".to_owned()));
    assert!(bench.printed(1).contains("trap: about to run"));
}

// LIF-07
#[tokio::test]
async fn a_guest_over_its_memory_limit_is_out_of_memory_and_one_below_is_left_alone() {
    let mut bench = Bench::new();
    let over = bench.start(1, GROWS, limited(container(), 0, 8 << 20)).await;
    assert_eq!(bench.exit(&over).await, Exit::OutOfMemory);
    let below = bench.start(2, &built("stubborn"), limited(container(), 0, 8 << 20)).await;
    bench.started(&below).await;
    bench.first_line(2).await;
    bench.runtime.kill(&below).await;
    assert_eq!(bench.exit(&below).await, Exit::Killed);
}

// LIF-07
#[tokio::test]
async fn a_guest_that_does_not_even_fit_at_its_start_is_out_of_memory() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("job-1"), limited(arguments(&["job", "0", "0"]), 0, 1024)).await;
    assert_eq!(bench.exit(&run).await, Exit::OutOfMemory);
}

// TRM-03, LIF-10
#[tokio::test]
async fn a_loop_that_calls_nothing_is_killed_and_harms_nobody() {
    let mut bench = Bench::new();
    let spins = [bench.start(1, &built("spin"), container()).await, bench.start(2, &built("spin"), container()).await];
    for spin in &spins {
        bench.first_line(spin.pod.0).await;
    }
    let job = bench.start(3, &built("job-1"), arguments(&["job", "0", "1"])).await;
    assert_eq!(bench.exit(&job).await, Exit::Code(1));
    for spin in &spins {
        bench.runtime.kill(spin).await;
        assert_eq!(bench.exit(spin).await, Exit::Killed);
    }
}

// EDGE-09
#[tokio::test]
async fn a_busy_guest_with_a_limit_can_still_be_killed_while_it_pays_its_debt() {
    let mut bench = Bench::new();
    let spin = bench.start(1, &built("spin"), limited(container(), 1, 0)).await;
    bench.first_line(1).await;
    bench.runtime.kill(&spin).await;
    assert_eq!(bench.exit(&spin).await, Exit::Killed);
}

// TRM-03
#[tokio::test]
async fn standard_input_stays_open_until_the_signal_and_then_ends() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("echo-stdin-eof"), container()).await;
    bench.started(&run).await;
    bench.runtime.signal(&run, 30_000);
    assert_eq!(bench.exit(&run).await, Exit::Code(0));
    assert!(bench.printed(1).contains("end of input"));
}

#[tokio::test]
async fn standard_input_ends_at_once_where_the_pod_wants_it() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("echo-stdin-eof"), Container { stdin_eof: true, ..container() }).await;
    assert_eq!(bench.exit(&run).await, Exit::Code(0));
}

// TRM-03
#[tokio::test]
async fn a_component_sees_the_termination_signal_through_its_import() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("sensor-1"), container()).await;
    bench.started(&run).await;
    bench.first_line(1).await;
    bench.runtime.signal(&run, 30_000);
    assert_eq!(bench.exit(&run).await, Exit::Code(0));
}

// LIF-10
#[tokio::test]
async fn a_missing_import_is_named() {
    let mut bench = Bench::new();
    let mut wasm = built("sensor-1");
    let (known, unknown) = (b"coracle:lifecycle/termination", b"coracle:lifecycle/terminatiox");
    let mut at = 0;
    while at + known.len() <= wasm.len() {
        if wasm[at..].starts_with(known) {
            wasm[at..at + known.len()].copy_from_slice(unknown);
        }
        at += 1;
    }
    let run = bench.start(1, &wasm, container()).await;
    match bench.exit(&run).await {
        Exit::CannotStart(reason) => assert!(reason.contains("coracle:lifecycle/terminatiox"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

// LIF-10, EDGE-02
#[tokio::test]
async fn an_artifact_that_is_absent_or_damaged_is_never_run() {
    let mut bench = Bench::new();
    let run = bench.start_with(1, Digest([0; 32]), None, container()).await;
    match bench.exit(&run).await {
        Exit::CannotStart(reason) => assert!(reason.contains("not on this node"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let (stored, artifact) = bench.damage(&built("trap"));
    let run = bench.start_with(2, Digest([1; 32]), Some((stored, Bench::public_key())), container()).await;
    assert!(matches!(bench.report().await, Report::Damaged(found) if found == artifact));
    match bench.exit(&run).await {
        Exit::CannotStart(reason) => assert!(reason.contains("digest"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn starting_twice_is_starting_once_and_killing_twice_is_said_twice() {
    let mut bench = Bench::new();
    let stubborn = Container { env: vec![variable("A", "b")], ..container() };
    let run = bench.start(1, &built("stubborn"), stubborn.clone()).await;
    bench.started(&run).await;
    bench.start(1, &built("stubborn"), stubborn).await;
    bench.runtime.kill(&run).await;
    assert_eq!(bench.exit(&run).await, Exit::Killed);
    assert!(bench.runtime.is_idle());
    bench.runtime.kill(&run).await;
    assert_eq!(bench.exit(&run).await, Exit::Killed);
}

// DESIGN, decision 8: a thousand pods on one agent.
#[tokio::test]
async fn many_guests_live_beside_each_other() {
    let mut bench = Bench::new();
    let mut left = 0;
    let wasm = built("echo-stdin-eof");
    for pod in 0..200 {
        bench.start(pod, &wasm, container()).await;
        left += 1;
    }
    bench.runtime.signal_all(30_000);
    while left > 0 {
        if let Report::Event(coracle_agent_core::RuntimeEvent::Exited { exit, .. }) = bench.report().await {
            assert_eq!(exit, Exit::Code(0));
            left -= 1;
        }
    }
}
