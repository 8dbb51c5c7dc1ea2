//! The task that owns the controller's MQTT session: connects for ever, hands on what agents say, and publishes what the
//! committer wants them to hear.
//!
//! Nothing is kept over a lost session. What the committer says meanwhile is thrown away, since agents that were not
//! reached confirm nothing and get the whole set again.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coracle_link::{Backoff, BrokerUrl, LinkError, Message, PublishError, Publisher, Session, Settings, client_id};
use coracle_wire::down::Down;
use coracle_wire::topic::{self, NodeTopic, Topic};
use coracle_wire::up::{Birth, Up};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::manifests::{self, Manifests, Wish};
use super::peers::{Machine, Peers};
use super::requests::Requests;
use super::streams::Streams;
use crate::committer::Cluster;
use crate::images::Images;

/// How often the broker hears from a controller that has nothing to say.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// An agent that cannot join tries on and on.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The task's state, apart from its session.
struct Driver {
    settings: Settings,
    cluster_name: String,
    cluster: Cluster,
    peers: Arc<Mutex<Peers>>,
    streams: Streams,
    requests: Requests,
    manifests: Manifests,
    /// Payloads that made no sense.
    ignored: u64,
    warned: Option<Instant>,
}

/// Starts the driver. It connects to `broker` as `controller_id` (a random id if there is none, as for a broker that is
/// not ours) until `stop` turns true; then it sends what is queued and ends.
pub fn start(
    broker: BrokerUrl,
    controller_id: Option<String>,
    cluster_name: String,
    cluster: Cluster,
    images: Images,
    downs: mpsc::Receiver<(String, Down)>,
    stop: watch::Receiver<bool>,
) -> (Streams, JoinHandle<()>) {
    let client_id = controller_id.unwrap_or_else(|| {
        // Without randomness, at least two clusters on one broker stay apart.
        client_id::random("coracle-controller").unwrap_or_else(|_| format!("coracle-controller-of-{cluster_name}"))
    });
    let subscribe = vec![
        topic::every_node(&cluster_name, NodeTopic::Birth),
        topic::every_node(&cluster_name, NodeTopic::Death),
        topic::every_node(&cluster_name, NodeTopic::Up),
        topic::manifests_apply(&cluster_name),
        topic::manifests_delete(&cluster_name),
    ];
    let peers = Arc::new(Mutex::new(Peers::default()));
    let streams = Streams::new(cluster_name.clone(), Arc::clone(&peers));
    let (manifests, worker) = manifests::new(cluster_name.clone(), cluster.clone());
    let driver = Driver {
        settings: Settings { broker, client_id, keep_alive: KEEP_ALIVE, will: None, subscribe },
        requests: Requests::new(cluster_name.clone(), cluster.clone(), images, Arc::clone(&peers)),
        cluster_name,
        cluster,
        peers,
        streams: streams.clone(),
        manifests,
        ignored: 0,
        warned: None,
    };
    // The worker ends by itself when the driver has gone.
    tokio::spawn(worker.run());
    (streams, tokio::spawn(driver.run(downs, stop)))
}

impl Driver {
    async fn run(mut self, mut downs: mpsc::Receiver<(String, Down)>, mut stop: watch::Receiver<bool>) {
        let mut backoff = Backoff::new(seed());
        while !*stop.borrow() {
            let session = tokio::select! {
                connected = Session::connect(&self.settings) => connected,
                _ = stop.wait_for(|stopping| *stopping) => return,
            };
            match session {
                Ok(session) => {
                    backoff.reset();
                    tracing::info!(broker = %self.settings.broker, "connected to the broker");
                    let stopping = stop.wait_for(|stopping| *stopping);
                    match self.serve(session, &mut downs, stopping).await {
                        None => return,
                        Some(error) => warn(&error, "the session with the broker ended"),
                    }
                }
                Err(error) => warn(&error, "failed to connect to the broker"),
            }
            let rest = tokio::time::sleep(backoff.next_delay());
            tokio::select! {
                () = rest => {}
                () = discard(&mut downs) => {}
                _ = stop.wait_for(|stopping| *stopping) => {}
            }
            while downs.try_recv().is_ok() {}
        }
    }

    /// One session, from its first message to its end; `None` when we are to stop.
    async fn serve(
        &mut self,
        mut session: Session,
        downs: &mut mpsc::Receiver<(String, Down)>,
        stopping: impl Future,
    ) -> Option<LinkError> {
        let link = session.publisher();
        self.streams.connected(link.clone());
        let speaker = Speaker {
            cluster_name: self.cluster_name.clone(),
            peers: Arc::clone(&self.peers),
            streams: self.streams.clone(),
            link: link.clone(),
        };
        let speaking = speaker.speak(downs);
        let listening = async {
            loop {
                match session.next().await {
                    Ok(message) => self.hear(message, &link),
                    Err(error) => break error,
                }
            }
        };
        let error = tokio::select! {
            error = listening => Some(error),
            () = speaking => Some(LinkError::Closed),
            _ = stopping => None,
        };
        self.streams.disconnected();
        if error.is_none() {
            session.close().await;
        }
        error
    }

    /// Passes one message on. Nothing here waits.
    fn hear(&mut self, message: Message, link: &Publisher) {
        let topic = message.topic.clone();
        match topic::parse(&self.cluster_name, &topic) {
            Some(Topic::Apply) => self.manifests.take(Wish::Apply, message, link),
            Some(Topic::Delete) => self.manifests.take(Wish::Delete, message, link),
            Some(Topic::Node(node, word)) if topic::is_name(node) => match Up::decode(&message.payload) {
                Ok(up) => self.hear_agent(node, word, up, link),
                Err(error) => {
                    if matches!(word, NodeTopic::Birth) {
                        self.warn_of_stranger(node, &error.to_string());
                    }
                    self.ignore(&topic, &error.to_string());
                }
            },
            Some(Topic::Node(..)) | None => self.ignore(&topic, "no topic of a node"),
        }
    }

    /// The topic says which node it is; the payload is only believed about that one.
    fn hear_agent(&mut self, node: &str, word: NodeTopic, up: Up, link: &Publisher) {
        match (word, up) {
            (NodeTopic::Birth, Up::Birth(birth)) => self.born(node, birth),
            (NodeTopic::Death | NodeTopic::Up, Up::Death(death)) => {
                if self.peers.lock().died(node, death.session) {
                    self.streams.ended(node);
                }
                self.tell(node, Up::Death(death));
            }
            (NodeTopic::Up, up @ (Up::Report(_) | Up::Lease(_) | Up::Node(_))) => self.tell(node, up),
            (NodeTopic::Up, Up::Artifact(request)) => self.requests.artifact(node, request, link),
            (NodeTopic::Up, Up::Blocks(request)) => self.requests.blocks(node, request, link),
            (NodeTopic::Up, up @ (Up::StreamHead(_) | Up::StreamData(_) | Up::StreamCredit(_) | Up::StreamEnd(_))) => {
                self.streams.hear(node, up)
            }
            (word, _) => self.ignore(node, &format!("not on the topic {word:?}")),
        }
    }

    fn born(&mut self, node: &str, birth: Birth) {
        let machine = Machine {
            target: birth.facts.target.clone(),
            engine: birth.facts.engine.clone(),
            interfaces: birth.facts.interfaces.as_slice().into(),
        };
        self.peers.lock().born(node, birth.session, machine);
        self.tell(node, Up::Birth(birth));
    }

    fn tell(&self, node: &str, up: Up) {
        if let Err(error) = self.cluster.hear(node.to_owned(), up) {
            tracing::debug!(node, %error, "an agent's word was dropped; it says it again");
        }
    }

    /// Who gives birth to what cannot be read waits for ever to become a node; people must hear of that.
    fn warn_of_stranger(&mut self, node: &str, why: &str) {
        if self.warned.is_none_or(|then| then.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(node, why, "an agent cannot join; are it and this controller of the same version?");
        }
    }

    fn ignore(&mut self, about: &str, why: &str) {
        self.ignored += 1;
        tracing::debug!(about, why, ignored = self.ignored, "a message was ignored");
    }
}

/// The other direction of a session.
struct Speaker {
    cluster_name: String,
    peers: Arc<Mutex<Peers>>,
    streams: Streams,
    link: Publisher,
}

impl Speaker {
    /// Publishes what the committer says, until the session is over.
    async fn speak(&self, downs: &mut mpsc::Receiver<(String, Down)>) {
        while let Some((node, down)) = downs.recv().await {
            if let Down::Welcome(welcome) = &down
                && self.peers.lock().welcomed(&node, welcome.session)
            {
                self.streams.ended(&node);
            }
            let payload = match down.encode() {
                Ok(payload) => payload,
                Err(error) => {
                    tracing::warn!(node, %error, "a message for a node cannot travel");
                    continue;
                }
            };
            let topic = topic::node(&self.cluster_name, &node, NodeTopic::Down);
            match self.link.publish_in_turn(&topic, payload).await {
                Ok(()) => {}
                Err(PublishError::Closed | PublishError::Full) => return,
                Err(error) => tracing::warn!(node, %error, "a message for a node was not published"),
            }
        }
        // The committer has ended; what agents and the API say to each other goes on until we are stopped.
        std::future::pending().await
    }
}

/// Throws away what nobody can be told.
async fn discard(downs: &mut mpsc::Receiver<(String, Down)>) {
    while downs.recv().await.is_some() {}
    std::future::pending().await
}

fn seed() -> u64 {
    let mut bytes = [0; 8];
    // The same delays as another controller's do no harm.
    if getrandom::fill(&mut bytes).is_err() {
        tracing::debug!("the system gives no randomness");
    }
    u64::from_le_bytes(bytes)
}

/// Logs an error with all that is behind it.
fn warn(error: &LinkError, what: &str) {
    let mut chain = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        chain.push_str(": ");
        chain.push_str(&cause.to_string());
        source = cause.source();
    }
    tracing::warn!(error = chain, "{what}");
}
