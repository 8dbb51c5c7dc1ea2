//! Layers that are archives: the way container tools pack a WebAssembly file into an image.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use coracle_model::limits::MAX_IMAGE_BYTES;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::SourceError;

/// What all layers of an image may unpack to, in bytes.
const MAX_UNPACKED_BYTES: u64 = 2 * MAX_IMAGE_BYTES as u64;
/// Entries of all archives of an image.
const MAX_ENTRIES: usize = 4096;
/// Files that begin as WebAssembly does.
const MAX_FILES: usize = 16;
/// A name with this prefix says that the file behind it, from a lower layer, is gone.
const WHITEOUT: &str = ".wh.";
const MAGIC: &[u8; 4] = b"\0asm";

/// How a layer is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Tar,
    TarGzip,
}

/// The WebAssembly files of the layers so far, by path.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    files: BTreeMap<String, Vec<u8>>,
    read_bytes: u64,
    entries: usize,
}

impl Unpacked {
    /// Unpacks one more layer over those before.
    pub(super) fn add(&mut self, layer: &[u8], packing: Packing) -> Result<(), SourceError> {
        let refused = |error: io::Error| SourceError::Layer(error.to_string());
        let mut unpacked = Bounded { left: MAX_UNPACKED_BYTES - self.read_bytes, reader: plain(layer, packing) };
        let mut archive = tar::Archive::new(&mut unpacked);
        for entry in archive.entries().map_err(refused)? {
            let mut entry = entry.map_err(refused)?;
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(SourceError::Layer(format!("it has more than {MAX_ENTRIES} entries")));
            }
            let path = normal(&entry.path().map_err(refused)?);
            if let Some(gone) = whiteout(&path) {
                self.files.remove(&gone);
                continue;
            }
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let mut bytes = Vec::new();
            (&mut entry).take(MAGIC.len() as u64).read_to_end(&mut bytes).map_err(refused)?;
            if bytes != MAGIC {
                self.files.remove(&path);
                continue;
            }
            let most = MAX_IMAGE_BYTES as u64;
            entry.take(most).read_to_end(&mut bytes).map_err(refused)?;
            if bytes.len() > MAX_IMAGE_BYTES {
                return Err(SourceError::TooLarge { what: "a file in the layer", found: bytes.len() as u64, most });
            }
            self.files.insert(path, bytes);
            if self.files.len() > MAX_FILES {
                return Err(SourceError::Layer(format!("it has more than {MAX_FILES} WebAssembly files")));
            }
        }
        self.read_bytes = MAX_UNPACKED_BYTES - unpacked.left;
        Ok(())
    }

    /// The file that the image starts, or the only one.
    pub(super) fn pick(mut self, entrypoint: Option<&str>) -> Result<Vec<u8>, SourceError> {
        if let Some(file) = entrypoint.and_then(|path| self.files.remove(&normal(Path::new(path)))) {
            return Ok(file);
        }
        let names: Vec<String> = self.files.keys().cloned().collect();
        match (self.files.pop_first(), self.files.is_empty()) {
            (Some((_, only)), true) => Ok(only),
            (None, _) => Err(SourceError::NoWasm("no file of its layers begins with \\0asm".to_owned())),
            (Some(_), false) => Err(SourceError::NoWasm(format!(
                "its entrypoint is none of the WebAssembly files in it, which are {}",
                names.join(", ")
            ))),
        }
    }
}

/// What an image's configuration says that it starts: the first word of its entrypoint, else of its command.
pub(super) fn entrypoint(configuration: &[u8]) -> Option<String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Start {
        entrypoint: Option<Vec<String>>,
        cmd: Option<Vec<String>>,
    }
    #[derive(Deserialize)]
    struct Configuration {
        config: Option<Start>,
    }
    // A configuration that says nothing of the kind is as good as one that cannot be read: the only file is taken.
    let start = serde_json::from_slice::<Configuration>(configuration).ok()?.config?;
    let first = |words: Option<Vec<String>>| words.and_then(|words| words.into_iter().next());
    first(start.entrypoint).or_else(|| first(start.cmd))
}

fn plain<'a>(layer: &'a [u8], packing: Packing) -> Box<dyn Read + 'a> {
    match packing {
        Packing::Tar => Box::new(layer),
        Packing::TarGzip => Box::new(MultiGzDecoder::new(layer)),
    }
}

/// A path from the root of the image, with nothing in it that leads elsewhere.
fn normal(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        std::path::Component::Normal(part) => Some(part.to_string_lossy()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The path that a whiteout removes.
fn whiteout(path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let gone = name.strip_prefix(WHITEOUT)?;
    Some(if folder.is_empty() { gone.to_owned() } else { format!("{folder}/{gone}") })
}

/// Fails once more has been read than an image may unpack to.
struct Bounded<R> {
    left: u64,
    reader: R,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other(format!("it unpacks to more than {} MiB", MAX_UNPACKED_BYTES >> 20)))?;
        Ok(count)
    }
}
