//! The Kubernetes API over HTTPS: one set of handlers for every kind.
//!
//! *In:* HTTPS requests. *Out:* answers, watches and streams; changes go to the committer, reads come from its view.
//! *Must never know:* a kind's fields beyond what a path needs (logs and proxy of pods); how anything is decided.
//! *Tested:* paths, queries and negotiation by tables here; everything else end to end with real `kubectl`.
//!
//! A request is taken in [`mod@serve`], its path read in [`route`], its user found in [`authenticate`], and then one of
//! [`read`], [`watch`], [`mod@write`], [`log`], [`placement`], [`proxy`], [`mod@usage`], [`mod@review`], [`documents`] or [`images`] answers.

mod accept;
mod authenticate;
mod body;
mod documents;
mod handle;
mod images;
mod lease;
mod log;
mod placement;
mod proxy;
mod query;
mod read;
mod respond;
mod review;
mod route;
mod serve;
mod snapshot;
mod usage;
mod watch;
mod write;

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use coracle_controller_core::openapi::Document;
use coracle_controller_core::usage::Samples;
use parking_lot::Mutex;
use tokio::sync::watch::Receiver;

use crate::committer::Cluster;
use crate::images::Images;
use crate::keys::Keys;
use crate::link::streams::Streams;

pub use serve::serve;

/// What the API stands on.
#[derive(Clone)]
pub struct Dependencies {
    /// Where changes go and views come from.
    pub cluster: Cluster,
    /// Logs and HTTP of pods, through the link.
    pub streams: Streams,
    /// Where pushed images go.
    pub images: Images,
    /// Who may ask.
    pub keys: Keys,
}

/// What every request shares. Cheap to clone.
#[derive(Clone)]
struct App {
    cluster: Cluster,
    streams: Streams,
    images: Images,
    keys: Keys,
    /// Turns true when the program ends: long answers end too.
    stop: Receiver<bool>,
    /// Made at the first request for them.
    documents: Arc<OnceLock<Vec<Document>>>,
    /// What nodes used when they were last asked.
    samples: Arc<Mutex<Samples>>,
}

/// Milliseconds since 1970.
fn wall_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}
