//! Makes the shipped agent smaller by a twentieth: its quarter of a megabyte of relocations, nearly all of one kind, is
//! written as a bitmap (RELR). That needs glibc 2.36 (2022) where the agent runs, so it is done only where the machine that
//! builds has it, for itself; an older one would say `GLIBC_ABI_DT_RELR not found` and not start the agent. A linker that
//! does not know the flag warns and leaves everything as it was.

use std::process::Command;

/// The first that reads the bitmap.
const READS_RELR: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_for_size = ["s", "z"].contains(&variable("OPT_LEVEL").as_str());
    let is_for_itself = variable("HOST") == variable("TARGET") && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if is_for_size && is_for_itself && glibc().is_some_and(|version| version >= READS_RELR) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
