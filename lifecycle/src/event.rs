//! What happens to the pods of a node, and what is to be done about it. This is the whole interface of the machine.

use alloc::string::String;

use coracle_model::{Digest, Pod, PodEvent, PodUid, PullPolicy};

/// One run of one container: what every runtime event and effect is about. A late word about an earlier attempt is
/// ignored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The pod.
    pub pod: PodUid,
    /// The container's name.
    pub container: String,
    /// From 1.
    pub attempt: u32,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pod is desired, for the first time or in a new form.
    Desired(Pod),
    /// The pod's object is gone: end what still runs after a short grace, then forget it (TRM-08).
    Removed(PodUid),
    /// The answer to [`Effect::EnsureImage`].
    Image {
        /// The run that waits for it.
        run: Run,
        /// The digest of the image that is now on this node, or why it is not.
        result: Result<Digest, ImageFailure>,
    },
    /// The runtime started the run.
    Started(Run),
    /// The run is over, whether or not it ever started.
    Exited {
        /// Which.
        run: Run,
        /// How.
        exit: Exit,
    },
    /// The run could not begin, because a volume of its pod could not be laid out. It is tried again after a wait that
    /// doubles; meanwhile the container is being created.
    MountFailed {
        /// The run that [`Effect::Start`] named.
        run: Run,
        /// The volume.
        volume: String,
        /// Why.
        why: String,
    },
    /// The pod used more of the node than it may: end it now, and for good (PRI-09).
    Evicted {
        /// The pod.
        pod: PodUid,
        /// What it used, and what it may use.
        message: String,
    },
    /// Time has passed; see [`crate::Lifecycle::wake_at`].
    Tick,
}

/// Why an image is not on the node (POD-09).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageFailure {
    /// `ErrImagePull`, later `ImagePullBackOff`.
    Pull(String),
    /// `ErrImageNeverPull`
    NeverPull,
    /// `InvalidImageName`
    InvalidName(String),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this exit code: `Completed` for 0, else `Error`.
    Code(i32),
    /// It trapped: exit code 134 (as after an abort), reason `Error`, the trap as message.
    Trapped(String),
    /// It was killed by [`Effect::Kill`], or by its epoch: 137, signal 9.
    Killed,
    /// Over its memory limit: 137, `OOMKilled` (LIF-07).
    OutOfMemory,
    /// Over what the node has for all pods together: 137, `OOMKilled` (LIF-07).
    NodeOutOfMemory,
    /// It could not be started (no component, wrong engine, missing import, bad signature): 128, `StartError`.
    CannotStart(String),
}

/// Something is to be done. Every effect is idempotent for its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Get the image of this run onto the node, then say [`Event::Image`].
    EnsureImage {
        /// The run that waits.
        run: Run,
        /// As in the container.
        image: String,
        /// As in the container.
        policy: PullPolicy,
    },
    /// Lay out the pod's volumes and start the run from the image with this digest, then say [`Event::Started`],
    /// [`Event::Exited`] or [`Event::MountFailed`].
    Start {
        /// Which.
        run: Run,
        /// The image.
        image: Digest,
    },
    /// Make the termination signal visible to the guest (TRM-03); it goes on running.
    Signal {
        /// Which.
        run: Run,
        /// The grace that remains, in milliseconds.
        grace_ms: u64,
    },
    /// End the run now, then say [`Event::Exited`] with [`Exit::Killed`].
    Kill(Run),
    /// The files of this pod's volumes changed while it runs: show them to its containers (VOL-01).
    Refresh(PodUid),
    /// Every container of this pod has ended for good: free its volumes. Its logs stay.
    TearDown(PodUid),
    /// The status of this pod changed: read it with [`crate::Lifecycle::status`].
    StatusChanged(PodUid),
    /// Tell people.
    Tell(PodEvent),
    /// Nothing of this pod runs and nobody wants it: free its logs and directories.
    Forget(PodUid),
}
