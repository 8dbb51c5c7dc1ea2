//! How much room the disk of the store has, so that it is full before the engine finds out.
//!
//! An engine whose write fails half way has to be opened anew, so writing stops while there is still room for that, and
//! for a batch that was begun. A reserve of real bytes beside the store is given up when even an opening finds none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coracle_controller_core::store::Room;

const MIB: u64 = 1024 * 1024;
/// With less than this, events are not kept any more.
const SCARCE_BYTES: u64 = 32 * MIB;
/// With less than this, nothing is written any more.
const FULL_BYTES: u64 = 16 * MIB;
/// With this much, writing goes on: a little more, so that it does not flutter.
const AGAIN_BYTES: u64 = 20 * MIB;
/// What is kept for an opening on a full disk.
const RESERVE_BYTES: usize = 2 * 1024 * 1024;
/// What a batch may leave of the free bytes.
const BATCH_MARGIN_BYTES: u64 = 4 * MIB;
/// A copy-on-write tree writes its paths anew, and every change goes into the log as well.
const BYTES_WRITTEN_PER_BYTE: u64 = 4;
/// How often a disk that refused a write although it seemed to have room (a quota) is tried again.
const TRIAL_EVERY: Duration = Duration::from_secs(5);

/// The disk around the store's file.
pub(super) struct Headroom {
    directory: PathBuf,
    reserve: PathBuf,
    has_reserve: bool,
    full: bool,
    /// The engine was refused room that the disk seemed to have; tried again at this time.
    doubted_until: Option<Instant>,
}

impl Headroom {
    /// Of the disk on which the store in this file is.
    pub(super) fn of(store: &Path) -> Self {
        let directory = store.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let reserve = store.with_extension("reserve");
        let has_reserve = fs::metadata(&reserve).is_ok_and(|file| file.len() == RESERVE_BYTES as u64);
        Self { directory: directory.to_owned(), reserve, has_reserve, full: false, doubted_until: None }
    }

    /// How much room there is.
    pub(super) fn look(&mut self) -> Room {
        let free = self.free_bytes();
        if let Some(until) = self.doubted_until {
            let now = Instant::now();
            if now < until {
                return Room::Full(self.sentence(free));
            }
            if self.fill_reserve().is_err() {
                self.doubted_until = Some(now + TRIAL_EVERY);
                return Room::Full(self.sentence(free));
            }
            self.doubted_until = None;
        }
        let needed = if self.full { AGAIN_BYTES } else { FULL_BYTES };
        self.full = free < needed;
        if self.full {
            return Room::Full(self.sentence(free));
        }
        if free < SCARCE_BYTES {
            return Room::Scarce;
        }
        if !self.has_reserve
            && let Err(error) = self.fill_reserve()
        {
            tracing::warn!(%error, file = %self.reserve.display(), "failed to reserve room on the disk");
            // Not with every batch.
            self.has_reserve = true;
        }
        Room::Plenty
    }

    /// Why a batch of so many bytes may not be begun, if it may not.
    pub(super) fn refuses(&self, bytes: usize) -> Option<String> {
        let free = self.free_bytes();
        let needed = (bytes as u64).saturating_mul(BYTES_WRITTEN_PER_BYTE).saturating_add(BATCH_MARGIN_BYTES);
        (free < needed).then(|| self.sentence(free))
    }

    /// The engine found no room. Nothing is written until the disk has taken a trial.
    pub(super) fn doubt(&mut self) -> String {
        self.has_reserve = false;
        self.doubted_until = Some(Instant::now() + TRIAL_EVERY);
        self.sentence(self.free_bytes())
    }

    /// Gives up the reserve; whether there was one.
    pub(super) fn give_way(&mut self) -> bool {
        self.has_reserve = false;
        fs::remove_file(&self.reserve).is_ok()
    }

    fn sentence(&self, free: u64) -> String {
        format!(
            "the disk of {} is full: {} MiB are free, {} MiB are needed; nothing is written until there is room again, \
             everything can be read",
            self.directory.display(),
            free / MIB,
            FULL_BYTES / MIB
        )
    }

    /// A disk that does not tell is taken to have room: then its first refusal counts.
    fn free_bytes(&self) -> u64 {
        rustix::fs::statvfs(&self.directory).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Writes real bytes: a file with holes reserves nothing.
    fn fill_reserve(&mut self) -> io::Result<()> {
        let fill = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&self.reserve)?;
            let bytes: Vec<u8> = (0..RESERVE_BYTES).map(|index| (index % 251) as u8).collect();
            file.write_all(&bytes)?;
            file.sync_all()?;
            File::open(&self.directory)?.sync_all()
        };
        let filled = fill();
        if filled.is_err() {
            // Half of it would only take what little is left.
            let _: io::Result<()> = fs::remove_file(&self.reserve);
        }
        self.has_reserve = filled.is_ok();
        filled
    }
}

/// Whether an error means that there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
