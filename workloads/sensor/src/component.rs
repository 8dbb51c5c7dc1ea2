//! The glue to WASI and to `coracle:lifecycle/termination`: one wait for two events, the next reading or the end.
//!
//! This is the example to copy for a program of one's own that wants to end by itself within the grace period.

use crate::{farewell, interval_ms, next_due_ms, reading};
use bindings::coracle::lifecycle::termination;
use wasip2::cli::{environment, exit, stderr, stdout};
use wasip2::clocks::monotonic_clock;
use wasip2::io::streams::OutputStream;

mod bindings {
    wit_bindgen::generate!({
        path: "../wit/coracle-lifecycle",
        world: "imports",
        // One kind of pollable, so that the signal and the timer can be waited for together.
        with: { "wasi:io/poll@0.2.12": wasip2::io::poll },
    });
}

struct Sensor;

wasip2::cli::command::export!(Sensor);

impl wasip2::exports::cli::run::Guest for Sensor {
    fn run() -> Result<(), ()> {
        // By convention the first word is the program's own name.
        let arguments = environment::get_arguments();
        match interval_ms(arguments.get(1..).unwrap_or_default()) {
            Ok(interval_ms) => measure(interval_ms),
            Err(message) => {
                print(&stderr::get_stderr(), &(message + "\n"))?;
                exit::exit_with_code(2);
                Err(())
            }
        }
    }
}

/// Prints readings until the pod is asked to stop. Fails only when standard output is gone.
fn measure(interval_ms: u64) -> Result<(), ()> {
    let out = stdout::get_stdout();
    let asked_to_stop = termination::subscribe();
    let start = monotonic_clock::now();
    let uptime_ms = || (monotonic_clock::now() - start) / 1_000_000;
    let (mut readings, mut due_ms) = (0, 0);
    while !termination::requested() {
        let now_ms = uptime_ms();
        if now_ms >= due_ms {
            readings += 1;
            print(&out, &reading(readings, now_ms))?;
            due_ms = next_due_ms(due_ms, now_ms, interval_ms);
        }
        let timer = monotonic_clock::subscribe_instant(start + due_ms * 1_000_000);
        wasip2::io::poll::poll(&[&asked_to_stop, &timer]);
    }
    print(&out, &farewell(readings, termination::remaining_grace_ms()))
}

/// Writes one short line; the stream takes up to 4096 bytes at once.
fn print(stream: &OutputStream, line: &str) -> Result<(), ()> {
    stream.blocking_write_and_flush(line.as_bytes()).map_err(drop)
}
