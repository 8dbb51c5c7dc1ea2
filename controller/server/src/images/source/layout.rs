//! A local OCI layout: a directory with `oci-layout`, `index.json` and `blobs/`, or a tar archive of one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::{MAX_MANIFEST_BYTES, SourceError, Step, Unfolding, Wanted};

/// Files of an archive that are looked at.
const MAX_FILES: usize = 65_536;
/// Where the magic of a tar archive is, and what it is.
const USTAR: (u64, &[u8; 5]) = (257, b"ustar");

/// Why a layout cannot be used. Texts fit after "failed to read PATH: ".
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A file cannot be read.
    #[error("{file} cannot be read")]
    Read {
        /// Within the layout.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is no such file.
    #[error("it is no OCI layout: {0} is missing")]
    Missing(String),
    /// The image in it cannot be used.
    #[error(transparent)]
    Image(#[from] SourceError),
}

/// Where the files of a layout are.
enum Files {
    Directory(PathBuf),
    /// The archive, and the place and size of each file.
    Archive(File, BTreeMap<PathBuf, (u64, u64)>),
}

/// Whether this is a directory, or begins as a tar archive does: then it is a layout and no WebAssembly file.
#[must_use]
pub fn is_layout(path: &Path) -> bool {
    if path.is_dir() {
        return true;
    }
    let mut magic = [0; 5];
    File::open(path).and_then(|file| file.read_exact_at(&mut magic, USTAR.0)).is_ok() && &magic == USTAR.1
}

/// The WebAssembly of the image in a layout. With several images the one for WebAssembly is taken.
///
/// # Errors
/// When it is no layout, something of it is missing or damaged, or it holds no WebAssembly.
pub fn read(path: &Path) -> Result<Vec<u8>, LayoutError> {
    let files = open(path)?;
    files.read("oci-layout", MAX_MANIFEST_BYTES)?;
    let mut unfolding = Unfolding::begin(&files.read("index.json", MAX_MANIFEST_BYTES)?)?;
    loop {
        let Wanted { digest, size_bytes, .. } = unfolding.wanted().clone();
        let bytes = files.read(&format!("blobs/sha256/{}", digest.hex()), size_bytes)?;
        match unfolding.take(bytes)? {
            Step::More(next) => unfolding = next,
            Step::Done(wasm) => return Ok(wasm),
        }
    }
}

fn open(path: &Path) -> Result<Files, LayoutError> {
    if path.is_dir() {
        return Ok(Files::Directory(path.to_owned()));
    }
    let failed = |source| LayoutError::Read { file: "the archive".to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mut places = BTreeMap::new();
    let mut archive = tar::Archive::new(file.try_clone().map_err(failed)?);
    for entry in archive.entries_with_seek().map_err(failed)?.take(MAX_FILES) {
        let entry = entry.map_err(failed)?;
        let name = entry.path().map_err(failed)?;
        let name = name.strip_prefix("./").unwrap_or(&name).to_owned();
        places.insert(name, (entry.raw_file_position(), entry.size()));
    }
    Ok(Files::Archive(file, places))
}

impl Files {
    /// A file of at most this size; one byte more is read of a larger one, so that it is found out.
    fn read(&self, name: &str, most: u64) -> Result<Vec<u8>, LayoutError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => LayoutError::Missing(name.to_owned()),
            _ => LayoutError::Read { file: name.to_owned(), source },
        };
        let mut bytes = Vec::new();
        match self {
            Self::Directory(path) => {
                let file = fs::File::open(path.join(name)).map_err(failed)?;
                file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
            }
            Self::Archive(file, places) => {
                let missing = || LayoutError::Missing(name.to_owned());
                let (start, size) = *places.get(Path::new(name)).ok_or_else(missing)?;
                bytes.resize(usize::try_from(size.min(most + 1)).unwrap_or(usize::MAX), 0);
                file.read_exact_at(&mut bytes, start).map_err(failed)?;
            }
        }
        Ok(bytes)
    }
}
