//! The whole agent against Mosquitto and a controller that is played here: the smallest one that can be.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coracle_agent::{AgentConfig, AgentError, Eviction, Thresholds};
use coracle_link::{BrokerUrl, Session, Settings};
use coracle_model::limits::BLOCK_BYTES;
use coracle_model::{
    ClusterId, Container, ContainerState, Phase, Pod, PodStatus, PodUid, RestartPolicy, SessionNumber,
};
use coracle_wire::artifact::{ArtifactReply, Block};
use coracle_wire::down::{Ack, Down, Refuse, Sync, Welcome};
use coracle_wire::item::Item;
use coracle_wire::stream::{HttpRequest, LogsRequest, StreamOpen, StreamTarget};
use coracle_wire::topic::{self, NodeTopic};
use coracle_wire::up::{Birth, Up};
use tokio::sync::oneshot;

use crate::workbench::{Bench, built, container, signed, variable};

const NODE: &str = "pi-1";
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker of its own on a free port.
struct Broker {
    process: Child,
    url: String,
}

impl Broker {
    fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.unwrap_or_else(|error| panic!("{error}")).port();
        let mut command = Command::new("mosquitto");
        command.args(["-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        // Debian puts it where a user's path does not lead.
        command.env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()));
        let process = command.spawn().unwrap_or_else(|error| panic!("{error}; apt-get install mosquitto"));
        Self { process, url: format!("mqtt://127.0.0.1:{port}") }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Controller {
    session: Session,
}

impl Controller {
    async fn connect(broker: &Broker) -> Self {
        let url: BrokerUrl = broker.url.parse().unwrap_or_else(|error| panic!("{error}"));
        let settings = Settings {
            broker: url,
            client_id: "controller".into(),
            keep_alive: Duration::from_secs(20),
            will: None,
            subscribe: [NodeTopic::Birth, NodeTopic::Up, NodeTopic::Death]
                .map(|which| topic::every_node("default", which))
                .to_vec(),
        };
        let connected = tokio::time::timeout(PATIENCE, async {
            loop {
                match Session::connect(&settings).await {
                    Ok(session) => return session,
                    // It is not up yet.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
        Self { session: connected.await.unwrap_or_else(|_| panic!("no broker")) }
    }

    async fn hear(&mut self) -> Up {
        let message = tokio::time::timeout(PATIENCE, self.session.next()).await;
        let message = message.unwrap_or_else(|_| panic!("the agent said nothing"));
        let message = message.unwrap_or_else(|error| panic!("{error}"));
        Up::decode(&message.payload).unwrap_or_else(|error| panic!("{error}"))
    }

    fn say(&self, down: &Down) {
        let payload = down.encode().unwrap_or_else(|error| panic!("{error}"));
        let said = self.session.publisher().publish(&topic::node("default", NODE, NodeTopic::Down), payload);
        said.unwrap_or_else(|error| panic!("{error}"));
    }

    async fn birth(&mut self) -> Birth {
        loop {
            if let Up::Birth(birth) = self.hear().await {
                return birth;
            }
        }
    }

    fn welcome(&self, session: SessionNumber) {
        self.say(&Down::Welcome(Welcome {
            session,
            version: 1,
            cluster: ClusterId(9),
            artifact_key: Bench::public_key(),
            renew_ms: 10_000,
        }));
    }

    /// Gives out the artifact and hears reports until `done`.
    async fn serve_until(&mut self, session: SessionNumber, wasm: &[u8], done: impl Fn(&PodStatus) -> bool) {
        let (manifest, code) = signed(wasm);
        loop {
            match self.hear().await {
                Up::Artifact(request) => {
                    self.say(&Down::Artifact(ArtifactReply { image: request.image, result: Ok(manifest.clone()) }));
                }
                Up::Blocks(request) => {
                    for index in request.blocks {
                        let blocks: Vec<_> = code.chunks(BLOCK_BYTES).collect();
                        let bytes = blocks.get(index as usize).map(|block| block.to_vec()).unwrap_or_default();
                        self.say(&Down::Block(Block { artifact: request.artifact, index, bytes }));
                    }
                }
                Up::Report(report) => {
                    self.say(&Down::Ack(Ack { session, sequence: report.sequence }));
                    if report.statuses.iter().filter_map(Item::read).any(|status| done(&status)) {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    /// Opens a stream and reads it to its end.
    async fn stream(&mut self, session: SessionNumber, id: u64, target: StreamTarget) -> (u16, String) {
        self.say(&Down::StreamOpen(StreamOpen { session, id, credit: 1 << 16, target }));
        let (mut status, mut body) = (0, Vec::new());
        loop {
            match self.hear().await {
                Up::StreamHead(head) if head.id == id => status = head.status,
                Up::StreamData(data) if data.id == id => body.extend(data.bytes),
                Up::StreamEnd(end) if end.id == id => {
                    assert_eq!(end.error, None);
                    return (status, String::from_utf8_lossy(&body).into_owned());
                }
                _ => {}
            }
        }
    }
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<Result<(), AgentError>>,
}

fn agent(broker: &str, data_dir: &std::path::Path) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let config = AgentConfig {
        broker: broker.to_owned(),
        node: NODE.into(),
        cluster: "default".into(),
        zone: "kitchen".into(),
        labels: vec![("room".into(), "kitchen".into())],
        data_dir: data_dir.to_owned(),
        eviction_hard: Some(Thresholds::default()),
        eviction_transition_ms: Eviction::TRANSITION_MS,
    };
    let stopped = async move {
        let _ = stopped.await;
    };
    Running { stop, thread: std::thread::spawn(|| coracle_agent::run_blocking(config, || {}, stopped)) }
}

impl Running {
    fn end(self) -> Result<(), AgentError> {
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_else(|_| panic!("the agent panicked"))
    }
}

fn pod(number: u128, container: Container) -> Pod {
    Pod {
        uid: PodUid(number),
        namespace: "default".into(),
        name: format!("pod-{number}"),
        restart_policy: RestartPolicy::Always,
        termination_grace_ms: 30_000,
        priority: 0,
        containers: vec![container],
        stop: None,
        volumes: Vec::new(),
    }
}

fn sync(session: SessionNumber, sequence: u64, pods: &[Pod]) -> Down {
    let pods = pods.iter().map(|pod| Item::new(pod.uid, pod)).collect();
    Down::Sync(Sync { session, sequence, part: 0, parts: 1, pods })
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"))
}

// EDGE-01, EDGE-02, EDGE-03, POD-11
#[tokio::test]
async fn a_pod_is_pulled_started_reached_and_read_over_one_mqtt_connection() {
    let (broker, directory) = (Broker::start(), directory());
    let mut controller = Controller::connect(&broker).await;
    let agent = agent(&broker.url, directory.path());
    let birth = controller.birth().await;
    assert_eq!((birth.session, birth.pinned, birth.facts.zone.as_str()), (SessionNumber(1), None, "kitchen"));
    controller.welcome(birth.session);
    let hello = Container { ports: vec![("http".into(), 8080)], env: vec![variable("NODE_NAME", NODE)], ..container() };
    controller.say(&sync(birth.session, 1, &[pod(1, hello)]));
    controller.serve_until(birth.session, &built("hello-1"), |status| status.phase == Phase::Running).await;
    let request =
        HttpRequest { uid: PodUid(1), port: 8080, method: "GET".into(), path: "/".into(), headers: Vec::new() };
    let answer = controller.stream(birth.session, 1, StreamTarget::Http(request)).await;
    assert_eq!(answer, (200, "hello:1\npod: pod-1\nnode: pi-1\n".to_owned()));
    let logs = LogsRequest {
        uid: PodUid(1),
        container: "main".into(),
        follow: false,
        previous: false,
        timestamps: false,
        tail_lines: None,
        since_ms: None,
        limit_bytes: None,
    };
    let (status, _) = controller.stream(birth.session, 2, StreamTarget::Logs(logs)).await;
    assert_eq!(status, 200);
    let ended = tokio::task::spawn_blocking(|| agent.end()).await;
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
    loop {
        if let Up::Death(death) = controller.hear().await {
            assert_eq!(death.session, birth.session);
            return;
        }
    }
}

// EDGE-05
#[tokio::test]
async fn an_agent_that_starts_again_goes_on_without_pulling_anew() {
    let (broker, directory) = (Broker::start(), directory());
    let mut controller = Controller::connect(&broker).await;
    let first = agent(&broker.url, directory.path());
    let birth = controller.birth().await;
    controller.welcome(birth.session);
    controller.say(&sync(birth.session, 5, &[pod(1, container())]));
    controller.serve_until(birth.session, &built("stubborn"), |status| status.phase == Phase::Running).await;
    let ended = tokio::task::spawn_blocking(|| first.end()).await;
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");

    let second = agent(&broker.url, directory.path());
    let again = controller.birth().await;
    // Numbers are taken from the disk by the block, so the next start begins with a later one.
    assert!(again.session > birth.session);
    assert_eq!((again.instance, again.holds), (birth.instance, 5));
    assert_eq!(again.pinned, Some(ClusterId(9)));
    controller.welcome(again.session);
    controller.say(&sync(again.session, 5, &[pod(1, container())]));
    let mut seen = BTreeMap::new();
    loop {
        match controller.hear().await {
            Up::Artifact(request) => panic!("asked for {} again", request.image),
            Up::Report(report) => {
                controller.say(&Down::Ack(Ack { session: again.session, sequence: report.sequence }));
                for status in report.statuses.iter().filter_map(Item::read::<PodStatus>) {
                    seen.insert(status.uid, status);
                }
                let state = seen.get(&PodUid(1)).map(|status| &status.containers[0].state);
                if matches!(state, Some(ContainerState::Running { .. })) {
                    break;
                }
            }
            _ => {}
        }
    }
    let ended = tokio::task::spawn_blocking(|| second.end()).await;
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
}

#[tokio::test]
async fn an_agent_that_is_refused_ends_with_the_reason() {
    let (broker, directory) = (Broker::start(), directory());
    let mut controller = Controller::connect(&broker).await;
    let agent = agent(&broker.url, directory.path());
    let birth = controller.birth().await;
    let reason = "another agent is node pi-1".to_owned();
    controller.say(&Down::Refuse(Refuse { instance: birth.instance, reason }));
    let ended = tokio::task::spawn_blocking(|| agent.thread.join()).await;
    match ended {
        Ok(Ok(Err(AgentError::Refused(reason)))) => assert!(reason.contains("another agent"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_without_a_broker_runs_and_stops() {
    let directory = directory();
    let agent = agent("mqtt://127.0.0.1:1", directory.path());
    let ended = tokio::task::spawn_blocking(|| agent.end()).await;
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
}

#[test]
fn a_wrong_configuration_is_refused_in_words() {
    let directory = directory();
    let config = |broker: &str, node: &str| AgentConfig {
        broker: broker.into(),
        node: node.into(),
        cluster: "default".into(),
        zone: String::new(),
        labels: Vec::new(),
        data_dir: directory.path().to_owned(),
        eviction_hard: None,
        eviction_transition_ms: Eviction::TRANSITION_MS,
    };
    let refusal = |config| {
        let ended = coracle_agent::run_blocking(config, || {}, std::future::ready(()));
        ended.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refusal(config("mqtt://192.0.2.1:1883", "a")).contains("plaintext"));
    assert!(refusal(config("http://localhost", "a")).contains("mqtt://host:port"));
    assert!(refusal(config("mqtt://localhost", "A/B")).contains("node \"A/B\""));
    let held = coracle_agent::disk::DataDir::open(directory.path());
    assert!(held.is_ok());
    assert!(refusal(config("mqtt://localhost", "a")).contains("in use by another coracle-agent"));
}
