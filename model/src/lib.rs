//! The nouns of a node: pods, containers, states, resources and bounds, in the compact form that travels and that
//! an agent keeps.
//!
//! *In:* nothing. *Out:* plain data types that every other crate shares.
//! *Must never know:* MQTT, JSON, WebAssembly, files, clocks. It is `no_std`, so that a microcontroller can hold it.
//! *Tested:* by tables beside the code; `wire` freezes the encoding of every type here in golden bytes.
//!
//! A [`Pod`] is what a node is told to run; a [`PodStatus`] is what the node says of it. Kubernetes' objects are
//! lowered to the first and raised from the second in the controller, in one file each.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod id;
pub mod time;

pub mod quantity;

pub mod pod;
pub mod volume;

pub mod status;
pub mod usage;

pub mod event;

pub mod node;

pub mod limits;

pub use event::PodEvent;
pub use id::{BootId, ClusterId, Digest, InstanceId, PodUid, SessionNumber};
pub use limits::Limits;
pub use node::{NodeFacts, NodeImage};
pub use pod::{Container, EnvVar, Pod, PullPolicy, ResourceAmounts, RestartPolicy, Stop};
pub use status::{
    Condition, ConditionKind, ConditionStatus, ContainerState, ContainerStatus, Phase, PodStatus, Terminated,
};
pub use time::Millis;
pub use usage::{ContainerUsage, NodeUsage};
pub use volume::{Volume, VolumeFile, VolumeMount, VolumeSource};
