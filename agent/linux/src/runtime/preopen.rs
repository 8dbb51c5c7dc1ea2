//! Directories that a guest finds open, and what it may put into them (VOL-01).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::tally::Tally;

/// The unit in which disks are used up: what `du` counts on nearly every file system.
const BLOCK_BYTES: u64 = 4096;

/// One directory of the host in the guest's file system (`volumeMounts[]`).
#[derive(Clone, Debug)]
pub struct Preopen {
    /// The directory on the host. It must exist.
    pub host_path: PathBuf,
    /// Where the guest finds it: absolute.
    pub guest_path: String,
    /// `readOnly`
    pub read_only: bool,
    /// What may be in the volume. All containers that mount it share one; without one nothing is counted.
    pub quota: Option<Arc<DiskQuota>>,
}

/// There is no room: the guest sees `insufficient-space`, which is `ENOSPC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no space is left in the volume")]
pub struct DiskFull;

/// What a volume may hold, and holds (`emptyDir.sizeLimit`). Bytes count in whole blocks of 4 KiB, as `du` counts
/// them; files are names, so directories, symbolic links and each name of a file count.
#[derive(Debug)]
pub struct DiskQuota {
    bytes: Arc<Tally>,
    files: Arc<Tally>,
    open: Mutex<BTreeMap<Inode, Open>>,
}

/// Device and number of a file.
pub(super) type Inode = (u64, u64);

#[derive(Debug)]
struct Open {
    file: Arc<File>,
    handles: u32,
    /// The length that it is charged for: as long as it is, or is about to be.
    length: u64,
    /// Its last name is gone, and its space will be when it is closed.
    nameless: bool,
}

/// The space that a file of this length takes.
const fn on_disk(length: u64) -> u64 {
    length.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

impl DiskQuota {
    /// An empty volume that may hold so much; zero for no bound.
    #[must_use]
    pub fn new(limit_bytes: u64, limit_files: u64) -> Arc<Self> {
        Self::made(limit_bytes, limit_files, None)
    }

    /// A part of something larger: what is put into it counts there as well. Dropping it gives that back.
    #[must_use]
    pub fn within(whole: &Self, limit_bytes: u64, limit_files: u64) -> Arc<Self> {
        Self::made(limit_bytes, limit_files, Some(whole))
    }

    fn made(limit_bytes: u64, limit_files: u64, whole: Option<&Self>) -> Arc<Self> {
        Arc::new(Self {
            bytes: Arc::new(Tally::new(limit_bytes, whole.map(|whole| Arc::clone(&whole.bytes)))),
            files: Arc::new(Tally::new(limit_files, whole.map(|whole| Arc::clone(&whole.files)))),
            open: Mutex::default(),
        })
    }

    /// Takes room for something new.
    ///
    /// # Errors
    /// When there is none; then nothing was taken.
    pub fn charge(&self, bytes: u64, files: u64) -> Result<(), DiskFull> {
        self.files.take(files).map_err(|_| DiskFull)?;
        self.bytes.take(on_disk(bytes)).map_err(|_| {
            self.files.give_back(files);
            DiskFull
        })
    }

    /// Something is gone.
    pub fn refund(&self, bytes: u64, files: u64) {
        self.bytes.give_back(on_disk(bytes));
        self.files.give_back(files);
    }

    /// Bytes in it, in whole blocks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.bytes.used()
    }

    /// Files, directories and links in it.
    #[must_use]
    pub fn used_files(&self) -> u64 {
        self.files.used()
    }

    /// The bound in bytes; `u64::MAX` for none.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.bytes.limit()
    }

    /// Counts anew what is in the volume at `root`, for instance after the agent was started again. What is found may
    /// be more than is allowed; then nothing can be added until enough of it is gone. To be called while no guest has
    /// it open.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn recount(&self, root: &Path) -> io::Result<()> {
        let (mut bytes, mut files) = (0_u64, 0_u64);
        let mut counted = BTreeSet::new();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                let found = entry.metadata()?;
                files += 1;
                if found.is_dir() {
                    bytes = bytes.saturating_add(BLOCK_BYTES);
                    directories.push(entry.path());
                } else if found.is_file() && (found.nlink() == 1 || counted.insert(inode(&found))) {
                    bytes = bytes.saturating_add(on_disk(found.len()));
                }
            }
        }
        self.bytes.put(bytes);
        self.files.put(files);
        Ok(())
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<Inode, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A guest has opened this file, and perhaps cut it, in which case it had another length before. As long as it is
    /// open it takes its space, whether or not it has a name.
    pub(super) fn opened(&self, file: &Arc<File>, length_before: Option<u64>) -> io::Result<Inode> {
        let found = file.metadata()?;
        let mut open = self.open();
        let entry = open.entry(inode(&found)).or_insert_with(|| Open {
            file: Arc::clone(file),
            handles: 0,
            length: length_before.unwrap_or(found.len()),
            nameless: found.nlink() == 0,
        });
        entry.handles += 1;
        self.settle(entry);
        Ok(inode(&found))
    }

    /// Undoes one [`DiskQuota::opened`].
    pub(super) fn closed(&self, inode: Inode) {
        let mut open = self.open();
        let Some(entry) = open.get_mut(&inode) else { return };
        entry.handles -= 1;
        if entry.handles > 0 {
            return;
        }
        self.settle(entry);
        if let Some(entry) = open.remove(&inode).filter(|entry| entry.nameless) {
            self.bytes.give_back(on_disk(entry.length));
        }
    }

    /// The guest is about to write `count` bytes at `offset`, or at the end of the file.
    pub(super) fn growing(&self, inode: Inode, offset: Option<u64>, count: u64) -> Result<(), DiskFull> {
        self.open().get_mut(&inode).map_or(Ok(()), |entry| {
            let end = offset.unwrap_or(entry.length).saturating_add(count);
            self.lengthen(entry, end)
        })
    }

    /// The guest is about to give the file this length. Follow it with [`DiskQuota::resized`].
    pub(super) fn resizing(&self, inode: Inode, length: u64) -> Result<(), DiskFull> {
        self.open().get_mut(&inode).map_or(Ok(()), |entry| self.lengthen(entry, length))
    }

    fn lengthen(&self, entry: &mut Open, length: u64) -> Result<(), DiskFull> {
        if length > entry.length {
            self.bytes.take(on_disk(length) - on_disk(entry.length)).map_err(|_| DiskFull)?;
            entry.length = length;
        }
        Ok(())
    }

    /// The file may be shorter than before.
    pub(super) fn resized(&self, inode: Inode) {
        if let Some(entry) = self.open().get_mut(&inode) {
            self.settle(entry);
        }
    }

    /// What was promised and not written is given back.
    fn settle(&self, entry: &mut Open) {
        if let Ok(found) = entry.file.metadata()
            && found.len() < entry.length
        {
            self.bytes.give_back(on_disk(entry.length) - on_disk(found.len()));
            entry.length = found.len();
        }
    }

    /// A name is gone, of a file with this length and so many names before.
    pub(super) fn removed(&self, length: u64, names: u64) {
        self.files.give_back(1);
        if names > 1 {
            return;
        }
        // Whoever has it open keeps its space; it is given back when the last one closes it.
        let mut open = self.open();
        let is_it = |entry: &&mut Open| !entry.nameless && entry.file.metadata().is_ok_and(|found| found.nlink() == 0);
        match open.values_mut().find(is_it) {
            Some(entry) => entry.nameless = true,
            None => self.bytes.give_back(on_disk(length)),
        }
    }
}

fn inode(found: &Metadata) -> Inode {
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests;
