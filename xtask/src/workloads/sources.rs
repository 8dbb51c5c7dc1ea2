//! What each committed guest was built from: a hash of its sources, and of the file itself.
//!
//! Both are recorded, because either may change alone: sources without a build, or a file without its sources.

use super::{Crate, Guest, Source, text, toolchain};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

const HEADER: &str = "# What workloads/built was built from; written by `cargo xtask workloads`.\n\
                      # sha256 of the sources, sha256 of the file, name\n";

/// One line of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) sources: String,
    pub(super) file: String,
}

/// The file `built/SOURCES`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) entries: Vec<Entry>,
}

impl Record {
    /// Reads the record; one that does not exist is an empty one, so that everything counts as out of date.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        match fs::read_to_string(path) {
            Ok(text) => Self::from_text(&text).map_err(|error| format!("failed to read {}: {error}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("failed to read {}: {error}", path.display())),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let [sources, file, name] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(format!("{line:?} has not the form `SOURCES-SHA256 FILE-SHA256 NAME`"));
            };
            entries.push(Entry { name: name.into(), sources: sources.into(), file: file.into() });
        }
        Ok(Self { entries })
    }

    pub(super) fn to_text(&self) -> String {
        let lines = self.entries.iter().map(|entry| format!("{} {} {}\n", entry.sources, entry.file, entry.name));
        HEADER.to_string() + &lines.collect::<String>()
    }
}

/// The hash of everything that decides a guest's bytes. Manifests for Kubernetes and READMEs are no part of it.
pub(super) fn hash(folder: &Path, guest: &Guest) -> Result<String, String> {
    let (files, recipe) = match &guest.source {
        Source::Rust(parts) => (packages(folder, parts)?, toolchain::recipe_text(parts)),
        Source::Text => (vec![text::file(folder, guest.name)], text::RECIPE.to_string()),
    };
    let mut hasher = Sha256::new();
    let mut add = |name: &str, content: &[u8]| {
        // Lengths first, so that no two sets of files read as the same bytes.
        hasher.update(format!("{} {} ", name.len(), content.len()));
        hasher.update(name);
        hasher.update(content);
    };
    for path in files {
        let content = fs::read(&path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
        let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        add(&name, &content);
    }
    add("recipe", recipe.as_bytes());
    Ok(hex(&hasher.finalize()))
}

/// What a guest in Rust is made of: its packages, the shared WIT text, the workspace's manifest and lock file.
fn packages(folder: &Path, parts: &Crate) -> Result<Vec<PathBuf>, String> {
    let mut files = vec![folder.join("Cargo.toml"), folder.join("Cargo.lock")];
    for package in toolchain::packages(parts) {
        files.push(folder.join(package).join("Cargo.toml"));
        collect(&folder.join(package).join("src"), &mut files)?;
    }
    collect(&folder.join("wit"), &mut files)?;
    files.sort();
    Ok(files)
}

/// The hash of a file's bytes.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("failed to read {}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_survives_writing_and_reading() {
        let entry = |name: &str| Entry { name: name.into(), sources: sha256(b"a"), file: sha256(b"b") };
        let record = Record { entries: vec![entry("hello-1"), entry("spin")] };
        assert_eq!(Record::from_text(&record.to_text()), Ok(record));
    }

    #[test]
    fn a_line_of_another_form_is_refused_with_what_was_found() {
        let message = Record::from_text("abc spin\n").unwrap_err();
        assert!(message.contains("abc spin"), "{message}");
    }

    #[test]
    fn a_hash_is_hexadecimal_sha256() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
