//! What agents ask the link itself for: artifacts and their blocks. Answers come from the images and never pass through
//! the committer.
//!
//! An artifact may have to be pulled from a registry and compiled first. That goes on by itself; a node that has waited
//! for some time is told to ask again, so that it does not take a slow registry for a dead controller.
//!
//! Each request is a task, and there is a bound on them. Blocks are read a few at a time, so that ten thousand nodes that
//! pull at once cost memory for a few blocks.

use std::sync::Arc;
use std::time::Duration;

use coracle_link::Publisher;
use coracle_model::SessionNumber;
use coracle_wire::artifact::{ArtifactManifest, ArtifactRefusal, ArtifactReply, ArtifactRequest, Block, BlockRequest};
use coracle_wire::down::{Down, Reintroduce};
use coracle_wire::topic::{self, NodeTopic};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::peers::{Machine, Peers};
use crate::committer::Cluster;
use crate::image_use;
use crate::images::interfaces::missing;
use crate::images::{ImageError, Images};

/// Requests that wait or are answered: enough for every node of a large cluster to ask for one image at once.
const MAX_REQUESTS: usize = 16_384;
/// Blocks in memory that are not yet queued to be sent.
const BLOCKS_AT_ONCE: usize = 4;
/// How long a node waits for an answer other than "ask again"; much less than it takes an agent to give up.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Nodes that a message names.
const NODES_SHOWN: usize = 3;
/// Blocks that one request may name; agents ask for a few at a time.
const BLOCKS_OF_REQUEST: usize = 64;

/// Answers for artifacts and blocks.
pub(crate) struct Requests {
    cluster_name: String,
    cluster: Cluster,
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
    pub(crate) fn new(cluster_name: String, cluster: Cluster, images: Images, peers: Arc<Mutex<Peers>>) -> Self {
        let reading = Arc::new(Semaphore::new(BLOCKS_AT_ONCE));
        Self { cluster_name, cluster, images, peers, reading, tasks: JoinSet::new() }
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
        let question = Question {
            cluster: self.cluster.clone(),
            images: self.images.clone(),
            peers: Arc::clone(&self.peers),
            node: node.to_owned(),
            machine,
        };
        self.tasks.spawn(async move {
            let result = timeout(ANSWER_WITHIN, question.answer(&image)).await.unwrap_or_else(|_| {
                Err(ArtifactRefusal::Busy("the image is still being pulled or compiled".to_owned()))
            });
            answerer.say(Down::Artifact(ArtifactReply { image, result })).await;
            question.tidy().await;
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

/// What does an image mean for a node? Everything that the answer needs.
struct Question {
    cluster: Cluster,
    images: Images,
    peers: Arc<Mutex<Peers>>,
    node: String,
    machine: Machine,
}

impl Question {
    async fn answer(&self, image: &str) -> Result<ArtifactManifest, ArtifactRefusal> {
        let wish = image_use::wish(&self.cluster, &self.node, image);
        let digest = self.images.obtain(image, wish).await?;
        let description = self.images.description(digest).await.map_err(|error| match error {
            ImageError::Refused(reason) => ArtifactRefusal::Unusable(reason),
            other => ArtifactRefusal::Busy(other.to_string()),
        })?;
        self.is_runnable(&description.imports)?;
        let manifest = self.images.artifact(digest, &self.machine.target, &self.machine.engine).await?;
        Ok((*manifest).clone())
    }

    /// A tag that moved at its registry has left an image behind.
    async fn tidy(&self) {
        if self.images.has_lost_a_name() {
            let (cluster, images) = (self.cluster.clone(), self.images.clone());
            // Its result is of no interest; what it removes is logged there.
            let _: Result<usize, _> = tokio::task::spawn_blocking(move || image_use::collect(&cluster, &images)).await;
        }
    }

    /// Refuses what imports something that the node does not offer, before anything is compiled for it.
    fn is_runnable(&self, imports: &[String]) -> Result<(), ArtifactRefusal> {
        let offered = &self.machine.interfaces;
        // An agent that says nothing of what it offers finds out for itself.
        let Some(import) = missing(imports, offered).filter(|_| !offered.is_empty()) else { return Ok(()) };
        let peers = self.peers.lock();
        let others = peers.offering(import);
        Err(ArtifactRefusal::Unusable(format!("it imports {import}, which {}", whereabouts(&others))))
    }
}

fn whereabouts(others: &[&str]) -> String {
    let shown = others.iter().take(NODES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    match others {
        [] => "no node of this cluster offers".to_owned(),
        [_] => format!("this node does not offer; node {shown} does"),
        all if all.len() > NODES_SHOWN => {
            format!("this node does not offer; nodes {shown} and {} more do", all.len() - NODES_SHOWN)
        }
        _ => format!("this node does not offer; nodes {shown} do"),
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

#[cfg(test)]
mod tests {
    use super::*;

    // EDGE-02
    #[test]
    fn a_node_that_offers_too_little_is_told_which_do() {
        for (others, text) in [
            (&[][..], "no node of this cluster offers"),
            (&["a"], "this node does not offer; node a does"),
            (&["a", "b"], "this node does not offer; nodes a, b do"),
            (&["a", "b", "c", "d", "e"], "this node does not offer; nodes a, b, c and 2 more do"),
        ] {
            assert_eq!(whereabouts(others), text);
        }
    }
}
