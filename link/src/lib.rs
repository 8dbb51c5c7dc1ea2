//! MQTT as both sides and the tools use it: one session, from CONNACK to its first error.
//!
//! *In:* where the broker is, who we are, what to hear. *Out:* messages as they come, a handle that publishes without
//! ever blocking, delays between tries.
//! *Must never know:* what a payload means, which topics there are, pods.
//! *Tested:* addresses and delays by tables here; sessions against the embedded broker in `coracle-controller`'s tests
//! and against Mosquitto end to end.
//!
//! A [`Session`] is never mended: its first error ends it, and whoever wants another one waits for a [`Backoff`] and
//! connects anew, with the next Last Will (DESIGN, decision 6). Everything travels at QoS 1 with clean start, so nothing
//! outlives a session, neither here nor in the broker; what must arrive is said again by the layer above.
#![forbid(unsafe_code)]

mod broker_url;

pub mod client_id;

mod backoff;

mod window;

mod publisher;

mod session;

pub use backoff::Backoff;
pub use broker_url::{BrokerUrl, ParseBrokerUrlError};
pub use publisher::{PublishError, Publisher};
pub use session::{LinkError, Message, Session, Settings};
