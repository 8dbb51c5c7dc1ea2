//! Whatever was pushed becomes a component: a core module for WASI preview 1 gets the standard adapter around it.
//!
//! The adapter keeps its state in the program's memory. It asks the program's export `cabi_realloc` for room, and where
//! there is none it grows the memory. An allocator that takes everything up to `memory.size` for its own when it is
//! first called, as that of wasi-libc of 2022 does, then overwrites that state. Understating `memory.size` to it would
//! be no way out: other allocators read it to learn where the memory begins that they are about to add, and would
//! overwrite the adapter in their turn. So a program with such a C library must export the function;
//! `workloads/adapter-memory` is how ours do.

mod exit_code;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use wasi_preview1_component_adapter_provider as adapters;
use wit_component::ComponentEncoder;

/// The first bytes of every WebAssembly file.
const MAGIC: &[u8; 4] = b"\0asm";
/// Version 1 of the layer of core modules.
const MODULE: &[u8; 4] = &[1, 0, 0, 0];
/// The component model's layer, in the version that every current tool writes.
const COMPONENT: &[u8; 4] = &[0x0d, 0, 1, 0];

/// Counts what this module makes of one and the same file. Whoever changes that counts up, so that artifacts and
/// descriptions that were made before are made anew. The adapters themselves come with the engine's version.
pub(super) const ADAPTER_REVISION: u32 = 1;

/// What a file is, by its first eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A core module.
    Module,
    /// A component.
    Component,
}

impl Form {
    /// `module` or `component`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Module => "module",
            Self::Component => "component",
        }
    }
}

/// Why a file is no WebAssembly that we take. Texts fit after "failed to use the image: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdaptError {
    /// There is nothing.
    #[error("the file is empty, want a WebAssembly module or component")]
    Empty,
    /// It begins as no WebAssembly does.
    #[error("the file is no WebAssembly: it does not begin with \\0asm")]
    NotWasm,
    /// It is WebAssembly's text format, which is a source and no program.
    #[error("the file is WebAssembly in text form; turn it into binary form first")]
    Text,
    /// It ends before its first section.
    #[error("the file is cut off after {found} bytes")]
    Truncated {
        /// Its size in bytes.
        found: usize,
    },
    /// A layer or version from another time.
    #[error(
        "the file is WebAssembly of unknown version {found:02x?}; want a core module (1) or a component (0d 00 01 00)"
    )]
    Version {
        /// Bytes four to seven.
        found: [u8; 4],
    },
    /// The adapter does not fit it.
    #[error("the core module cannot be made a component with the adapter for wasi preview 1: {reason}")]
    Adapter {
        /// The encoder's reasons, outermost first.
        reason: String,
    },
}

/// Tells a core module from a component, and both from everything else. The compiler validates what follows.
///
/// # Errors
/// When the first bytes are not those of either.
pub fn form(wasm: &[u8]) -> Result<Form, AdaptError> {
    if wasm.is_empty() {
        return Err(AdaptError::Empty);
    }
    let Some((magic, rest)) = wasm.split_first_chunk::<4>() else {
        let begins = MAGIC.starts_with(wasm);
        return Err(if begins { AdaptError::Truncated { found: wasm.len() } } else { AdaptError::NotWasm });
    };
    if magic != MAGIC {
        let text = wasm.trim_ascii_start();
        let is_text = text.starts_with(b"(module") || text.starts_with(b"(component");
        return Err(if is_text { AdaptError::Text } else { AdaptError::NotWasm });
    }
    let Some((version, sections)) = rest.split_first_chunk::<4>() else {
        return Err(AdaptError::Truncated { found: wasm.len() });
    };
    if sections.is_empty() {
        return Err(AdaptError::Truncated { found: wasm.len() });
    }
    match version {
        MODULE => Ok(Form::Module),
        COMPONENT => Ok(Form::Component),
        other => Err(AdaptError::Version { found: *other }),
    }
}

/// Makes a component of a core module; a component is returned as it came. A module has been validated before: the
/// encoder may panic on one that is not valid.
///
/// # Errors
/// When it is neither, or when the module does not fit the adapter.
pub fn adapt(wasm: Vec<u8>) -> Result<Vec<u8>, AdaptError> {
    if form(&wasm)? == Form::Component {
        return Ok(wasm);
    }
    let refused = |error: exit_code::ExitCodeError| AdaptError::Adapter { reason: error.to_string() };
    let wasm = exit_code::keep(&wasm).map_err(refused)?.map_or(Cow::Borrowed(&*wasm), Cow::Owned);
    // A program has `_start`. A module without it may still export a handler that its toolchain has described.
    encode(&wasm, adapters::WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER).or_else(|command_error| {
        encode(&wasm, adapters::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)
            .map_err(|_| AdaptError::Adapter { reason: command_error })
    })
}

fn encode(wasm: &[u8], adapter: &[u8]) -> Result<Vec<u8>, String> {
    let encoder = ComponentEncoder::default().validate(true).module(wasm);
    encoder
        .and_then(|encoder| encoder.adapter(adapters::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter))
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tests::{COMPONENT_BYTES, MODULE_BYTES};

    #[test]
    fn files_that_are_no_webassembly_are_told_apart() {
        let table: [(&[u8], AdaptError); 8] = [
            (b"", AdaptError::Empty),
            (b"\0as", AdaptError::Truncated { found: 3 }),
            (b"\0asm\x01", AdaptError::Truncated { found: 5 }),
            (b"\0asm\x01\0\0\0", AdaptError::Truncated { found: 8 }),
            (b"\x7fELF\x02\x01\x01\0", AdaptError::NotWasm),
            (b"MZ", AdaptError::NotWasm),
            (b"\n(module)", AdaptError::Text),
            (b"\0asm\x02\0\0\0\0", AdaptError::Version { found: [2, 0, 0, 0] }),
        ];
        for (bytes, error) in table {
            assert_eq!(form(bytes), Err(error), "{bytes:?}");
        }
        assert_eq!(form(MODULE_BYTES), Ok(Form::Module));
        assert_eq!(form(COMPONENT_BYTES), Ok(Form::Component));
    }

    #[test]
    fn a_program_for_wasi_preview_1_becomes_a_component() {
        let component = adapt(MODULE_BYTES.to_vec()).expect("the adapter fits");
        assert_eq!(form(&component), Ok(Form::Component));
        assert!(component.windows(12).any(|window| window == b"wasi:cli/run"));
    }

    #[test]
    fn a_component_passes_as_it_is() {
        assert_eq!(adapt(COMPONENT_BYTES.to_vec()).as_deref(), Ok(COMPONENT_BYTES));
    }

    #[test]
    fn a_module_that_imports_what_nobody_offers_is_refused() {
        // (module (import "env" "f" (func)))
        let stranger = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x09\x01\x03env\x01f\0\0".to_vec();
        let Err(AdaptError::Adapter { reason }) = adapt(stranger) else { panic!("it was accepted") };
        assert!(reason.contains("env"), "{reason}");
    }
}
