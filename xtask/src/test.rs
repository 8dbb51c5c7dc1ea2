//! `cargo xtask test`: everything that must hold, in the order in which it fails fastest.

use std::time::Instant;

use crate::process::run;
use crate::tools;

/// One step: a name, the arguments for cargo, and its environment.
type Step = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

/// Everything is built once, with the features that the tests need, so that nothing is built twice.
const STEPS: &[Step] = &[
    ("format", &["fmt", "--all", "--check"], &[]),
    ("build", &["build", "--workspace", "--all-targets", "--locked"], &[]),
    ("test", &["test", "--workspace", "--all-targets", "--locked", "--no-fail-fast"], &[]),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[]),
    (
        "docs",
        &["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"],
        &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links")],
    ),
];

/// Runs every step.
///
/// # Errors
/// The first step that fails.
pub(crate) fn test(_arguments: &[String]) -> Result<(), String> {
    tools::install(&[])?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    for (name, arguments, environment) in STEPS {
        let started = Instant::now();
        run(&cargo, arguments, environment).map_err(|error| format!("{name}: {error}"))?;
        println!("xtask: {name} took {} s", started.elapsed().as_secs());
    }
    Ok(())
}
