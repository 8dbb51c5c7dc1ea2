//! The numbers of sessions, which never repeat: the Last Will of an old session carries its number, and must not be
//! taken for one of a session that lives.
//!
//! The file says up to where numbers may have been used. It is written for a few at once, so that neither a link that
//! breaks all day long nor a disk that is full for a day costs a write for each session. When the disk takes nothing at
//! the end of those, the agent goes on in memory, far away from where a restart would begin to count.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use coracle_model::SessionNumber;

use super::{DiskError, set_aside, write_atomically};

/// Numbers that one write pays for.
const AT_ONCE: u64 = 32;
/// The least distance between numbers in memory only and those that a restart would begin with.
const ADRIFT: u64 = 1 << 32;

/// Counts sessions.
#[derive(Debug)]
pub(super) struct Numbers {
    path: PathBuf,
    last: SessionNumber,
    /// What the disk says: up to here, numbers may have been used.
    paid: SessionNumber,
    /// Numbers are used that the disk knows nothing of.
    adrift: bool,
}

impl Numbers {
    pub(super) fn open(path: PathBuf) -> Result<Self, DiskError> {
        let last = read(&path)?;
        Ok(Self { path, last, paid: last, adrift: false })
    }

    /// The next number. An error goes with it when the disk did not take it.
    pub(super) fn next(&mut self) -> (SessionNumber, Option<DiskError>) {
        let mut next = self.last.next();
        let mut refused = None;
        if next > self.paid || self.adrift {
            let paid = SessionNumber(next.0.saturating_add(AT_ONCE - 1));
            match write_atomically(&self.path, format!("{paid}\n").as_bytes()) {
                Ok(()) => (self.paid, self.adrift) = (paid, false),
                Err(error) => {
                    if !self.adrift {
                        self.adrift = true;
                        next = SessionNumber(next.0.saturating_add(ADRIFT).saturating_add(chance()));
                    }
                    refused = Some(error);
                }
            }
        }
        self.last = next;
        (next, refused)
    }
}

fn read(path: &Path) -> Result<SessionNumber, DiskError> {
    match fs::read(path) {
        Ok(bytes) => {
            let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
            if let Some(number) = number {
                return Ok(SessionNumber(number));
            }
            set_aside(path, "no session number");
            // It must never go back. Nobody has connected once a second since 1970.
            let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            Ok(SessionNumber(seconds.map_or(u64::from(u32::MAX), |time| time.as_secs())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(SessionNumber::default()),
        Err(error) => Err(DiskError::of("read", path)(error)),
    }
}

/// So that an agent that starts again and again on a dead disk does not come to the same numbers.
fn chance() -> u64 {
    let mut bytes = [0; 4];
    // Without randomness the distance alone has to do.
    if getrandom::fill(&mut bytes).is_err() {
        tracing::warn!("the system gives no randomness for a session number");
    }
    u64::from(u32::from_le_bytes(bytes)) * AT_ONCE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Numbers {
        Numbers::open(path.to_owned()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn next(numbers: &mut Numbers) -> SessionNumber {
        let (number, refused) = numbers.next();
        assert!(refused.is_none(), "{refused:?}");
        number
    }

    #[test]
    fn numbers_never_go_back_and_few_of_them_cost_a_write() {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let path = directory.path().join("session");
        let mut first = open(&path);
        assert_eq!(next(&mut first), SessionNumber(1));
        let written = fs::read(&path).unwrap_or_default();
        for number in 2..=AT_ONCE {
            assert_eq!(next(&mut first), SessionNumber(number));
        }
        assert_eq!(fs::read(&path).unwrap_or_default(), written);
        assert_eq!(next(&mut first), SessionNumber(AT_ONCE + 1));
        drop(first);
        assert_eq!(next(&mut open(&path)), SessionNumber(2 * AT_ONCE + 1));
        fs::write(&path, b"\xff?").unwrap_or_else(|error| panic!("{error}"));
        assert!(next(&mut open(&path)) > SessionNumber(1000));
    }

    // EDGE-05
    #[test]
    fn a_disk_that_takes_nothing_keeps_no_agent_from_its_controller_and_repeats_no_number() {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        // No file can be made in a directory that is not there, whoever runs this.
        let path = directory.path().join("gone/session");
        let mut used = std::collections::BTreeSet::new();
        for _restart in 0..10 {
            let mut numbers = open(&path);
            let mut last = SessionNumber(0);
            for _ in 0..AT_ONCE * 2 {
                let (number, refused) = numbers.next();
                assert!(refused.is_some_and(|error| error.to_string().contains("gone/session")));
                assert!(number > last && number.0 >= ADRIFT && used.insert(number), "{number} after {last}");
                last = number;
            }
        }
        fs::create_dir(directory.path().join("gone")).unwrap_or_else(|error| panic!("{error}"));
        let mut numbers = open(&path);
        assert_eq!(next(&mut numbers), SessionNumber(1));
        // It recovers by itself as well, and then the disk knows of all that was used.
        fs::remove_dir_all(directory.path().join("gone")).unwrap_or_else(|error| panic!("{error}"));
        let mut last = SessionNumber(1);
        while !numbers.adrift {
            (last, _) = numbers.next();
        }
        fs::create_dir(directory.path().join("gone")).unwrap_or_else(|error| panic!("{error}"));
        let number = next(&mut numbers);
        assert!(number > last && !numbers.adrift);
        assert!(next(&mut open(&path)) > number);
    }
}
