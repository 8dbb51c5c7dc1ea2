//! From `volumeMounts` to directories that a guest finds open.
//!
//! A component is given directories, not files. So a mount of one file (`subPath`) becomes a directory with that file in
//! it, where the file's parent is; several such files in one parent share it. What is mounted from below a volume that is
//! only read is copied at each start, and stays as it is while the container runs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use coracle_model::{Container, Pod, VolumeFile, VolumeMount, VolumeSource};

use super::{Laid, MountError, beneath, make, payload};
use crate::runtime::Preopen;

/// What a container gets.
#[derive(Default)]
pub(super) struct Mounted {
    pub(super) preopens: Vec<Preopen>,
    /// To be kept open for as long as the container may be started.
    pub(super) held: Vec<OwnedFd>,
}

/// Resolves every mount of a container. `copies` is a directory for what a mount needs of its own.
pub(super) fn resolve(
    pod: &Pod,
    container: &Container,
    volumes: &BTreeMap<String, Laid>,
    copies: &Path,
) -> Result<Mounted, MountError> {
    match fs::remove_dir_all(copies) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let volume = container.mounts.first().map_or_else(String::new, |mount| mount.volume.clone());
            return Err(MountError::of(&volume)(error));
        }
        _ => {}
    }
    let mut work = Work { copies, parents: BTreeMap::new(), mounted: Mounted::default() };
    for mount in &container.mounts {
        let failed = MountError::of(&mount.volume);
        let Some(laid) = volumes.get(&mount.volume) else {
            return Err(failed(io::Error::other("it is not laid out")));
        };
        let files = pod.volumes.iter().find(|volume| volume.name == mount.volume).map(|volume| &volume.source);
        match files {
            _ if mount.sub_path.is_empty() => work.add(mount, laid, laid.path.clone()),
            Some(VolumeSource::EmptyDir { .. }) => work.below_directory(mount, laid).map_err(failed)?,
            Some(VolumeSource::Files(files)) => work.below_files(mount, laid, files).map_err(failed)?,
            _ => return Err(failed(io::Error::other("what is mounted of it is not available"))),
        }
    }
    work.finish().map_err(|(volume, error)| MountError::of(&volume)(error))
}

struct Work<'a> {
    copies: &'a Path,
    /// Directories that hold single files, by their path in the guest.
    parents: BTreeMap<String, Parent>,
    mounted: Mounted,
}

struct Parent {
    host_path: PathBuf,
    volume: String,
}

impl Work<'_> {
    fn add(&mut self, mount: &VolumeMount, laid: &Laid, host_path: PathBuf) {
        let preopen = Preopen {
            host_path,
            guest_path: mount.path.clone(),
            read_only: mount.read_only || laid.quota.is_none(),
            quota: laid.quota.clone(),
        };
        // Of two mounts at one place, the later one is seen.
        self.mounted.preopens.retain(|other| other.guest_path != preopen.guest_path);
        self.mounted.preopens.push(preopen);
    }

    fn below_directory(&mut self, mount: &VolumeMount, laid: &Laid) -> io::Result<()> {
        let directory = beneath::descend(&laid.path, &mount.sub_path)?;
        self.add(mount, laid, beneath::path_of(&directory));
        self.mounted.held.push(directory);
        Ok(())
    }

    fn below_files(&mut self, mount: &VolumeMount, laid: &Laid, files: &[VolumeFile]) -> io::Result<()> {
        if let Some(file) = files.iter().find(|file| file.path == mount.sub_path) {
            let to = self.place_file(mount)?;
            return fs::write(to, &file.bytes);
        }
        let prefix = format!("{}/", mount.sub_path);
        let below: Vec<VolumeFile> = files
            .iter()
            .filter_map(|file| {
                let path = file.path.strip_prefix(&prefix)?.to_owned();
                Some(VolumeFile { path, bytes: file.bytes.clone(), mode: file.mode })
            })
            .collect();
        if below.is_empty() {
            return Err(io::Error::other(format!("there is no \"{}\" in it", mount.sub_path)));
        }
        let copy = self.copy();
        make(&copy)?;
        payload::write(&copy, &below)?;
        self.add(mount, laid, copy);
        Ok(())
    }

    /// A new directory for a mount of its own.
    fn copy(&self) -> PathBuf {
        self.copies.join((self.mounted.preopens.len() + self.parents.len()).to_string())
    }

    /// Where the host is to put a file so that the guest finds it at the mount's path.
    fn place_file(&mut self, mount: &VolumeMount) -> io::Result<PathBuf> {
        let (parent, name) = mount.path.rsplit_once('/').unwrap_or(("", &mount.path));
        if name.is_empty() {
            return Err(io::Error::other(format!("the file \"{}\" cannot be the root", mount.sub_path)));
        }
        let parent = if parent.is_empty() { "/" } else { parent };
        if let Some(entry) = self.parents.get(parent) {
            return Ok(entry.host_path.join(name));
        }
        let host_path = self.copy();
        make(&host_path)?;
        let to = host_path.join(name);
        self.parents.insert(parent.to_owned(), Parent { host_path, volume: mount.volume.clone() });
        Ok(to)
    }

    fn finish(mut self) -> Result<Mounted, (String, io::Error)> {
        for (guest_path, Parent { host_path, volume }) in self.parents {
            if self.mounted.preopens.iter().any(|other| other.guest_path == guest_path) {
                let words =
                    format!("no single file can be mounted into \"{guest_path}\": another volume is mounted there");
                return Err((volume, io::Error::other(words)));
            }
            self.mounted.preopens.push(Preopen { host_path, guest_path, read_only: true, quota: None });
        }
        Ok(self.mounted)
    }
}
