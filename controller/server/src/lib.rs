//! The controller with a body: store, Kubernetes API, broker, link, images and compiler around the pure core.
//!
//! *In:* HTTPS requests, MQTT messages, files. *Out:* answers, watches, desired sets, artifacts.
//! *Must never know:* why a pod goes where it goes; that is decided in `controller/core`.
//! *Tested:* the store under power cuts and kills, the broker by its clients, everything else end to end.
//!
//! [`server::start`] puts it together. A request walks [`api`] → [`committer`] → core → [`store`], and comes back out of
//! the committer as an answer, as watch events, and as messages that [`link`] publishes.

pub mod data_dir;
pub mod keys;

pub mod api;
pub mod committer;
pub mod store;

pub mod link;

pub mod images;

mod image_use;

pub mod server;
