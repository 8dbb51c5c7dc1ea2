//! The configuration. wasmtime refuses code whose compiler was configured differently, so there is one for both sides.

use wasmtime::{Config, Inlining, ModuleVersionStrategy, WasmFeatures};

use crate::target::{Profile, TargetError, triple};

/// The exact version of wasmtime. wasmtime by itself compares only major versions, so that code of a compiler with a
/// known hole would still load after the hole was mended; the fingerprint compares all of it.
const WASMTIME_VERSION: &str = "48.0.8";

/// Counts the changes to this file and to the table of targets that make older artifacts unusable.
pub(crate) const PROFILE_REVISION: u32 = 1;

/// What a guest may be made of: WebAssembly 2.0 and what compilers turn on by default beyond it. Named one by one, so
/// that neither a feature that another crate of the build switches on nor a new default can part the two sides.
const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::BULK_MEMORY_OPT)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::COMPONENT_MODEL);

/// What an artifact must have been made with to run here: wasmtime's exact version and the revision of this profile,
/// for instance `48.0.8-1`. Together with the target it is the key of every cache of artifacts.
#[must_use]
pub fn fingerprint() -> String {
    format!("{WASMTIME_VERSION}-{PROFILE_REVISION}")
}

/// The configuration for one target, the same for compiler and runtime. The target is always explicit, which means
/// its baseline instruction set: code is compiled for the oldest board of that target, never for the controller's own
/// processor.
///
/// # Errors
/// When the target is not one of [`crate::TARGETS`].
pub fn config(target: &str) -> Result<Config, TargetError> {
    let profile = Profile::of(target)?;
    let unusable = |error: wasmtime::Error| TargetError::Unusable {
        target: target.to_owned(),
        reason: format!("{error:#}").to_lowercase(),
    };
    let mut config = Config::new();
    config.target(&triple(target)).map_err(unusable)?;
    config.module_version(ModuleVersionStrategy::Custom(fingerprint())).map_err(unusable)?;

    config.wasm_features(WasmFeatures::all().difference(FEATURES), false);
    config.wasm_features(FEATURES, true);
    config.concurrency_support(false);
    config.relaxed_simd_deterministic(true);

    // Preemption: a guest cannot keep its thread, nor outlive its grace period (TRM-03, EDGE-09).
    config.epoch_interruption(true);
    config.consume_fuel(false);
    config.signals_based_traps(profile.signals);

    config.memory_reservation(profile.memory_reservation_bytes);
    config.memory_reservation_for_growth(profile.memory_growth_bytes);
    config.memory_guard_size(profile.memory_guard_bytes);
    config.guard_before_linear_memory(false);
    config.memory_may_move(true);
    config.memory_init_cow(true);
    config.table_lazy_init(true);
    config.max_wasm_stack(profile.wasm_stack_bytes);
    config.async_stack_size(profile.stack_bytes);

    // A trap's name is what `kubectl describe` shows; addresses and frames would double an artifact's tables.
    config.wasm_backtrace_max_frames(None);
    config.generate_address_map(false);
    config.native_unwind_info(false);
    config.debug_info(false);
    config.debug_symbols(false);
    config.compiler_inlining(Inlining::No);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{TARGETS, host_target};

    #[test]
    fn the_fingerprint_has_the_version_that_is_locked() {
        let lock = include_str!("../../Cargo.lock");
        let entry = format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"\n");
        assert!(lock.contains(&entry), "Cargo.lock has another wasmtime than {WASMTIME_VERSION}");
        assert_eq!(fingerprint(), format!("{WASMTIME_VERSION}-{PROFILE_REVISION}"));
    }

    #[test]
    fn every_target_has_a_configuration() {
        for target in TARGETS {
            assert!(config(target).is_ok(), "{target}");
        }
        assert!(config("armv7-unknown-linux-gnueabihf").is_err());
    }

    #[test]
    fn this_machine_can_make_an_engine() {
        let config = config(host_target()).unwrap_or_else(|error| panic!("{error}"));
        assert!(wasmtime::Engine::new(&config).is_ok());
    }
}
