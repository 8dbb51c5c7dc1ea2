//! In which order artifacts were used. It is kept in memory and goes to the disk when the agent ends, and only if it is
//! another order by then: starting what is there writes nothing.

use std::path::PathBuf;

use coracle_model::Digest;

use crate::disk::{DiskError, read_sealed, write_sealed};

/// See the module.
#[derive(Debug)]
pub(super) struct Uses {
    path: PathBuf,
    /// The latest is the last.
    order: Vec<Digest>,
    written: Vec<Digest>,
}

impl Uses {
    /// Reads the order of the last time; without it, everything is equally old.
    pub(super) fn open(path: PathBuf) -> Result<Self, DiskError> {
        let order: Vec<Digest> = read_sealed(&path)?.unwrap_or_default();
        Ok(Self { path, written: order.clone(), order })
    }

    /// It was used now.
    pub(super) fn touch(&mut self, artifact: Digest) {
        if self.order.last() != Some(&artifact) {
            self.order.retain(|used| *used != artifact);
            self.order.push(artifact);
        }
    }

    /// The higher, the later it was used; 0 when that is not known.
    pub(super) fn rank(&self, artifact: Digest) -> usize {
        self.order.iter().position(|used| *used == artifact).map_or(0, |place| place + 1)
    }

    /// It is no longer there.
    pub(super) fn remove(&mut self, artifact: Digest) {
        self.order.retain(|used| *used != artifact);
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        if self.order == self.written {
            return;
        }
        if let Err(error) = write_sealed(&self.path, &self.order) {
            // Then the next start only throws away in another order.
            tracing::debug!(%error, "the order in which artifacts were used is not kept");
        }
    }
}
