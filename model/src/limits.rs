//! A bound on everything. A queue without one is a defect.

/// The bounds of one kind of board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pods on one node.
    pub pods: usize,
    /// Containers in one pod.
    pub containers: usize,
    /// Effects that wait for the shell before the core refuses more input.
    pub effects: usize,
    /// Events that wait to be reported; the oldest go first.
    pub events: usize,
    /// Streams (logs, proxy) open at once on one node.
    pub streams: usize,
    /// Artifact pulls under way at once on one node.
    pub pulls: usize,
    /// Blocks asked for and not yet received, for one pull.
    pub blocks_in_flight: usize,
    /// Bytes of output kept for one container, of the current run and of the one before, each.
    pub log_bytes: usize,
}

impl Limits {
    /// A board that runs Linux.
    pub const LINUX: Self = Self {
        pods: 1100,
        containers: 64,
        effects: 65_536,
        events: 1024,
        streams: 256,
        pulls: 16,
        blocks_in_flight: 16,
        log_bytes: 64 * 1024,
    };
}

/// The largest MQTT payload that Coracle publishes or accepts: 1 MiB, checked before publishing.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// The largest set of pods that travels in one part of a sync, so that a part stays under [`MAX_MESSAGE_BYTES`].
pub const SYNC_PART_BYTES: usize = 256 * 1024;

/// The most that one pod's environment, arguments and files may come to, together: so much fits into one message beside
/// what else is in it. A pod with more does not start, and says so.
pub const MAX_POD_CONTENT_BYTES: usize = 512 * 1024;

/// The largest manifest: 3 MiB over HTTP (Kubernetes' own bound); over MQTT, [`MAX_MESSAGE_BYTES`].
pub const MAX_MANIFEST_BYTES: usize = 3 * 1024 * 1024;

/// The size of every block of an artifact but the last: four seconds at 64 kbit/s, so that what waits behind one on a thin
/// link (a ping, an acknowledgement) is not given up meanwhile.
pub const BLOCK_BYTES: usize = 32 * 1024;

/// The largest artifact: 64 MiB of machine code.
pub const MAX_ARTIFACT_BYTES: usize = 64 * 1024 * 1024;

/// The largest image that may be pushed: 32 MiB of WebAssembly.
pub const MAX_IMAGE_BYTES: usize = 32 * 1024 * 1024;

/// The bytes that the receiver of a stream allows its sender before it grants more: a quarter of a minute at 64 kbit/s.
pub const STREAM_CREDIT_BYTES: u32 = 128 * 1024;

/// The largest piece of a stream in one message.
pub const STREAM_CHUNK_BYTES: usize = 32 * 1024;

/// How often an agent renews its lease, in milliseconds (Kubernetes: `nodeStatusUpdateFrequency`, 10 s).
pub const LEASE_RENEW_MS: u64 = 10_000;

/// How long a lease lasts without renewal before its node is NotReady, in milliseconds (Kubernetes:
/// `node-monitor-grace-period`, 40 s; current releases 50 s).
pub const LEASE_MS: u64 = 40_000;

/// A report or a delta that was not acknowledged is sent again after this many milliseconds.
pub const RESEND_MS: u64 = 5_000;

/// The most images that a node speaks of, the largest first (Kubernetes: `nodeStatusMaxImages`).
pub const MAX_NODE_IMAGES: usize = 50;

/// The most names of one of them (Kubernetes: `MaxNamesPerImageInNodeStatus`).
pub const MAX_NODE_IMAGE_NAMES: usize = 5;

/// The longest such name, in bytes: a host, a path, a tag and a digest.
pub const MAX_NODE_IMAGE_NAME_BYTES: usize = 512;
