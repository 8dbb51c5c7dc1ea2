//! The same work for every kind of trouble: what each batch writes follows from its revisions alone, so a store can be
//! compared with what must be in it at any revision.

mod full_disk;
mod kill;
mod power_cut;

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_controller_core::Kind;
use coracle_controller_core::object::Object;
use coracle_controller_core::store::{Action, Change, Snapshot, Store, StoreError};
use serde_json::json;

use super::EmbeddedStore;

/// Changes in each batch.
const BATCH: u64 = 4;
/// Objects that the changes are spread over.
const SLOTS: u64 = 23;

/// A generator of test decisions; the seed decides everything.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The object that a revision is about.
fn slot(revision: u64) -> u64 {
    Dice(revision).below(SLOTS)
}

fn deletes(revision: u64) -> bool {
    Dice(revision ^ 0xdead).below(5) == 0
}

fn object(revision: u64) -> Arc<Object> {
    let slot = slot(revision);
    let length = usize::try_from(Dice(revision).below(3000)).expect("small");
    let value = json!({
        "metadata": {"name": format!("c{slot}"), "namespace": "default", "uid": "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11"},
        "data": {"text": format!("{revision}-").repeat(length / 4)},
    });
    Arc::new(Object::from_value(Kind::CONFIG_MAP, revision, value).expect("an object"))
}

/// The change that makes this revision.
fn change(revision: u64) -> Change {
    let action = if deletes(revision) { Action::Deleted } else { Action::Modified };
    Change { revision, action, object: object(revision), previous: None }
}

fn batch(after: u64) -> Vec<Change> {
    (after + 1..=after + BATCH).map(change).collect()
}

/// What must be in a store whose last revision is this one: what the last change of each object left.
fn expected(revision: u64) -> BTreeMap<String, String> {
    let last: BTreeMap<_, _> = (1..=revision).map(|revision| (slot(revision), revision)).collect();
    let left = last.into_values().filter(|revision| !deletes(*revision));
    left.map(object).map(|object| (object.name().to_owned(), object.body().to_owned())).collect()
}

/// Compares all of a store with what must be in it: the objects, and of the log what was not overtaken.
fn check(snapshot: &Snapshot) {
    assert_eq!(snapshot.revision % BATCH, 0, "half a batch");
    let objects: BTreeMap<_, _> =
        snapshot.objects.iter().map(|object| (object.name().to_owned(), object.body().to_owned())).collect();
    assert!(objects == expected(snapshot.revision), "at revision {}", snapshot.revision);
    let last: BTreeMap<_, _> = (1..=snapshot.revision).map(|revision| (slot(revision), revision)).collect();
    let is_kept = |revision: &u64| deletes(*revision) || last.get(&slot(*revision)) == Some(revision);
    let want: Vec<_> = (snapshot.log_floor + 1..=snapshot.revision).filter(is_kept).collect();
    let log: Vec<_> = snapshot.log.iter().map(|change| change.revision).collect();
    assert_eq!(log, want, "the log has no gap");
    for found in snapshot.log.iter().rev().take(50) {
        let want = change(found.revision);
        assert_eq!((found.action, found.object.body()), (want.action, want.object.body()));
    }
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    let scratch = scratch();
    let path = scratch.path().join("store.redb");
    let mut revision = 0;
    for _ in 0..5 {
        let mut store = EmbeddedStore::open(&path).expect("it opens");
        let snapshot = store.load().expect("it is readable");
        assert_eq!(snapshot.revision, revision);
        check(&snapshot);
        for _ in 0..10 {
            store.commit(&batch(revision)).expect("it is writable");
            revision += BATCH;
        }
    }
    let names: Vec<_> = std::fs::read_dir(scratch.path()).expect("readable").collect();
    assert_eq!(names.len(), 1, "nothing is left of its making");
}

#[test]
fn the_log_bounds_itself_and_can_be_cut_shorter() {
    let scratch = scratch();
    let path = scratch.path().join("store.redb");
    let mut store = EmbeddedStore::open(&path).expect("it opens");
    store.load().expect("it is readable");
    let all: Vec<_> = (1..=5000).map(change).collect();
    for changes in all.chunks(1000) {
        store.commit(changes).expect("it is writable");
    }
    let snapshot = store.load().expect("it is readable");
    check(&snapshot);
    assert_eq!(snapshot.log_floor, 5000 - 4096);
    store.compact(4990).expect("it is writable");
    drop(store);
    let snapshot = EmbeddedStore::open(&path).expect("it opens").load().expect("it is readable");
    check(&snapshot);
    assert_eq!(snapshot.log_floor, 4990);
}

#[test]
fn objects_that_the_log_still_has_are_in_memory_once() {
    let mut store = EmbeddedStore::open(&scratch().path().join("store.redb")).expect("it opens");
    let mut created = change(1);
    created.action = Action::Added;
    store.commit(&[created]).expect("it is writable");
    let snapshot = store.load().expect("it is readable");
    assert!(Arc::ptr_eq(&snapshot.objects[0], &snapshot.log[0].object));
}

#[test]
fn a_batch_that_goes_back_in_time_is_refused() {
    let mut store = EmbeddedStore::open(&scratch().path().join("store.redb")).expect("it opens");
    store.commit(&batch(0)).expect("it is writable");
    assert!(matches!(store.commit(&batch(0)), Err(StoreError::Damaged { .. })));
    check(&store.load().expect("it is readable"));
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let scratch = scratch();
    let path = scratch.path().join("store.redb");
    drop(EmbeddedStore::open(&path).expect("it opens"));
    let database = redb::Database::open(&path).expect("a database");
    let transaction = database.begin_write().expect("writable");
    let mut meta = transaction.open_table(super::layout::META).expect("the table");
    meta.insert("schema", 2).expect("writable");
    drop(meta);
    transaction.commit().expect("writable");
    drop(database);
    for _ in 0..2 {
        let opened = EmbeddedStore::open(&path).map(|_| ());
        assert!(matches!(opened, Err(StoreError::Newer { found: 2, known: 1 })), "{opened:?}");
    }
}

#[test]
fn a_file_that_is_no_store_is_named() {
    let scratch = scratch();
    let path = scratch.path().join("store.redb");
    std::fs::write(&path, "a letter to my aunt, in which there is nothing about databases".repeat(100))
        .expect("writable");
    let Err(error) = EmbeddedStore::open(&path) else { panic!("it opened") };
    assert!(error.to_string().contains("store.redb"), "{error}");
}
