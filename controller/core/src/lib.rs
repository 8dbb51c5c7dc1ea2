//! The controller without a body: what the cluster should be, decided from what it is.
//!
//! *In:* the time, API requests, what agents say. *Out:* batches of durable changes, and effects that are released
//! once their batch is on disk.
//! *Must never know:* sockets, files, threads, clocks, randomness, WebAssembly, agents' insides (it meets them only in
//! `wire`).
//! *Tested:* tables beside each rule, scenarios of whole rollouts, and the simulator.
//!
//! The way of a manifest: [`request`] → [`admission`] → [`mod@write`] (into the staged [`view`]) → [`reconcile`] →
//! [`schedule`] → [`nodes`] (dispatch down, ingest up). [`controller`] turns that crank until nothing moves, and hands
//! out one batch. Everything that reads the API's side of it (patches, selectors, tables, discovery) is pure as well
//! and lives beside it.
#![forbid(unsafe_code)]

pub mod clock;
pub mod error;
pub mod kind;
pub mod names;
pub mod object;
mod recent;
pub mod rows;
pub mod volumes;

pub mod manifest;
pub mod protobuf;
pub mod request;

pub mod admission;
pub mod patch;
pub mod selector;

pub mod plan;
pub mod store;
pub mod view;
pub mod write;

pub mod events;
pub mod reconcile;
pub mod schedule;

pub mod nodes;

pub mod controller;

pub mod history;

pub mod discovery;
pub mod openapi;
pub mod table;

pub mod usage;

pub use clock::Now;
pub use controller::{Controller, Effect, Input, Stage};
pub use error::{ApiError, FieldError};
pub use kind::Kind;
pub use object::{Key, Object};
pub use plan::Plan;
pub use store::Change;
pub use view::View;
