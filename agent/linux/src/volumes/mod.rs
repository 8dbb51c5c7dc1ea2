//! Lays out the volumes of pods, and takes them away again (VOL-01).
//!
//! *In:* pods, as the core has them. *Out:* directories that a container finds open, and which pods use more than they
//! may. *Must never know:* phases, restarts, what a guest does with its files.
//! *Tested:* on real directories, beside the code; with guests end to end.
//!
//! What a pod writes lies in `pods/<uid>/volumes/<name>` of the data directory. What the controller sent it to read, and
//! directories with `medium: Memory`, lie in a directory of the same form in memory (`memory`), so that neither secrets
//! nor changes of configuration reach the flash; without such memory they lie on the disk as well. Everything here can be
//! done twice: a start, an update and a removal each find out what there is.

mod beneath;
mod memory;
mod mounts;
mod payload;
mod survey;
mod surveyor;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coracle_agent_core::Remembered;
use coracle_model::{Container, InstanceId, Pod, PodUid, Volume, VolumeSource};

pub use self::survey::{Subject, Verdict, survey};
pub use self::surveyor::{Surveyor, Turn};
use crate::runtime::{DiskQuota, Preopen};
use crate::space::Space;

/// What one pod may take of a disk or a memory if it does not say itself: this part of the whole.
const PODS_SHARE: u64 = 10;
/// What is never given to pods, of a disk or a memory: this part of the whole.
const KEPT_SHARE: u64 = 20;
/// Files, directories and links that one pod may have.
const MAX_FILES: u64 = 65_536;
/// A volume with a size may have a file for so many bytes of it: files take room even when they are empty.
const BYTES_PER_FILE: u64 = 1024;

/// A volume that cannot be laid out.
#[derive(Debug, thiserror::Error)]
#[error("volume {volume}: {why}")]
pub struct MountError {
    /// Its name.
    pub volume: String,
    /// Why.
    pub why: String,
}

impl MountError {
    fn of(volume: &str) -> impl Fn(io::Error) -> Self {
        let volume = volume.to_owned();
        move |error| Self { volume: volume.clone(), why: error.to_string() }
    }
}

/// What the volumes of one pod hold, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// In memory.
    pub memory_bytes: u64,
    /// On the disk.
    pub disk_bytes: u64,
}

/// A disk, or a memory.
#[derive(Debug)]
struct Place {
    /// Each pod has a directory in it, named by its uid.
    root: PathBuf,
    /// All pods together.
    whole: Arc<DiskQuota>,
    pod_bytes: u64,
}

/// One pod's part.
#[derive(Debug, Default)]
struct LaidOut {
    volumes: BTreeMap<String, Laid>,
    disk: Option<Arc<DiskQuota>>,
    memory: Option<Arc<DiskQuota>>,
    /// Directories below volumes, kept open for as long as a container may be started in them.
    held: BTreeMap<String, Vec<OwnedFd>>,
    /// `limits` of `ephemeral-storage`, together; zero for none.
    storage_bytes: u64,
}

/// One volume.
#[derive(Debug)]
struct Laid {
    path: PathBuf,
    in_memory: bool,
    /// What containers may write into it; nothing for a volume that is only read.
    quota: Option<Arc<DiskQuota>>,
    /// `sizeLimit`; zero for none.
    limit_bytes: u64,
}

/// All volumes of one agent.
#[derive(Debug)]
pub struct Volumes {
    disk: Place,
    memory: Option<Place>,
    pods: HashMap<PodUid, LaidOut>,
    /// Pods whose files could not be brought up to date; tried again with each survey.
    behind: BTreeMap<PodUid, Pod>,
    /// Counts directories that were put aside to be removed.
    removed: u64,
}

impl Volumes {
    /// Opens the volumes of an agent that starts with this memory: those of pods that have ended go. Those of pods that
    /// the memory does not know stay until [`Self::tear_down_others`].
    #[must_use]
    pub fn remembered(data_dir: &Path, instance: InstanceId, remembered: &Remembered) -> Self {
        Self::open(data_dir, instance, &remembered.finished.iter().map(|status| status.uid).collect(), Space::around)
    }

    /// Opens the volumes in a data directory, and in memory where there is some; `space` finds the room of either. Those
    /// of the pods in `ended` go.
    fn open(
        data_dir: &Path,
        instance: InstanceId,
        ended: &BTreeSet<PodUid>,
        space: impl Fn(&Path) -> Option<Space>,
    ) -> Self {
        let memory = memory::find(instance).map(|root| Place::open(root, ended, &space));
        Self {
            disk: Place::open(data_dir.join("pods"), ended, &space),
            memory,
            pods: HashMap::new(),
            behind: BTreeMap::new(),
            removed: 0,
        }
    }

    /// Makes sure of every volume of a pod, and gives the directories that one of its containers finds.
    ///
    /// # Errors
    /// When the disk does not take one of them, or a mount names something that is not there.
    pub fn lay_out(&mut self, pod: &Pod, container: &Container) -> Result<Vec<Preopen>, MountError> {
        if pod.volumes.is_empty() {
            return Ok(Vec::new());
        }
        let mut laid_out = self.pods.remove(&pod.uid).unwrap_or_default();
        laid_out.storage_bytes = pod.containers.iter().map(|container| container.limits.storage_bytes).sum();
        let result = self.lay_out_in(&mut laid_out, pod, container);
        self.pods.insert(pod.uid, laid_out);
        result
    }

    fn lay_out_in(&self, to: &mut LaidOut, pod: &Pod, container: &Container) -> Result<Vec<Preopen>, MountError> {
        for volume in &pod.volumes {
            if let Some(memory) = &self.memory {
                memory::claim(&memory.root).map_err(MountError::of(&volume.name))?;
            }
            self.lay_out_one(to, pod, volume)?;
        }
        let place = self.memory.as_ref().unwrap_or(&self.disk);
        let copies = place.of(pod.uid).join("subpaths").join(&container.name);
        to.held.remove(&container.name);
        let mounted = mounts::resolve(pod, container, &to.volumes, &copies)?;
        to.held.insert(container.name.clone(), mounted.held);
        Ok(mounted.preopens)
    }

    fn lay_out_one(&self, to: &mut LaidOut, pod: &Pod, volume: &Volume) -> Result<(), MountError> {
        let failed = MountError::of(&volume.name);
        match &volume.source {
            VolumeSource::EmptyDir { in_memory, size_limit_bytes } => {
                if to.volumes.contains_key(&volume.name) {
                    return Ok(());
                }
                let in_memory = *in_memory && self.memory.is_some();
                let place = if in_memory { self.memory.as_ref().unwrap_or(&self.disk) } else { &self.disk };
                let path = place.volume(pod.uid, &volume.name);
                let existed = path.is_dir();
                make(&path).map_err(&failed)?;
                let share = if in_memory { &mut to.memory } else { &mut to.disk };
                let share = share.get_or_insert_with(|| place.share(pod, in_memory));
                let quota = DiskQuota::within(share, *size_limit_bytes, files_in(*size_limit_bytes));
                if existed {
                    quota.recount(&path).map_err(&failed)?;
                }
                let laid = Laid { path, in_memory, quota: Some(quota), limit_bytes: *size_limit_bytes };
                to.volumes.insert(volume.name.clone(), laid);
            }
            VolumeSource::Files(files) => {
                let place = self.memory.as_ref().unwrap_or(&self.disk);
                let path = place.volume(pod.uid, &volume.name);
                make(&path).and_then(|()| payload::write(&path, files)).map_err(&failed)?;
                let laid = Laid { path, in_memory: self.memory.is_some(), quota: None, limit_bytes: 0 };
                to.volumes.insert(volume.name.clone(), laid);
            }
            // What was laid out stays, as long as the controller has nothing better.
            VolumeSource::Unavailable(why) if !to.volumes.contains_key(&volume.name) => {
                return Err(MountError { volume: volume.name.clone(), why: why.clone() });
            }
            VolumeSource::Unavailable(_) => {}
        }
        Ok(())
    }

    /// Brings the files of a pod's volumes up to date; each volume changes in one step. What the disk does not take is
    /// tried again by [`Self::catch_up`].
    pub fn refresh(&mut self, pod: &Pod) {
        match self.refresh_files(pod) {
            Ok(()) => drop(self.behind.remove(&pod.uid)),
            Err(error) => {
                tracing::warn!(pod = %pod.uid, %error, "failed to update the files of a volume; trying again");
                self.behind.insert(pod.uid, pod.clone());
            }
        }
    }

    fn refresh_files(&self, pod: &Pod) -> Result<(), MountError> {
        let Some(laid_out) = self.pods.get(&pod.uid) else { return Ok(()) };
        for volume in &pod.volumes {
            if let (VolumeSource::Files(files), Some(laid)) = (&volume.source, laid_out.volumes.get(&volume.name)) {
                payload::write(&laid.path, files).map_err(MountError::of(&volume.name))?;
            }
        }
        Ok(())
    }

    /// Tries again what [`Self::refresh`] could not do.
    pub fn catch_up(&mut self) {
        for pod in std::mem::take(&mut self.behind).into_values() {
            self.refresh(&pod);
        }
    }

    /// Whether there is anything to look at from time to time: a volume with a limit, or files that are behind.
    #[must_use]
    pub fn wants_survey(&self) -> bool {
        !self.behind.is_empty() || self.pods.values().any(LaidOut::is_limited)
    }

    /// What is to be measured: the volumes with a limit of their own, and those of pods with a limit.
    #[must_use]
    pub fn subjects(&self) -> Vec<Subject> {
        let limited = self.pods.iter().filter(|(_, laid_out)| laid_out.is_limited());
        limited.map(|(uid, laid_out)| laid_out.subject(*uid)).collect()
    }

    /// What the volumes of each pod hold by the writing of its guests.
    pub fn uses(&self) -> impl Iterator<Item = (PodUid, Use)> {
        let used = |quota: &Option<Arc<DiskQuota>>| quota.as_ref().map_or(0, |quota| quota.used_bytes());
        self.pods.iter().map(move |(pod, laid_out)| {
            (*pod, Use { memory_bytes: used(&laid_out.memory), disk_bytes: used(&laid_out.disk) })
        })
    }

    /// Nothing of this pod runs, or will: its volumes go. The result is what takes the time.
    #[must_use]
    pub fn tear_down(&mut self, uid: PodUid) -> Option<Rubbish> {
        self.pods.remove(&uid);
        self.behind.remove(&uid);
        let mut rubbish = Rubbish(Vec::new());
        for place in [Some(&self.disk), self.memory.as_ref()].into_iter().flatten() {
            let aside = place.root.join(format!("gone-{}", self.removed));
            self.removed += 1;
            if fs::rename(place.of(uid), &aside).is_ok() {
                rubbish.0.push(aside);
            }
        }
        (!rubbish.0.is_empty()).then_some(rubbish)
    }

    /// Nobody but the pods in `held` will ever run here: what others left goes, as in [`Self::tear_down`].
    #[must_use]
    pub fn tear_down_others(&mut self, held: &BTreeSet<PodUid>) -> Option<Rubbish> {
        let places = [Some(&self.disk), self.memory.as_ref()].into_iter().flatten();
        let others: BTreeSet<PodUid> = places.flat_map(Place::pods).filter(|uid| !held.contains(uid)).collect();
        let rubbish: Vec<PathBuf> =
            others.into_iter().filter_map(|uid| self.tear_down(uid)).flat_map(|rubbish| rubbish.0).collect();
        (!rubbish.is_empty()).then_some(Rubbish(rubbish))
    }

    /// The agent ends. Files that it can write again go from memory, so that nothing stays there for want of a pod.
    pub fn close(self) {
        let Some(memory) = self.memory else { return };
        for (uid, laid_out) in &self.pods {
            let _ = fs::remove_dir_all(memory.of(*uid).join("subpaths"));
            for laid in laid_out.volumes.values().filter(|laid| laid.in_memory && laid.quota.is_none()) {
                let _ = fs::remove_dir_all(&laid.path);
            }
            let _ = fs::remove_dir(memory.of(*uid).join("volumes"));
            let _ = fs::remove_dir(memory.of(*uid));
        }
        // It stays if something is left in it.
        let _ = fs::remove_dir(&memory.root);
    }
}

impl LaidOut {
    fn is_limited(&self) -> bool {
        let writable = |laid: &Laid| laid.quota.is_some() && (laid.limit_bytes > 0 || self.storage_bytes > 0);
        self.volumes.values().any(writable)
    }

    fn subject(&self, pod: PodUid) -> Subject {
        let writable = self.volumes.iter().filter(|(_, laid)| laid.quota.is_some());
        let volumes = writable.map(|(name, laid)| survey::Measured {
            name: name.clone(),
            path: laid.path.clone(),
            on_disk: !laid.in_memory,
            limit_bytes: laid.limit_bytes,
        });
        Subject { pod, volumes: volumes.collect(), limit_bytes: self.storage_bytes }
    }
}

impl Place {
    /// Removes what belongs to no pod, or to one of `ended`, and finds out how much there is to give.
    fn open(root: PathBuf, ended: &BTreeSet<PodUid>, space: impl Fn(&Path) -> Option<Space>) -> Self {
        let mut held_bytes = 0;
        for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
            if pod_of(&entry).is_some_and(|uid| !ended.contains(&uid)) {
                held_bytes += survey::bytes_in(&entry.path()).unwrap_or_default();
            } else if let Err(error) = fs::remove_dir_all(entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "failed to remove what a former pod left");
            }
        }
        let parent = root.parent().unwrap_or(&root);
        let Space { total_bytes, free_bytes } =
            space(parent).unwrap_or(Space { total_bytes: u64::MAX, free_bytes: u64::MAX });
        let for_pods = free_bytes.saturating_add(held_bytes).saturating_sub(total_bytes / KEPT_SHARE).max(1);
        Self { root, whole: DiskQuota::new(for_pods, 0), pod_bytes: (total_bytes / PODS_SHARE).max(1) }
    }

    /// All pods that have a directory here.
    fn pods(&self) -> impl Iterator<Item = PodUid> {
        fs::read_dir(&self.root).into_iter().flatten().flatten().filter_map(|entry| pod_of(&entry))
    }

    fn of(&self, uid: PodUid) -> PathBuf {
        self.root.join(uid.to_string())
    }

    fn volume(&self, uid: PodUid, name: &str) -> PathBuf {
        self.of(uid).join("volumes").join(name)
    }

    /// What all volumes of one pod may hold together: its own limit, or the node's.
    fn share(&self, pod: &Pod, in_memory: bool) -> Arc<DiskQuota> {
        let limits = pod.containers.iter().map(|container| match in_memory {
            true => container.limits.memory_bytes,
            false => container.limits.storage_bytes,
        });
        let limit: u64 = limits.sum();
        // A size that somebody asked for is worth more than the node's guess.
        let bytes = if limit > 0 { limit } else { self.pod_bytes.max(stated_bytes(pod, in_memory)) };
        DiskQuota::within(&self.whole, bytes, MAX_FILES)
    }
}

/// How many files a volume of this size may have; zero for no bound of its own.
const fn files_in(size_limit_bytes: u64) -> u64 {
    size_limit_bytes.div_ceil(BYTES_PER_FILE)
}

/// The sum of the sizes that a pod states for its volumes.
fn stated_bytes(pod: &Pod, of_memory: bool) -> u64 {
    let sizes = pod.volumes.iter().map(|volume| match volume.source {
        VolumeSource::EmptyDir { in_memory, size_limit_bytes } if in_memory == of_memory => size_limit_bytes,
        _ => 0,
    });
    sizes.fold(0, u64::saturating_add)
}

/// Whose directory it is; nobody's if its name is not the uid of a pod.
fn pod_of(entry: &fs::DirEntry) -> Option<PodUid> {
    entry.file_name().to_str()?.parse().ok()
}

/// A directory that only this user enters, with those above it.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Directories that nothing uses any more.
#[derive(Debug)]
pub struct Rubbish(Vec<PathBuf>);

impl Rubbish {
    /// Removes them; this may take a while. What cannot be removed goes when the agent is started next.
    pub fn remove(self) {
        for path in self.0 {
            if let Err(error) = fs::remove_dir_all(&path) {
                tracing::warn!(path = %path.display(), %error, "failed to remove the volumes of a pod");
            }
        }
    }
}
