//! How files look: sizes, names, headers.

use std::fs;
use std::path::{Path, PathBuf};

use coracle_tests::programs::root;

const MAX_FILE_LINES: usize = 600;
const MAX_LIB_LINES: usize = 150;
const MAX_FUNCTION_LINES: usize = 70;
/// Tests longer than this live in a file of their own.
const MAX_INLINE_TEST_LINES: usize = 150;

/// Where our Rust sources are.
const ROOTS: &[&str] = &[
    "model",
    "lifecycle",
    "wire",
    "link",
    "engine",
    "agent",
    "controller",
    "simulator",
    "fleet",
    "cli",
    "tests",
    "xtask",
    "workloads",
];

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ROOTS {
        collect(&root().join(folder), &mut found);
    }
    assert!(found.len() > 50, "the sources are where they should be");
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("a folder of ours").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() && name != "target" && name != "node_modules" {
            collect(&entry, found);
        } else if name.ends_with(".rs") {
            found.push((entry.clone(), fs::read_to_string(&entry).expect("a source is text")));
        }
    }
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn files_stay_small_enough_to_read() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        let most = if path.ends_with("src/lib.rs") { MAX_LIB_LINES } else { MAX_FILE_LINES };
        assert!(lines <= most, "{} has {lines} lines, at most {most}: split it by what it holds", path.display());
        let tests = text.find("#[cfg(test)]\nmod tests {").map_or(0, |at| text[at..].lines().count());
        assert!(tests <= MAX_INLINE_TEST_LINES, "{}: {tests} lines of tests: move them to tests.rs", path.display());
    }
}

#[test]
fn functions_stay_small_enough_to_read() {
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test(path)) {
        let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let mut open: Option<(usize, usize, String)> = None;
        for (number, line) in production.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let words = line.trim_start();
            let starts =
                ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "async fn ", "pub async fn ", "const fn "];
            if open.is_none() && starts.iter().any(|start| words.starts_with(start)) {
                open = Some((number, indent, words.to_owned()));
            } else if let Some((start, at, name)) = &open
                && indent == *at
                && (words == "}" || words.ends_with(';'))
            {
                let lines = number - start + 1;
                assert!(lines <= MAX_FUNCTION_LINES, "{}:{}: {lines} lines in {name}", path.display(), start + 1);
                open = None;
            } else if let Some((start, _, _)) = &open
                && *start + 1 == number
                && words.is_empty()
            {
                // A one-line function.
                open = None;
            }
        }
    }
}

#[test]
fn names_say_what_is_inside() {
    for (path, _) in sources() {
        let inside = path.strip_prefix(root()).unwrap_or(&path);
        for part in inside.components() {
            let part = part.as_os_str().to_string_lossy();
            let stem = part.trim_end_matches(".rs");
            for word in ["util", "utils", "common", "helper", "helpers", "misc", "manager", "facade"] {
                assert!(stem != word, "{}: \"{word}\" says nothing; name it after what it holds", inside.display());
            }
        }
    }
}

#[test]
fn every_crate_opens_with_its_four_lines() {
    for (path, text) in sources().into_iter().filter(|(path, _)| path.ends_with("src/lib.rs")) {
        if path.starts_with(root().join("workloads")) {
            continue;
        }
        for line in ["//! *In:*", "*Out:*", "//! *Must never know:*", "//! *Tested:*"] {
            assert!(text.contains(line), "{} lacks \"{line}\" in its header", path.display());
        }
    }
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    for (path, text) in sources() {
        let bare = text.lines().find(|line| line.trim_start().starts_with("#[allow("));
        assert!(bare.is_none(), "{}: {bare:?}: use #[expect(.., reason = ..)]", path.display());
        let ignored = text.lines().find(|line| line.trim_start().starts_with("#[ignore"));
        assert!(ignored.is_none(), "{}: a test that is ignored hides a failure", path.display());
    }
}
