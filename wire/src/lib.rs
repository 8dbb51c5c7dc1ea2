//! What travels between a controller and its agents, to the byte.
//!
//! *In:* messages as types. *Out:* MQTT payloads, and back; topic names.
//! *Must never know:* an MQTT client, a clock, who is at the other end. It is `no_std`.
//! *Tested:* golden bytes for every message (`golden/`), random bytes that must not panic, and old readers that meet
//! new writers and the reverse.
//!
//! A payload is one [`envelope`]: version, kind, length, then the message in postcard. Sets of pods and statuses are
//! lists of length-prefixed [`item`]s, so that one that a reader cannot understand is refused alone. Up is from agent to
//! controller, down the reverse.
//!
//! A new field goes to the end of its message: an older reader ignores what follows the last field that it knows. For
//! the reverse a new field raises [`envelope::VERSION`], so that a newer reader tells an older writer's shape by the
//! envelope and reads it as that; the last two versions are read, and births say which ones an agent speaks. Two changes
//! need no new version: a kind of message that an older reader may ignore, and a field at the end of an [`item`]'s element
//! whose absence means its default (`coracle_model`'s `or_default`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod topic;

pub mod envelope;

pub mod item;

pub mod up;

pub mod down;

pub mod artifact;

pub mod stream;

pub use envelope::{DecodeError, EncodeError};
pub use item::Item;
