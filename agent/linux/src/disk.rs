//! The data directory: who this agent is and what it was told to run. Every write is a new file, synced, then renamed
//! over the old one, so that a power cut at any moment leaves one or the other.
//!
//! A reserve of real bytes lies beside them. On a full disk it gives way to what must be remembered.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

mod memory;
mod numbers;

use coracle_agent_core::Remembered;
use coracle_model::{InstanceId, SessionNumber};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use self::memory::Memory;
use self::numbers::Numbers;
use crate::space::Space;

/// The format of sealed files.
const SEAL: &[u8; 8] = b"coracle1";
const SEAL_BYTES: usize = SEAL.len() + 32;
/// What is kept for a full disk: the memory of some hundred pods.
const RESERVE_BYTES: usize = 256 * 1024;
/// The reserve is made again when so much is free.
const RESERVE_AGAIN_BYTES: u64 = 4 * 1024 * 1024;

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// It cannot be made, or something in it cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: `create`, `open`, `read`, `write`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Another process has it.
    #[error(
        "the data directory {} is in use by another coracle-agent; give each agent a directory of its own",
        path.display()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
    },
}

impl DiskError {
    fn of(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }
}

/// An open data directory, locked for as long as this lives.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
    numbers: Numbers,
    has_reserve: bool,
}

impl DataDir {
    /// Makes the directory if it is not there, and locks it.
    ///
    /// # Errors
    /// When another process has it, or it cannot be written.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        fs::create_dir_all(path).map_err(DiskError::of("create", path))?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(DiskError::of("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DiskError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(DiskError::of("lock", &lock_path)(source)),
        }
        let numbers = Numbers::open(path.join("session"))?;
        let has_reserve = fs::metadata(path.join("reserve")).is_ok_and(|file| file.len() == RESERVE_BYTES as u64);
        Ok(Self { path: path.to_owned(), _lock: lock, numbers, has_reserve })
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of this directory, made at first use.
    ///
    /// # Errors
    /// When it cannot be read, or made.
    pub fn instance(&self) -> Result<InstanceId, DiskError> {
        let path = self.path.join("instance");
        match fs::read_to_string(&path) {
            Ok(text) => match text.trim().parse() {
                Ok(instance) => return Ok(instance),
                Err(_) => set_aside(&path, "no instance id"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => set_aside(&path, "no text"),
            Err(error) => return Err(DiskError::of("read", &path)(error)),
        }
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| DiskError::of("create", &path)(io::Error::other(error)))?;
        let instance = InstanceId(u128::from_le_bytes(bytes));
        write_atomically(&path, format!("{instance}\n").as_bytes())?;
        Ok(instance)
    }

    /// The number of the next session, counted on the disk first: its Last Will carries it. An error that goes with it
    /// says that the disk did not take it; the number is one that no restart comes to all the same.
    pub fn next_session(&mut self) -> (SessionNumber, Option<DiskError>) {
        self.numbers.next()
    }

    /// What the core asked to have remembered; nothing at first use. A file that is not whole is set aside as
    /// `remembered.corrupt`, and the agent starts as if it were new: the controller knows the desired set.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn remembered(&self) -> Result<Remembered, DiskError> {
        Ok(unseal(&self.path.join("remembered"), Memory::read)?.unwrap_or_default())
    }

    /// Writes it, on a full disk with the room of the reserve.
    ///
    /// # Errors
    /// When the disk does not take it; the former content is then still there.
    pub fn remember(&mut self, remembered: &Remembered) -> Result<(), DiskError> {
        let memory = Memory::of(remembered);
        let path = self.path.join("remembered");
        match write_sealed(&path, &memory) {
            Err(error) if error.is_full() && self.give_way() => write_sealed(&path, &memory)?,
            other => other?,
        }
        self.reserve();
        Ok(())
    }

    /// Gives up the reserve; whether there was one.
    fn give_way(&mut self) -> bool {
        self.has_reserve = false;
        fs::remove_file(self.path.join("reserve")).is_ok()
    }

    /// Makes the reserve when there is none and plenty of room: real bytes, since holes reserve nothing.
    fn reserve(&mut self) {
        if self.has_reserve || Space::around(&self.path).is_none_or(|space| space.free_bytes < RESERVE_AGAIN_BYTES) {
            return;
        }
        let bytes: Vec<u8> = (0..RESERVE_BYTES).map(|index| (index % 251) as u8).collect();
        match write_atomically(&self.path.join("reserve"), &bytes) {
            Ok(()) => self.has_reserve = true,
            Err(error) => tracing::debug!(%error, "failed to reserve room on the disk"),
        }
    }
}

/// Writes a value with a checksum, atomically.
pub(crate) fn write_sealed<T: Serialize>(path: &Path, value: &T) -> Result<(), DiskError> {
    let body = postcard::to_extend(value, Vec::new())
        .map_err(|error| DiskError::of("write", path)(io::Error::other(error)))?;
    let mut bytes = Vec::with_capacity(SEAL_BYTES + body.len());
    bytes.extend_from_slice(SEAL);
    bytes.extend_from_slice(&Sha256::digest(&body));
    bytes.extend_from_slice(&body);
    write_atomically(path, &bytes)
}

/// Reads what [`write_sealed`] wrote; nothing if there is no such file, or if it is not whole, in which case it is set
/// aside.
pub(crate) fn read_sealed<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DiskError> {
    unseal(path, |body| postcard::from_bytes(body).ok())
}

fn unseal<T>(path: &Path, read: impl FnOnce(&[u8]) -> Option<T>) -> Result<Option<T>, DiskError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DiskError::of("read", path)(error)),
    };
    let value = bytes
        .split_at_checked(SEAL_BYTES)
        .filter(|(seal, body)| seal.starts_with(SEAL) && seal.ends_with(&Sha256::digest(body)))
        .and_then(|(_, body)| read(body));
    if value.is_none() {
        set_aside(path, "it is cut or was changed");
    }
    Ok(value)
}

/// Renames a file that cannot be understood to `<name>.corrupt`, where its owner can look at it.
pub(crate) fn set_aside(path: &Path, why: &str) {
    let aside = path.with_extension("corrupt");
    let kept = fs::rename(path, &aside).is_ok();
    tracing::error!(
        file = %path.display(),
        why,
        kept_as = kept.then(|| aside.display().to_string()),
        "a file of the data directory is corrupt; going on without it"
    );
}

/// Replaces the content of `path`: a new file beside it, synced, renamed over it, and the directory synced.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let new = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    if let Err(error) = write() {
        // On a full disk half a file would only take what little is left.
        let _ = fs::remove_file(&new);
        return Err(DiskError::of("write", path)(error));
    }
    sync_directory(path).map_err(DiskError::of("write", path))
}

/// Makes a rename, or a removal, in the directory of `path` last through a power cut.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use coracle_model::{ClusterId, Pod, PodUid, RestartPolicy};

    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"))
    }

    fn open(path: &Path) -> DataDir {
        DataDir::open(path).unwrap_or_else(|error| panic!("{error}"))
    }

    fn remembered() -> Remembered {
        let pod = Pod {
            uid: PodUid(7),
            namespace: "default".into(),
            name: "p".into(),
            restart_policy: RestartPolicy::Always,
            termination_grace_ms: 30_000,
            priority: 0,
            containers: Vec::new(),
            stop: None,
            volumes: Vec::new(),
        };
        Remembered { pinned: Some((ClusterId(1), [2; 32])), sequence: 3, pods: vec![pod], finished: Vec::new() }
    }

    // EDGE-05
    #[test]
    fn an_agent_that_starts_again_is_the_same_and_knows_its_pods() {
        let directory = directory();
        let mut first = open(directory.path());
        let instance = first.instance().unwrap_or_else(|error| panic!("{error}"));
        first.remember(&remembered()).unwrap_or_else(|error| panic!("{error}"));
        drop(first);
        let second = open(directory.path());
        assert_eq!(second.instance().ok(), Some(instance));
        assert_eq!(second.remembered().ok(), Some(remembered()));
    }

    #[test]
    fn a_new_directory_remembers_nothing() {
        let directory = directory();
        assert_eq!(open(&directory.path().join("a/b")).remembered().ok(), Some(Remembered::default()));
    }

    #[test]
    fn a_file_that_is_not_whole_is_set_aside() {
        let directory = directory();
        let mut data = open(directory.path());
        data.remember(&remembered()).unwrap_or_else(|error| panic!("{error}"));
        let path = directory.path().join("remembered");
        let whole = fs::read(&path).unwrap_or_default();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(data.remembered().ok(), Some(Remembered::default()), "cut to {length}");
            assert!(directory.path().join("remembered.corrupt").exists());
            assert!(!path.exists());
        }
        let mut changed = whole.clone();
        changed[SEAL_BYTES] ^= 1;
        fs::write(&path, &changed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(data.remembered().ok(), Some(Remembered::default()));
    }

    #[test]
    fn a_directory_has_one_agent() {
        let directory = directory();
        let first = open(directory.path());
        assert!(matches!(DataDir::open(directory.path()), Err(DiskError::Locked { .. })));
        drop(first);
        assert!(DataDir::open(directory.path()).is_ok());
    }

    #[test]
    fn a_place_that_is_no_directory_is_refused_by_name() {
        let directory = directory();
        let file = directory.path().join("file");
        fs::write(&file, b"").unwrap_or_else(|error| panic!("{error}"));
        let error = DataDir::open(&file.join("data")).map(drop).map_err(|error| error.to_string());
        assert!(error.is_err_and(|text| text.contains("file/data")));
    }
}
