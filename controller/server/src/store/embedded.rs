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

use coracle_controller_core::object::Templates;
use coracle_controller_core::store::{Action, Change, Room, Snapshot, Store, StoreError};
use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, WriteTransaction};

use super::layout::{LOG, META, OBJECTS, SCHEMA, damaged, log_value, object_key, object_value, read_log, read_object};
use super::room::{Headroom, is_full};

/// Pages that are kept in memory. All reading is done from the view, so this only has to hold the paths of a batch.
const CACHE_BYTES: usize = 2 * 1024 * 1024;
/// Changes that the log keeps, for watches that resume after a restart.
const LOG_CHANGES: usize = 4096;
/// Bytes of JSON that the log keeps.
const LOG_BYTES: usize = 16 * 1024 * 1024;

/// Opens the same database once more.
type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send>;

/// The default engine. See the module.
pub struct EmbeddedStore {
    /// Nothing only while it is opened anew.
    database: Option<Database>,
    open: Opener,
    /// The disk that the file is on; a test's disk has none.
    headroom: Option<Headroom>,
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
        let path = path.to_owned();
        let headroom = Headroom::of(&path);
        let open = move || {
            let what = || format!("open {}", path.display());
            let file = open_file(&path).map_err(|error| engine(what(), error))?;
            builder().create_file(file).map_err(|error| engine(what(), redb::Error::from(error)))
        };
        Self::with_opener(Box::new(open), Some(headroom))
    }

    /// Opens a store on storage of another kind: a test's disk, whose power can be cut.
    #[cfg(test)]
    pub(super) fn with_backend(backend: impl redb::StorageBackend + Clone) -> Result<Self, StoreError> {
        let open = move || {
            let database = builder().create_with_backend(backend.clone());
            let database = database.map_err(|error| engine("open the store", redb::Error::from(error)))?;
            prepare(&database)?;
            Ok(database)
        };
        Self::with_opener(Box::new(open), None)
    }

    fn with_opener(open: Opener, mut headroom: Option<Headroom>) -> Result<Self, StoreError> {
        let database = open_anyhow(&open, headroom.as_mut())?;
        let found = read_meta(&database, "schema")?;
        if found > SCHEMA {
            let number = |schema: u64| u32::try_from(schema).unwrap_or(u32::MAX);
            return Err(StoreError::Newer { found: number(found), known: number(SCHEMA) });
        }
        Ok(Self { database: Some(database), open, headroom, log: VecDeque::new(), log_bytes: 0, revision: 0 })
    }

    fn database(&self) -> Result<&Database, StoreError> {
        self.database.as_ref().ok_or_else(|| damaged("the store".to_owned(), "it could not be opened anew"))
    }

    /// The engine found no room in the middle of a batch, and takes nothing more until it is opened anew. Then it is
    /// known whether the batch is durable: all of it, or nothing of it.
    fn settle_doubt(&mut self, before: u64, last: u64) -> Result<(), StoreError> {
        // Closed first: it holds the lock of its file.
        self.database = None;
        self.database = Some(open_anyhow(&self.open, self.headroom.as_mut())?);
        self.load()?;
        match self.revision {
            found if found == last => Ok(()),
            found if found == before => {
                let what = self.headroom.as_mut().map_or_else(|| "the disk is full".to_owned(), Headroom::doubt);
                Err(StoreError::Full { what })
            }
            found => Err(damaged(format!("a batch after revision {before}"), &format!("it ends at revision {found}"))),
        }
    }

    fn write_batch(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let transaction = begin(self.database()?)?;
        write(&transaction, changes).map_err(|error| engine("write a batch", error))?;
        for change in changes {
            // Three bytes are the entry's own.
            let body = if change.action == Action::Deleted { change.object.json_bytes() } else { 0 };
            self.note(change.revision, 3 + body);
        }
        let floor = self.trim();
        set(&transaction, self.revision, floor).map_err(|error| engine("write a batch", error))?;
        transaction.commit().map_err(|error| engine("make a batch durable", redb::Error::from(error)))
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
        let database = self.database()?;
        let revision = read_meta(database, "revision")?;
        let log_floor = read_meta(database, "floor")?;
        let transaction = database.begin_read().map_err(|error| read(error.into()))?;
        let (mut objects, mut templates) = (BTreeMap::new(), Templates::default());
        let table = transaction.open_table(OBJECTS).map_err(|error| read(error.into()))?;
        for entry in table.iter().map_err(|error| read(error.into()))? {
            let (key, value) = entry.map_err(|error| read(error.into()))?;
            let object = read_object(key.value(), value.value(), &mut templates)?;
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
            let (at, value) = (at.value(), value.value());
            if at > revision || at <= log_floor {
                return Err(damaged(format!("log at revision {at}"), "it is outside of the log's bounds"));
            }
            self.log.push_back((at, value.len()));
            self.log_bytes += value.len();
            log.extend(read_log(at, value, &mut templates, |revision| objects.get(&revision).cloned())?);
        }
        Ok(Snapshot { revision, objects: objects.into_values().collect(), log_floor, log })
    }

    /// After any error but [`StoreError::Full`] the store must be opened anew: nobody knows whether the batch is on the
    /// disk.
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
        let bytes = changes.iter().map(|change| change.object.json_bytes()).sum();
        if let Some(what) = self.headroom.as_ref().and_then(|headroom| headroom.refuses(bytes)) {
            return Err(StoreError::Full { what });
        }
        let before = self.revision;
        match self.write_batch(changes) {
            Err(error) if found_no_room(&error) => {
                tracing::warn!(error = %error, "the disk of the store is full; opening the store anew");
                self.settle_doubt(before, last)
            }
            other => other,
        }
    }

    fn room(&mut self) -> Room {
        self.headroom.as_mut().map_or(Room::Plenty, Headroom::look)
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
        let transaction = begin(self.database()?)?;
        set(&transaction, self.revision, floor).map_err(|error| engine("compact the log", error))?;
        transaction.commit().map_err(|error| engine("compact the log", redb::Error::from(error)))
    }
}

/// Opens the database; on a full disk, with the room of the reserve.
fn open_anyhow(open: &Opener, headroom: Option<&mut Headroom>) -> Result<Database, StoreError> {
    match open() {
        Err(error) if found_no_room(&error) && headroom.is_some_and(Headroom::give_way) => open(),
        other => other,
    }
}

/// Whether the engine failed for want of room.
fn found_no_room(error: &StoreError) -> bool {
    let StoreError::Engine { source, .. } = error else { return false };
    match (source.downcast_ref::<redb::Error>(), source.downcast_ref::<io::Error>()) {
        (Some(redb::Error::Io(error)), _) | (None, Some(error)) => is_full(error),
        _ => false,
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
    let (mut body, mut buffer) = (String::new(), Vec::new());
    for change in changes {
        body.clear();
        change.object.write(&mut body);
        log_value(change, &body, &mut buffer);
        log.insert(change.revision, buffer.as_slice())?;
        let key = object_key(&change.object.key);
        if change.action == Action::Deleted {
            objects.remove(key.as_slice())?;
        } else {
            object_value(&change.object, &body, &mut buffer);
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
