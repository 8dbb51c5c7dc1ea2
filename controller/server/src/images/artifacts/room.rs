//! Which artifacts are on the disk, how much room they take, and when each was wanted last.
//!
//! The times are kept in memory. They go to the disk when something is thrown away and when the program ends, and only
//! if their order is another one by then: a controller that serves what it has writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use coracle_model::Digest;
use serde::{Deserialize, Serialize};

use super::ArtifactKey;
use crate::data_dir::write_durably;

/// The file with the times; no artifact has such a name.
const FILE: &str = "wanted.order";

/// One artifact on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) artifact: Digest,
    pub(super) size_bytes: u64,
    /// When it was last asked for, in milliseconds since 1970.
    pub(super) wanted_ms: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Times {
    /// By the name of the manifest's file.
    wanted_ms: BTreeMap<String, u64>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Room {
    path: PathBuf,
    most_bytes: u64,
    rows: BTreeMap<ArtifactKey, Row>,
    latest_ms: u64,
    /// The order that the file has.
    written: Vec<ArtifactKey>,
}

impl Room {
    /// `found` is what is on the disk.
    pub(super) fn open(folder: &Path, most_bytes: u64, found: Vec<(ArtifactKey, Digest, u64)>) -> Self {
        let path = folder.join(FILE);
        // Without the file everything is equally old, and was at least not thrown away before.
        let times: Times =
            fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let row = |(key, artifact, size_bytes): (ArtifactKey, Digest, u64)| {
            let wanted_ms = times.wanted_ms.get(&key.file_name()).copied().unwrap_or_default();
            (key, Row { artifact, size_bytes, wanted_ms })
        };
        let rows: BTreeMap<_, _> = found.into_iter().map(row).collect();
        let latest_ms = rows.values().map(|row| row.wanted_ms).max().unwrap_or_default();
        let mut room = Self { path, most_bytes, rows, latest_ms, written: Vec::new() };
        room.written = room.order();
        room
    }

    /// Somebody asked for it.
    pub(super) fn touch(&mut self, key: &ArtifactKey) {
        let now = self.now_ms();
        if let Some(row) = self.rows.get_mut(key) {
            row.wanted_ms = now;
        }
    }

    /// It is on the disk now.
    pub(super) fn add(&mut self, key: &ArtifactKey, artifact: Digest, size_bytes: u64) {
        let wanted_ms = self.now_ms();
        self.rows.insert(key.clone(), Row { artifact, size_bytes, wanted_ms });
    }

    /// It is no longer.
    pub(super) fn remove(&mut self, key: &ArtifactKey) -> Option<Row> {
        self.rows.remove(key)
    }

    /// Takes out those that were wanted least lately, until the rest fits; `keep` stays in any case.
    pub(super) fn make_room(&mut self, keep: Option<&ArtifactKey>) -> Vec<(ArtifactKey, Row)> {
        let mut total: u64 = self.rows.values().map(|row| row.size_bytes).sum();
        let mut gone = Vec::new();
        for key in self.order() {
            if total <= self.most_bytes {
                break;
            }
            if keep == Some(&key) {
                continue;
            }
            if let Some(row) = self.rows.remove(&key) {
                total -= row.size_bytes.min(total);
                gone.push((key, row));
            }
        }
        gone
    }

    /// Whether any row is of this machine code; two images may come to the same.
    pub(super) fn has(&self, artifact: Digest) -> bool {
        self.rows.values().any(|row| row.artifact == artifact)
    }

    /// Everything that was made of an image.
    pub(super) fn of_image(&self, image: Digest) -> Vec<(ArtifactKey, Row)> {
        let rows = self.rows.iter().filter(|(key, _)| key.image == image);
        rows.map(|(key, row)| (key.clone(), row.clone())).collect()
    }

    /// The images of all rows.
    pub(super) fn images(&self) -> BTreeSet<Digest> {
        self.rows.keys().map(|key| key.image).collect()
    }

    /// Writes the times, if their order has changed.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let order = self.order();
        if order == self.written {
            return Ok(());
        }
        let wanted_ms = self.rows.iter().map(|(key, row)| (key.file_name(), row.wanted_ms)).collect();
        write_durably(&self.path, &serde_json::to_vec(&Times { wanted_ms })?)?;
        self.written = order;
        Ok(())
    }

    /// From the one that was wanted longest ago to the latest.
    fn order(&self) -> Vec<ArtifactKey> {
        let mut order: Vec<_> = self.rows.iter().map(|(key, row)| (row.wanted_ms, key)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, key)| key.clone()).collect()
    }

    /// The wall's time, but never the same twice and never back: the order counts.
    fn now_ms(&mut self) -> u64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.latest_ms = u64::try_from(wall.as_millis()).unwrap_or(0).max(self.latest_ms + 1);
        self.latest_ms
    }
}
