//! The form in which the disk remembers. Pods and statuses have a length each, so that a later build may give them more
//! fields; the form of earlier builds, which had none, is still read.

use coracle_agent_core::Remembered;
use coracle_model::{ClusterId, Container, Pod, PodStatus, PodUid, RestartPolicy, Stop, Volume};
use coracle_wire::Item;
use serde::{Deserialize, Serialize};

/// The first byte. The earlier form began with an `Option`, which is 0 or 1.
const FORM: u8 = 2;

/// As it is written.
#[derive(Serialize, Deserialize)]
pub(super) struct Memory {
    form: u8,
    pinned: Option<(ClusterId, [u8; 32])>,
    sequence: u64,
    pods: Vec<Item>,
    finished: Vec<Item>,
}

impl Memory {
    pub(super) fn of(remembered: &Remembered) -> Self {
        let Remembered { pinned, sequence, pods, finished } = remembered;
        Self {
            form: FORM,
            pinned: *pinned,
            sequence: *sequence,
            pods: pods.iter().map(|pod| Item::new(pod.uid, pod)).collect(),
            finished: finished.iter().map(|status| Item::new(status.uid, status)).collect(),
        }
    }

    /// Reads either form; nothing if it is neither.
    pub(super) fn read(bytes: &[u8]) -> Option<Remembered> {
        if bytes.first() != Some(&FORM) {
            return postcard::from_bytes::<Earlier>(bytes).ok().map(Earlier::remembered);
        }
        let Self { form: _, pinned, sequence, pods, finished } = postcard::from_bytes(bytes).ok()?;
        Some(Remembered {
            pinned,
            sequence,
            pods: pods.iter().map(Item::read).collect::<Option<_>>()?,
            finished: finished.iter().map(Item::read).collect::<Option<_>>()?,
        })
    }
}

/// The form of earlier builds.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct Earlier {
    pinned: Option<(ClusterId, [u8; 32])>,
    sequence: u64,
    pods: Vec<EarlierPod>,
    finished: Vec<PodStatus>,
}

/// A pod without a priority.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct EarlierPod {
    uid: PodUid,
    namespace: String,
    name: String,
    restart_policy: RestartPolicy,
    termination_grace_ms: u64,
    containers: Vec<Container>,
    stop: Option<Stop>,
    volumes: Vec<Volume>,
}

impl Earlier {
    fn remembered(self) -> Remembered {
        let pods = self.pods.into_iter().map(|pod| {
            let EarlierPod { uid, namespace, name, restart_policy, termination_grace_ms, containers, stop, volumes } =
                pod;
            let priority = 0;
            Pod { uid, namespace, name, restart_policy, termination_grace_ms, containers, stop, volumes, priority }
        });
        Remembered { pinned: self.pinned, sequence: self.sequence, pods: pods.collect(), finished: self.finished }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: u128) -> EarlierPod {
        EarlierPod {
            uid: PodUid(uid),
            namespace: "default".into(),
            name: "p".into(),
            restart_policy: RestartPolicy::Never,
            termination_grace_ms: 30_000,
            containers: Vec::new(),
            stop: Some(Stop { grace_ms: 1 }),
            volumes: Vec::new(),
        }
    }

    // EDGE-05
    #[test]
    fn what_an_earlier_build_remembered_is_still_known() {
        for pinned in [None, Some((ClusterId(3), [9; 32]))] {
            let earlier = Earlier { pinned, sequence: 7, pods: vec![pod(1), pod(2)], finished: Vec::new() };
            let bytes = postcard::to_allocvec(&earlier).unwrap_or_else(|error| panic!("{error}"));
            let read = Memory::read(&bytes).unwrap_or_else(|| panic!("it is read"));
            assert_eq!((read.pinned, read.sequence, read.pods.len()), (pinned, 7, 2));
            assert_eq!((read.pods[1].uid, read.pods[1].priority), (PodUid(2), 0));
            let mut changed = read;
            changed.pods[1].priority = 5;
            let bytes = postcard::to_allocvec(&Memory::of(&changed)).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(Memory::read(&bytes), Some(changed));
        }
        assert_eq!(Memory::read(&[]), None);
        assert_eq!(Memory::read(&[FORM]), None);
        assert_eq!(Memory::read(&[9, 9]), None);
    }
}
