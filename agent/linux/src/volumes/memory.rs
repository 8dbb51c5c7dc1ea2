//! Where volumes lie in memory: a directory of this agent's own in a file system that is memory.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use coracle_model::InstanceId;

/// What `statfs` calls a file system in memory.
const TMPFS: i64 = 0x0102_1994;

/// Where the agent's directory in memory is, or will be once [`claim`] makes it; nothing where there is no memory, or
/// somebody else was there first.
pub(super) fn find(instance: InstanceId) -> Option<PathBuf> {
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let bases = [Some(PathBuf::from("/dev/shm")), user];
    bases.into_iter().flatten().find_map(|base| {
        let path = base.join(format!("coracle-{instance}"));
        match usable(&base, &path) {
            Ok(()) => Some(path),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "no volumes in memory there");
                None
            }
        }
    })
}

fn usable(base: &Path, path: &Path) -> io::Result<()> {
    #[expect(clippy::useless_conversion, reason = "the type of this field differs between architectures")]
    let kind = i64::from(rustix::fs::statfs(base)?.f_type);
    if kind != TMPFS {
        return Err(io::Error::other("it is no memory"));
    }
    match is_own(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes sure that the directory is there and that nobody else can enter it.
pub(super) fn claim(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => is_own(path),
        other => other,
    }
}

fn is_own(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    if own { Ok(()) } else { Err(io::Error::other("somebody else made it")) }
}
