//! Finds a directory below a volume into which guests write. They may put links there, or swap a directory for a link
//! while one looks; so each step is taken from the directory that is open, and no link is followed.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

/// Goes down from `root` to a directory, making those that are missing.
pub(super) fn descend(root: &Path, sub_path: &str) -> io::Result<OwnedFd> {
    let mut directory = open(CWD, root)?;
    for part in sub_path.split('/') {
        let next = match open(&directory, part) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&directory, part, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                open(&directory, part)
            }
            other => other,
        };
        directory = match next {
            Ok(next) => next,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(io::Error::other(format!("\"{part}\" of the sub path \"{sub_path}\" is no directory")));
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(directory)
}

fn open(at: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

/// A path that leads to this very directory, as long as it is open.
pub(super) fn path_of(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}
