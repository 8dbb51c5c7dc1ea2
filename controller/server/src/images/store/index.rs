//! The file with the names of images.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use coracle_model::Digest;
use serde::{Deserialize, Serialize};

use crate::data_dir::write_durably;
use crate::images::ImagesError;

/// The layout of the index; a newer one is refused.
const VERSION: u32 = 1;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) digest: Digest,
    pub(super) size_bytes: u64,
    /// Of an image that was pulled: the digest that its registry knows it by.
    pub(super) manifest: Option<Digest>,
}

/// Every name that is not built in.
pub(super) type Names = BTreeMap<String, Row>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    version: u32,
    names: BTreeMap<String, Stored>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    digest: String,
    size_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    manifest: Option<String>,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Names, ImagesError> {
    let damaged = |what: String| ImagesError::Damaged { path: path.to_owned(), what };
    let index: Index = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if index.version != VERSION {
        return Err(damaged(format!("it has version {}, and this build knows {VERSION}", index.version)));
    }
    let rows = index.names.into_iter().map(|(name, row)| {
        let parse = |text: &str| text.parse().map_err(|error| damaged(format!("the digest of {name}: {error}")));
        let manifest = row.manifest.as_deref().map(parse).transpose()?;
        let row = Row { digest: parse(&row.digest)?, size_bytes: row.size_bytes, manifest };
        Ok((name, row))
    });
    rows.collect()
}

pub(super) fn write(path: &Path, names: &Names) -> io::Result<()> {
    let stored = |row: &Row| Stored {
        digest: row.digest.to_string(),
        size_bytes: row.size_bytes,
        manifest: row.manifest.map(|manifest| manifest.to_string()),
    };
    let names = names.iter().map(|(name, row)| (name.clone(), stored(row))).collect();
    write_durably(path, &serde_json::to_vec_pretty(&Index { version: VERSION, names })?)
}
