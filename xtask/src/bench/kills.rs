//! `cargo xtask bench kills [N]`: the store's own test of kills (SIGKILL at a random moment of a writing process), with so
//! many that the promise can be made: no acknowledged write is lost in 1,000.

use crate::process::run;

/// What is promised.
const KILLS: u64 = 1000;

/// The test that kills, in `controller/server/src/store/tests/kill.rs`.
const TEST: &str = "store::tests::kill::no_acknowledged_write_is_lost_when_the_process_is_killed";

pub(super) fn bench(arguments: &[String]) -> Result<(), String> {
    let kills = match arguments.iter().find(|argument| !argument.starts_with("--")) {
        None => KILLS,
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no number of kills: want 1000"))?,
    };
    super::machine()?;
    let test = ["test", "--locked", "--package", "coracle-controller", "--lib", "--"];
    let words = [&test[..], &[TEST, "--exact", "--nocapture"]].concat();
    run("cargo", &words, &[("CORACLE_TEST_KILLS", &kills.to_string())])
}
