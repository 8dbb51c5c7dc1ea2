//! Which crate may know which: a dependency points only to the left.

use std::collections::BTreeMap;
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};
use coracle_tests::programs::{root, succeed};

/// Every crate with the others of ours that it may name. `agent/core` and `controller/core` meet only in `wire`, and
/// no core can reach a crate that does IO.
const ALLOWED: &[(&str, &[&str])] = &[
    ("coracle-model", &[]),
    ("coracle-lifecycle", &["coracle-model"]),
    ("coracle-wire", &["coracle-model"]),
    ("coracle-agent-core", &["coracle-model", "coracle-lifecycle", "coracle-wire"]),
    ("coracle-controller-core", &["coracle-model", "coracle-wire"]),
    ("coracle-link", &["coracle-model", "coracle-wire"]),
    ("coracle-engine", &["coracle-model"]),
    (
        "coracle-agent",
        &["coracle-model", "coracle-lifecycle", "coracle-wire", "coracle-agent-core", "coracle-link", "coracle-engine"],
    ),
    (
        "coracle-controller",
        &["coracle-model", "coracle-wire", "coracle-controller-core", "coracle-link", "coracle-engine"],
    ),
    (
        "coracle-simulator",
        &["coracle-model", "coracle-lifecycle", "coracle-wire", "coracle-agent-core", "coracle-controller-core"],
    ),
    ("coracle-fleet", &["coracle-model", "coracle-lifecycle", "coracle-wire", "coracle-agent-core", "coracle-link"]),
    (
        "coracle",
        &[
            "coracle-model",
            "coracle-wire",
            "coracle-controller-core",
            "coracle-link",
            "coracle-agent",
            "coracle-controller",
            "coracle-simulator",
            "coracle-fleet",
        ],
    ),
    ("coracle-tests", &["coracle-model", "coracle-wire", "coracle-link", "coracle-simulator"]),
    ("xtask", &[]),
];

/// Crates that no core may reach, however indirectly: they do IO, or keep a clock.
const NO_CORE: &[&str] = &["tokio", "rumqttc", "wasmtime", "redb", "axum", "hyper", "getrandom", "rustls", "tracing"];
const CORES: &[&str] =
    &["coracle-model", "coracle-lifecycle", "coracle-wire", "coracle-agent-core", "coracle-controller-core"];

#[test]
fn dependencies_point_only_to_the_left() {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec();
    let metadata = metadata.expect("cargo metadata");
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let may =
            allowed.get(name).unwrap_or_else(|| panic!("{name} is new: say in edges.rs which crates it may name"));
        let dependencies = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
        for dependency in dependencies.filter(|dependency| dependency.path.is_some()) {
            let other = dependency.name.as_str();
            assert!(may.contains(&other), "{name} may not depend on {other}: a dependency points only to the left");
        }
    }
}

#[test]
fn cores_reach_nothing_that_does_io() {
    for core in CORES {
        let tree = tree(core, &[]);
        for forbidden in NO_CORE {
            let found = tree.lines().any(|line| line.split(' ').next() == Some(*forbidden));
            assert!(!found, "{core} reaches {forbidden}: a core has no clock, IO or randomness");
        }
    }
}

#[test]
fn the_agent_holds_no_compiler() {
    // EDGE-02
    let tree = tree("coracle-agent", &[]);
    for forbidden in
        ["cranelift-codegen", "wasmtime-internal-cranelift", "wasmtime-internal-winch", "rmqtt", "redb", "k8s-openapi"]
    {
        let found = tree.lines().find(|line| line.starts_with(forbidden));
        assert!(found.is_none(), "the agent's tree holds {found:?}: it runs only what the controller compiled");
    }
    assert!(tree.lines().any(|line| line.starts_with("wasmtime ")), "the tree is the agent's");
}

/// The names and versions that one crate is built of, when it is built by itself.
fn tree(package: &str, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--package", package, "--edges", "normal", "--prefix", "none"]).args(more);
    succeed(command.current_dir(root()))
}
