//! How much room a disk, or a memory that looks like one, has.

use std::path::Path;

/// A file system as its users see it, in bytes. What only root may fill is no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// What all files together may take.
    pub(crate) total_bytes: u64,
    /// What is left of it.
    pub(crate) free_bytes: u64,
}

impl Space {
    /// Of the file system that this is on; nothing if the system does not say.
    #[must_use]
    pub(crate) fn around(path: &Path) -> Option<Self> {
        let found = rustix::fs::statvfs(path).ok()?;
        Some(Self::of_blocks(found.f_blocks, found.f_bfree, found.f_bavail, found.f_frsize))
    }

    const fn of_blocks(all: u64, free: u64, available: u64, block_bytes: u64) -> Self {
        let kept_for_root = free.saturating_sub(available);
        Self {
            total_bytes: all.saturating_sub(kept_for_root).saturating_mul(block_bytes),
            free_bytes: available.saturating_mul(block_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Space;

    // As `df` counts: 252 units, of which 175 are free and 14 are free for all.
    #[test]
    fn what_root_keeps_for_itself_is_not_there() {
        assert_eq!(Space::of_blocks(252, 175, 14, 10), Space { total_bytes: 910, free_bytes: 140 });
        assert_eq!(Space::of_blocks(1, 2, 0, u64::MAX), Space { total_bytes: 0, free_bytes: 0 });
    }
}
