//! The one recipe by which guests are built: Debian's `rustc-web`, whose standard library is compiled along.
//!
//! One recipe everywhere gives the same bytes everywhere, and it also works where no other toolchain can be fetched.
//! Paths of the machine are replaced while compiling, and a build that still holds one is refused.

use super::{Crate, Kind, run_quietly};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGES: &str = "rustc-web cargo-web rust-web-src rust-web-llvm lld-22 wasi-libc";
/// Where Debian puts the C library for WASI preview 1.
const WASI_LIBC: &str = "/usr/lib/wasm32-wasi";

impl Kind {
    fn target(self) -> &'static str {
        match self {
            Self::Component => "wasm32-unknown-unknown",
            Self::Program => "wasm32-wasip1",
        }
    }
}

/// The package that lets the adapter around a program take its memory from the program's own allocator; Debian's
/// `wasi-libc` is too old to do without.
const ADAPTER_MEMORY: &str = "adapter-memory";

/// The workspace's packages that a guest is made of.
pub(super) fn packages(guest: &Crate) -> Vec<&'static str> {
    match guest.kind {
        Kind::Component => vec![guest.package],
        Kind::Program => vec![guest.package, ADAPTER_MEMORY],
    }
}

/// The arguments of cargo. `--crate-type` is said here and not in the package, so that on the host it is a plain
/// library that tests link quickly.
fn arguments(guest: &Crate) -> Vec<&'static str> {
    let mut arguments = vec!["rustc", "--release", "--locked", "-Zbuild-std=std,panic_abort"];
    arguments.extend(["--package", guest.package, "--target", guest.kind.target()]);
    match guest.kind {
        Kind::Component => arguments.extend(["--lib", "--crate-type", "cdylib"]),
        Kind::Program => arguments.extend(["--bin", guest.package]),
    }
    arguments
}

/// The flags of the compiler that are the same on every machine.
fn flags(guest: &Crate) -> Vec<String> {
    match guest.kind {
        // Links with rust-lld and makes a component of the result, from the WIT that wit-bindgen put into it.
        Kind::Component => vec!["-Clinker=wasm-component-ld".to_string()],
        // A program exports nothing of its libraries unless it is said.
        Kind::Program => vec![format!("-Lnative={WASI_LIBC}"), "-Clink-arg=--export=cabi_realloc".to_string()],
    }
}

/// Everything about the recipe that decides a guest's bytes.
pub(super) fn recipe_text(guest: &Crate) -> String {
    format!("{PACKAGES}\n{:?}\n{:?}\n{:?}\n", arguments(guest), flags(guest), guest.variables)
}

/// Makes sure that the compiler is there: installs it as root on Debian, and otherwise says what to type.
pub(super) fn ensure() -> Result<(), String> {
    let needed = [
        "/usr/bin/cargo".to_string(),
        "/usr/bin/rustc".to_string(),
        "/usr/bin/rust-lld".to_string(),
        "/usr/lib/rustlib/src/rust/library/std/Cargo.toml".to_string(),
        format!("/usr/lib/rustlib/{ARCH}-unknown-linux-gnu/bin/wasm-component-ld"),
        format!("{WASI_LIBC}/libc.a"),
    ];
    if needed.iter().all(|path| Path::new(path).exists()) {
        return Ok(());
    }
    let line = format!("apt-get update && apt-get install -y --no-install-recommends {PACKAGES}");
    if !Path::new("/etc/debian_version").exists() {
        return Err(format!(
            "the guests are built with Debian's compiler; on Debian 12 or newer, as root, type: {line}"
        ));
    }
    if !is_root() {
        return Err(format!("the compiler for the guests is missing; type: sudo sh -c '{line}'"));
    }
    println!("workloads: installing Debian's compiler for WebAssembly");
    let mut command = Command::new("sh");
    run_quietly(command.args(["-c", &line]).env("DEBIAN_FRONTEND", "noninteractive"), "install the compiler")
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Builds one guest and gives its bytes.
pub(super) fn build(folder: &Path, guest: &Crate) -> Result<Vec<u8>, String> {
    let machine_paths = machine_paths(folder);
    let mut flags = flags(guest);
    flags.extend(
        machine_paths.iter().map(|(path, instead)| format!("--remap-path-prefix={}={instead}", path.display())),
    );
    let mut command = Command::new("/usr/bin/cargo");
    command.args(arguments(guest)).current_dir(folder).envs(guest.variables.iter().copied());
    // A compiler that calls itself the first in the path, with the features that building the standard library needs.
    command.env("PATH", "/usr/bin:/bin").env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
    command.env("CARGO_TARGET_DIR", folder.join("target")).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // What the toolchain that runs this command has put into the environment is not meant for Debian's.
    for foreign in ["RUSTUP_TOOLCHAIN", "LD_LIBRARY_PATH", "RUSTFLAGS", "RUSTC_WRAPPER", "CARGO_INCREMENTAL"] {
        command.env_remove(foreign);
    }
    run_quietly(&mut command, &format!("build {}", guest.package))?;
    let stem = match guest.kind {
        Kind::Component => guest.package.replace('-', "_"),
        Kind::Program => guest.package.to_string(),
    };
    let path = folder.join("target").join(guest.kind.target()).join("release").join(stem).with_extension("wasm");
    let bytes = fs::read(&path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    match machine_paths.iter().find(|(machine, _)| holds(&bytes, machine)) {
        Some(_) => Err(format!("{} holds a path of this machine; the recipe must replace it", guest.package)),
        None => Ok(bytes),
    }
}

/// The paths that must not get into a guest, and what stands there instead. Of several that fit, rustc takes the last.
fn machine_paths(folder: &Path) -> Vec<(PathBuf, &'static str)> {
    let home = std::env::home_dir().filter(|home| home.parent().is_some());
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| home.as_ref().map(|home| home.join(".cargo")));
    let checkout = folder.parent().map(Path::to_path_buf);
    let named = [(home, "/home"), (cargo_home, "/cargo"), (checkout, "/coracle")];
    named.into_iter().filter_map(|(path, instead)| Some((path?, instead))).collect()
}

fn holds(bytes: &[u8], path: &Path) -> bool {
    let text = format!("{}/", path.display());
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
