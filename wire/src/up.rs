//! Agent to controller.

use alloc::string::String;
use alloc::vec::Vec;

use coracle_model::{BootId, ClusterId, InstanceId, Millis, NodeFacts, NodeImage, PodEvent, SessionNumber};
use serde::{Deserialize, Serialize};

use crate::artifact::{ArtifactRequest, BlockRequest};
use crate::envelope::messages;
use crate::item::Item;
use crate::stream::{StreamCredit, StreamData, StreamEnd, StreamHead};

/// Every message that an agent sends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a message is encoded where it is made, and handled where it is decoded")]
pub enum Up {
    /// The first of a session, on the topic `birth`.
    Birth(Birth),
    /// The Last Will, on the topic `death`; also published before a clean stop.
    Death(Death),
    /// Statuses that changed.
    Report(Report),
    /// Nothing changed, but the node is there.
    Lease(Lease),
    /// What does this image name mean, and what is it made of here?
    Artifact(ArtifactRequest),
    /// Blocks of an artifact, please.
    Blocks(BlockRequest),
    /// The other end of a stream answered.
    StreamHead(StreamHead),
    /// Bytes of a stream.
    StreamData(StreamData),
    /// More bytes of a stream may come.
    StreamCredit(StreamCredit),
    /// A stream is over.
    StreamEnd(StreamEnd),
    /// What the node says of itself changed.
    Node(NodeReport),
}

messages!(Up {
    1 => Birth(Birth),
    2 => Death(Death),
    3 => Report(Report),
    4 => Lease(Lease),
    5 => Artifact(ArtifactRequest),
    6 => Blocks(BlockRequest),
    7 => StreamHead(StreamHead),
    8 => StreamData(StreamData),
    9 => StreamCredit(StreamCredit),
    10 => StreamEnd(StreamEnd),
    11 => Node(NodeReport),
});

/// A session begins. The controller answers with [`crate::down::Welcome`] and a whole sync, or with
/// [`crate::down::Refuse`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Birth {
    /// The number of this session.
    pub session: SessionNumber,
    /// The data directory behind it.
    pub instance: InstanceId,
    /// The boot of the operating system.
    pub boot: BootId,
    /// Oldest and newest wire version that the agent speaks.
    pub speaks: (u8, u8),
    /// The cluster that the agent has pinned, if it has.
    pub pinned: Option<ClusterId>,
    /// The agent's monotonic clock, to which every [`Millis`] of this session refers.
    pub now: Millis,
    /// What the node is.
    pub facts: NodeFacts,
    /// The desired set that the agent holds on its disk, by its sequence number; 0 for none.
    pub holds: u64,
}

/// A session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// Which one; a late death of an old session is ignored.
    pub session: SessionNumber,
}

/// Statuses and events since the last report. Level-triggered: a status is whole, a later one replaces it, and it
/// is sent again until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The session.
    pub session: SessionNumber,
    /// Counts reports of this session from 1.
    pub sequence: u64,
    /// The agent's monotonic clock at sending.
    pub now: Millis,
    /// The sequence of the desired set that is applied here.
    pub applied: u64,
    /// Each a [`coracle_model::PodStatus`].
    pub statuses: Vec<Item>,
    /// Events, oldest first; these travel once, and some may be lost.
    pub events: Vec<PodEvent>,
    /// Pods of the desired set that this agent could not understand, with why.
    pub refused: Vec<(coracle_model::PodUid, String)>,
}

/// What a node says of itself beside its facts. Level-triggered as a [`Report`], with which it shares its numbers and its
/// acknowledgement: it is whole, the latest counts, and it is sent again until it is acknowledged. It is sent once in a
/// session, and then when something in it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The session.
    pub session: SessionNumber,
    /// Counts reports of this session from 1, those of pods among them.
    pub sequence: u64,
    /// The sequence of the desired set that is applied here.
    pub applied: u64,
    /// The condition `MemoryPressure` (PRI-09).
    pub memory_pressure: bool,
    /// The condition `DiskPressure` (PRI-09).
    pub disk_pressure: bool,
    /// `status.images`, the largest first, at most [`coracle_model::limits::MAX_NODE_IMAGES`].
    pub images: Vec<NodeImage>,
}

/// A renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The session; a controller that does not know it answers [`crate::down::Down::Reintroduce`].
    pub session: SessionNumber,
    /// The sequence of the desired set that is applied here. A controller that has sent a later one, long enough
    /// ago, sends a whole sync.
    pub applied: u64,
}
