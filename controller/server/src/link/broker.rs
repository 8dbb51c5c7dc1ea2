//! The broker inside the controller: `rmqtt`, with every default that does not suit a fleet changed.
//!
//! It runs on threads of its own, for two reasons: its sessions are tasks that nobody else could stop, and a burst of
//! ten thousand connections does not hold up the committer. [`EmbeddedBroker::stop`] ends the threads, and with them
//! every connection. Nothing is kept: no retained messages, no sessions that outlive their connection.
//!
//! Until nodes have certificates, a client is who it says it is, so the broker listens on loopback only, and users of the
//! same machine have to be trusted (DESIGN, decision 13). [`Access`] still keeps clients that are merely wrong apart.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use coracle_link::client_id;
use coracle_model::limits::MAX_MESSAGE_BYTES;
use rmqtt::codec::v5::SubscribeAckReason;
use rmqtt::context::ServerContext;
use rmqtt::hook::{Handler, HookResult, Parameter, ReturnType, Type};
use rmqtt::net::{Builder, Listener};
use rmqtt::server::MqttServer;
use rmqtt::types::{AuthResult, ConnectInfo, LastWill, Publish, PublishAclResult, QoS, Subscribe, SubscribeAclResult};
use tokio::sync::oneshot;

use super::access::Access;
use super::valve::Valve;

/// The largest packet: a message, its topic and its properties.
const MAX_PACKET_BYTES: u32 = MAX_MESSAGE_BYTES as u32 + 64 * 1024;
/// Messages that may wait for one client; then the oldest goes. The controller's queue is bounded by the [`Valve`]
/// before that, except for the Last Wills of everybody who leaves at once.
const QUEUED_MESSAGES: usize = 65_536;
/// Messages to one client that it has not acknowledged.
const IN_FLIGHT: NonZeroU16 = NonZeroU16::new(256).unwrap();
/// Connections that may be shaking hands.
const HANDSHAKES: usize = 10_000;
/// For the first packet of a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// What a message may wait for its client; everything that matters is said again long before.
const MESSAGE_EXPIRY: Duration = Duration::from_secs(60);
/// What a session may outlive its connection, whatever its client asks for.
const LONGEST_SESSION_EXPIRY: Duration = Duration::from_secs(1);
/// Connections that the system holds until they are accepted.
const BACKLOG: i32 = 4096;
/// For the tasks of the broker, when it stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// More threads than this do not make it faster.
const MAX_THREADS: usize = 4;

/// A running broker. Dropping it stops it as well, without waiting.
#[derive(Debug)]
pub struct EmbeddedBroker {
    controller_id: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why the broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Everybody on the network could read and write.
    #[error("plaintext MQTT is refused outside loopback: {0} is no loopback address, use 127.0.0.1 or [::1]")]
    NotLoopback(SocketAddr),
    /// Another program listens there.
    #[error("failed to start the MQTT broker: address already in use: {0}")]
    InUse(SocketAddr),
    /// The address cannot be listened on.
    #[error("failed to start the MQTT broker on {address}: {message}")]
    Listen {
        /// As it was asked for.
        address: SocketAddr,
        /// What the system said.
        message: String,
    },
    /// No thread, or no randomness.
    #[error("failed to start the MQTT broker: the system gave no {0}")]
    System(&'static str),
}

impl EmbeddedBroker {
    /// Starts a broker for one cluster; port 0 is any free one. It accepts connections when this returns, with the
    /// address that it listens on.
    ///
    /// # Errors
    /// When the address is not loopback, is taken, or cannot be had.
    pub fn start(listen: SocketAddr, cluster: &str) -> Result<(Self, SocketAddr), BrokerError> {
        if !listen.ip().is_loopback() {
            return Err(BrokerError::NotLoopback(listen));
        }
        let controller_id =
            client_id::random("coracle-controller").map_err(|_| BrokerError::System("random numbers"))?;
        let access = Arc::new(Access::new(cluster.to_owned(), controller_id.clone()));
        let (stop, stopping) = oneshot::channel();
        let (report, reported) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("mqtt-broker".to_owned())
            .spawn(move || run(listen, access, &report, stopping))
            .map_err(|_| BrokerError::System("thread"))?;
        let address = reported.recv().map_err(|_| BrokerError::System("thread"))??;
        Ok((Self { controller_id, stop: Some(stop), thread: Some(thread) }, address))
    }

    /// The client id by which the broker knows its controller. A secret: whoever has it may say and hear everything.
    #[must_use]
    pub fn controller_id(&self) -> &str {
        &self.controller_id
    }

    /// Closes the listener and every connection. The address is free when this returns.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::warn!("the MQTT broker ended unexpectedly");
            }
        }
    }
}

/// The broker's main thread.
fn run(
    listen: SocketAddr,
    access: Arc<Access>,
    report: &mpsc::SyncSender<Result<SocketAddr, BrokerError>>,
    stopping: oneshot::Receiver<()>,
) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("mqtt-broker")
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        // Whoever started us has gone if this fails.
        let _: Result<(), _> = report.send(Err(BrokerError::System("threads")));
        return;
    };
    runtime.block_on(async {
        match serve(listen, access).await {
            Ok((server, address)) => {
                let _: Result<(), _> = report.send(Ok(address));
                tokio::select! {
                    ended = server.run() => tracing::error!(?ended, "the MQTT broker ended by itself"),
                    // An error means that the handle was dropped, which is how it is stopped.
                    _ = stopping => {}
                }
            }
            Err(error) => {
                let _: Result<(), _> = report.send(Err(error));
            }
        }
    });
    runtime.shutdown_timeout(STOP_TIMEOUT);
}

async fn serve(listen: SocketAddr, access: Arc<Access>) -> Result<(MqttServer, SocketAddr), BrokerError> {
    let refused = |message: String| BrokerError::Listen { address: listen, message };
    let listener = bind(listen)?;
    let address = listener.local_addr().map_err(|error| refused(error.to_string()))?;
    // Its notion of busy is that the machine's processors are, and then it refuses connections.
    let context = ServerContext::new().busy_check_enable(false).build().await;
    let register = context.extends.hook_mgr().register();
    let valve = Arc::new(Valve::default());
    for kind in [
        Type::ClientAuthenticate,
        Type::ClientSubscribeCheckAcl,
        Type::MessagePublishCheckAcl,
        Type::ClientConnected,
        Type::ClientDisconnected,
        Type::MessageAcked,
        Type::MessageDropped,
        Type::MessageNonsubscribed,
    ] {
        register.add(kind, Box::new(Gate { access: Arc::clone(&access), valve: Arc::clone(&valve) })).await;
    }
    register.start().await;
    Ok((MqttServer::new(context).listener_by_id(listener, address.port()).build(), address))
}

fn bind(listen: SocketAddr) -> Result<Listener, BrokerError> {
    let bound = Builder::new()
        .name("coracle")
        .laddr(listen)
        .backlog(BACKLOG)
        // Without this, throughput is a sixteenth.
        .nodelay(true)
        // Without this, a quick restart finds its own address in use.
        .reuseaddr(Some(true))
        // Every client goes through the gate.
        .allow_anonymous(false)
        .max_packet_size(MAX_PACKET_BYTES)
        .max_inflight(IN_FLIGHT)
        .max_mqueue_len(QUEUED_MESSAGES)
        .max_handshaking_limit(HANDSHAKES)
        .handshake_timeout(HANDSHAKE_TIMEOUT)
        .message_expiry_interval(MESSAGE_EXPIRY)
        .session_expiry_interval(LONGEST_SESSION_EXPIRY)
        .max_session_expiry_interval(LONGEST_SESSION_EXPIRY)
        .bind()
        .and_then(Listener::tcp);
    bound.map_err(|error| match error.downcast_ref::<std::io::Error>() {
        Some(io) if io.kind() == std::io::ErrorKind::AddrInUse => BrokerError::InUse(listen),
        _ => BrokerError::Listen { address: listen, message: error.to_string() },
    })
}

/// Asks [`Access`] on behalf of the broker, and moves the [`Valve`].
struct Gate {
    access: Arc<Access>,
    valve: Arc<Valve>,
}

impl Gate {
    fn authenticate(&self, connect: &ConnectInfo) -> AuthResult {
        let client = connect.client_id();
        let will = connect.last_will();
        let topic = will.as_ref().map(|will| match will {
            LastWill::V3(will) => &*will.topic,
            LastWill::V5(will) => &*will.topic,
        });
        if self.access.may_connect(client, topic) {
            AuthResult::Allow(self.access.is_controller(client), None)
        } else {
            AuthResult::NotAuthorized
        }
    }

    fn subscribe(&self, client: &str, subscribe: &Subscribe) -> SubscribeAclResult {
        if self.access.may_subscribe(client, &subscribe.topic_filter) {
            SubscribeAclResult::new_success(subscribe.opts.qos(), None)
        } else {
            SubscribeAclResult::new_failure(SubscribeAckReason::NotAuthorized)
        }
    }

    /// Asked for everybody but the controller. All that others may publish is for the controller.
    async fn publish(&self, client: &str, publish: &Publish) -> PublishAclResult {
        if !self.access.may_publish(client, &publish.topic) {
            return PublishAclResult::rejected(false, Some("not a topic of this client".into()));
        }
        if publish.qos != QoS::AtMostOnce {
            self.valve.enter().await;
        }
        PublishAclResult::allow()
    }

    /// What is only to be known.
    fn note(&self, parameter: &Parameter<'_>) {
        match parameter {
            Parameter::ClientConnected(session) if self.access.is_controller(&session.id.client_id) => {
                self.valve.reset(true);
            }
            Parameter::ClientDisconnected(session, _) if self.access.is_controller(&session.id.client_id) => {
                self.valve.reset(false);
            }
            Parameter::MessageAcked(session, ..) if self.access.is_controller(&session.id.client_id) => {
                self.valve.leave();
            }
            Parameter::MessageDropped(Some(to), ..) if self.access.is_controller(&to.client_id) => self.valve.leave(),
            Parameter::MessageNonsubscribed(from) if !self.access.is_controller(&from.client_id) => self.valve.leave(),
            _ => {}
        }
    }
}

#[async_trait]
impl Handler for Gate {
    async fn hook(&self, parameter: &Parameter, before: Option<HookResult>) -> ReturnType {
        let answer = match parameter {
            Parameter::ClientAuthenticate(connect) => HookResult::AuthResult(self.authenticate(connect)),
            Parameter::ClientSubscribeCheckAcl(session, subscribe) => {
                HookResult::SubscribeAclResult(self.subscribe(&session.id.client_id, subscribe))
            }
            Parameter::MessagePublishCheckAcl(session, publish) => {
                HookResult::PublishAclResult(self.publish(&session.id.client_id, publish).await)
            }
            other => {
                self.note(other);
                return (true, before);
            }
        };
        (false, Some(answer))
    }
}
