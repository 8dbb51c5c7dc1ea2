//! The embedded broker, as its clients see it.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use coracle_controller::link::broker::{BrokerError, EmbeddedBroker};
use coracle_link::{BrokerUrl, LinkError, Message, PublishError, Session, Settings, client_id};
use coracle_model::limits::MAX_MESSAGE_BYTES;
use coracle_wire::topic::{self, NodeTopic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CLUSTER: &str = "default";

/// A test that hangs fails instead; no test waits this long for something that comes.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("this should have happened by now")
}

fn start() -> (EmbeddedBroker, SocketAddr) {
    EmbeddedBroker::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), CLUSTER).expect("a broker")
}

fn settings(address: SocketAddr, client_id: &str, subscribe: &[&str]) -> Settings {
    Settings {
        broker: BrokerUrl::from(address),
        client_id: client_id.to_owned(),
        keep_alive: Duration::from_secs(30),
        will: None,
        subscribe: subscribe.iter().map(|filter| (*filter).to_owned()).collect(),
    }
}

fn agent_settings(address: SocketAddr, node: &str) -> Settings {
    Settings {
        will: Some((topic::node(CLUSTER, node, NodeTopic::Death), b"will".to_vec())),
        ..settings(address, &client_id::agent(CLUSTER, node, 1), &[&topic::node(CLUSTER, node, NodeTopic::Down)])
    }
}

async fn controller(broker: &EmbeddedBroker, address: SocketAddr) -> Session {
    let settings = settings(
        address,
        broker.controller_id(),
        &[
            &topic::every_node(CLUSTER, NodeTopic::Birth),
            &topic::every_node(CLUSTER, NodeTopic::Death),
            &topic::every_node(CLUSTER, NodeTopic::Up),
            &topic::manifests_apply(CLUSTER),
        ],
    );
    connect(&settings).await
}

async fn connect(settings: &Settings) -> Session {
    soon(Session::connect(settings)).await.expect("a session")
}

async fn next(session: &mut Session) -> Message {
    soon(session.next()).await.expect("a message")
}

fn up(node: &str) -> String {
    topic::node(CLUSTER, node, NodeTopic::Up)
}

#[tokio::test]
async fn messages_go_both_ways() {
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    let mut agent = connect(&agent_settings(address, "a")).await;
    agent.publisher().publish(&up("a"), b"hello".to_vec()).expect("room");
    let heard = next(&mut controller).await;
    assert_eq!((heard.topic.as_str(), &*heard.payload), ("coracle/default/n/a/up", &b"hello"[..]));
    controller.publisher().publish(&topic::node(CLUSTER, "a", NodeTopic::Down), b"hi".to_vec()).expect("room");
    assert_eq!(&*next(&mut agent).await.payload, b"hi");
    broker.stop().await;
}

// EDGE-04
#[tokio::test]
async fn an_answer_reaches_the_response_topic_with_its_correlation_data() {
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    let mut user = connect(&settings(address, "somebody", &["replies/7"])).await;
    let correlation = Bytes::from_static(b"17");
    user.publisher()
        .publish_request(&topic::manifests_apply(CLUSTER), b"kind: Pod".to_vec(), "replies/7", correlation.clone())
        .expect("room");
    let request = next(&mut controller).await;
    assert_eq!(request.response_topic.as_deref(), Some("replies/7"));
    controller.publisher().publish_reply("replies/7", b"{}".to_vec(), request.correlation).expect("room");
    let answer = next(&mut user).await;
    assert_eq!((answer.topic.as_str(), answer.correlation), ("replies/7", Some(correlation)));
    broker.stop().await;
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_its_last_will() {
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    let agent = connect(&agent_settings(address, "a")).await;
    drop(agent);
    let heard = next(&mut controller).await;
    assert_eq!((heard.topic.as_str(), &*heard.payload), ("coracle/default/n/a/death", &b"will"[..]));
    broker.stop().await;
}

#[tokio::test]
async fn connections_that_are_closed_leave_no_will_and_lose_nothing() {
    const AGENTS: usize = 20;
    const MESSAGES: usize = 50;
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    for agent in 0..AGENTS {
        let node = format!("n{agent}");
        let session = connect(&agent_settings(address, &node)).await;
        for _ in 0..MESSAGES {
            session.publisher().publish(&up(&node), b"hello".to_vec()).expect("room");
        }
        soon(session.close()).await;
    }
    for _ in 0..AGENTS * MESSAGES {
        assert_eq!(&*next(&mut controller).await.payload, b"hello");
    }
    // Whatever else the broker has to say comes before it stops.
    broker.stop().await;
    let last = soon(controller.next()).await;
    assert!(last.is_err(), "{last:?}");
}

#[tokio::test]
async fn a_second_connection_of_one_client_ends_the_first() {
    let (broker, address) = start();
    let mut first = connect(&agent_settings(address, "a")).await;
    let _second = connect(&agent_settings(address, "a")).await;
    assert!(soon(first.next()).await.is_err());
    assert!(matches!(soon(first.next()).await, Err(LinkError::Closed)));
    assert_eq!(first.publisher().publish(&up("a"), Vec::new()), Err(PublishError::Closed));
    broker.stop().await;
}

#[tokio::test]
async fn an_agent_cannot_speak_for_another_node() {
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    let agent = connect(&agent_settings(address, "a")).await;
    agent.publisher().publish(&up("b"), b"forged".to_vec()).expect("room");
    agent.publisher().publish(&topic::manifests_apply(CLUSTER), b"forged".to_vec()).expect("room");
    agent.publisher().publish(&up("a"), b"own".to_vec()).expect("room");
    assert_eq!(&*next(&mut controller).await.payload, b"own");
    broker.stop().await;
}

#[tokio::test]
async fn nobody_hears_what_is_not_theirs() {
    let (broker, address) = start();
    // One id each: while the broker is still busy with the last connection of an id, it refuses the next.
    for (client, filter) in [
        (client_id::agent(CLUSTER, "a", 1), "coracle/default/n/b/down"),
        (client_id::agent(CLUSTER, "a", 2), "#"),
        ("somebody-1".to_owned(), "#"),
        ("somebody-2".to_owned(), "+/+/n/+/down"),
        ("somebody-3".to_owned(), "coracle/default/n/a/down"),
    ] {
        let refused = soon(Session::connect(&settings(address, &client, &[filter]))).await;
        assert!(matches!(refused, Err(LinkError::Subscribe { .. })), "{client} {filter}: {refused:?}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_last_will_for_another_node_is_refused_at_once() {
    let (broker, address) = start();
    for client in ["somebody", &client_id::agent(CLUSTER, "a", 1)] {
        let will = Some((topic::node(CLUSTER, "b", NodeTopic::Death), Vec::new()));
        let refused = soon(Session::connect(&Settings { will, ..settings(address, client, &[]) })).await;
        assert!(matches!(refused, Err(LinkError::Refused(_))), "{client}: {refused:?}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_blocks_nobody() {
    let (broker, address) = start();
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(address).await.expect("a connection"));
    }
    let mut garbled = TcpStream::connect(address).await.expect("a connection");
    garbled.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("a write");
    let mut controller = controller(&broker, address).await;
    let agent = connect(&agent_settings(address, "a")).await;
    agent.publisher().publish(&up("a"), b"hello".to_vec()).expect("room");
    assert_eq!(&*next(&mut controller).await.payload, b"hello");
    // Garbage is hung up on.
    let mut rest = Vec::new();
    let _ended = soon(garbled.read_to_end(&mut rest)).await;
    broker.stop().await;
}

#[tokio::test]
async fn the_largest_message_passes_and_a_larger_one_is_refused_before_it_is_sent() {
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    let agent = connect(&agent_settings(address, "a")).await;
    let too_large = agent.publisher().publish(&up("a"), vec![7; MAX_MESSAGE_BYTES + 1]);
    assert_eq!(too_large, Err(PublishError::TooLarge { found: MAX_MESSAGE_BYTES + 1, limit: MAX_MESSAGE_BYTES }));
    agent.publisher().publish(&up("a"), vec![7; MAX_MESSAGE_BYTES]).expect("room");
    assert_eq!(next(&mut controller).await.payload.len(), MAX_MESSAGE_BYTES);
    broker.stop().await;
}

#[tokio::test]
async fn what_waits_is_bounded_and_never_blocks() {
    let (broker, address) = start();
    let agent = connect(&agent_settings(address, "a")).await;
    let publisher = agent.publisher();
    // Nothing is sent meanwhile: this test has one thread and does not await.
    let full = (0..100).find_map(|_| publisher.publish(&up("a"), vec![7; MAX_MESSAGE_BYTES]).err());
    assert_eq!(full, Some(PublishError::Full));
    soon(publisher.publish_in_turn(&up("a"), vec![7; MAX_MESSAGE_BYTES])).await.expect("room, sooner or later");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_messages_all_arrive_in_the_order_of_each_agent() {
    const AGENTS: usize = 8;
    const MESSAGES: u32 = 2_000;
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    for agent in 0..AGENTS {
        tokio::spawn(async move {
            let node = format!("n{agent}");
            let session = connect(&agent_settings(address, &node)).await;
            for number in 0..MESSAGES {
                let payload = number.to_le_bytes().to_vec();
                session.publisher().publish_in_turn(&up(&node), payload).await.expect("a session");
            }
            session.close().await;
        });
    }
    let mut expected = [0_u32; AGENTS];
    while expected != [MESSAGES; AGENTS] {
        let message = next(&mut controller).await;
        let Some(topic::Topic::Node(node, NodeTopic::Up)) = topic::parse(CLUSTER, &message.topic) else {
            panic!("a message on {}", message.topic);
        };
        let agent: usize = node.trim_start_matches('n').parse().expect("a number");
        assert_eq!(*message.payload, expected[agent].to_le_bytes());
        expected[agent] += 1;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_that_the_controller_is_slow_to_read_holds_its_publishers_back_and_loses_nothing() {
    // More than the broker queues for one client.
    const AGENTS: usize = 10;
    const MESSAGES: usize = 8_000;
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    for agent in 0..AGENTS {
        tokio::spawn(async move {
            let node = format!("n{agent}");
            let session = connect(&agent_settings(address, &node)).await;
            for _ in 0..MESSAGES {
                session.publisher().publish_in_turn(&up(&node), b"hello".to_vec()).await.expect("a session");
            }
            soon(session.publisher().publish_in_turn(&up(&node), b"last".to_vec())).await.expect("a session");
            // Stays, so that nothing is lost on the way out.
            std::future::pending::<()>().await;
        });
    }
    let (mut heard, mut last) = (0, 0);
    while last < AGENTS {
        let message = next(&mut controller).await;
        heard += 1;
        last += usize::from(&*message.payload == b"last");
    }
    assert_eq!(heard, AGENTS * (MESSAGES + 1));
    broker.stop().await;
}

#[tokio::test]
async fn waiting_for_a_message_can_be_given_up_at_any_time() {
    let (broker, address) = start();
    let mut controller = controller(&broker, address).await;
    let agent = connect(&agent_settings(address, "a")).await;
    for number in 0..200_u8 {
        agent.publisher().publish(&up("a"), vec![number]).expect("room");
    }
    let mut heard = Vec::new();
    let listen = async {
        while heard.len() < 200 {
            tokio::select! {
                biased;
                message = controller.next() => heard.extend_from_slice(&message.expect("a message").payload),
                () = tokio::task::yield_now() => {}
            }
        }
    };
    soon(listen).await;
    assert_eq!(heard, (0..200).collect::<Vec<u8>>());
    broker.stop().await;
}

#[tokio::test]
async fn a_broker_that_starts_again_on_its_address_finds_its_clients() {
    let (broker, address) = start();
    let mut agent = connect(&agent_settings(address, "a")).await;
    broker.stop().await;
    assert!(soon(agent.next()).await.is_err());
    assert!(soon(Session::connect(&agent_settings(address, "a"))).await.is_err());
    let (broker, again) = EmbeddedBroker::start(address, CLUSTER).expect("the same address");
    assert_eq!(again, address);
    let mut controller = controller(&broker, address).await;
    let agent = connect(&agent_settings(address, "a")).await;
    agent.publisher().publish(&up("a"), b"back".to_vec()).expect("room");
    assert_eq!(&*next(&mut controller).await.payload, b"back");
    broker.stop().await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let (broker, address) = start();
    let error = EmbeddedBroker::start(address, CLUSTER).expect_err("taken");
    assert!(matches!(error, BrokerError::InUse(taken) if taken == address));
    assert!(error.to_string().ends_with(&format!("address already in use: {address}")), "{error}");
    broker.stop().await;
}

#[test]
fn plaintext_outside_loopback_is_refused() {
    for listen in ["0.0.0.0:0", "192.0.2.1:1883", "[::]:0"] {
        let error = EmbeddedBroker::start(listen.parse().expect(listen), CLUSTER).expect_err(listen);
        assert!(matches!(error, BrokerError::NotLoopback(_)), "{error}");
    }
}
