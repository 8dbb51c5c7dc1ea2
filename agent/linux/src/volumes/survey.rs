//! Measures what pods have written against what they may, as Kubernetes does from time to time. Guests are stopped at
//! their limits as they write; this finds what came by another way.

use std::io;
use std::path::{Path, PathBuf};

use coracle_model::PodUid;
use coracle_model::quantity::shortest;

use crate::runtime::DiskQuota;

/// A pod with limits.
#[derive(Debug)]
pub struct Subject {
    pub(super) pod: PodUid,
    pub(super) volumes: Vec<Measured>,
    /// `limits` of `ephemeral-storage`, together; zero for none.
    pub(super) limit_bytes: u64,
}

/// One of its volumes.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// It counts against what the pod may write to the node's disk.
    pub(super) on_disk: bool,
    /// `sizeLimit`; zero for none.
    pub(super) limit_bytes: u64,
}

/// A pod that uses more than it may, and Kubernetes' words for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The pod.
    pub pod: PodUid,
    /// `status.message`
    pub message: String,
}

/// Looks at all of them. It reads directories, so it takes a while.
#[must_use]
pub fn survey(subjects: &[Subject]) -> Vec<Verdict> {
    subjects.iter().filter_map(judge).collect()
}

fn judge(subject: &Subject) -> Option<Verdict> {
    let mut on_disk = 0_u64;
    for volume in &subject.volumes {
        // A file that goes while one looks is a reason to look again later.
        let Ok(used) = bytes_in(&volume.path) else { continue };
        if volume.limit_bytes > 0 && used > volume.limit_bytes {
            let (name, limit) = (&volume.name, shortest(volume.limit_bytes));
            let message = format!("Usage of EmptyDir volume \"{name}\" exceeds the limit \"{limit}\".");
            return Some(Verdict { pod: subject.pod, message });
        }
        if volume.on_disk {
            on_disk = on_disk.saturating_add(used);
        }
    }
    (subject.limit_bytes > 0 && on_disk > subject.limit_bytes).then(|| {
        let limit = shortest(subject.limit_bytes);
        let message = format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}.");
        Verdict { pod: subject.pod, message }
    })
}

/// What a directory holds, counted as limits are.
pub(super) fn bytes_in(path: &Path) -> io::Result<u64> {
    let count = DiskQuota::new(0, 0);
    count.recount(path)?;
    Ok(count.used_bytes())
}
