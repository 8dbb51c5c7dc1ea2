//! What the compiler has refused, so that it is not asked the same again.
//!
//! A refusal of the image itself lasts as long as engine and adapter are the same, over restarts too. One for want of
//! time or memory says as much of the machine, and is forgotten after an hour and with the process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coracle_model::Digest;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::ImagesError;
use super::adapt::ADAPTER_REVISION;
use super::artifacts::ArtifactKey;
use crate::data_dir::{make_dir, write_durably};

/// Refusals that are remembered; beyond this all are forgotten, and their images are tried once more.
const MAX_REFUSALS: usize = 1024;
/// How long a refusal for want of time or memory holds.
const PATIENCE: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stored {
    image: String,
    target: String,
    engine: String,
    adapter: u32,
    reason: String,
}

#[derive(Debug)]
struct Refusal {
    reason: String,
    until: Option<Instant>,
}

/// Everything that was refused.
#[derive(Debug)]
pub(super) struct Refusals {
    path: PathBuf,
    known: Mutex<BTreeMap<ArtifactKey, Refusal>>,
}

impl Refusals {
    /// Reads what is known, and removes what was said by another engine or adapter.
    pub(super) fn open(path: &Path, engine: &str) -> Result<Self, ImagesError> {
        let unusable = |source| ImagesError::Unusable { path: path.to_owned(), source };
        make_dir(path).map_err(unusable)?;
        let mut known = BTreeMap::new();
        for entry in fs::read_dir(path).map_err(unusable)? {
            let path = entry.map_err(unusable)?.path();
            match read(&path).filter(|(key, _)| key.engine == engine) {
                Some((key, reason)) => _ = known.insert(key, Refusal { reason, until: None }),
                None => fs::remove_file(&path).map_err(unusable)?,
            }
        }
        Ok(Self { path: path.to_owned(), known: Mutex::new(known) })
    }

    /// Why this was refused.
    pub(super) fn get(&self, key: &ArtifactKey) -> Option<String> {
        let mut known = self.known.lock();
        if known.get(key)?.until.is_some_and(|until| until <= Instant::now()) {
            known.remove(key);
        }
        known.get(key).map(|refusal| refusal.reason.clone())
    }

    /// Remembers a refusal; one of the image itself also on the disk.
    pub(super) fn remember(&self, key: &ArtifactKey, reason: &str, lasting: bool) {
        let mut known = self.known.lock();
        if known.len() >= MAX_REFUSALS {
            for key in std::mem::take(&mut *known).into_keys() {
                self.remove(&key);
            }
        }
        let until = (!lasting).then(|| Instant::now() + PATIENCE);
        known.insert(key.clone(), Refusal { reason: reason.to_owned(), until });
        if lasting && let Err(error) = self.write(key, reason) {
            tracing::warn!(%error, image = %key.image, "a refusal is not kept over a restart");
        }
    }

    /// Forgets everything about an image.
    pub(super) fn forget(&self, image: Digest) {
        let mut known = self.known.lock();
        let about: Vec<ArtifactKey> = known.keys().filter(|key| key.image == image).cloned().collect();
        for key in about {
            known.remove(&key);
            self.remove(&key);
        }
    }

    fn write(&self, key: &ArtifactKey, reason: &str) -> io::Result<()> {
        let stored = Stored {
            image: key.image.to_string(),
            target: key.target.clone(),
            engine: key.engine.clone(),
            adapter: ADAPTER_REVISION,
            reason: reason.to_owned(),
        };
        write_durably(&self.path.join(key.file_name()), &serde_json::to_vec(&stored)?)
    }

    fn remove(&self, key: &ArtifactKey) {
        // Most were never written; what stays is tried again by whoever pushes the image anew.
        let _: io::Result<()> = fs::remove_file(self.path.join(key.file_name()));
    }
}

fn read(path: &Path) -> Option<(ArtifactKey, String)> {
    let stored: Stored = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let image = stored.image.parse().ok()?;
    let key = ArtifactKey { image, target: stored.target, engine: stored.engine };
    (stored.adapter == ADAPTER_REVISION).then_some((key, stored.reason))
}
