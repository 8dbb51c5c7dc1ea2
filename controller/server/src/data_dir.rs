//! The one directory in which a controller keeps everything that must outlive it.
//!
//! *In:* a path. *Out:* a [`DataDir`]: it exists, nobody else uses it, and its layout is one that this version knows.
//! *Must never know:* what the files in it mean; that belongs to the keys, the store and the images.
//! *Tested:* beside the code, on temporary directories: fresh, locked, foreign, newer, read-only.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The layout of the directory that this version reads and writes. A newer one is refused.
const LAYOUT: u32 = 1;
/// What stands before the number in the file `version`.
const VERSION_PREFIX: &str = "coracle data directory, layout ";

/// Why a data directory cannot be used. Each text fits after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Something that is no directory has the name.
    #[error("use {path} as data directory: it is not a directory; name a directory, or a path where one can be made")]
    NotADirectory {
        /// The path that was given.
        path: PathBuf,
    },
    /// The directory cannot be made, read or written.
    #[error("use {path} as data directory: {action} failed; the user of this process must be able to write there")]
    Unusable {
        /// The path that was being used.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("use {path} as data directory: {holder} uses it; stop that one first, or name another directory")]
    InUse {
        /// The path that was given.
        path: PathBuf,
        /// Who has it, as far as the lock file tells.
        holder: String,
    },
    /// It holds things that are not Coracle's.
    #[error(
        "use {path} as data directory: it holds {found} and nothing of Coracle's; name a new or an empty directory"
    )]
    Foreign {
        /// The path that was given.
        path: PathBuf,
        /// One of the entries that were found.
        found: String,
    },
    /// A newer Coracle has written it.
    #[error(
        "use {path} as data directory: it has layout {found}, and this version knows {LAYOUT}; use the newer Coracle that wrote it"
    )]
    Newer {
        /// The path that was given.
        path: PathBuf,
        /// The layout that was found.
        found: u32,
    },
    /// The version file says nothing that any version has written.
    #[error(
        "use {path} as data directory: its file version says {found:?}, want {VERSION_PREFIX:?} and a number; restore that file from a backup"
    )]
    Garbled {
        /// The path that was given.
        path: PathBuf,
        /// The beginning of what was found.
        found: String,
    },
}

/// An open data directory: this process alone has it until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Holds the lock. The operating system releases it when the process ends, however it ends.
    _lock: Arc<File>,
}

impl DataDir {
    /// Opens the directory, and makes it (mode 0700) if there is none.
    ///
    /// # Errors
    /// See [`DataDirError`]; nothing is changed in a directory that is refused, apart from its lock file.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => return Err(DataDirError::NotADirectory { path: path.to_owned() }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable(path, "making it"))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(DataDirError::NotADirectory { path: path.to_owned() });
            }
            Err(error) => return Err(unusable(path, "looking at it")(error)),
        }
        // An absolute path stays right when the process changes its directory, and reads better in messages.
        let path = fs::canonicalize(path).map_err(unusable(path, "finding its absolute path"))?;
        sync_parents(&path);
        let has_version = path.join("version").exists();
        if !has_version {
            refuse_foreign(&path)?;
        }
        let lock = lock(&path)?;
        if has_version {
            check_version(&path)?;
        } else {
            let text = format!("{VERSION_PREFIX}{LAYOUT}\n");
            write_durably(&path.join("version"), text.as_bytes()).map_err(unusable(&path, "writing to it"))?;
        }
        Ok(Self { path, _lock: Arc::new(lock) })
    }

    /// Where it is, as an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where keys and certificates are.
    #[must_use]
    pub fn keys(&self) -> PathBuf {
        self.path.join("keys")
    }

    /// Where pushed images and compiled artifacts are.
    #[must_use]
    pub fn images(&self) -> PathBuf {
        self.path.join("images")
    }

    /// The file of the embedded store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path.join("store.redb")
    }

    /// The kubeconfig of the administrator.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.path.join("admin.kubeconfig")
    }

    /// The bearer token of the administrator.
    #[must_use]
    pub fn admin_token(&self) -> PathBuf {
        self.path.join("admin.token")
    }
}

/// A file is as durable as the entry of its directory. Directories above, which may not be ours to read, were not made
/// here and need nothing.
fn sync_parents(path: &Path) {
    for parent in path.ancestors().skip(1) {
        if File::open(parent).and_then(|parent| parent.sync_all()).is_err() {
            return;
        }
    }
}

fn unusable(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |source| DataDirError::Unusable { path, action, source }
}

/// A directory with other things in it is more likely a slip of the hand than a wish.
fn refuse_foreign(path: &Path) -> Result<(), DataDirError> {
    for entry in fs::read_dir(path).map_err(unusable(path, "reading it"))? {
        let name = entry.map_err(unusable(path, "reading it"))?.file_name();
        // The lock and a half-written version are what a crash in `open` leaves; a new file system brings lost+found.
        if !["lock", "lost+found"].iter().any(|own| name == *own) && !is_temporary(&name.to_string_lossy()) {
            let found = name.to_string_lossy().into_owned();
            return Err(DataDirError::Foreign { path: path.to_owned(), found });
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, DataDirError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.join("lock"))
        .map_err(unusable(path, "opening its lock file"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(path.join("lock")).unwrap_or_default();
            let pid = pid.trim();
            let known = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
            let holder = if known { format!("process {pid}") } else { "another process".to_owned() };
            return Err(DataDirError::InUse { path: path.to_owned(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(unusable(path, "locking it")(error)),
    }
    // The number only helps the reader of the message above, so it need not be durable, and a full disk may leave it out.
    let noted = file.set_len(0).and_then(|()| (&file).write_all(format!("{}\n", std::process::id()).as_bytes()));
    match noted {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
        other => other.map_err(unusable(path, "writing to it"))?,
    }
    Ok(file)
}

fn check_version(path: &Path) -> Result<(), DataDirError> {
    let bytes = fs::read(path.join("version")).map_err(unusable(path, "reading its file version"))?;
    let text = String::from_utf8_lossy(&bytes);
    let Some(found) = text.trim_end().strip_prefix(VERSION_PREFIX).and_then(|number| number.parse::<u32>().ok()) else {
        let found = text.chars().take(80).collect();
        return Err(DataDirError::Garbled { path: path.to_owned(), found });
    };
    if found > LAYOUT {
        return Err(DataDirError::Newer { path: path.to_owned(), found });
    }
    Ok(())
}

const TEMPORARY: &str = ".new";

fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(TEMPORARY)
}

/// Puts a whole file in place, or leaves the old one as it was, whenever the power fails: written beside it with
/// mode 0600, synced, renamed, and the directory synced. Two writers of one file at a time are the caller's mistake.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or_else(|| io::Error::other("no directory in the path"))?;
    let name = path.file_name().ok_or_else(|| io::Error::other("no file name in the path"))?;
    let temporary = parent.join(format!(".{}{TEMPORARY}", name.to_string_lossy()));
    // What a crash has left could have another mode.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // On a full disk the rest of a file would only take room; the first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(parent)?.sync_all()
}

/// Makes a directory (mode 0700) with what is above it, and removes what a crash left half written in it.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        sync_parents(path);
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if is_temporary(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    #[test]
    fn a_new_directory_is_made_private_and_opens_again_when_it_is_free() {
        let scratch = scratch();
        let path = scratch.path().join("a/b");
        let first = DataDir::open(&path).expect("it is made");
        assert_eq!(fs::metadata(&path).expect("it exists").permissions().mode() & 0o777, 0o700);
        drop(first);
        DataDir::open(&path).expect("it opens again");
    }

    #[test]
    fn a_second_opener_is_told_who_has_the_directory() {
        let scratch = scratch();
        let _first = DataDir::open(scratch.path()).expect("the first has it");
        let error = DataDir::open(scratch.path()).expect_err("the second is refused");
        assert!(matches!(&error, DataDirError::InUse { .. }), "{error}");
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_named() {
        let scratch = scratch();
        let path = scratch.path().join("file");
        fs::write(&path, "x").expect("writable");
        for path in [path.clone(), path.join("below")] {
            let error = DataDir::open(&path).expect_err("it is refused");
            assert!(matches!(&error, DataDirError::NotADirectory { .. }), "{error}");
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_left_alone() {
        let scratch = scratch();
        fs::write(scratch.path().join("thesis.tex"), "x").expect("writable");
        let error = DataDir::open(scratch.path()).expect_err("it is refused");
        assert!(error.to_string().contains("thesis.tex"), "{error}");
        assert_eq!(fs::read_dir(scratch.path()).expect("readable").count(), 1);
    }

    #[test]
    fn a_newer_layout_is_refused_and_a_garbled_one_is_shown() {
        let scratch = scratch();
        drop(DataDir::open(scratch.path()).expect("it is made"));
        fs::write(scratch.path().join("version"), format!("{VERSION_PREFIX}2\n")).expect("writable");
        let error = DataDir::open(scratch.path()).expect_err("it is refused");
        assert!(matches!(error, DataDirError::Newer { found: 2, .. }), "{error}");
        fs::write(scratch.path().join("version"), "\0\0\0\0").expect("writable");
        let error = DataDir::open(scratch.path()).expect_err("it is refused");
        assert!(matches!(error, DataDirError::Garbled { .. }), "{error}");
    }

    #[test]
    fn what_a_crash_left_half_written_neither_blocks_nor_stays() {
        let scratch = scratch();
        fs::write(scratch.path().join(".version.new"), "cora").expect("writable");
        fs::write(scratch.path().join("lock"), "").expect("writable");
        let dir = DataDir::open(scratch.path()).expect("it opens");
        assert!(!scratch.path().join(".version.new").exists());
        fs::create_dir(dir.keys()).expect("writable");
        fs::write(dir.keys().join(".ca.key.new"), "x").expect("writable");
        make_dir(&dir.keys()).expect("it is there");
        assert_eq!(fs::read_dir(dir.keys()).expect("readable").count(), 0);
    }

    #[test]
    fn a_durable_write_replaces_a_file_whole_and_is_private() {
        let scratch = scratch();
        let path = scratch.path().join("file");
        for text in ["one", "another"] {
            write_durably(&path, text.as_bytes()).expect("writable");
            assert_eq!(fs::read_to_string(&path).expect("readable"), text);
            assert_eq!(fs::metadata(&path).expect("it exists").permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(scratch.path()).expect("readable").count(), 1);
    }
}
