//! A store whose disk is full, or broken, under a committer that runs.

use std::collections::BTreeMap;
use std::sync::Mutex;

use coracle_controller_core::request::{FieldValidation, Outcome, Verb};
use coracle_controller_core::store::{Action, Snapshot};
use coracle_controller_core::{Key, Object};
use coracle_model::ClusterId;
use futures_util::FutureExt;
use serde_json::json;

use super::*;

/// What the disk under the store is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// It says so before it is written to.
    Full,
    /// It finds out when it is written to.
    FullWithoutKnowing,
    Broken,
}

/// What is durable.
struct Content {
    health: Health,
    revision: u64,
    objects: BTreeMap<Key, Arc<Object>>,
}

/// A store in memory, on a disk that is as the test wants it.
#[derive(Clone)]
struct Disk(Arc<Mutex<Content>>);

impl Disk {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Content { health: Health::Good, revision: 0, objects: BTreeMap::new() })))
    }

    fn set(&self, health: Health) {
        self.0.lock().expect("no panic").health = health;
    }

    fn has(&self, name: &str) -> bool {
        self.0.lock().expect("no panic").objects.contains_key(&Key::new(Kind::CONFIG_MAP, "default", name))
    }
}

impl Store for Disk {
    fn load(&mut self) -> Result<Snapshot, StoreError> {
        let disk = self.0.lock().expect("no panic");
        let (revision, objects) = (disk.revision, disk.objects.values().cloned().collect());
        Ok(Snapshot { revision, objects, log_floor: revision, log: Vec::new() })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let mut disk = self.0.lock().expect("no panic");
        match disk.health {
            Health::Good => {}
            Health::Full | Health::FullWithoutKnowing => return Err(StoreError::Full { what: "full".to_owned() }),
            Health::Broken => {
                let source = Box::new(std::io::Error::other("input/output error"));
                return Err(StoreError::Engine { what: "make a batch durable".to_owned(), source });
            }
        }
        for change in changes {
            disk.revision = change.revision;
            if change.action == Action::Deleted {
                disk.objects.remove(&change.object.key);
            } else {
                disk.objects.insert(change.object.key.clone(), Arc::clone(&change.object));
            }
        }
        Ok(())
    }

    fn compact(&mut self, _revision: u64) -> Result<(), StoreError> {
        Ok(())
    }

    fn room(&mut self) -> Room {
        match self.0.lock().expect("no panic").health {
            Health::Full => Room::Full("full".to_owned()),
            _ => Room::Plenty,
        }
    }
}

fn start(disk: &Disk) -> (Cluster, tokio::task::JoinHandle<Result<(), CommitterError>>, watch::Sender<bool>) {
    let identity = Identity { cluster: ClusterId(1), artifact_key: [1; 32], entropy: 3 };
    let (committer, cluster, _downs) =
        Committer::load(Box::new(disk.clone()), identity, Configuration::default()).expect("it is readable");
    let (stop, stopping) = watch::channel(false);
    (cluster, tokio::spawn(committer.run(stopping)), stop)
}

async fn create(cluster: &Cluster, name: &str) -> Result<u64, ApiError> {
    let request = Request {
        kind: Kind::CONFIG_MAP,
        namespace: "default".to_owned(),
        name: String::new(),
        subresource: None,
        verb: Verb::Create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})),
        dry_run: false,
        field_validation: FieldValidation::Strict,
    };
    match cluster.execute(request).await?.outcome {
        Outcome::Created(object) => Ok(object.revision),
        other => panic!("{other:?}"),
    }
}

fn knows(cluster: &Cluster, name: &str) -> bool {
    cluster.read(|view| view.get(&Key::new(Kind::CONFIG_MAP, "default", name)).is_some())
}

// A full disk makes the API read-only, not dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_shows_everything_and_ends_by_itself() {
    for full in [Health::Full, Health::FullWithoutKnowing] {
        let disk = Disk::new();
        let (cluster, committer, stop) = start(&disk);
        create(&cluster, "before").await.expect("a good disk");
        disk.set(full);
        for name in ["one", "two", "three"] {
            let refused = create(&cluster, name).await.expect_err("a full disk");
            assert_eq!((refused.code, refused.reason), (507, "InsufficientStorage"), "{full:?}");
            assert!(!knows(&cluster, name), "{full:?}: nobody sees what is not durable");
        }
        assert!(knows(&cluster, "before"));
        if full == Health::Full {
            assert!(matches!(cluster.room(), Room::Full(_)));
        }
        disk.set(Health::Good);
        // Asked again and again, as a user does: the first that is accepted is durable, and so is all before.
        let mut tries = 0;
        while create(&cluster, "after").await.is_err() {
            tries += 1;
            assert!(tries < 1_000_000, "{full:?}: it does not recover");
            tokio::task::yield_now().await;
        }
        for (name, is_there) in [("before", true), ("one", false), ("two", false), ("after", true)] {
            assert_eq!((disk.has(name), knows(&cluster, name)), (is_there, is_there), "{full:?}: {name}");
        }
        stop.send_replace(true);
        committer.await.expect("it ends").expect("well");
    }
}

// A failed commit ends the process: nobody knows what is on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_disk_ends_the_committer_and_answers_nobody_with_yes() {
    let disk = Disk::new();
    let (cluster, committer, _stop) = start(&disk);
    create(&cluster, "before").await.expect("a good disk");
    disk.set(Health::Broken);
    assert_eq!(create(&cluster, "lost").await.expect_err("a broken disk").code, 503);
    let error = committer.await.expect("it ends").expect_err("not well");
    assert!(matches!(error, CommitterError::Commit(StoreError::Engine { .. })), "{error}");
    assert!(!knows(&cluster, "lost"));
    disk.set(Health::Good);
    let (cluster, ..) = start(&disk);
    assert!(knows(&cluster, "before"));
}

// Whoever only asks holds nobody up, and is answered all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_wait_in_a_short_line_and_are_answered_between_batches() {
    let disk = Disk::new();
    let identity = Identity { cluster: ClusterId(1), artifact_key: [1; 32], entropy: 3 };
    let loaded = Committer::load(Box::new(disk.clone()), identity, Configuration::default());
    let (committer, cluster, _downs) = loaded.expect("it is readable");
    let ask = || Box::pin(cluster.placement("default", "nobody", Detail::default()));
    let mut asked: Vec<_> = (0..QUESTIONS).map(|_| ask()).collect();
    for question in &mut asked {
        assert!(question.now_or_never().is_none(), "nobody answers yet");
    }
    let refused = ask().await.expect_err("too many ask");
    assert_eq!((refused.code, refused.reason), (429, "TooManyRequests"));
    let (_stop, stopping) = watch::channel(false);
    let running = tokio::spawn(committer.run(stopping));
    for question in asked {
        let answer = question.await.expect_err("there is no such pod");
        assert_eq!((answer.code, &*answer.message), (404, "pods \"nobody\" not found"));
    }
    create(&cluster, "after").await.expect("others are served");
    running.abort();
}
