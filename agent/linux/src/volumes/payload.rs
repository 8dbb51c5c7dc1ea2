//! The files of a config map, a secret or the downward API: several that change as one.
//!
//! A volume holds a directory for each version, a link `..data` to the one that counts, and for each name at the top a
//! link through it. A new version is written beside the old one; then `..data` is renamed over, which is the one step that
//! readers can see. Guests follow links that stay inside their volume.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use coracle_model::VolumeFile;

/// The link to the version that counts.
const CURRENT: &str = "..data";
/// The same, before it counts.
const NEXT: &str = "..data_tmp";

/// Makes the volume hold exactly these files. Where it does already, nothing is written.
pub(super) fn write(volume: &Path, files: &[VolumeFile]) -> io::Result<()> {
    let current = volume.join(CURRENT);
    let held = fs::read_link(&current).ok();
    if held.is_none() || !holds(&current, files) {
        let before = held.as_deref().and_then(Path::to_str).and_then(number).unwrap_or_default();
        let version = format!("..{}", before.wrapping_add(1));
        let fresh = volume.join(&version);
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        DirBuilder::new().mode(0o700).create(&fresh)?;
        for file in files {
            create(&fresh, file)?;
        }
        let next = volume.join(NEXT);
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(&version, &next)?;
        fs::rename(&next, &current)?;
    }
    tidy(volume, files)
}

/// The number of a version's directory.
fn number(version: &str) -> Option<u64> {
    version.strip_prefix("..")?.parse().ok()
}

/// A mode with which the agent, which may not be root, can still read the file for the guest.
const fn readable(mode: u32) -> u32 {
    mode & 0o777 | 0o400
}

fn create(version: &Path, file: &VolumeFile) -> io::Result<()> {
    let path = version.join(&file.path);
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    made.write_all(&file.bytes)?;
    made.set_permissions(Permissions::from_mode(readable(file.mode)))
}

/// Whether a version holds these files and no others.
fn holds(version: &Path, files: &[VolumeFile]) -> bool {
    let mut found = BTreeMap::new();
    if read(version, "", &mut found).is_err() || found.len() != files.len() {
        return false;
    }
    files.iter().all(|file| {
        found.get(&file.path).is_some_and(|(bytes, mode)| *bytes == file.bytes && *mode == readable(file.mode))
    })
}

fn read(directory: &Path, prefix: &str, found: &mut BTreeMap<String, (Vec<u8>, u32)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| io::ErrorKind::InvalidData)?;
        let path = format!("{prefix}{name}");
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            read(&entry.path(), &format!("{path}/"), found)?;
        } else {
            found.insert(path, (fs::read(entry.path())?, metadata.permissions().mode() & 0o777));
        }
    }
    Ok(())
}

/// Links for every name at the top, and nothing that is left of former versions.
fn tidy(volume: &Path, files: &[VolumeFile]) -> io::Result<()> {
    let tops: BTreeSet<&str> = files.iter().filter_map(|file| file.path.split('/').next()).collect();
    for top in &tops {
        match symlink(Path::new(CURRENT).join(top), volume.join(top)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let current = fs::read_link(volume.join(CURRENT))?;
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_str().unwrap_or_default();
        if text == CURRENT || *name == *current || tops.contains(text) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
