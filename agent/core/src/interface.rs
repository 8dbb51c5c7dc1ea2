//! The whole interface between the core of an agent and the shell around it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use coracle_lifecycle::{Exit, Run};
use coracle_model::{
    BootId, ClusterId, Digest, InstanceId, NodeFacts, NodeImage, Pod, PodStatus, PodUid, SessionNumber,
};
use coracle_wire::artifact::ArtifactManifest;
use coracle_wire::stream::{StreamCredit, StreamData, StreamEnd, StreamHead, StreamOpen};
use coracle_wire::topic::NodeTopic;

use crate::pressure::Measured;

/// Who this agent is; all of it is passed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The data directory.
    pub instance: InstanceId,
    /// The boot of the operating system.
    pub boot: BootId,
    /// What the node is.
    pub facts: NodeFacts,
    /// A seed for jitter.
    pub seed: u64,
}

/// What the agent's disk remembers: read at start, and written whenever [`Effect::Remember`] says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The cluster and the key that were pinned at first contact.
    pub pinned: Option<(ClusterId, [u8; 32])>,
    /// The sequence of the desired set.
    pub sequence: u64,
    /// The desired set (decision 11: a node that boots with no controller in sight starts its pods).
    pub pods: Vec<Pod>,
    /// The last word about pods of that set which came to their end by themselves, so that a finished job is not run
    /// again after a restart. Their times are of the clock that ran then.
    pub finished: Vec<PodStatus>,
}

/// Something happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A new MQTT session stands, with this number (which the shell has counted up on its disk before connecting,
    /// because the Last Will carries it). The core answers with a birth.
    Connected(SessionNumber),
    /// The MQTT session broke. Pods go on.
    Disconnected,
    /// A payload on this node's `down` topic; it may be anything.
    Down(Vec<u8>),
    /// The runtime did something.
    Runtime(RuntimeEvent),
    /// The pod uses more of this node than it may. It ends now and fails (PRI-09).
    Evict {
        /// The pod.
        pod: PodUid,
        /// What it uses, and what it may use.
        message: String,
    },
    /// The answer to [`Effect::Measure`] and to [`Effect::Survey`].
    Measured(Measured),
    /// The images whose artifacts are on disk now, all of them.
    Images(Vec<NodeImage>),
    /// The answer to [`Effect::FindArtifact`]: the digest of the image, if a checked artifact for that name is on disk.
    ArtifactFound {
        /// As in the effect.
        image: String,
        /// Nothing if the disk has none.
        digest: Option<Digest>,
    },
    /// The answer to [`Effect::BeginArtifact`].
    ArtifactBegun {
        /// The digest of the machine code.
        artifact: Digest,
        /// Whole and checked already: nothing is to be pulled.
        complete: bool,
        /// Blocks that are on disk from an earlier try, checked.
        have: Vec<u32>,
    },
    /// The answer to [`Effect::FinishArtifact`]. An error may also come instead of [`Input::ArtifactBegun`], or while
    /// blocks are written: the artifact is nothing for this node, or the disk is full.
    ArtifactFinished {
        /// The digest of the machine code.
        artifact: Digest,
        /// Signature, whole digest and engine are right, and it is on disk for good; or why not.
        result: Result<(), String>,
    },
    /// A stream that the shell serves has something for the controller.
    StreamHead(StreamHead),
    /// Bytes. The shell sends no more than it has been granted.
    StreamData(StreamData),
    /// The shell took bytes out of the stream, so as many more may come.
    StreamCredit(StreamCredit),
    /// The shell's end of a stream is over.
    StreamEnd(StreamEnd),
    /// Time has passed.
    Tick,
}

/// What the runtime says of a run; becomes an event of the lifecycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// The guest is running.
    Started(Run),
    /// The guest is over.
    Exited {
        /// Which run.
        run: Run,
        /// How.
        exit: Exit,
    },
    /// The run did not begin, because a volume of its pod could not be laid out. It is to be tried again.
    MountFailed {
        /// Which run.
        run: Run,
        /// Which volume.
        volume: String,
        /// Why.
        why: String,
    },
}

/// Something is to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Publish on one of this node's topics, QoS 1. Dropped by the shell while there is no session.
    Publish {
        /// `birth` or `up`.
        topic: NodeTopic,
        /// At most 1 MiB.
        payload: Vec<u8>,
    },
    /// End the MQTT session and make a new one, with the next session number.
    Reconnect,
    /// Write this to disk, atomically, now. Never issued while nothing changes.
    Remember(Remembered),
    /// This agent must not run: another one holds its name, or the cluster is not the one it knows. The program
    /// stops every guest and exits with an error that says this.
    Quit(String),

    /// Lay out the pod's volumes and start this run. The container is part of the pod.
    Start {
        /// Which.
        run: Run,
        /// The whole pod; the container is looked up by name.
        pod: Pod,
        /// The image whose artifact is to run.
        image: Digest,
    },
    /// Make the termination signal visible to the guest.
    Signal {
        /// Which.
        run: Run,
        /// The grace that remains, in milliseconds.
        grace_ms: u64,
    },
    /// End the run now.
    Kill(Run),
    /// The files of this pod's volumes changed: show them to its containers, in one step for each volume.
    Refresh(Pod),
    /// Every container of this pod has ended for good: free its volumes.
    TearDown(PodUid),
    /// The controller has said all that this node is to hold, for the first time since the agent started: free the
    /// volumes of every pod but these. Not earlier: the disk may never have heard of a pod that started just before a
    /// power cut, and its data is to be there when it starts again (VOL-01).
    TearDownOthers(BTreeSet<PodUid>),
    /// Free logs and directories of this pod.
    Forget(PodUid),

    /// Measure what the node has left, and say [`Input::Measured`].
    Measure,
    /// The node is short of something. Measure again, with what each pod uses.
    Survey {
        /// Before that, throw away everything on the disk that nobody needs.
        reclaim_disk: bool,
    },

    /// Is an artifact for this image name on disk?
    FindArtifact {
        /// As in the container.
        image: String,
    },
    /// Prepare to pull this artifact; say which blocks are there already.
    BeginArtifact {
        /// As in the container: the name under which it will be found again.
        image: String,
        /// All about it.
        manifest: ArtifactManifest,
    },
    /// Keep this block, which has the right digest.
    WriteBlock {
        /// The digest of the machine code.
        artifact: Digest,
        /// From 0.
        index: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// All blocks are there: check signature, digest and engine, and keep the artifact.
    FinishArtifact {
        /// As in the container.
        image: String,
        /// The digest of the machine code.
        artifact: Digest,
    },

    /// The controller opens a stream.
    StreamOpen(StreamOpen),
    /// Bytes from the controller.
    StreamData(StreamData),
    /// The shell may send more.
    StreamCredit(StreamCredit),
    /// The controller's end is over.
    StreamEnd(StreamEnd),
}
