//! The controller's side of the link: the broker, the one MQTT session that agents are heard through, and the planes
//! that do not pass through the store (artifacts, blocks, streams).
//!
//! *In:* MQTT messages; what the committer and the API want agents to hear. *Out:* inputs of the committer; MQTT messages.
//! *Must never know:* what a pod is, why an agent is told something; that is decided in `controller/core`.
//! *Tested:* the tables of peers, streams and rules beside the code; the broker by its clients in `tests/broker.rs`; the
//! rest end to end.
//!
//! [`broker`] is optional: [`driver`] talks to any MQTT 5 broker. Everything that an agent says may be garbage, old, or
//! come twice; nothing here trusts more than the topic that it came on.

mod access;
pub mod broker;
mod valve;

pub mod driver;
mod peers;

pub use self::peers::Offering;

mod requests;

pub mod streams;

mod manifests;
