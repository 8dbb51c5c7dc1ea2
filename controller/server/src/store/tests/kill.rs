//! A process that commits, and dies in the middle of it: `kill -9` at a random moment, again and again.

use std::env;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

/// Tells the copy of this test that runs as the writing process where its store is.
const CHILD: &str = "CORACLE_TEST_STORE";
/// Kills in one run of the tests; `cargo xtask bench kills` asks for more.
const KILLS: u64 = 100;
/// How many kills somebody asks for.
const WISH: &str = "CORACLE_TEST_KILLS";

#[test]
fn no_acknowledged_write_is_lost_when_the_process_is_killed() {
    if let Some(path) = env::var_os(CHILD) {
        return write_for_ever(Path::new(&path));
    }
    let scratch = scratch();
    let path = scratch.path().join("store.redb");
    let mut dice = Dice(9);
    let mut acknowledged = 0;
    let kills = env::var(WISH).ok().and_then(|wish| wish.parse().ok()).unwrap_or(KILLS);
    for _ in 0..kills {
        acknowledged = run_and_kill(&path, dice.below(10)).unwrap_or(acknowledged);
        let mut store = EmbeddedStore::open(&path).expect("it opens");
        let snapshot = store.load().expect("it is readable");
        let found = snapshot.revision;
        assert!(found == acknowledged || found == acknowledged + BATCH, "acknowledged {acknowledged}, found {found}");
        check(&snapshot);
        acknowledged = found;
    }
    assert!(acknowledged > kills * BATCH, "the writers came to write");
    println!("{kills} kills, {acknowledged} acknowledged writes, none lost");
}

/// Kills the writer after so many acknowledgements, and returns the last one that it got out.
fn run_and_kill(path: &Path, acknowledgements: u64) -> Option<u64> {
    let program = env::current_exe().expect("this program");
    let name = "store::tests::kill::no_acknowledged_write_is_lost_when_the_process_is_killed";
    let mut child = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut last = None;
    let mut seen = 0;
    let mut killed = false;
    // What is still in the pipe after the kill was acknowledged as well; a line that was cut off was not.
    for line in BufReader::new(child.stdout.take().expect("a pipe")).split(b'\n') {
        let line = String::from_utf8(line.expect("a pipe")).expect("text");
        if let Some(revision) = line.strip_prefix("acknowledged ").and_then(|rest| rest.strip_suffix('.')) {
            last = Some(revision.parse().expect("a number"));
            seen += 1;
        }
        if seen >= acknowledgements && !killed {
            child.kill().expect("it is ours");
            killed = true;
        }
    }
    let status = child.wait().expect("it is ours");
    assert!(killed && !status.success(), "the writer ended by itself: {status}");
    last
}

fn write_for_ever(path: &Path) {
    let mut store = EmbeddedStore::open(path).expect("it opens");
    let mut revision = store.load().expect("it is readable").revision;
    loop {
        store.commit(&batch(revision)).expect("it is writable");
        revision += BATCH;
        io::stdout().write_all(format!("\nacknowledged {revision}.\n").as_bytes()).expect("somebody listens");
    }
}
