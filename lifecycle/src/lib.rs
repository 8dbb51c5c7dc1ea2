//! One node's pods as a state machine: the only code that changes a phase.
//!
//! *In:* the time, and [`Event`]s: what is desired, what the runtime did. *Out:* [`Effect`]s and statuses.
//! *Must never know:* MQTT, WebAssembly, files, clocks, randomness. It is `no_std`.
//! *Tested:* tables beside the rules, transcripts of whole pod lives, and the simulator.
//!
//! Change, then drain: after each [`Lifecycle::handle`] take every effect with [`Lifecycle::poll_effect`], then ask
//! [`Lifecycle::wake_at`] when to say [`Event::Tick`] at the latest.
//!
//! An event finds its pod ([`lifecycle`]); the pod hands a word to its containers (`pod`); each container has one state
//! and one table of transitions (`container`), whose ends are put into words in `outcome` (and waits in `wording`) and whose waits are counted in
//! `backoff`; from all container states follow phase and conditions (`phase`). A status is told of only when it differs
//! from the one before.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod event;

pub mod lifecycle;

mod pod;

mod container;

mod outcome;

mod wording;

mod backoff;

mod phase;

mod effects;

pub use event::{Effect, Event, Exit, ImageFailure, Run};
pub use lifecycle::Lifecycle;
