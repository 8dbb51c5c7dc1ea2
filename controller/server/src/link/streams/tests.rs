//! Streams over the embedded broker, with agents played by the tests.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};

use coracle_link::{BrokerUrl, Session, Settings, client_id};
use coracle_model::limits::STREAM_CREDIT_BYTES;
use coracle_model::{PodUid, SessionNumber};
use coracle_wire::stream::{StreamCredit, StreamData, StreamEnd, StreamHead, StreamOpen, encode_usage};

use super::super::broker::EmbeddedBroker;
use super::super::peers::Machine;
use super::*;

const CLUSTER: &str = "default";
const SESSION: SessionNumber = SessionNumber(1);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), future).await.expect("this should have happened by now")
}

/// A broker, the controller's streams, and an agent's session.
struct Stage {
    broker: EmbeddedBroker,
    streams: Streams,
    agent: Session,
}

impl Stage {
    async fn set() -> Self {
        let (broker, address) = EmbeddedBroker::start((Ipv4Addr::LOCALHOST, 0).into(), CLUSTER).expect("a broker");
        let peers = Arc::new(Mutex::new(Peers::default()));
        let machine = Machine { target: String::new(), engine: String::new(), interfaces: Arc::default() };
        peers.lock().born("a", SESSION, machine);
        peers.lock().welcomed("a", SESSION);
        let streams = Streams::new(CLUSTER.to_owned(), peers);
        let up = topic::every_node(CLUSTER, NodeTopic::Up);
        let mut controller = connect(address, broker.controller_id(), up).await;
        streams.connected(controller.publisher());
        let heard = streams.clone();
        tokio::spawn(async move {
            while let Ok(message) = controller.next().await {
                heard.hear("a", Up::decode(&message.payload).expect("a message"));
            }
        });
        let down = topic::node(CLUSTER, "a", NodeTopic::Down);
        let agent = connect(address, &client_id::agent(CLUSTER, "a", 1), down).await;
        Self { broker, streams, agent }
    }
}

async fn connect(address: SocketAddr, client_id: &str, subscribe: String) -> Session {
    let settings = Settings {
        broker: BrokerUrl::from(address),
        client_id: client_id.to_owned(),
        keep_alive: Duration::from_secs(30),
        will: None,
        subscribe: vec![subscribe],
    };
    soon(Session::connect(&settings)).await.expect("a session")
}

async fn heard(agent: &mut Session) -> Down {
    let message = soon(agent.next()).await.expect("a message");
    Down::decode(&message.payload).expect("a message")
}

async fn opened(agent: &mut Session) -> StreamOpen {
    match heard(agent).await {
        Down::StreamOpen(open) => open,
        other => panic!("not an opening: {other:?}"),
    }
}

async fn say(agent: &Session, up: Up) {
    let topic = topic::node(CLUSTER, "a", NodeTopic::Up);
    soon(agent.publisher().publish_in_turn(&topic, up.encode().expect("small"))).await.expect("a session");
}

async fn say_head(agent: &Session, id: u64, status: u16) {
    say(agent, Up::StreamHead(StreamHead { id, status, headers: Vec::new(), credit: STREAM_CREDIT_BYTES })).await;
}

fn logs() -> LogsRequest {
    LogsRequest {
        uid: PodUid(7),
        container: "c".to_owned(),
        follow: false,
        previous: false,
        timestamps: false,
        tail_lines: None,
        since_ms: None,
        limit_bytes: None,
    }
}

fn post() -> HttpRequest {
    HttpRequest { uid: PodUid(7), port: 80, method: "POST".to_owned(), path: "/".to_owned(), headers: Vec::new() }
}

async fn rest(mut reader: StreamReader) -> Result<Vec<u8>, StreamError> {
    let mut all = Vec::new();
    while let Some(bytes) = soon(reader.next()).await {
        all.extend_from_slice(&bytes?);
    }
    Ok(all)
}

// POD-11
#[tokio::test]
async fn more_output_than_one_window_arrives_whole() {
    const CHUNKS: usize = 100;
    const CHUNK: usize = 16 * 1024;
    let Stage { broker, streams, mut agent } = Stage::set().await;
    tokio::spawn(async move {
        let open = opened(&mut agent).await;
        say_head(&agent, open.id, 200).await;
        let mut credit = open.credit as usize;
        for chunk in 0..CHUNKS {
            while credit < CHUNK {
                let Down::StreamCredit(more) = heard(&mut agent).await else { panic!("not a grant") };
                credit += more.bytes as usize;
            }
            credit -= CHUNK;
            let bytes = vec![u8::try_from(chunk).expect("small"); CHUNK];
            say(&agent, Up::StreamData(StreamData { id: open.id, bytes })).await;
        }
        say(&agent, Up::StreamEnd(StreamEnd { id: open.id, error: None })).await;
        agent.close().await;
    });
    let reader = soon(streams.logs("a", logs())).await.expect("logs");
    let all = rest(reader).await.expect("an end");
    let expected: Vec<u8> = (0..CHUNKS).flat_map(|chunk| [u8::try_from(chunk).expect("small"); CHUNK]).collect();
    assert!(all == expected, "{} bytes", all.len());
    broker.stop().await;
}

#[tokio::test]
async fn a_refusal_comes_with_the_agents_words() {
    let Stage { broker, streams, mut agent } = Stage::set().await;
    let agent = tokio::spawn(async move {
        let open = opened(&mut agent).await;
        say_head(&agent, open.id, 404).await;
        say(&agent, Up::StreamData(StreamData { id: open.id, bytes: b"no such run".to_vec() })).await;
        say(&agent, Up::StreamEnd(StreamEnd { id: open.id, error: None })).await;
        agent
    });
    let refused = soon(streams.logs("a", logs())).await.err();
    assert_eq!(refused, Some(StreamError::Refused { status: 404, message: "no such run".to_owned() }));
    drop(agent.await);
    broker.stop().await;
}

#[tokio::test]
async fn an_agent_that_ends_a_stream_at_once_refuses_it() {
    let Stage { broker, streams, mut agent } = Stage::set().await;
    let agent = tokio::spawn(async move {
        for _ in 0..2 {
            let open = opened(&mut agent).await;
            say(&agent, Up::StreamEnd(StreamEnd { id: open.id, error: Some("not here".to_owned()) })).await;
            if matches!(open.target, StreamTarget::Http(_)) {
                assert!(matches!(heard(&mut agent).await, Down::StreamEnd(_)));
            }
        }
        agent
    });
    for (refused, status) in [
        (soon(streams.http("a", post(), Bytes::new())).await.err(), 502),
        (soon(streams.logs("a", logs())).await.err(), 404),
    ] {
        assert_eq!(refused, Some(StreamError::Refused { status, message: "not here".to_owned() }));
    }
    drop(agent.await);
    broker.stop().await;
}

#[tokio::test]
async fn a_large_request_is_echoed_by_an_agent_that_answers_late() {
    let Stage { broker, streams, mut agent } = Stage::set().await;
    let body: Bytes = (0..STREAM_CREDIT_BYTES * 2).map(|number| number.to_le_bytes()[0]).collect::<Vec<_>>().into();
    let sent = body.clone();
    tokio::spawn(async move {
        let open = opened(&mut agent).await;
        let mut received = Vec::new();
        loop {
            match heard(&mut agent).await {
                Down::StreamData(data) => {
                    let bytes = u32::try_from(data.bytes.len()).expect("small");
                    received.extend_from_slice(&data.bytes);
                    say(&agent, Up::StreamCredit(StreamCredit { id: open.id, bytes })).await;
                }
                Down::StreamEnd(end) => {
                    assert_eq!(end.error, None);
                    break;
                }
                other => panic!("not a body: {other:?}"),
            }
        }
        say_head(&agent, open.id, if received == sent { 201 } else { 500 }).await;
        say(&agent, Up::StreamEnd(StreamEnd { id: open.id, error: None })).await;
        agent.close().await;
    });
    let (status, _headers, reader) = soon(streams.http("a", post(), body)).await.expect("an answer");
    assert_eq!(status, 201);
    assert_eq!(rest(reader).await, Ok(Vec::new()));
    broker.stop().await;
}

#[tokio::test]
async fn a_reader_that_goes_away_stops_the_agent() {
    let Stage { broker, streams, mut agent } = Stage::set().await;
    let agent = tokio::spawn(async move {
        let open = opened(&mut agent).await;
        say_head(&agent, open.id, 200).await;
        heard(&mut agent).await
    });
    drop(soon(streams.logs("a", logs())).await.expect("logs"));
    let told = soon(agent).await.expect("no panic");
    assert!(matches!(&told, Down::StreamEnd(end) if end.error.is_some()), "{told:?}");
    broker.stop().await;
}

#[tokio::test]
async fn a_node_that_goes_away_breaks_its_streams() {
    let Stage { broker, streams, mut agent } = Stage::set().await;
    let agent = tokio::spawn(async move {
        let open = opened(&mut agent).await;
        say_head(&agent, open.id, 200).await;
        agent
    });
    let reader = soon(streams.logs("a", logs())).await.expect("logs");
    streams.ended("a");
    assert!(matches!(rest(reader).await, Err(StreamError::Broken(_))));
    drop(agent.await);
    broker.stop().await;
}

#[tokio::test]
async fn a_node_without_a_session_has_no_streams() {
    let Stage { broker, streams, agent } = Stage::set().await;
    let refused = streams.logs("b", logs()).await.err();
    assert_eq!(refused, Some(StreamError::NotConnected("b".to_owned())));
    streams.disconnected();
    let refused = streams.logs("a", logs()).await.err();
    assert_eq!(refused, Some(StreamError::NotConnected("a".to_owned())));
    drop(agent);
    broker.stop().await;
}

#[tokio::test]
async fn usage_comes_in_pieces_and_nonsense_is_refused() {
    let Stage { broker, streams, mut agent } = Stage::set().await;
    let usage = NodeUsage { cpu_ns: 7, memory_bytes: 1 << 40, ..NodeUsage::default() };
    let sent = encode_usage(&usage);
    let agent = tokio::spawn(async move {
        for answer in [Some(sent), Some(vec![0xff; 3]), None] {
            let open = opened(&mut agent).await;
            assert_eq!(open.target, StreamTarget::Usage);
            let mut error = Some("this agent does not measure".to_owned());
            if let Some(bytes) = answer {
                say_head(&agent, open.id, 200).await;
                for piece in bytes.chunks(2) {
                    say(&agent, Up::StreamData(StreamData { id: open.id, bytes: piece.to_vec() })).await;
                }
                error = None;
            }
            say(&agent, Up::StreamEnd(StreamEnd { id: open.id, error })).await;
        }
        agent
    });
    assert_eq!(soon(streams.usage("a")).await, Ok(usage));
    assert_eq!(soon(streams.usage("a")).await, Err(StreamError::Broken("the usage cannot be read".to_owned())));
    let message = "this agent does not measure".to_owned();
    assert_eq!(soon(streams.usage("a")).await, Err(StreamError::Refused { status: 501, message }));
    drop(agent.await);
    broker.stop().await;
}
