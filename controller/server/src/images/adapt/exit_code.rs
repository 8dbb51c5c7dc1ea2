//! Keeps the exit codes of programs for WASI preview 1.
//!
//! The standard adapter turns `proc_exit` into `wasi:cli/exit`'s `exit`, which knows success and failure and no code.
//! The same interface has `exit-with-code`, which looks the same from a core module: one `i32` and no result. So the
//! import is renamed before the adapter comes; the encoder knows the new name's type from the world that the adapter
//! brings along. Of a code its lower eight bits count, as everywhere.

use wasm_encoder::reencode::{Reencode as _, RoundtripReencoder};
use wasm_encoder::{ImportSection, Module, RawSection};
use wasmparser::{Import, Imports, Parser, Payload, TypeRef};

const PREVIEW1: (&str, &str) = ("wasi_snapshot_preview1", "proc_exit");
/// In the version of the adapter's world, which is also what the agent offers: both are of one release.
const PREVIEW2: (&str, &str) = ("wasi:cli/exit@0.2.12", "exit-with-code");

/// Why an import cannot be renamed. The texts fit after "the module cannot be made a component: ".
#[derive(Debug, thiserror::Error)]
pub(super) enum ExitCodeError {
    /// The module's sections cannot be read.
    #[error("its imports cannot be read: {0}")]
    Read(#[from] wasmparser::Error),
    /// An import cannot be written again.
    #[error("its imports cannot be written: {0}")]
    Write(#[from] wasm_encoder::reencode::Error),
}

/// The module with every import of `proc_exit` renamed and every other section as it was, byte for byte; `None` when it
/// has no such import, for it needs no change.
pub(super) fn keep(module: &[u8]) -> Result<Option<Vec<u8>>, ExitCodeError> {
    let mut output = Module::new();
    let mut found = false;
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(section) => {
                let mut imports = ImportSection::new();
                for group in section {
                    let mut group = group?;
                    if let Imports::Single(_, import) = &mut group {
                        found |= rename_one(import);
                    }
                    RoundtripReencoder.parse_imports(&mut imports, group)?;
                }
                output.section(&imports);
            }
            other => {
                if let Some((id, range)) = other.as_section() {
                    // Ranges of a reader of this very slice lie within it.
                    output.section(&RawSection { id, data: &module[range] });
                }
            }
        }
    }
    Ok(found.then(|| output.finish()))
}

fn rename_one(import: &mut Import<'_>) -> bool {
    let found = (import.module, import.name) == PREVIEW1 && matches!(import.ty, TypeRef::Func(_));
    if found {
        (import.module, import.name) = PREVIEW2;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::adapt;
    use super::*;
    use crate::images::tests::MODULE_BYTES;
    use wasm_encoder::{
        CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, MemorySection, MemoryType,
        TypeSection, ValType,
    };

    /// A program whose `_start` calls the last of these imports, all of them functions of one `i32`, with 3.
    fn program(imports: &[(&str, &str)]) -> Vec<u8> {
        let count = u32::try_from(imports.len()).expect("a few");
        let mut types = TypeSection::new();
        types.ty().function([ValType::I32], []);
        types.ty().function([], []);
        let mut section = ImportSection::new();
        for (module, name) in imports {
            section.import(module, name, EntityType::Function(0));
        }
        let mut functions = FunctionSection::new();
        functions.function(1);
        let mut memories = MemorySection::new();
        memories.memory(MemoryType { minimum: 1, maximum: None, memory64: false, shared: false, page_size_log2: None });
        let mut exports = ExportSection::new();
        exports.export("memory", ExportKind::Memory, 0).export("_start", ExportKind::Func, count);
        let mut start = Function::new([]);
        if let Some(last) = count.checked_sub(1) {
            start.instructions().i32_const(3).call(last);
        }
        start.instructions().end();
        let mut code = CodeSection::new();
        code.function(&start);
        let mut module = Module::new();
        module.section(&types).section(&section).section(&functions).section(&memories).section(&exports);
        module.section(&code);
        module.finish()
    }

    /// What the core modules within a file import.
    fn imports(wasm: &[u8]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(wasm) {
            let Payload::ImportSection(section) = payload.expect("valid") else { continue };
            for import in section.into_imports() {
                let import = import.expect("valid");
                found.push((import.module.to_owned(), import.name.to_owned()));
            }
        }
        found
    }

    fn count(imports: &[(String, String)], wanted: (&str, &str)) -> usize {
        imports.iter().filter(|(module, name)| (module.as_str(), name.as_str()) == wanted).count()
    }

    #[test]
    fn the_exit_code_of_a_real_program_reaches_the_host() {
        // LIF-10
        let job = include_bytes!("../../../../../workloads/built/job-1.wasm");
        assert_eq!(count(&imports(job), PREVIEW1), 1);
        let component = imports(&adapt(job.to_vec()).expect("it is adapted"));
        assert_eq!(count(&component, PREVIEW1), 0, "{component:?}");
        assert!(count(&component, PREVIEW2) >= 1, "{component:?}");
    }

    #[test]
    fn a_program_that_imports_nothing_else_is_adapted() {
        let component = imports(&adapt(program(&[PREVIEW1])).expect("it is adapted"));
        assert!(count(&component, PREVIEW2) >= 1, "{component:?}");
    }

    #[test]
    fn a_program_may_import_the_function_more_than_once() {
        let renamed = keep(&program(&[PREVIEW1, PREVIEW1])).expect("it is read").expect("it is renamed");
        assert_eq!(count(&imports(&renamed), PREVIEW2), 2);
        let component = adapt(program(&[PREVIEW1, PREVIEW1]));
        assert!(component.is_ok(), "{component:?}");
    }

    #[test]
    fn a_program_without_an_exit_code_stays_as_it_is() {
        assert!(keep(&program(&[])).expect("it is read").is_none());
        let other = ("elsewhere", PREVIEW1.1);
        assert!(keep(&program(&[other])).expect("it is read").is_none());
    }

    #[test]
    fn everything_but_the_imports_is_copied_byte_for_byte() {
        let sections = |wasm: &[u8]| -> Vec<(u8, Vec<u8>)> {
            let payloads = Parser::new(0).parse_all(wasm);
            let sections = payloads.filter_map(|payload| payload.expect("valid").as_section());
            sections.map(|(id, range)| (id, wasm[range].to_vec())).filter(|(id, _)| *id != 2).collect()
        };
        let before = sections(MODULE_BYTES);
        let renamed = keep(MODULE_BYTES).expect("it is read").expect("it is renamed");
        assert!(sections(&renamed) == before);
    }
}
