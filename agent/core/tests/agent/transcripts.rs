//! Sessions as text: what happens stands at the left margin, what the agent does about it is indented below.
//! `CORACLE_BLESS=1 cargo test -p coracle-agent-core --test agent` writes the indented lines anew; read the
//! difference before keeping it. The verbs are those of `Stage::verb`; pods have one container, called `a`:
//!
//! ```text
//! remember web=hello:1            before the start: the disk remembers this pod (and `pinned`: the cluster)
//! runtime | disk                  the runtime answers by itself; the disk does, and has what was finished
//! has hello:1                     the disk has this image
//! evicts nodefs.available<10% 5s  the agent watches this, and a condition lasts so long
//! 0s start
//! 0s connected 1
//! 0s welcome 1
//! 0s sync 1 seq=5 web=hello:1,Always old=hello:1,stop=30s new=?
//! ```

use std::path::Path;

use crate::stage::Stage;

#[test]
fn every_session_goes_as_it_is_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let bless = std::env::var_os("CORACLE_BLESS").is_some();
    let mut wrong = Vec::new();
    for path in paths {
        let written = std::fs::read_to_string(&path).expect("a text");
        let played = play(&written);
        if bless {
            std::fs::write(&path, &played).expect("writable");
        } else if played != written {
            wrong.push(format!("{} plays as:\n{played}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The text with its indented lines made anew.
fn play(script: &str) -> String {
    let mut stage = Stage::default();
    for line in script.lines().filter(|line| !line.starts_with(' ')) {
        stage.out.push_str(line);
        stage.out.push('\n');
        if !line.is_empty() && !line.starts_with('#') {
            stage.line(line);
        }
    }
    stage.out
}
