//! Guests in WebAssembly's text form: modules and components that no compiler would make.

use std::path::{Path, PathBuf};

/// What makes bytes of them; its release is in the lock file.
pub(super) const RECIPE: &str = "wat";

/// Where a guest's text is.
pub(super) fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join("text").join(name).with_extension("wat")
}

/// Translates one text.
pub(super) fn build(folder: &Path, name: &str) -> Result<Vec<u8>, String> {
    // The error names file, line and column.
    wat::parse_file(file(folder, name)).map_err(|error| format!("failed to translate {name}: {error}"))
}
