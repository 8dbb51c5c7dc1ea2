//! Programs that nobody here wrote: brokers and clients. `cargo xtask test` puts those that Debian's packages or the
//! Python index have into `target/tools`; one that is missing fails the test with the line to type.

use std::path::PathBuf;

use crate::programs::root;

/// Debian's `kubectl` 1.20 and a current one.
pub const KUBECTLS: [&str; 2] = ["kubectl-1.20", "kubectl-current"];

/// A tool by its name.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn tool(name: &str) -> PathBuf {
    let own = root().join("target/tools/bin").join(name);
    if own.exists() {
        return own;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = dirs.map(|dir| dir.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is not installed; run: cargo xtask tools"))
}
