//! The one wasmtime configuration that the compiler and every agent share, and what proves that machine code may run.
//!
//! *In:* the name of a target; a signed statement about an artifact and its file. *Out:* a configuration; a loaded
//! component.
//! *Must never know:* whether a compiler is linked in (the controller's has one, an agent's has none), MQTT, pods.
//! *Tested:* tables beside the code; that what the controller compiles loads here is tested where both meet.
//!
//! An artifact is native code. It is loaded in one place, [`load`], which takes nothing but a [`Verified`], and that is
//! made only by [`Statement::prove`]: signature, size, digest, target and fingerprint, in this order.
#![deny(unsafe_code)]

pub mod target;

pub mod configuration;

pub mod statement;

pub mod proof;

pub use configuration::{config, fingerprint};
pub use proof::{LoadError, ProofError, Verified, load};
pub use statement::{SignatureError, Statement};
pub use target::{Footprint, TARGETS, TargetError, host_target};
