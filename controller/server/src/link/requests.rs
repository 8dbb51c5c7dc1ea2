//! What agents ask the link itself for: artifacts and their blocks. Answers come from the images and never pass through
//! the committer.
//!
//! Each request is a task, and there is a bound on them. Blocks are read a few at a time, so that ten thousand nodes that
//! pull at once cost memory for a few blocks.

use std::sync::Arc;

use coracle_link::Publisher;
use coracle_model::SessionNumber;
use coracle_wire::artifact::{ArtifactRefusal, ArtifactReply, ArtifactRequest, Block, BlockRequest};
use coracle_wire::down::{Down, Reintroduce};
use coracle_wire::topic::{self, NodeTopic};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::peers::{Machine, Peers};
use crate::images::Images;

/// Requests that wait or are answered: enough for every node of a large cluster to ask for one image at once.
const MAX_REQUESTS: usize = 16_384;
/// Blocks in memory that are not yet queued to be sent.
const BLOCKS_AT_ONCE: usize = 4;
/// Blocks that one request may name; agents ask for a few at a time.
const BLOCKS_OF_REQUEST: usize = 64;

/// Answers for artifacts and blocks.
pub(crate) struct Requests {
    cluster_name: String,
    images: Images,
    peers: Arc<Mutex<Peers>>,
    reading: Arc<Semaphore>,
    tasks: JoinSet<()>,
}

/// The way back to one node.
struct Answerer {
    topic: String,
    link: Publisher,
}

impl Requests {
    pub(crate) fn new(cluster_name: String, images: Images, peers: Arc<Mutex<Peers>>) -> Self {
        let reading = Arc::new(Semaphore::new(BLOCKS_AT_ONCE));
        Self { cluster_name, images, peers, reading, tasks: JoinSet::new() }
    }

    /// What does an image name mean for this node?
    pub(crate) fn artifact(&mut self, node: &str, request: ArtifactRequest, link: &Publisher) {
        let answerer = self.answerer(node, link);
        let Some(machine) = self.machine(node, request.session, &answerer) else { return };
        let image = request.image;
        if self.is_full() {
            let busy = ArtifactRefusal::Busy("too many nodes ask for images".to_owned());
            answerer.try_say(Down::Artifact(ArtifactReply { image, result: Err(busy) }));
            return;
        }
        let images = self.images.clone();
        self.tasks.spawn(async move {
            let result = images.artifact(&image, &machine.target, &machine.engine).await;
            let result = result.map(|manifest| (*manifest).clone());
            answerer.say(Down::Artifact(ArtifactReply { image, result })).await;
        });
    }

    /// Blocks of an artifact. When too much waits the request is dropped, and the agent asks again.
    pub(crate) fn blocks(&mut self, node: &str, request: BlockRequest, link: &Publisher) {
        let answerer = self.answerer(node, link);
        if self.machine(node, request.session, &answerer).is_none() {
            return;
        }
        if self.is_full() || request.blocks.len() > BLOCKS_OF_REQUEST {
            tracing::debug!(node, blocks = request.blocks.len(), "a request for blocks was dropped");
            return;
        }
        let (images, reading) = (self.images.clone(), Arc::clone(&self.reading));
        let artifact = request.artifact;
        self.tasks.spawn(async move {
            for index in request.blocks {
                // The semaphore is never closed.
                let Ok(_place) = reading.acquire().await else { return };
                let images = images.clone();
                let read = tokio::task::spawn_blocking(move || images.block(artifact, index)).await;
                let bytes = read.ok().flatten().unwrap_or_default();
                answerer.say(Down::Block(Block { artifact, index, bytes })).await;
            }
        });
    }

    fn answerer(&self, node: &str, link: &Publisher) -> Answerer {
        Answerer { topic: topic::node(&self.cluster_name, node, NodeTopic::Down), link: link.clone() }
    }

    /// The node's machine; a session that is not known is asked to introduce itself again.
    fn machine(&self, node: &str, session: SessionNumber, answerer: &Answerer) -> Option<Machine> {
        let machine = self.peers.lock().machine(node, session).cloned();
        if machine.is_none() {
            answerer.try_say(Down::Reintroduce(Reintroduce { session }));
        }
        machine
    }

    /// Whether no more requests are taken; those that were answered are cleared away first.
    fn is_full(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.len() >= MAX_REQUESTS
    }
}

impl Answerer {
    /// Queues an answer when there is room.
    async fn say(&self, down: Down) {
        match down.encode() {
            Ok(payload) => {
                if let Err(error) = self.link.publish_in_turn(&self.topic, payload).await {
                    tracing::debug!(%error, topic = self.topic, "an answer was not published; the agent asks again");
                }
            }
            Err(error) => tracing::warn!(%error, topic = self.topic, "an answer cannot travel"),
        }
    }

    /// Queues an answer if there is room.
    fn try_say(&self, down: Down) {
        if let Ok(payload) = down.encode()
            && let Err(error) = self.link.publish(&self.topic, payload)
        {
            tracing::debug!(%error, topic = self.topic, "an answer was not published; the agent asks again");
        }
    }
}
