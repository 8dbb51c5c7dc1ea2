//! The blocks of one artifact: which are missing, which are on their way, and whether one is what it should be.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use coracle_model::limits::BLOCK_BYTES;
use coracle_model::{Digest, Millis};
use coracle_wire::artifact::{ArtifactManifest, Block};
use sha2::{Digest as _, Sha256};

/// How long blocks may be silent before they are asked for again, at first; doubles each time.
const FIRST_PATIENCE_MS: u64 = 15_000;
/// The longest such silence.
const LONGEST_PATIENCE_MS: u64 = 120_000;

/// An artifact whose blocks are being pulled.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) manifest: ArtifactManifest,
    missing: BTreeSet<u32>,
    /// Those on their way, and since when.
    asked: BTreeMap<u32, Millis>,
    patience_ms: u64,
    /// When those that were asked for are given up and asked for again.
    pub(super) again_at: Millis,
    damaged: u32,
}

/// What a block turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody had asked for it.
    Unasked,
    /// The controller has the artifact no longer.
    Gone,
    /// Its bytes are not what the manifest says; it is asked for again. How many of these there have been.
    Damaged(u32),
    /// Keep it; it was on its way for so many milliseconds.
    Good(u64),
}

impl Fetch {
    /// `have` are the blocks that are on disk.
    pub(super) fn new(manifest: ArtifactManifest, have: &[u32], now: Millis) -> Self {
        let count = u32::try_from(manifest.blocks.len()).unwrap_or(u32::MAX);
        let have: BTreeSet<u32> = have.iter().copied().collect();
        let missing = (0..count).filter(|index| !have.contains(index)).collect();
        let (asked, again_at) = (BTreeMap::new(), now + FIRST_PATIENCE_MS);
        Self { manifest, missing, asked, patience_ms: FIRST_PATIENCE_MS, again_at, damaged: 0 }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.asked.is_empty()
    }

    /// Blocks on their way.
    pub(super) fn on_their_way(&self) -> usize {
        self.asked.len()
    }

    /// The blocks to ask for now, so that no more than `limit` are on their way, and no more than `room` are new.
    pub(super) fn next(&mut self, limit: usize, room: usize, now: Millis) -> Vec<u32> {
        let mut blocks = Vec::new();
        if self.asked.is_empty() {
            self.again_at = now + self.patience_ms;
        }
        while self.asked.len() < limit && blocks.len() < room {
            let Some(index) = self.missing.pop_first() else { break };
            self.asked.insert(index, now);
            blocks.push(index);
        }
        blocks
    }

    /// Those on their way are no longer: the session is over.
    pub(super) fn suspend(&mut self) {
        self.missing.extend(core::mem::take(&mut self.asked).into_keys());
    }

    /// A session begins: what was asked for before it will not come.
    pub(super) fn resume(&mut self, now: Millis) {
        self.suspend();
        self.patience_ms = FIRST_PATIENCE_MS;
        self.again_at = now + self.patience_ms;
    }

    /// Nothing came for too long, if anything was to come.
    pub(super) fn lose_patience(&mut self, now: Millis) {
        if !self.asked.is_empty() {
            self.patience_ms = self.patience_ms.saturating_mul(2).min(LONGEST_PATIENCE_MS);
        }
        self.suspend();
        self.again_at = now + self.patience_ms;
    }

    /// Judges a block.
    pub(super) fn judge(&mut self, block: &Block, now: Millis) -> Verdict {
        let Some(asked_at) = self.asked.get(&block.index).copied() else { return Verdict::Unasked };
        if block.bytes.is_empty() {
            return Verdict::Gone;
        }
        self.asked.remove(&block.index);
        // Blocks come one behind the other over a thin link, so each one buys time for the rest.
        self.again_at = now + self.patience_ms;
        if !self.is_right(block) {
            self.missing.insert(block.index);
            self.damaged = self.damaged.saturating_add(1);
            return Verdict::Damaged(self.damaged);
        }
        Verdict::Good(now.since(asked_at))
    }

    fn is_right(&self, block: &Block) -> bool {
        let Some((index, digest)) = usize::try_from(block.index)
            .ok()
            .and_then(|index| self.manifest.blocks.get(index).map(|digest| (index, digest)))
        else {
            return false;
        };
        let before = u64::try_from(index.saturating_mul(BLOCK_BYTES)).unwrap_or(u64::MAX);
        let rest = usize::try_from(self.manifest.size.saturating_sub(before)).unwrap_or(usize::MAX);
        block.bytes.len() == rest.min(BLOCK_BYTES) && Digest(Sha256::digest(&block.bytes).into()) == *digest
    }
}
