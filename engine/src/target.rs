//! The targets that artifacts are made for, and what each of them gets of the address space.

/// Every target that the controller compiles for.
pub const TARGETS: &[&str] = &["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "pulley64", "pulley32"];

/// A target that nothing is compiled for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not one of [`TARGETS`].
    #[error("no artifacts are made for target {found:?}; there are {TARGETS:?}")]
    Unknown {
        /// What was asked for.
        found: String,
    },
    /// wasmtime, as it was built, does not know it.
    #[error("target {target} is not usable in this build: {reason}")]
    Unusable {
        /// One of [`TARGETS`].
        target: String,
        /// What wasmtime says.
        reason: String,
    },
}

/// The target whose artifacts run on this machine: its own instruction set where Cranelift has a back end for it, else
/// the bytecode of wasmtime's interpreter in its width.
#[must_use]
pub fn host_target() -> &'static str {
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        "x86_64-unknown-linux-gnu"
    } else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
        "aarch64-unknown-linux-gnu"
    } else if cfg!(target_pointer_width = "64") {
        "pulley64"
    } else {
        "pulley32"
    }
}

/// One row of the table of targets. Everything in it but the stacks and the room for growth is compiled into the code,
/// so a change here needs a new [`crate::configuration::PROFILE_REVISION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    /// One of [`TARGETS`].
    pub(crate) name: &'static str,
    /// Address space for one linear memory; it moves when it grows beyond this.
    pub(crate) memory_reservation_bytes: u64,
    /// Room that a memory gets beyond its size when it has moved.
    pub(crate) memory_growth_bytes: u64,
    /// Unmapped space behind a memory; static offsets below this need no check of their own.
    pub(crate) memory_guard_bytes: u64,
    /// Whether traps come as signals of the processor.
    pub(crate) signals: bool,
    /// Stack of one guest call, the host's part included: address space, of which only what is touched is memory.
    pub(crate) stack_bytes: usize,
    /// How much of it the guest may use.
    pub(crate) wasm_stack_bytes: usize,
}

const MIB: u64 = 1024 * 1024;
const KIB: usize = 1024;

/// A Raspberry Pi's kernel gives a process 39 bits of address space, 512 GiB. 66 MiB for a memory and 2 MiB for a stack
/// let a thousand pods take 70 GiB of it. wasmtime's own defaults, 4 GiB and more, exhaust it with about a hundred.
const NATIVE: Profile = Profile {
    name: "",
    memory_reservation_bytes: 64 * MIB,
    memory_growth_bytes: 16 * MIB,
    memory_guard_bytes: 2 * MIB,
    signals: true,
    stack_bytes: 2048 * KIB,
    wasm_stack_bytes: 512 * KIB,
};

/// One row a target, in the order of [`TARGETS`].
const PROFILES: [Profile; 4] = [
    Profile { name: TARGETS[0], ..NATIVE },
    Profile { name: TARGETS[1], ..NATIVE },
    // The interpreter checks every access itself, so guards and signals would be of no use.
    Profile { name: TARGETS[2], memory_guard_bytes: 0, signals: false, ..NATIVE },
    // Three gigabytes are all that a 32-bit process has: memories get what they ask for and a little room.
    Profile {
        name: TARGETS[3],
        memory_reservation_bytes: 0,
        memory_growth_bytes: MIB / 4,
        memory_guard_bytes: 0,
        signals: false,
        stack_bytes: 512 * KIB,
        wasm_stack_bytes: 192 * KIB,
    },
];

/// What instances take on a target before their guests have done anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The part of its stack that a guest may fill, in bytes. All of it may become memory.
    pub stack_bytes: u64,
    /// Address space of a linear memory, in bytes: a larger one moves when it grows, and is there twice meanwhile.
    pub reservation_bytes: u64,
}

impl Footprint {
    /// Of one of [`TARGETS`].
    ///
    /// # Errors
    /// When it is none of them.
    pub fn of(target: &str) -> Result<Self, TargetError> {
        let profile = Profile::of(target)?;
        let reservation_bytes = profile.memory_reservation_bytes;
        Ok(Self { stack_bytes: profile.wasm_stack_bytes as u64, reservation_bytes })
    }
}

impl Profile {
    pub(crate) fn of(target: &str) -> Result<Self, TargetError> {
        let known = PROFILES.into_iter().find(|profile| profile.name == target);
        known.ok_or_else(|| TargetError::Unknown { found: target.to_owned() })
    }
}

/// The triple that wasmtime is given. It compares the whole of it with the one that it was built for, although only
/// architecture and operating system are of consequence: a build against musl runs the code that is made for glibc.
pub(crate) fn triple(target: &str) -> String {
    if cfg!(target_env = "musl") && target == host_target() {
        return target.replace("-gnu", "-musl");
    }
    target.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_row() {
        for target in TARGETS {
            assert_eq!(Profile::of(target).map(|profile| profile.name), Ok(*target));
        }
        assert!(matches!(Profile::of("riscv64"), Err(TargetError::Unknown { .. })));
    }

    #[test]
    fn this_machine_has_a_target() {
        assert!(TARGETS.contains(&host_target()));
    }

    #[test]
    fn a_thousand_pods_fit_into_the_address_space_of_a_pi() {
        for profile in PROFILES.iter().take(2) {
            let pod = profile.memory_reservation_bytes + profile.memory_guard_bytes + profile.stack_bytes as u64;
            assert!(1000 * pod < 1 << 38, "{profile:?}");
        }
    }
}
