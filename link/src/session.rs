//! One MQTT session, which one task of its own drives.
//!
//! That task alone polls the client's event loop and never stops in the middle of a packet, so [`Session::next`] may be
//! dropped at any await, publishing goes on while nobody listens, and pings are sent in time. It hands messages over
//! through a short queue. When that is full it stops reading, so that TCP slows the broker down; when nothing was taken
//! out of it for half of the keep-alive time, the session ends with [`LinkError::Stalled`] rather than grow or be
//! thrown out by the broker.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coracle_model::limits::MAX_MESSAGE_BYTES;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnectProperties, ConnectReturnCode, Filter, LastWill, Packet, PubAck, PubAckReason, Publish, SubAck,
    SubscribeReasonCode,
};
use rumqttc::v5::{AsyncClient, ConnectionError, Event, EventLoop, MqttOptions};
use rumqttc::{NetworkOptions, Outgoing};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::broker_url::BrokerUrl;
use crate::publisher::Publisher;
use crate::window::{MAX_QUEUED, Window};

/// From the first packet to the last SUBACK.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For what is queued to be sent, and the DISCONNECT after it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The client counts packets in seconds, and refuses fewer than five.
const SHORTEST_KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Messages that may wait for [`Session::next`].
const RECEIVED: usize = 64;
/// Publishes that the broker has not acknowledged. The client allocates a slot for each, which an idle agent pays for.
const IN_FLIGHT: u16 = 32;
/// Publishes that the broker may send before it needs an acknowledgement.
const RECEIVE_MAXIMUM: u16 = 256;
/// The largest packet that is taken: a message, its topic and its properties.
const MAX_PACKET_BYTES: u32 = MAX_MESSAGE_BYTES as u32 + 64 * 1024;

/// What a session is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to connect.
    pub broker: BrokerUrl,
    /// The MQTT client id; see [`crate::client_id`].
    pub client_id: String,
    /// How often to say that we are still here; at least 5 s.
    pub keep_alive: Duration,
    /// Topic and payload of the Last Will.
    pub will: Option<(String, Vec<u8>)>,
    /// Topic filters.
    pub subscribe: Vec<String>,
}

/// Why there is no session, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A broker on another machine, and no TLS.
    #[error("plaintext MQTT is refused outside loopback, and {0} is another machine")]
    Plaintext(BrokerUrl),
    /// No answer in time.
    #[error("no answer from {0} within 10 s")]
    Timeout(BrokerUrl),
    /// The broker does not want us.
    #[error("the broker refused the connection: {0}")]
    Refused(String),
    /// The broker does not let us hear this.
    #[error("the broker refused the subscription to {filter}: {reason}")]
    Subscribe {
        /// The topic filter.
        filter: String,
        /// The broker's word for it.
        reason: String,
    },
    /// A filter that MQTT does not allow.
    #[error("{0} is no topic filter")]
    Filter(String),
    /// The connection is gone.
    #[error("the connection broke")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nobody took the messages that arrived.
    #[error("messages were not taken for too long")]
    Stalled,
    /// The session was over already.
    #[error("the session is over")]
    Closed,
}

/// A message that arrived.
#[derive(Debug, Clone)]
pub struct Message {
    /// The topic that it was published on.
    pub topic: String,
    /// Its bytes.
    pub payload: Bytes,
    /// Where an answer is wanted.
    pub response_topic: Option<String>,
    /// What an answer has to carry.
    pub correlation: Option<Bytes>,
}

/// One MQTT session. Dropping it breaks the connection, so that the broker publishes the Last Will;
/// [`Session::close`] ends it without.
#[derive(Debug)]
pub struct Session {
    messages: mpsc::Receiver<Message>,
    publisher: Publisher,
    task: Option<JoinHandle<LinkError>>,
}

impl Session {
    /// Connects, and returns once the broker has accepted the connection and every subscription.
    ///
    /// # Errors
    /// When the broker is on another machine (see [`BrokerUrl::refuse_plaintext`]), is not there, refuses, or takes longer
    /// than 10 s.
    pub async fn connect(settings: &Settings) -> Result<Self, LinkError> {
        settings.broker.refuse_plaintext()?;
        let (client, event_loop) = AsyncClient::new(options(settings), MAX_QUEUED + 2);
        let (sender, messages) = mpsc::channel(RECEIVED);
        let mut driver = Driver {
            event_loop,
            sender,
            window: Arc::new(Window::new()),
            in_flight: vec![0; usize::from(IN_FLIGHT) + 1],
            stall: settings.keep_alive.max(SHORTEST_KEEP_ALIVE) / 2,
        };
        let max_packet_bytes = timeout(CONNECT_TIMEOUT, driver.establish(&client, &settings.subscribe))
            .await
            .map_err(|_| LinkError::Timeout(settings.broker.clone()))??;
        let publisher = Publisher { client, window: Arc::clone(&driver.window), max_packet_bytes };
        Ok(Self { messages, publisher, task: Some(tokio::spawn(driver.run())) })
    }

    /// Waits for the next message. Cancel-safe.
    ///
    /// # Errors
    /// When the session is over; the first call says why, later ones only that it is.
    pub async fn next(&mut self) -> Result<Message, LinkError> {
        if let Some(message) = self.messages.recv().await {
            return Ok(message);
        }
        let Some(task) = self.task.as_mut() else { return Err(LinkError::Closed) };
        let error = task.await.unwrap_or_else(|error| LinkError::Broken(Box::new(error)));
        self.task = None;
        Err(error)
    }

    /// A handle that publishes into this session.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }

    /// Sends what is queued, waits until the broker has all of it, then sends DISCONNECT: the broker forgets the Last
    /// Will. Gives up after 5 s.
    pub async fn close(mut self) {
        if timeout(CLOSE_TIMEOUT, self.finish()).await.is_err() {
            tracing::debug!("the session did not close in time and is broken off");
        }
    }

    async fn finish(&mut self) {
        // While acknowledgements are on their way to a connection that is closed, the system answers them with a reset,
        // at which a broker may forget to read the DISCONNECT.
        let idle = self.publisher.window.idle();
        tokio::pin!(idle);
        loop {
            tokio::select! {
                () = &mut idle => break,
                // Whatever still arrives is nobody's, but must not stall the task.
                message = self.messages.recv() => if message.is_none() { return },
            }
        }
        // The queue has a place kept for this.
        if self.publisher.client.try_disconnect().is_ok() {
            while self.messages.recv().await.is_some() {}
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.publisher.window.close();
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn options(settings: &Settings) -> MqttOptions {
    let broker = &settings.broker;
    let mut options = MqttOptions::new(settings.client_id.clone(), broker.host_of_authority(), broker.port());
    let properties = ConnectProperties {
        // The client's own limit is 10 KiB unless this is set.
        max_packet_size: Some(MAX_PACKET_BYTES),
        receive_maximum: Some(RECEIVE_MAXIMUM),
        session_expiry_interval: Some(0),
        ..ConnectProperties::new()
    };
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    network.set_connection_timeout(CONNECT_TIMEOUT.as_secs());
    options
        .set_connect_properties(properties)
        .set_clean_start(true)
        .set_keep_alive(settings.keep_alive.max(SHORTEST_KEEP_ALIVE))
        .set_outgoing_inflight_upper_limit(IN_FLIGHT)
        .set_connection_timeout(CONNECT_TIMEOUT.as_secs())
        .set_network_options(network);
    if let Some((topic, payload)) = &settings.will {
        options.set_last_will(LastWill::new(topic.clone(), payload.clone(), QoS::AtLeastOnce, false, None));
    }
    options
}

/// The task behind a session.
struct Driver {
    event_loop: EventLoop,
    sender: mpsc::Sender<Message>,
    window: Arc<Window>,
    /// What each packet id took of the window.
    in_flight: Vec<u32>,
    stall: Duration,
}

impl Driver {
    /// Waits for CONNACK, subscribes, waits for SUBACK; returns the broker's Maximum Packet Size.
    async fn establish(&mut self, client: &AsyncClient, filters: &[String]) -> Result<usize, LinkError> {
        let mut max_packet_bytes = usize::MAX;
        loop {
            match self.event_loop.poll().await.map_err(broken)? {
                Event::Incoming(Packet::ConnAck(answer)) if answer.code == ConnectReturnCode::Success => {
                    if let Some(limit) = answer.properties.and_then(|properties| properties.max_packet_size) {
                        max_packet_bytes = usize::try_from(limit).unwrap_or(usize::MAX);
                    }
                    if filters.is_empty() {
                        return Ok(max_packet_bytes);
                    }
                    let wanted = filters.iter().map(|filter| Filter::new(filter, QoS::AtLeastOnce));
                    client.try_subscribe_many(wanted).map_err(|_| LinkError::Filter(filters.join(" ")))?;
                }
                Event::Incoming(Packet::SubAck(answer)) => return granted(&answer, filters).map(|()| max_packet_bytes),
                // A broker may deliver before it says that it will; the queue is empty now and holds a few.
                Event::Incoming(Packet::Publish(publish)) => {
                    self.sender.try_send(message(publish)).map_err(|_| LinkError::Stalled)?;
                }
                Event::Incoming(_) | Event::Outgoing(_) => {}
            }
        }
    }

    async fn run(mut self) -> LinkError {
        let error = self.drive().await;
        self.window.close();
        error
    }

    async fn drive(&mut self) -> LinkError {
        loop {
            let place = match timeout(self.stall, self.sender.reserve()).await {
                Ok(Ok(place)) => place,
                Ok(Err(_)) => return LinkError::Closed,
                Err(_) => return LinkError::Stalled,
            };
            loop {
                match self.event_loop.poll().await {
                    Ok(Event::Incoming(Packet::Publish(publish))) => {
                        place.send(message(publish));
                        break;
                    }
                    Ok(Event::Incoming(Packet::PubAck(answer))) => {
                        acknowledged(&self.window, &mut self.in_flight, &answer);
                    }
                    Ok(Event::Outgoing(Outgoing::Publish(id))) => {
                        if let Some(slot) = self.in_flight.get_mut(usize::from(id)) {
                            *slot = self.window.sent();
                        }
                    }
                    // It has been written: the network connection goes with the event loop.
                    Ok(Event::Outgoing(Outgoing::Disconnect)) => return LinkError::Closed,
                    Ok(Event::Incoming(_) | Event::Outgoing(_)) => {}
                    // Polling on would connect again, with the old will.
                    Err(error) => return broken(error),
                }
            }
        }
    }
}

fn acknowledged(window: &Window, in_flight: &mut [u32], answer: &PubAck) {
    if let Some(slot) = in_flight.get_mut(usize::from(answer.pkid)) {
        window.acknowledged(std::mem::take(slot));
    }
    if !matches!(answer.reason, PubAckReason::Success | PubAckReason::NoMatchingSubscribers) {
        tracing::warn!(reason = ?answer.reason, "the broker refused a message");
    }
}

fn granted(answer: &SubAck, filters: &[String]) -> Result<(), LinkError> {
    if answer.return_codes.len() < filters.len() {
        return Err(LinkError::Refused("it answered fewer subscriptions than were asked for".to_owned()));
    }
    for (filter, code) in filters.iter().zip(&answer.return_codes) {
        if !matches!(code, SubscribeReasonCode::Success(_)) {
            return Err(LinkError::Subscribe { filter: filter.clone(), reason: format!("{code:?}") });
        }
    }
    Ok(())
}

fn broken(error: ConnectionError) -> LinkError {
    match error {
        ConnectionError::ConnectionRefused(code) => LinkError::Refused(format!("{code:?}")),
        error => LinkError::Broken(Box::new(error)),
    }
}

fn message(publish: Publish) -> Message {
    let properties = publish.properties.unwrap_or_default();
    Message {
        topic: String::from_utf8_lossy(&publish.topic).into_owned(),
        payload: publish.payload,
        response_topic: properties.response_topic,
        correlation: properties.correlation_data,
    }
}
