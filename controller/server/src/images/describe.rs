//! What an image is, what it needs and what it gives: read out of it once, by the compiler's process.

use std::io;
use std::path::{Path, PathBuf};

use coracle_model::Digest;
use serde::{Deserialize, Serialize};
use wasmparser::component_types::{ComponentAnyTypeId, ComponentEntityType};
use wasmparser::types::Types;
use wasmparser::{Parser, Payload, Validator, WasmFeatures};

use super::adapt::{ADAPTER_REVISION, Form, adapt, form};
use crate::data_dir::write_durably;

/// Imports, and exports, that are kept; a component with more is refused.
const MAX_NAMES: usize = 1024;

/// An image, as its author made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// What was pushed.
    pub form: Form,
    /// What a node must offer, in order: `wasi:cli/environment@0.2.3`. Of a core module, what its component imports.
    pub imports: Vec<String>,
    /// What it offers itself, in order: `wasi:cli/run@0.2.3`.
    pub exports: Vec<String>,
}

/// Reads it. This is work on somebody's input, so it is done in a process with limits.
pub(super) fn describe(wasm: Vec<u8>) -> Result<Description, String> {
    let form = form(&wasm).map_err(|error| error.to_string())?;
    let invalid = |error: wasmparser::BinaryReaderError| format!("the image is not valid WebAssembly: {error}");
    if form == Form::Module {
        Validator::new_with_features(WasmFeatures::all()).validate_all(&wasm).map_err(invalid)?;
    }
    let component = adapt(wasm).map_err(|error| error.to_string())?;
    let types = Validator::new_with_features(WasmFeatures::all()).validate_all(&component).map_err(invalid)?;
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(&component) {
        match payload.map_err(invalid)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let name = import.map_err(invalid)?.name.name;
                    if needs_somebody(&types, name) {
                        imports.push(name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export.map_err(invalid)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    if imports.len() > MAX_NAMES || exports.len() > MAX_NAMES {
        return Err(format!("the component has more than {MAX_NAMES} imports or exports"));
    }
    imports.sort_unstable();
    exports.sort_unstable();
    Ok(Description { form, imports, exports })
}

/// Whether the linker must have something for this import: interfaces of nothing but plain types need nobody.
fn needs_somebody(types: &Types, name: &str) -> bool {
    let is_plain = |entity: &ComponentEntityType| match entity {
        ComponentEntityType::Type { created, .. } => !matches!(created, ComponentAnyTypeId::Resource(_)),
        _ => false,
    };
    let types = types.as_ref();
    match types.component_item_for_import(name).map(|item| item.ty) {
        Some(ComponentEntityType::Instance(instance)) => {
            !types[instance].exports.values().all(|item| is_plain(&item.ty))
        }
        Some(entity) => !is_plain(&entity),
        None => true,
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    /// The adapter decides about the imports of a core module.
    adapter: u32,
    #[serde(flatten)]
    description: Description,
}

fn path(folder: &Path, image: Digest) -> PathBuf {
    folder.join(format!("{}.json", image.hex()))
}

/// What is kept of an image; `None` when it is to be read again.
pub(super) fn load(folder: &Path, image: Digest) -> Option<Description> {
    let stored: Stored = serde_json::from_slice(&std::fs::read(path(folder, image)).ok()?).ok()?;
    (stored.adapter == ADAPTER_REVISION).then_some(stored.description)
}

/// Keeps it.
pub(super) fn save(folder: &Path, image: Digest, description: &Description) -> io::Result<()> {
    let stored = Stored { adapter: ADAPTER_REVISION, description: description.clone() };
    write_durably(&path(folder, image), &serde_json::to_vec(&stored)?)
}

/// Forgets it.
pub(super) fn remove(folder: &Path, image: Digest) {
    // What stays is of no harm: it is true as long as there is such an image.
    let _: io::Result<()> = std::fs::remove_file(path(folder, image));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tests::{COMPONENT_BYTES, MODULE_BYTES};

    // EDGE-02
    #[test]
    fn a_component_says_what_it_needs_and_what_it_gives() {
        let found = describe(COMPONENT_BYTES.to_vec()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.form, Form::Component);
        assert!(found.exports.iter().any(|name| name.starts_with("wasi:cli/run@0.2.")), "{found:?}");
        for name in ["wasi:cli/stdout@0.2.", "coracle:lifecycle/termination"] {
            assert!(found.imports.iter().any(|import| import.starts_with(name)), "{name} in {found:?}");
        }
    }

    #[test]
    fn a_module_needs_what_its_component_needs() {
        let found = describe(MODULE_BYTES.to_vec()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.form, Form::Module);
        assert!(found.imports.iter().all(|import| import.starts_with("wasi:")), "{found:?}");
        assert!(found.imports.iter().any(|import| import.starts_with("wasi:cli/")), "{found:?}");
    }

    #[test]
    fn what_only_begins_as_webassembly_is_refused() {
        for bytes in [&COMPONENT_BYTES[..COMPONENT_BYTES.len() / 2], &MODULE_BYTES[..MODULE_BYTES.len() / 2]] {
            let error = describe(bytes.to_vec()).expect_err("it is refused");
            assert!(error.contains("not valid WebAssembly"), "{error}");
        }
    }
}
