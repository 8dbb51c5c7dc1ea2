//! How many files and connections this process may have open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, and gives what is possible now: every agent is a connection, and the usual soft
/// limit of 1024 is for programs that use `select`.
pub(crate) fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: maximum, maximum };
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        tracing::warn!(%error, "failed to raise the limit of open files");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
