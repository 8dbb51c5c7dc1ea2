//! A disk that loses power: at a random operation it stops, and of what was not synced some is there and some is not.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use super::*;

/// What a real disk writes whole, or not at all.
const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Write {
    Length(usize),
    Bytes(usize, Vec<u8>),
}

#[derive(Debug)]
struct Disk {
    /// What a reader sees.
    seen: Vec<u8>,
    /// What is there after a loss of power, before anything of `unsynced`.
    safe: Vec<u8>,
    unsynced: Vec<Write>,
    operations_left: u64,
}

/// Hands its disk to the engine and keeps it for the test.
#[derive(Clone, Debug)]
struct Power(Arc<Mutex<Disk>>);

impl Power {
    /// A disk with this content that works for so many operations.
    fn on(content: Vec<u8>, operations: u64) -> Self {
        let disk = Disk { seen: content.clone(), safe: content, unsynced: Vec::new(), operations_left: operations };
        Self(Arc::new(Mutex::new(disk)))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn use_power(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.disk();
        disk.operations_left = disk.operations_left.saturating_sub(1);
        if disk.operations_left == 0 { Err(io::Error::other("the power is cut")) } else { Ok(disk) }
    }

    /// What the disk has when the power comes back.
    fn after_cut(&self, dice: &mut Dice) -> Vec<u8> {
        let disk = self.disk();
        let mut content = disk.safe.clone();
        let mode = dice.below(4);
        for write in &disk.unsynced {
            match mode {
                0 => {}
                1 => apply(&mut content, write),
                2 => {
                    if dice.below(2) == 0 {
                        apply(&mut content, write);
                    }
                }
                _ => tear(&mut content, write, dice),
            }
        }
        content
    }
}

fn apply(content: &mut Vec<u8>, write: &Write) {
    match write {
        Write::Length(length) => content.resize(*length, 0),
        Write::Bytes(offset, bytes) => {
            // A lost change of length does not keep later data from being written.
            content.resize(content.len().max(offset + bytes.len()), 0);
            content[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }
}

fn tear(content: &mut Vec<u8>, write: &Write, dice: &mut Dice) {
    let Write::Bytes(offset, bytes) = write else { return apply(content, write) };
    for (index, sector) in bytes.chunks(SECTOR).enumerate() {
        if dice.below(2) == 0 {
            apply(content, &Write::Bytes(offset + index * SECTOR, sector.to_vec()));
        }
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("a small file")
}

impl StorageBackend for Power {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.use_power()?;
        let found = disk.seen.get(place(offset)..place(offset) + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let write = Write::Length(place(length));
        let mut disk = self.use_power()?;
        apply(&mut disk.seen, &write);
        disk.unsynced.push(write);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.use_power()?;
        let disk = &mut *disk;
        for write in disk.unsynced.drain(..) {
            apply(&mut disk.safe, &write);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let write = Write::Bytes(place(offset), data.to_vec());
        let mut disk = match self.use_power() {
            Ok(disk) => disk,
            Err(error) => {
                // The write during which the power went may be on the disk, in part or whole.
                self.disk().unsynced.push(write);
                return Err(error);
            }
        };
        apply(&mut disk.seen, &write);
        disk.unsynced.push(write);
        Ok(())
    }
}

/// Works until the power goes; returns the last revision that was acknowledged.
fn work(power: &Power, mut acknowledged: u64) -> u64 {
    let Ok(mut store) = EmbeddedStore::with_backend(power.clone()) else { return acknowledged };
    let Ok(snapshot) = store.load() else { return acknowledged };
    let revision = snapshot.revision;
    let in_doubt = acknowledged + BATCH;
    assert!(revision == acknowledged || revision == in_doubt, "acknowledged {acknowledged}, found {revision}");
    check(&snapshot);
    acknowledged = revision;
    while store.commit(&batch(acknowledged)).is_ok() {
        acknowledged += BATCH;
    }
    acknowledged
}

/// A new store on a disk that works, as `EmbeddedStore::open` makes it before it gives it its name.
fn new_store() -> Vec<u8> {
    let power = Power::on(Vec::new(), u64::MAX);
    drop(EmbeddedStore::with_backend(power.clone()).expect("the power is on"));
    let disk = power.disk();
    disk.safe.clone()
}

#[test]
fn no_acknowledged_write_is_lost_and_no_batch_is_halved_when_the_power_goes() {
    let new_store = new_store();
    for seed in 0..80 {
        let mut dice = Dice(seed);
        let (mut content, mut acknowledged) = (new_store.clone(), 0);
        for _ in 0..5 {
            // A few operations are enough to cut into the opening or its repair; many let some hundred changes pass.
            let most = if dice.below(3) == 0 { 25 } else { 900 };
            let power = Power::on(content, 1 + dice.below(most));
            acknowledged = work(&power, acknowledged);
            content = power.after_cut(&mut dice);
        }
        let mut store = EmbeddedStore::with_backend(Power::on(content, u64::MAX)).expect("it opens");
        let snapshot = store.load().expect("it is readable");
        assert!(snapshot.revision == acknowledged || snapshot.revision == acknowledged + BATCH, "seed {seed}");
        check(&snapshot);
    }
}

/// The test above would be worth nothing if this disk lost nothing.
#[test]
fn a_disk_that_lies_about_syncing_is_found_out() {
    #[derive(Clone, Debug)]
    struct Liar(Power);
    impl StorageBackend for Liar {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }
        fn set_len(&self, length: u64) -> io::Result<()> {
            self.0.set_len(length)
        }
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, data)
        }
    }
    let power = Power::on(new_store(), u64::MAX);
    let mut store = EmbeddedStore::with_backend(Liar(power.clone())).expect("it opens");
    store.load().expect("it is readable");
    store.commit(&batch(0)).expect("it says so");
    let content = power.disk().safe.clone();
    let mut store = EmbeddedStore::with_backend(Power::on(content, u64::MAX)).expect("it opens");
    assert_eq!(store.load().expect("it is readable").revision, 0, "the acknowledged batch is gone");
}
