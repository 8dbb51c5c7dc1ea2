//! A disk without room for another page, and one that fails.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use super::*;

/// What a file system hands out.
const PAGE: usize = 4096;

#[derive(Debug)]
struct Disk {
    content: Vec<u8>,
    /// Pages that have been written: a longer file has holes, which take no room.
    taken: BTreeSet<usize>,
    pages: usize,
    /// Writes and syncs that still work.
    operations_left: u64,
}

/// Hands its disk to the engine and keeps it for the test.
#[derive(Clone, Debug)]
struct SmallDisk(Arc<Mutex<Disk>>);

impl SmallDisk {
    fn of(pages: usize) -> Self {
        let disk = Disk { content: Vec::new(), taken: BTreeSet::new(), pages, operations_left: u64::MAX };
        Self(Arc::new(Mutex::new(disk)))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn grow(&self, pages: usize) {
        self.disk().pages += pages;
    }

    fn breaks_after(&self, operations: u64) {
        self.disk().operations_left = operations;
    }

    fn operate(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.disk();
        if disk.operations_left == 0 {
            return Err(io::Error::other("input/output error"));
        }
        disk.operations_left -= 1;
        Ok(disk)
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("a small file")
}

impl StorageBackend for SmallDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk().content.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.disk();
        let found = disk.content.get(place(offset)..place(offset) + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut disk = self.operate()?;
        disk.content.resize(place(length), 0);
        disk.taken.retain(|page| page * PAGE < place(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operate().map(drop)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.operate()?;
        let (start, end) = (place(offset), place(offset) + data.len());
        for page in start / PAGE..end.div_ceil(PAGE) {
            if disk.taken.len() >= disk.pages && !disk.taken.contains(&page) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.taken.insert(page);
        }
        let length = disk.content.len().max(end);
        disk.content.resize(length, 0);
        disk.content[start..end].copy_from_slice(data);
        Ok(())
    }
}

/// Commits until the disk is full or broken; gives the last acknowledged revision, and why it ended.
fn fill(store: &mut EmbeddedStore, mut acknowledged: u64) -> (u64, StoreError) {
    loop {
        match store.commit(&batch(acknowledged)) {
            Ok(()) => acknowledged += BATCH,
            Err(error) => return (acknowledged, error),
        }
    }
}

#[test]
fn a_full_disk_refuses_batches_loses_nothing_and_recovers_by_itself() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let disk = SmallDisk::of(60 + usize::try_from(dice.below(100)).expect("small"));
        let mut store = EmbeddedStore::with_backend(disk.clone()).expect("it opens");
        store.load().expect("it is readable");
        let mut acknowledged = 0;
        for _ in 0..4 {
            let (reached, error) = fill(&mut store, acknowledged);
            acknowledged = reached;
            assert!(matches!(error, StoreError::Full { .. }), "seed {seed}: {error:?}");
            for _ in 0..3 {
                // It may have found room for a batch after all: opening it anew frees pages.
                match store.commit(&batch(acknowledged)) {
                    Ok(()) => acknowledged += BATCH,
                    Err(error) => assert!(matches!(error, StoreError::Full { .. }), "seed {seed}: {error:?}"),
                }
            }
            let snapshot = store.load().expect("it is readable");
            assert_eq!(snapshot.revision, acknowledged, "seed {seed}");
            check(&snapshot);
            if dice.below(3) == 0 {
                // The process may also end while the disk is full.
                drop(store);
                store = EmbeddedStore::with_backend(disk.clone()).expect("it opens on a full disk");
                assert_eq!(store.load().expect("it is readable").revision, acknowledged, "seed {seed}");
            }
            disk.grow(usize::try_from(dice.below(60)).expect("small"));
        }
        disk.grow(1 << 20);
        store.commit(&batch(acknowledged)).expect("there is room again");
        check(&store.load().expect("it is readable"));
    }
}

#[test]
fn a_disk_that_fails_is_given_up_and_nothing_acknowledged_is_lost() {
    for seed in 0..25 {
        let mut dice = Dice(seed);
        let disk = SmallDisk::of(1 << 20);
        let mut store = EmbeddedStore::with_backend(disk.clone()).expect("it opens");
        store.load().expect("it is readable");
        disk.breaks_after(dice.below(300));
        let (acknowledged, error) = fill(&mut store, 0);
        assert!(matches!(error, StoreError::Engine { .. }), "seed {seed}: {error:?}");
        assert!(store.commit(&batch(acknowledged)).is_err(), "seed {seed}: it takes nothing any more");
        drop(store);
        disk.breaks_after(u64::MAX);
        let snapshot = EmbeddedStore::with_backend(disk).expect("it opens").load().expect("it is readable");
        let found = snapshot.revision;
        assert!(found == acknowledged || found == acknowledged + BATCH, "seed {seed}: {acknowledged}, found {found}");
        check(&snapshot);
    }
}
