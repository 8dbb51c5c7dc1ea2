//! This agent's way to its controller: sessions one after another, each with the next number.

use std::pin::Pin;
use std::time::Duration;

use coracle_link::{Backoff, BrokerUrl, LinkError, PublishError, Publisher, Session, Settings};
use coracle_model::{InstanceId, SessionNumber};
use coracle_wire::topic::{self, NodeTopic};
use coracle_wire::up::{Death, Up};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

/// How often the broker hears of this agent at least. A broker takes it for dead after one and a half of this.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Messages that wait for the broker. The core sends again what matters, so a full queue ends the session.
const MAX_WAITING: usize = 256;
/// Streams stop while more bytes than this wait for the broker, so that a lease is never far behind: eight seconds at 64
/// kbit/s.
const STREAM_BYTES: usize = 64 * 1024;
/// For the last messages of an agent that stops.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What happened on the way.
#[derive(Debug)]
pub(crate) enum News {
    /// The number of the next session is needed.
    WantsNumber,
    /// A session stands.
    Up(SessionNumber),
    /// A payload on the node's `down` topic.
    Down(Vec<u8>),
    /// The session broke.
    Broken,
}

enum State {
    Waiting(Pin<Box<Sleep>>),
    Due,
    Connecting(SessionNumber, Pin<Box<dyn Future<Output = Result<Session, LinkError>> + Send>>),
    Up(Connection),
}

struct Connection {
    session: Session,
    /// Dropped with the session, which ends the task behind it.
    outbox: mpsc::Sender<(NodeTopic, Vec<u8>)>,
    publishing: JoinHandle<()>,
    number: SessionNumber,
}

/// See the module.
pub(crate) struct Uplink {
    state: State,
    backoff: Backoff,
    broker: BrokerUrl,
    cluster: String,
    node: String,
    instance: InstanceId,
}

impl Uplink {
    pub(crate) fn new(broker: BrokerUrl, cluster: String, node: String, instance: InstanceId, seed: u64) -> Self {
        Self { state: State::Due, backoff: Backoff::new(seed), broker, cluster, node, instance }
    }

    /// Waits for the next thing that happens. Cancel-safe.
    pub(crate) async fn next(&mut self) -> News {
        loop {
            match &mut self.state {
                State::Waiting(sleep) => {
                    sleep.as_mut().await;
                    self.state = State::Due;
                }
                State::Due => return News::WantsNumber,
                State::Connecting(number, connecting) => {
                    let number = *number;
                    match connecting.as_mut().await {
                        Ok(session) => {
                            self.state = State::Up(self.connected(session, number));
                            tracing::info!(broker = %self.broker, session = %number, "connected");
                            return News::Up(number);
                        }
                        Err(error) => {
                            tracing::warn!(broker = %self.broker, error = chain(&error), "failed to connect");
                            self.rest();
                        }
                    }
                }
                State::Up(connection) => match connection.session.next().await {
                    Ok(message) => {
                        self.backoff.reset();
                        return News::Down(message.payload.to_vec());
                    }
                    Err(error) => {
                        tracing::warn!(broker = %self.broker, error = chain(&error), "the session broke");
                        self.rest();
                        return News::Broken;
                    }
                },
            }
        }
    }

    fn rest(&mut self) {
        self.state = State::Waiting(Box::pin(tokio::time::sleep(self.backoff.next_delay())));
    }

    /// Connects with this number.
    pub(crate) fn connect(&mut self, number: SessionNumber) {
        let settings = Settings {
            broker: self.broker.clone(),
            client_id: coracle_link::client_id::agent(&self.cluster, &self.node, self.instance),
            keep_alive: KEEP_ALIVE,
            will: death(number).map(|payload| (self.topic(NodeTopic::Death), payload)),
            subscribe: vec![self.topic(NodeTopic::Down)],
        };
        let connecting = async move { Session::connect(&settings).await };
        self.state = State::Connecting(number, Box::pin(connecting));
    }

    fn topic(&self, which: NodeTopic) -> String {
        topic::node(&self.cluster, &self.node, which)
    }

    fn connected(&self, session: Session, number: SessionNumber) -> Connection {
        let (outbox, waiting) = mpsc::channel(MAX_WAITING);
        let publishing = tokio::spawn(publish(session.publisher(), self.cluster.clone(), self.node.clone(), waiting));
        Connection { session, outbox, publishing, number }
    }

    /// Queues a message; it is dropped while there is no session. Whether the session can go on: a full queue means
    /// that the broker takes nothing, and what is lost is only sent again in a new session.
    #[must_use]
    pub(crate) fn publish(&self, topic: NodeTopic, payload: Vec<u8>) -> bool {
        match &self.state {
            State::Up(connection) => connection.outbox.try_send((topic, payload)).is_ok(),
            _ => true,
        }
    }

    /// Waits until streams may send. Cancel-safe.
    pub(crate) fn room(&self) -> impl Future<Output = ()> + use<> {
        let connection = match &self.state {
            State::Up(connection) => Some((connection.outbox.clone(), connection.session.publisher())),
            _ => None,
        };
        async move {
            if let Some((outbox, publisher)) = connection {
                // All that was said before is on its way. An error means that the session is over, and then everything
                // is dropped anyway.
                let _ = outbox.reserve_many(MAX_WAITING).await;
                publisher.below(STREAM_BYTES).await;
            }
        }
    }

    /// Ends the session, if there is one, and makes another after a while. Whether there was one.
    pub(crate) fn reconnect(&mut self) -> bool {
        let was_up = matches!(self.state, State::Up(_));
        if was_up {
            self.rest();
        }
        was_up
    }

    /// Says goodbye: the controller hears at once that the node is gone, and the Last Will stays unread.
    pub(crate) async fn close(self) {
        let State::Up(connection) = self.state else { return };
        let Connection { session, outbox, publishing, number } = connection;
        if let Some(payload) = death(number) {
            // If there is no room for it the Last Will says the same.
            let _ = outbox.try_send((NodeTopic::Death, payload));
        }
        drop(outbox);
        let deadline = Instant::now() + LAST_WORDS;
        if tokio::time::timeout_at(deadline, publishing).await.is_ok() {
            let _ = tokio::time::timeout_at(deadline, session.close()).await;
        }
    }
}

fn death(session: SessionNumber) -> Option<Vec<u8>> {
    // A number always fits a message.
    Up::Death(Death { session }).encode().ok()
}

/// Publishes what is queued, in order, as fast as the broker acknowledges.
async fn publish(
    publisher: Publisher,
    cluster: String,
    node: String,
    mut waiting: mpsc::Receiver<(NodeTopic, Vec<u8>)>,
) {
    while let Some((which, payload)) = waiting.recv().await {
        match publisher.publish_in_turn(&topic::node(&cluster, &node, which), payload).await {
            Ok(()) => {}
            Err(PublishError::Closed) => return,
            Err(error) => tracing::error!(%error, "failed to publish a message"),
        }
    }
}

/// An error with all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
