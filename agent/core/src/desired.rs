//! The set of pods that this node is to run: gathered from syncs and deltas, and remembered.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use coracle_model::{Limits, Pod, PodUid, VolumeSource};
use coracle_wire::Item;
use coracle_wire::down::{Delta, Sync};

/// The most parts that one sync may have: a set of 64 MiB, when every part is full.
const MOST_PARTS: u16 = 256;

/// What a sync or a delta changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// No longer desired. These come first: what is stale ends before anything new begins (SAF-04).
    pub(crate) removed: Vec<PodUid>,
    /// New, or in a new form.
    pub(crate) changed: Vec<Pod>,
}

/// The desired set.
#[derive(Debug)]
pub(crate) struct Desired {
    pods: BTreeMap<PodUid, Pod>,
    /// Pods of the set that are not run here, and why.
    refused: BTreeMap<PodUid, String>,
    sequence: u64,
    /// The set has been made sure of in this session.
    synced: bool,
    gathered: Option<Gathered>,
    limits: Limits,
}

/// The parts of a sync that have come so far.
#[derive(Debug)]
struct Gathered {
    sequence: u64,
    parts: Vec<Option<Vec<Item>>>,
}

impl Desired {
    pub(crate) const fn new(sequence: u64, limits: Limits) -> Self {
        Self { pods: BTreeMap::new(), refused: BTreeMap::new(), sequence, synced: false, gathered: None, limits }
    }

    /// A pod that the disk remembers; whether it is taken on.
    pub(crate) fn remember(&mut self, pod: &Pod) -> bool {
        let fits = self.pods.len() < self.limits.pods && unfit(pod, pod.uid, &self.limits).is_none();
        if fits {
            self.pods.insert(pod.uid, pod.clone());
        }
        fits
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    pub(crate) fn contains(&self, uid: PodUid) -> bool {
        self.pods.contains_key(&uid)
    }

    pub(crate) fn refused(&self) -> Vec<(PodUid, String)> {
        self.refused.iter().map(|(uid, why)| (*uid, why.clone())).collect()
    }

    /// The sequence of the set that is held, from whichever session.
    pub(crate) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The sequence that is applied as far as this session knows: 0 until its first sync is whole. An earlier session's
    /// number says nothing here, because another controller may have counted it.
    pub(crate) const fn applied(&self) -> u64 {
        if self.synced { self.sequence } else { 0 }
    }

    pub(crate) const fn is_synced(&self) -> bool {
        self.synced
    }

    /// A session ended or began: everything has to be made sure of again.
    pub(crate) fn begin_session(&mut self) {
        self.synced = false;
        self.gathered = None;
    }

    /// One part of the whole set; the changes, once all parts are there.
    pub(crate) fn sync(&mut self, part: Sync) -> Option<Changes> {
        let late = self.synced && part.sequence < self.sequence;
        if part.part >= part.parts || part.parts > MOST_PARTS || late {
            return None;
        }
        let parts = usize::from(part.parts);
        match &self.gathered {
            Some(gathered) if gathered.sequence > part.sequence => return None,
            Some(gathered) if gathered.sequence == part.sequence && gathered.parts.len() == parts => {}
            _ => self.gathered = Some(Gathered { sequence: part.sequence, parts: vec![None; parts] }),
        }
        let gathered = self.gathered.as_mut()?;
        gathered.parts[usize::from(part.part)] = Some(part.pods);
        if gathered.parts.iter().any(Option::is_none) {
            return None;
        }
        let gathered = self.gathered.take()?;
        let items: BTreeMap<PodUid, Item> =
            gathered.parts.into_iter().flatten().flatten().map(|item| (item.uid, item)).collect();
        let removed: Vec<PodUid> = self.pods.keys().filter(|uid| !items.contains_key(uid)).copied().collect();
        self.refused.retain(|uid, _| items.contains_key(uid));
        self.sequence = gathered.sequence;
        self.synced = true;
        // Pods that are here already come first, so that a node that is too full keeps what it has.
        let (known, new): (Vec<Item>, Vec<Item>) = items.into_values().partition(|item| self.contains(item.uid));
        Some(self.apply(removed, known.into_iter().chain(new)))
    }

    /// What changed. A delta that does not follow on what is applied changes nothing.
    pub(crate) fn delta(&mut self, delta: Delta) -> Option<Changes> {
        if !self.synced || delta.sequence != self.sequence.saturating_add(1) {
            return None;
        }
        self.sequence = delta.sequence;
        for uid in &delta.removes {
            self.refused.remove(uid);
        }
        let removed = delta.removes.into_iter().filter(|uid| self.contains(*uid)).collect();
        Some(self.apply(removed, delta.upserts.into_iter()))
    }

    fn apply(&mut self, removed: Vec<PodUid>, items: impl Iterator<Item = Item>) -> Changes {
        for uid in &removed {
            self.pods.remove(uid);
        }
        let mut changed = Vec::new();
        for item in items {
            match self.read(&item) {
                Ok(pod) => {
                    self.refused.remove(&item.uid);
                    if self.pods.get(&item.uid) != Some(&pod) {
                        self.pods.insert(item.uid, pod.clone());
                        changed.push(pod);
                    }
                }
                Err(why) if self.refused.len() < self.limits.pods || self.refused.contains_key(&item.uid) => {
                    self.refused.insert(item.uid, why);
                }
                Err(_) => {}
            }
        }
        Changes { removed, changed }
    }

    /// The pod in an item, or why it is refused. A pod that is here already keeps its old form when the new one is
    /// refused.
    fn read(&self, item: &Item) -> Result<Pod, String> {
        let Some(pod) = item.read::<Pod>() else {
            return Err("this agent cannot read the pod: its controller is newer".to_string());
        };
        if let Some(why) = unfit(&pod, item.uid, &self.limits) {
            return Err(why);
        }
        if !self.contains(pod.uid) && self.pods.len() >= self.limits.pods {
            return Err(format!("the node is full: it has {} pods", self.limits.pods));
        }
        Ok(pod)
    }
}

/// Why a pod cannot be run on any agent like this one.
fn unfit(pod: &Pod, uid: PodUid, limits: &Limits) -> Option<String> {
    let count = pod.containers.len();
    if pod.uid != uid {
        return Some(format!("the pod calls itself {}", pod.uid));
    }
    if count == 0 || count > limits.containers {
        return Some(format!("the pod has {count} containers; 1 to {} are possible", limits.containers));
    }
    let mut names: Vec<&str> = pod.containers.iter().map(|container| container.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map(|pair| format!("two containers are called {}", pair[0])).or_else(|| unfit_volumes(pod))
}

/// What a disk could not be asked to hold: a volume's name and its files' paths become paths on it.
fn unfit_volumes(pod: &Pod) -> Option<String> {
    for (index, volume) in pod.volumes.iter().enumerate() {
        let name = &volume.name;
        if !is_path(name) || name.contains('/') || pod.volumes[..index].iter().any(|other| other.name == *name) {
            return Some(format!("a volume is called {name:?}"));
        }
        if let VolumeSource::Files(files) = &volume.source
            && let Some(file) = files.iter().find(|file| !is_path(&file.path))
        {
            return Some(format!("volume {name} has a file {:?}", file.path));
        }
    }
    for mount in pod.containers.iter().flat_map(|container| &container.mounts) {
        if !pod.volumes.iter().any(|volume| volume.name == mount.volume) {
            return Some(format!("there is no volume {:?}", mount.volume));
        }
        if !mount.path.starts_with('/') || !(mount.sub_path.is_empty() || is_path(&mount.sub_path)) {
            return Some(format!("volume {} is mounted at {:?} from {:?}", mount.volume, mount.path, mount.sub_path));
        }
    }
    None
}

/// Whether this is a path that leads downward, in its shortest form.
fn is_path(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | "..")) && !path.contains('\0') && !path.starts_with("..")
}

#[cfg(test)]
mod tests {
    use coracle_model::{Volume, VolumeFile, VolumeSource};

    use super::*;

    #[test]
    fn what_could_lead_out_of_a_volume_is_refused_whoever_sends_it() {
        for (path, fine) in [
            ("a", true),
            ("a/..b", true),
            ("", false),
            ("/a", false),
            ("a//b", false),
            ("./a", false),
            ("../a", false),
            ("a/../b", false),
            ("..data", false),
            ("a\0", false),
        ] {
            assert_eq!(is_path(path), fine, "{path:?}");
            let file = VolumeFile { path: path.to_string(), bytes: Vec::new(), mode: 0o644 };
            let volume = Volume { name: "v".to_string(), source: VolumeSource::Files(vec![file]) };
            let pod = Pod {
                uid: PodUid(1),
                namespace: "default".to_string(),
                name: "p".to_string(),
                restart_policy: coracle_model::RestartPolicy::Always,
                termination_grace_ms: 0,
                priority: 0,
                containers: Vec::new(),
                stop: None,
                volumes: vec![volume],
            };
            assert_eq!(unfit_volumes(&pod).is_none(), fine, "{path:?}");
            let mut named = pod;
            named.volumes[0] = Volume { name: path.to_string(), source: VolumeSource::Files(Vec::new()) };
            assert_eq!(unfit_volumes(&named).is_none(), fine && !path.contains('/'), "{path:?}");
        }
    }
}
