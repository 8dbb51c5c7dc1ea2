//! An agent without a body: its session with the controller, and the lifecycle of its pods.
//!
//! *In:* the time and [`Input`]s: what the link heard, what the runtime did. *Out:* [`Effect`]s for the shell.
//! *Must never know:* sockets, files, WebAssembly, clocks, randomness, which board it is on. It is `no_std`.
//! *Tested:* transcripts of sessions, and the simulator, which runs thousands of these under loss and partition.
//!
//! Change, then drain: after each [`Agent::handle`] take every effect with [`Agent::poll_effect`], then ask
//! [`Agent::wake_at`] when to say [`Input::Tick`] at the latest. A shell that has several inputs at hand may handle all of
//! them before it drains; their reports then travel together.
//!
//! What the controller says goes through the `session` (who may speak, and when) to the `desired` set, which tells the
//! lifecycle what to run. The lifecycle asks for images, which `pulls` finds on disk or brings block by block, and its
//! statuses leave through `report`, and so does what the node says of itself (`node`). What must survive a power cut is in
//! `memory`. `pressure` watches what the node is short of, and ends pods for it. `stream` is beside all that.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod interface;

pub mod agent;

mod session;

mod desired;

mod memory;

mod pulls;

pub mod pressure;

mod node;

mod report;

mod stream;

mod outbox;

pub use agent::Agent;
pub use interface::{Effect, Identity, Input, Remembered, RuntimeEvent};
