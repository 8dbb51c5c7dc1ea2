//! `docs/behaviours.md` is the list of what is promised; it may not name a test that does not exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use coracle_tests::programs::root;

/// Every behaviour: an area, and how many there are in it.
const AREAS: &[(&str, usize)] = &[
    ("POD", 14),
    ("LIF", 12),
    ("PRB", 6),
    ("INI", 6),
    ("TRM", 9),
    ("GC", 3),
    ("RS", 7),
    ("DEP", 12),
    ("STS", 8),
    ("DS", 3),
    ("JOB", 2),
    ("CRON", 1),
    ("HPA", 1),
    ("PDB", 1),
    ("QUO", 1),
    ("SCH", 6),
    ("TSC", 5),
    ("PRI", 10),
    ("SAF", 10),
    ("NET", 4),
    ("VOL", 3),
    ("API", 6),
    ("EDGE", 11),
];

#[test]
fn every_behaviour_is_listed_once_and_every_named_test_exists() {
    let list = fs::read_to_string(root().join("docs/behaviours.md")).expect("docs/behaviours.md");
    let mut rows = BTreeMap::new();
    for line in list.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| id") && !line.contains("---"))
    {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, _promise, works, tests] = cells[..] else { panic!("four columns in: {line}") };
        assert!(rows.insert(id.to_owned(), (works, tests)).is_none(), "{id} is listed twice");
    }
    let mut sources = String::new();
    collect(&root(), &mut sources);
    for (area, count) in AREAS {
        for number in 1..=*count {
            let id = format!("{area}-{number:02}");
            let (works, tests) = rows.remove(&id).unwrap_or_else(|| panic!("docs/behaviours.md lacks {id}"));
            check(&id, works, tests, &sources);
        }
    }
    assert!(rows.is_empty(), "unknown behaviours: {:?}", rows.keys());
}

fn check(id: &str, works: &str, tests: &str, sources: &str) {
    assert!(["yes", "partly", "no"].contains(&works), "{id}: \"{works}\" is not yes, partly or no");
    let named: Vec<&str> =
        tests.split(", ").map(|name| name.trim_matches('`')).filter(|name| !name.is_empty()).collect();
    if works == "no" {
        return;
    }
    assert!(!named.is_empty(), "{id} works and names no test");
    for test in named {
        assert!(sources.contains(&format!("fn {test}(")), "{id} names the test {test}, which does not exist");
    }
}

fn collect(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of ours").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&entry, sources);
        } else if name.ends_with(".rs") {
            sources.push_str(&fs::read_to_string(&entry).expect("a source is text"));
        }
    }
}
