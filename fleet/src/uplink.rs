//! One hollow node's way to its controller: sessions one after another, each with the next number, as a real agent makes
//! them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coracle_link::{Backoff, LinkError, PublishError, Publisher, Session};
use coracle_model::{InstanceId, SessionNumber};
use coracle_wire::topic::{self, NodeTopic};
use coracle_wire::up::{Death, Up};
use tokio::time::{Instant, Sleep};

use crate::Settings;
use crate::figures::Tally;

/// As a real agent.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// What happened on the way.
#[derive(Debug)]
pub(crate) enum News {
    /// A session stands.
    Up(SessionNumber),
    /// A payload on the node's `down` topic.
    Down(Vec<u8>),
    /// The session broke.
    Broken,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Session, LinkError>> + Send>>;

enum State {
    Resting(Pin<Box<Sleep>>),
    Connecting(Connecting),
    Up(Session, Publisher),
}

/// See the module.
pub(crate) struct Uplink {
    state: State,
    backoff: Backoff,
    settings: Arc<Settings>,
    tally: Arc<Tally>,
    node: String,
    instance: InstanceId,
    number: SessionNumber,
    has_been_up: bool,
}

impl Uplink {
    /// Connects for the first time at `joins_at`, with the number after `number`.
    pub(crate) fn new(
        settings: Arc<Settings>,
        tally: Arc<Tally>,
        node: String,
        instance: InstanceId,
        number: SessionNumber,
        joins_at: Instant,
        seed: u64,
    ) -> Self {
        Self {
            state: State::Resting(Box::pin(tokio::time::sleep_until(joins_at))),
            backoff: Backoff::new(seed),
            settings,
            tally,
            node,
            instance,
            number,
            has_been_up: false,
        }
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Waits for the next thing that happens. Cancel-safe.
    pub(crate) async fn next(&mut self) -> News {
        loop {
            match &mut self.state {
                State::Resting(sleep) => {
                    sleep.as_mut().await;
                    self.number = self.number.next();
                    self.state = State::Connecting(self.connect());
                }
                State::Connecting(connecting) => match connecting.as_mut().await {
                    Ok(session) => {
                        self.tally.connected.add(1);
                        self.tally.reconnects.add(usize::from(self.has_been_up));
                        self.has_been_up = true;
                        let publisher = session.publisher();
                        self.state = State::Up(session, publisher);
                        return News::Up(self.number);
                    }
                    Err(error) => {
                        self.tally.connects_failed.add(1);
                        tracing::debug!(
                            node = self.node,
                            error = &error as &dyn std::error::Error,
                            "failed to connect"
                        );
                        self.rest();
                    }
                },
                State::Up(session, _) => match session.next().await {
                    Ok(message) => {
                        self.backoff.reset();
                        self.tally.down_messages.add(1);
                        self.tally.down_bytes.add(message.payload.len());
                        return News::Down(message.payload.into());
                    }
                    Err(error) => {
                        tracing::debug!(node = self.node, error = &error as &dyn std::error::Error, "session broke");
                        self.rest();
                        return News::Broken;
                    }
                },
            }
        }
    }

    fn rest(&mut self) {
        if matches!(self.state, State::Up(..)) {
            self.tally.connected.remove(1);
        }
        self.state = State::Resting(Box::pin(tokio::time::sleep(self.backoff.next_delay())));
    }

    fn connect(&self) -> Connecting {
        let settings = coracle_link::Settings {
            broker: self.settings.broker.clone(),
            client_id: coracle_link::client_id::agent(&self.settings.cluster, &self.node, self.instance),
            keep_alive: KEEP_ALIVE,
            will: death(self.number).map(|payload| (self.topic(NodeTopic::Death), payload)),
            subscribe: vec![self.topic(NodeTopic::Down)],
        };
        Box::pin(async move { Session::connect(&settings).await })
    }

    fn topic(&self, which: NodeTopic) -> String {
        topic::node(&self.settings.cluster, &self.node, which)
    }

    /// Queues a message; it is dropped while there is no session. Whether the session can go on: when nothing fits any
    /// more the broker takes nothing, and what is lost is only sent again in a new session.
    #[must_use]
    pub(crate) fn publish(&self, which: NodeTopic, payload: Vec<u8>) -> bool {
        let State::Up(_, publisher) = &self.state else { return true };
        let bytes = payload.len();
        match publisher.publish(&self.topic(which), payload) {
            Ok(()) => {
                self.tally.up_messages.add(1);
                self.tally.up_bytes.add(bytes);
                true
            }
            Err(PublishError::Full) => false,
            // The session says so itself.
            Err(PublishError::Closed) => true,
            Err(error) => {
                tracing::error!(node = self.node, %error, "failed to publish a message");
                true
            }
        }
    }

    /// Ends the session, if there is one, and makes another after a while. Whether there was one.
    pub(crate) fn reconnect(&mut self) -> bool {
        let was_up = matches!(self.state, State::Up(..));
        if was_up {
            self.rest();
        }
        was_up
    }

    /// Says goodbye: the Last Will stays unread.
    pub(crate) async fn close(self) {
        if let Some(payload) = death(self.number) {
            // If there is no room for it the Last Will says the same.
            let _ = self.publish(NodeTopic::Death, payload);
        }
        if let State::Up(session, publisher) = self.state {
            drop(publisher);
            session.close().await;
            self.tally.connected.remove(1);
        }
    }
}

fn death(session: SessionNumber) -> Option<Vec<u8>> {
    // A number always fits a message.
    Up::Death(Death { session }).encode().ok()
}
