//! The store engines: what makes a batch of changes survive everything (DESIGN, decision 3).
//!
//! *In:* batches of [`coracle_controller_core::store::Change`]. *Out:* the same changes and the objects that they left,
//! after any restart.
//! *Must never know:* what an object means; reconcilers, watches, HTTP. Reads come from the view in memory, never from
//! here.
//! *Tested:* by cutting the power at random operations of a fake disk, by filling and breaking it, and by killing a
//! writing process, each some hundred times a run.
//!
//! A store whose disk is full refuses batches and goes on; one whose disk fails is given up, and the process with it.
//!
//! There is one engine in this build: [`EmbeddedStore`], one file, one writer. Whoever wants several controllers needs an
//! engine on a shared store, for which the trait has room.

mod embedded;
mod layout;
mod room;

#[cfg(test)]
mod tests;

pub use embedded::EmbeddedStore;
