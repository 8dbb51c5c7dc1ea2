//! Controller to agent.

use alloc::string::String;
use alloc::vec::Vec;

use coracle_model::{ClusterId, InstanceId, PodUid, SessionNumber};
use serde::{Deserialize, Serialize};

use crate::artifact::{ArtifactReply, Block};
use crate::envelope::messages;
use crate::item::Item;
use crate::stream::{StreamCredit, StreamData, StreamEnd, StreamOpen};

/// Every message that a controller sends to one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// The birth was heard.
    Welcome(Welcome),
    /// The birth was refused; the agent exits.
    Refuse(Refuse),
    /// A session is unknown here: be born again (with the next session number).
    Reintroduce(Reintroduce),
    /// A part of the whole desired set.
    Sync(Sync),
    /// What changed in the desired set.
    Delta(Delta),
    /// Reports were heard, and are durable.
    Ack(Ack),
    /// What an image name means.
    Artifact(ArtifactReply),
    /// A block of an artifact.
    Block(Block),
    /// Open a stream.
    StreamOpen(StreamOpen),
    /// Bytes of a stream.
    StreamData(StreamData),
    /// More bytes of a stream may come.
    StreamCredit(StreamCredit),
    /// A stream is over.
    StreamEnd(StreamEnd),
}

messages!(Down {
    1 => Welcome(Welcome),
    2 => Refuse(Refuse),
    3 => Reintroduce(Reintroduce),
    4 => Sync(Sync),
    5 => Delta(Delta),
    6 => Ack(Ack),
    7 => Artifact(ArtifactReply),
    8 => Block(Block),
    9 => StreamOpen(StreamOpen),
    10 => StreamData(StreamData),
    11 => StreamCredit(StreamCredit),
    12 => StreamEnd(StreamEnd),
});

/// The session is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The session that is welcome; an agent ignores one for another session.
    pub session: SessionNumber,
    /// The wire version for the rest of the session: the highest that both speak.
    pub version: u8,
    /// The cluster; an agent that has pinned another one ignores this controller.
    pub cluster: ClusterId,
    /// The ed25519 public key that signs artifacts; pinned together with the cluster.
    pub artifact_key: [u8; 32],
    /// How often to renew the lease, in milliseconds.
    pub renew_ms: u64,
}

/// The agent must not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refuse {
    /// Which agent: another one of the same node name ignores this.
    pub instance: InstanceId,
    /// Why, for its operator.
    pub reason: String,
}

/// This controller has no such session (it was restarted behind an external broker).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reintroduce {
    /// The session of the message that was not understood.
    pub session: SessionNumber,
}

/// One part of the whole desired set. The agent applies it when it has all parts of one sequence: pods that are in
/// none of them are no longer desired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// The session.
    pub session: SessionNumber,
    /// The sequence of the set.
    pub sequence: u64,
    /// From 0.
    pub part: u16,
    /// How many there are; at least 1.
    pub parts: u16,
    /// Each a [`coracle_model::Pod`].
    pub pods: Vec<Item>,
}

/// What changed since `sequence - 1`. An agent that is not at that sequence keeps what it has; the controller
/// notices from its next lease and sends a [`Sync`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The session.
    pub session: SessionNumber,
    /// The sequence of the set after this.
    pub sequence: u64,
    /// New or changed; each a [`coracle_model::Pod`].
    pub upserts: Vec<Item>,
    /// No longer desired: their objects are gone.
    pub removes: Vec<PodUid>,
}

/// This report need not be sent again. Says nothing of earlier ones, which may have been lost on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// The session.
    pub session: SessionNumber,
    /// The sequence of the report.
    pub sequence: u64,
}
