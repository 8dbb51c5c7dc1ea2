//! The embedded engine: a copy-on-write B-tree in one file. A batch is one transaction with one commit, which is
//! synced in two phases: no torn write, at whatever byte, can be taken for a commit.
//!
//! Beside the objects it keeps a log of the last changes, so that watches go on over a restart of the controller. The
//! log bounds itself: with each batch its oldest entries go, as many as came.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use coracle_controller_core::store::{Action, Change, Snapshot, Store, StoreError};
use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, WriteTransaction};

use super::layout::{LOG, META, OBJECTS, SCHEMA, damaged, log_value, object_key, object_value, read_log, read_object};

/// Pages that are kept in memory. All reading is done from the view, so this only has to hold the paths of a batch.
const CACHE_BYTES: usize = 2 * 1024 * 1024;
/// Changes that the log keeps, for watches that resume after a restart.
const LOG_CHANGES: usize = 4096;
/// Bytes of JSON that the log keeps.
const LOG_BYTES: usize = 16 * 1024 * 1024;

/// The default engine. See the module.
pub struct EmbeddedStore {
    database: Database,
    /// What is in the log: revision and size, oldest first.
    log: VecDeque<(u64, usize)>,
    log_bytes: usize,
    revision: u64,
}

impl EmbeddedStore {
    /// Opens the store in this file (mode 0600), and makes it if there is none. After a crash this mends what is to be
    /// mended, in a time that does not grow with the store.
    ///
    /// # Errors
    /// When the file cannot be used, is no store, or comes from a newer build.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            make(path)?;
        }
        let what = || format!("open {}", path.display());
        let file = open_file(path).map_err(|error| engine(what(), error))?;
        let database = builder().create_file(file).map_err(|error| engine(what(), error))?;
        Self::with_database(database)
    }

    /// Opens a store on storage of another kind: a test's disk, whose power can be cut.
    #[cfg(test)]
    pub(super) fn with_backend(backend: impl redb::StorageBackend) -> Result<Self, StoreError> {
        let database = builder().create_with_backend(backend).map_err(|error| engine("open the store", error))?;
        prepare(&database)?;
        Self::with_database(database)
    }

    fn with_database(database: Database) -> Result<Self, StoreError> {
        let found = read_meta(&database, "schema")?;
        if found > SCHEMA {
            let number = |schema: u64| u32::try_from(schema).unwrap_or(u32::MAX);
            return Err(StoreError::Newer { found: number(found), known: number(SCHEMA) });
        }
        Ok(Self { database, log: VecDeque::new(), log_bytes: 0, revision: 0 })
    }

    /// Takes out of the log what is beyond its bounds, and returns its new floor if that has moved.
    fn trim(&mut self) -> Option<u64> {
        let mut floor = None;
        while self.log.len() > LOG_CHANGES || self.log_bytes > LOG_BYTES {
            let Some((revision, bytes)) = self.log.pop_front() else { break };
            self.log_bytes -= bytes;
            floor = Some(revision);
        }
        floor
    }

    fn note(&mut self, revision: u64, bytes: usize) {
        self.log.push_back((revision, bytes));
        self.log_bytes += bytes;
        self.revision = revision;
    }
}

impl Store for EmbeddedStore {
    fn load(&mut self) -> Result<Snapshot, StoreError> {
        let read = |error: redb::Error| engine("read the store", error);
        let revision = read_meta(&self.database, "revision")?;
        let log_floor = read_meta(&self.database, "floor")?;
        let transaction = self.database.begin_read().map_err(|error| read(error.into()))?;
        let mut objects = BTreeMap::new();
        let table = transaction.open_table(OBJECTS).map_err(|error| read(error.into()))?;
        for entry in table.iter().map_err(|error| read(error.into()))? {
            let (key, value) = entry.map_err(|error| read(error.into()))?;
            let object = read_object(key.value(), value.value())?;
            if object.revision > revision {
                return Err(damaged(format!("{:?}", object.key), "its revision is later than the last one"));
            }
            objects.insert(object.revision, Arc::new(object));
        }
        self.log.clear();
        self.log_bytes = 0;
        self.revision = revision;
        let mut log = Vec::new();
        let table = transaction.open_table(LOG).map_err(|error| read(error.into()))?;
        for entry in table.iter().map_err(|error| read(error.into()))? {
            let (at, value) = entry.map_err(|error| read(error.into()))?;
            let change = read_log(at.value(), value.value(), |revision| objects.get(&revision).map(Arc::clone))?;
            if change.revision > revision || change.revision <= log_floor {
                return Err(damaged(
                    format!("log at revision {}", change.revision),
                    "it is outside of the log's bounds",
                ));
            }
            self.log.push_back((change.revision, value.value().len()));
            self.log_bytes += value.value().len();
            log.push(change);
        }
        Ok(Snapshot { revision, objects: objects.into_values().collect(), log_floor, log })
    }

    /// After an error the store must be opened anew: nobody knows whether the batch is on the disk.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let mut last = self.revision;
        for change in changes {
            if change.revision <= last {
                return Err(damaged(
                    format!("a batch after revision {last}"),
                    &format!("it has revision {}", change.revision),
                ));
            }
            last = change.revision;
        }
        let transaction = begin(&self.database)?;
        write(&transaction, changes).map_err(|error| engine("write a batch", error))?;
        for change in changes {
            // Three bytes are the entry's own.
            self.note(change.revision, 3 + change.object.body().len());
        }
        let floor = self.trim();
        set(&transaction, self.revision, floor).map_err(|error| engine("write a batch", error))?;
        transaction.commit().map_err(|error| engine("make a batch durable", error))
    }

    fn compact(&mut self, revision: u64) -> Result<(), StoreError> {
        let mut floor = None;
        while let Some(&(oldest, bytes)) = self.log.front().filter(|(oldest, _)| *oldest <= revision) {
            self.log.pop_front();
            self.log_bytes -= bytes;
            floor = Some(oldest);
        }
        if floor.is_none() {
            return Ok(());
        }
        let transaction = begin(&self.database)?;
        set(&transaction, self.revision, floor).map_err(|error| engine("compact the log", error))?;
        transaction.commit().map_err(|error| engine("compact the log", error))
    }
}

/// A new store is made under another name, so that a half-made one is never met.
fn make(path: &Path) -> Result<(), StoreError> {
    let temporary = path.with_extension("new");
    let failed = |error: io::Error| engine(format!("make {}", path.display()), error);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let file = open_file(&temporary).map_err(failed)?;
    let what = || format!("make {}", path.display());
    let database = builder().create_file(file).map_err(|error| engine(what(), error))?;
    prepare(&database)?;
    drop(database);
    fs::rename(&temporary, path).map_err(failed)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Makes the tables of a store that has none yet.
fn prepare(database: &Database) -> Result<(), StoreError> {
    if read_meta(database, "schema")? != 0 {
        return Ok(());
    }
    let write = |error: redb::Error| engine("make the tables", error);
    let transaction = begin(database)?;
    transaction.open_table(LOG).map_err(|error| write(error.into()))?;
    transaction.open_table(OBJECTS).map_err(|error| write(error.into()))?;
    let mut meta = transaction.open_table(META).map_err(|error| write(error.into()))?;
    meta.insert("schema", SCHEMA).map_err(|error| write(error.into()))?;
    drop(meta);
    transaction.commit().map_err(|error| write(error.into()))
}

/// A number of the table of numbers; 0 when it was never written.
fn read_meta(database: &Database, name: &str) -> Result<u64, StoreError> {
    let read = || -> Result<u64, redb::Error> {
        let transaction = database.begin_read()?;
        let table = match transaction.open_table(META) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        Ok(table.get(name)?.map_or(0, |value| value.value()))
    };
    read().map_err(|error| engine("read the store", error))
}

fn begin(database: &Database) -> Result<WriteTransaction, StoreError> {
    let begun = || -> Result<WriteTransaction, redb::Error> {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.set_two_phase_commit(true);
        transaction.set_quick_repair(true);
        Ok(transaction)
    };
    begun().map_err(|error| engine("begin a batch", error))
}

fn write(transaction: &WriteTransaction, changes: &[Change]) -> Result<(), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    let mut objects = transaction.open_table(OBJECTS)?;
    let mut buffer = Vec::new();
    for change in changes {
        log_value(change, &mut buffer);
        log.insert(change.revision, buffer.as_slice())?;
        let key = object_key(&change.object.key);
        if change.action == Action::Deleted {
            objects.remove(key.as_slice())?;
        } else {
            object_value(&change.object, &mut buffer);
            objects.insert(key.as_slice(), buffer.as_slice())?;
        }
    }
    Ok(())
}

/// Writes the revision, and takes the log up to its new floor away.
fn set(transaction: &WriteTransaction, revision: u64, floor: Option<u64>) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    meta.insert("revision", revision)?;
    if let Some(floor) = floor {
        meta.insert("floor", floor)?;
        transaction.open_table(LOG)?.retain_in(..=floor, |_, _| false)?;
    }
    Ok(())
}

fn engine(what: impl Into<String>, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Engine { what: what.into(), source: Box::new(error) }
}
