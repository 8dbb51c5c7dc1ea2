//! The sending half of a session.

use std::sync::Arc;

use bytes::Bytes;
use coracle_model::limits::MAX_MESSAGE_BYTES;
use rumqttc::v5::AsyncClient;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::PublishProperties;
use tokio::sync::TryAcquireError;

use crate::window::Window;

/// Publishes at QoS 1, not retained. Clones publish into the same session.
#[derive(Clone, Debug)]
pub struct Publisher {
    pub(crate) client: AsyncClient,
    pub(crate) window: Arc<Window>,
    /// The broker's Maximum Packet Size.
    pub(crate) max_packet_bytes: usize,
}

/// Why a message was not published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Too much waits to be sent; say it again later.
    #[error("too much waits to be sent")]
    Full,
    /// Larger than a message may be, or than the broker takes.
    #[error("the message has {found} bytes, more than {limit}")]
    TooLarge {
        /// Bytes of the payload, or of the whole packet.
        found: usize,
        /// What is allowed.
        limit: usize,
    },
    /// No topic to publish on: empty, or with a wildcard.
    #[error("\"{0}\" is no topic to publish on")]
    Topic(String),
    /// The session is over.
    #[error("the session is over")]
    Closed,
}

impl Publisher {
    /// Queues a message; never blocks.
    ///
    /// # Errors
    /// When it is too large, when too much waits already, or when the session is over.
    pub fn publish(&self, topic: &str, payload: Vec<u8>) -> Result<(), PublishError> {
        self.enqueue(topic, payload, None)
    }

    /// Queues an answer, with the correlation data of its request; never blocks.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn publish_reply(&self, topic: &str, payload: Vec<u8>, correlation: Option<Bytes>) -> Result<(), PublishError> {
        let properties = PublishProperties { correlation_data: correlation, ..PublishProperties::default() };
        self.enqueue(topic, payload, Some(properties))
    }

    /// Queues a request whose answer is wanted on `response_topic`, with `correlation`; never blocks.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn publish_request(
        &self,
        topic: &str,
        payload: Vec<u8>,
        response_topic: &str,
        correlation: Bytes,
    ) -> Result<(), PublishError> {
        let properties = PublishProperties {
            response_topic: Some(response_topic.to_owned()),
            correlation_data: Some(correlation),
            ..PublishProperties::default()
        };
        self.enqueue(topic, payload, Some(properties))
    }

    /// Queues a message as soon as there is room for it, in the order of the calls. Never to be awaited by the task that
    /// reads the session's messages.
    ///
    /// # Errors
    /// When it is too large, or when the session is over.
    pub async fn publish_in_turn(&self, topic: &str, payload: Vec<u8>) -> Result<(), PublishError> {
        self.enqueue_in_turn(topic, payload, None).await
    }

    /// As [`Publisher::publish_reply`], as soon as there is room for it; see [`Publisher::publish_in_turn`].
    ///
    /// # Errors
    /// When it is too large, or when the session is over.
    pub async fn publish_reply_in_turn(
        &self,
        topic: &str,
        payload: Vec<u8>,
        correlation: Option<Bytes>,
    ) -> Result<(), PublishError> {
        let properties = PublishProperties { correlation_data: correlation, ..PublishProperties::default() };
        self.enqueue_in_turn(topic, payload, Some(properties)).await
    }

    /// Waits until no more than so many bytes are queued or on their way to the broker, or the session is over: what can
    /// wait asks this first, so that it does not lie before what cannot.
    pub async fn below(&self, bytes: usize) {
        self.window.below(bytes).await;
    }

    async fn enqueue_in_turn(
        &self,
        topic: &str,
        payload: Vec<u8>,
        properties: Option<PublishProperties>,
    ) -> Result<(), PublishError> {
        let charge = self.check(topic, payload.len(), properties.as_ref())?;
        let send = || self.send(topic, payload, properties);
        match self.window.queue_in_turn(charge, send).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(PublishError::Closed),
        }
    }

    fn enqueue(
        &self,
        topic: &str,
        payload: Vec<u8>,
        properties: Option<PublishProperties>,
    ) -> Result<(), PublishError> {
        let charge = self.check(topic, payload.len(), properties.as_ref())?;
        match self.window.try_queue(charge, || self.send(topic, payload, properties)) {
            Ok(true) => Ok(()),
            Err(TryAcquireError::NoPermits) => Err(PublishError::Full),
            Ok(false) | Err(TryAcquireError::Closed) => Err(PublishError::Closed),
        }
    }

    fn send(&self, topic: &str, payload: Vec<u8>, properties: Option<PublishProperties>) -> bool {
        match properties {
            Some(properties) => {
                self.client.try_publish_with_properties(topic, QoS::AtLeastOnce, false, payload, properties)
            }
            None => self.client.try_publish(topic, QoS::AtLeastOnce, false, payload),
        }
        .is_ok()
    }

    /// Checks topic and size, and says what the message takes of the window.
    fn check(&self, topic: &str, payload: usize, properties: Option<&PublishProperties>) -> Result<u32, PublishError> {
        if topic.is_empty() || topic.len() > usize::from(u16::MAX) || topic.contains(['+', '#', '\0']) {
            return Err(PublishError::Topic(topic.to_owned()));
        }
        if payload > MAX_MESSAGE_BYTES {
            return Err(PublishError::TooLarge { found: payload, limit: MAX_MESSAGE_BYTES });
        }
        let properties = properties.map_or(0, |properties| {
            properties.response_topic.as_ref().map_or(0, |topic| topic.len() + 3)
                + properties.correlation_data.as_ref().map_or(0, |data| data.len() + 3)
        });
        // Fixed header (5), length of the topic (2), packet id (2), length of the properties (4), each at most.
        let packet = payload + topic.len() + properties + 13;
        if packet > self.max_packet_bytes {
            return Err(PublishError::TooLarge { found: packet, limit: self.max_packet_bytes });
        }
        Ok(Window::charge(u32::try_from(packet).unwrap_or(u32::MAX)))
    }
}
