//! `cargo bench -p coracle-agent --bench start`: how soon a guest runs and how soon it is gone, without a controller,
//! and what it costs that guests are measured and can be interrupted.
//!
//! Starts are timed one by one, and their tails count; so this prints rows, as `cargo xtask bench` does. `cargo test`
//! runs everything once, to see that it still works.

#[path = "../tests/with_guests/workbench.rs"]
#[expect(dead_code, reason = "tests of the same agent need more of it")]
mod workbench;

use std::time::{Duration, Instant};

use coracle_lifecycle::{Exit, Run};
use rustix::time::{ClockId, clock_gettime};
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

use self::workbench::{Bench, built, container, signed};

/// Starts of an image that is ready.
const WARM: u32 = 300;
/// Agents whose first guests are started.
const COLD: u32 = 40;
/// Guests that never give the processor back, killed one after another.
const KILLS: u32 = 100;
/// Runs with and without the meter, in turn.
const PAIRS: u32 = 9;
/// A guest without a host beneath.
type Bare = (Engine, Component);

/// Programs that compute for about half a second: what they are, and what they do. A guest is asked at every turn of a
/// loop and in every function whether its time is over.
const PROGRAMS: &[(&str, &str)] =
    &[("a tight loop", TIGHT), ("calls of a small function", CALLS), ("a sieve in memory", SIEVE)];

/// Random numbers by shifts.
const TIGHT: &str = r#"
    (func (export "run") (result i32)
        (local $left i32) (local $x i64)
        (local.set $left (i32.const 250000000))
        (local.set $x (i64.const 88172645463325252))
        (loop $more
            (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 13))))
            (local.set $x (i64.xor (local.get $x) (i64.shr_u (local.get $x) (i64.const 7))))
            (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 17))))
            (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i64.eqz (local.get $x)))"#;

/// Fibonacci's numbers by their definition.
const CALLS: &str = r#"
    (func $fibonacci (param $n i32) (result i32)
        (if (result i32) (i32.lt_u (local.get $n) (i32.const 2))
            (then (local.get $n))
            (else (i32.add
                (call $fibonacci (i32.sub (local.get $n) (i32.const 1)))
                (call $fibonacci (i32.sub (local.get $n) (i32.const 2)))))))
    (func (export "run") (result i32)
        (i32.eqz (call $fibonacci (i32.const 39))))"#;

/// Primes below a million, over and over.
const SIEVE: &str = r#"
    (memory 16)
    (func (export "run") (result i32)
        (local $rounds i32) (local $prime i32) (local $at i32)
        (local.set $rounds (i32.const 150))
        (loop $again
            (memory.fill (i32.const 0) (i32.const 1) (i32.const 1000000))
            (local.set $prime (i32.const 2))
            (loop $next
                (if (i32.load8_u (local.get $prime)) (then
                    (local.set $at (i32.mul (local.get $prime) (local.get $prime)))
                    (loop $cross
                        (i32.store8 (local.get $at) (i32.const 0))
                        (local.set $at (i32.add (local.get $at) (local.get $prime)))
                        (br_if $cross (i32.lt_u (local.get $at) (i32.const 1000000))))))
                (local.set $prime (i32.add (local.get $prime) (i32.const 1)))
                (br_if $next (i32.lt_u (local.get $prime) (i32.const 1000))))
            (br_if $again (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1)))))
        (i32.eqz (i32.load8_u (i32.const 997))))"#;

/// A command of these functions, one of which is `run`: zero for a good end.
fn command(functions: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module $code {functions})
            (core instance $made (instantiate $code))
            (func $run (result (result)) (canon lift (core func $made "run")))
            (instance $cli (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $cli)))"#
    );
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // Cargo says so to a benchmark, and not to a test.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let times = |count| if is_bench { count } else { 1 };
    first_starts(times(COLD)).await;
    ready_starts(times(WARM)).await;
    kills(times(KILLS)).await;
    for (what, functions) in PROGRAMS {
        metering(what, &command(functions), times(PAIRS)).await;
    }
}

/// The first guest of an agent, for which it makes its engine, and then the first of another image. The files are in
/// the page cache.
async fn first_starts(agents: u32) {
    let (spin, sensor) = (built("spin"), built("sensor-1"));
    let (mut engines, mut images) = (Vec::new(), Vec::new());
    for _ in 0..agents {
        let mut bench = Bench::new();
        for (pod, wasm, times) in [(1, &spin, &mut engines), (2, &sensor, &mut images)] {
            let stored = bench.stored(wasm);
            let begun = Instant::now();
            let artifact = Some((stored, Bench::public_key()));
            let run = bench.start_with(pod, signed(wasm).0.image, artifact, container()).await;
            bench.started(&run).await;
            times.push(begun.elapsed());
            bench.runtime.kill(&run).await;
            bench.exit(&run).await;
        }
    }
    row("first start of an agent: engine, threads, and spin", &mut engines);
    row("first start of an image: sensor", &mut images);
}

/// Starts of an image that was started before; every other one is asked to stop, the rest are killed.
async fn ready_starts(count: u32) {
    let (mut bench, sensor) = (Bench::new(), built("sensor-1"));
    let image = signed(&sensor).0.image;
    let run = bench.start(1, &sensor, container()).await;
    bench.started(&run).await;
    let (mut starts, mut stops, mut kills) = (Vec::new(), Vec::new(), Vec::new());
    for pod in 0..count {
        let begun = Instant::now();
        let run = bench.start_with(u128::from(pod) + 2, image, None, container()).await;
        bench.started(&run).await;
        starts.push(begun.elapsed());
        // It waits for its next reading by then.
        bench.first_line(run.pod.0).await;
        let begun = Instant::now();
        if pod % 2 == 0 {
            bench.runtime.signal(&run, 30_000);
            gone(&mut bench, &run, Exit::Code(0)).await;
            stops.push(begun.elapsed());
        } else {
            bench.runtime.kill(&run).await;
            gone(&mut bench, &run, Exit::Killed).await;
            kills.push(begun.elapsed());
        }
        bench.logs.forget(run.pod);
    }
    row("start of an image that is ready: sensor", &mut starts);
    row("asked to stop -> ended: sensor", &mut stops);
    row("killed -> ended: sensor, which waits", &mut kills);
}

async fn gone(bench: &mut Bench, run: &Run, want: Exit) {
    let exit = bench.exit(run).await;
    assert!(exit == want, "{exit:?}");
}

async fn kills(count: u32) {
    let (mut bench, spin) = (Bench::new(), built("spin"));
    let mut kills = Vec::new();
    for pod in 0..count {
        let run = bench.start(pod.into(), &spin, container()).await;
        bench.started(&run).await;
        bench.first_line(run.pod.0).await;
        let begun = Instant::now();
        bench.runtime.kill(&run).await;
        gone(&mut bench, &run, Exit::Killed).await;
        kills.push(begun.elapsed());
    }
    row("killed -> ended: spin, which computes", &mut kills);
}

/// The same work as a guest of an agent, measured and interrupted, and in an engine that does neither.
async fn metering(what: &str, wasm: &[u8], pairs: u32) {
    let bare = bare(wasm).unwrap_or_else(|error| panic!("{error:#}"));
    let mut bench = Bench::new();
    // Each once for nothing: machine code is read, memory is mapped, the processor is at its speed.
    metered(&mut bench, 1, wasm).await;
    run_bare(&bare);
    let mut taken: [Vec<Duration>; 4] = Default::default();
    for pair in 0..pairs {
        let with = timed(metered(&mut bench, u128::from(pair) + 2, wasm)).await;
        let without = timed(async { run_bare(&bare) }).await;
        for (times, time) in taken.iter_mut().zip([with.0, without.0, with.1, without.1]) {
            times.push(time);
        }
    }
    for times in &mut taken {
        times.sort();
    }
    let [with, without, cpu_with, cpu_without] = taken.map(|times| times[times.len() / 2].as_secs_f64());
    println!(
        "| cost of metering, {what} | {:+.1} % of time, {:+.1} % of CPU | CPU {:.0} ms to {:.0} ms | \
         n={pairs} pairs, medians |",
        100.0 * (with / without - 1.0),
        100.0 * (cpu_with / cpu_without - 1.0),
        cpu_without * 1e3,
        cpu_with * 1e3
    );
}

/// How long it takes, and the processor time of the whole process meanwhile.
async fn timed(work: impl Future<Output = ()>) -> (Duration, Duration) {
    let (begun, before) = (Instant::now(), processor_time());
    work.await;
    (begun.elapsed(), processor_time().saturating_sub(before))
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

async fn metered(bench: &mut Bench, pod: u128, wasm: &[u8]) {
    let run = bench.start(pod, wasm, container()).await;
    gone(bench, &run, Exit::Code(0)).await;
}

/// Compiles it with the agent's configuration, but for the interruptions.
fn bare(wasm: &[u8]) -> wasmtime::Result<Bare> {
    let mut config = coracle_engine::config(coracle_engine::host_target()).unwrap_or_else(|error| panic!("{error}"));
    config.epoch_interruption(false);
    let engine = Engine::new(&config)?;
    let component = Component::new(&engine, wasm)?;
    Ok((engine, component))
}

fn run_bare(bare: &Bare) {
    let done = || -> wasmtime::Result<Result<(), ()>> {
        let (engine, component) = bare;
        let mut store = Store::new(engine, ());
        let instance = Linker::new(engine).instantiate(&mut store, component)?;
        let interface = instance.get_export_index(&mut store, None, "wasi:cli/run@0.2.0");
        let function = interface.and_then(|at| instance.get_export_index(&mut store, Some(&at), "run"));
        let function = function.unwrap_or_else(|| panic!("it exports no run"));
        let function = instance.get_typed_func::<(), (Result<(), ()>,)>(&mut store, function)?;
        Ok(function.call(&mut store, ())?.0)
    };
    let outcome = done().unwrap_or_else(|error| panic!("{error:#}"));
    assert!(outcome.is_ok(), "it computed something else");
}

fn row(what: &str, times: &mut [Duration]) {
    if times.is_empty() {
        return;
    }
    times.sort();
    let ms = |at: usize| times[at].as_secs_f64() * 1e3;
    let (count, last) = (times.len(), times.len() - 1);
    let (p50, p99) = (ms(count / 2), ms(last * 99 / 100));
    println!("| {what} | p50 {p50:.2} ms, p99 {p99:.2} ms | {:.2} to {:.2} | n={count} |", ms(0), ms(last));
}
