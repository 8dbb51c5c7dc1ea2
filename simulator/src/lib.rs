//! The whole house in virtual time: the real controller core and the real agent cores, with a network, a disk and a
//! runtime that a seed makes unreliable.
//!
//! *In:* a seed and a number of steps. *Out:* a report, or the first violation; the same seed gives the same run.
//! *Must never know:* a real clock, socket, file or guest.
//! *Tested:* by the seeds in `tests/`, and by a run that must find a broken core.
//!
//! First comes a time of faults: messages are lost, doubled, delayed and reordered, births come again long after, clocks
//! drift and jump, disks are full, nodes are cut off or deleted, agents crash or stand still, and the controller stands
//! still, or crashes before or after a commit, with its broker or without it. Safety is checked after every batch. Then
//! everything heals, and the cluster has to come to rest at what its users asked for.
#![forbid(unsafe_code)]

mod chance;
mod checkers;
mod controller;
mod network;
mod node;
mod placement;
mod promises;
mod rest;
mod runtime;
mod scheduling;
#[cfg(test)]
mod tests;
mod users;
mod world;

pub use checkers::Violation;
pub use world::Report;

/// Virtual milliseconds that a healed cluster is given to come to rest: more than the longest back-off, twice.
pub const HEALING_MS: u64 = 1_500_000;

/// Runs one seed: `steps` steps of faults, then healing. `trace` gets a line for everything that happens.
///
/// # Errors
/// The first thing that a checker found.
pub fn run(seed: u64, steps: u64, mut trace: impl FnMut(&str)) -> Result<Report, Violation> {
    let mut world = world::World::new(seed, &mut trace);
    for _ in 0..steps {
        world.step()?;
    }
    world.heal()?;
    world.converge(HEALING_MS)?;
    Ok(world.report(steps))
}
