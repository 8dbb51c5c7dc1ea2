//! Logs and HTTP as the controller asks for them.

use std::time::{Duration, SystemTime};

use crate::workbench::{Bench, built, container, variable};
use coracle_agent::streams::Streams;
use coracle_agent_core::Input;
use coracle_lifecycle::Exit;
use coracle_model::limits::{Limits, STREAM_CHUNK_BYTES};
use coracle_model::{Container, Millis, PodUid, SessionNumber};
use coracle_wire::stream::{
    HttpRequest, LogsRequest, StreamCredit, StreamEnd, StreamHead, StreamOpen, StreamTarget, decode_usage,
};
use tokio::sync::mpsc;

pub(crate) struct Door {
    pub(crate) streams: Streams,
    inputs: mpsc::Receiver<Input>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) head: Option<StreamHead>,
    body: Vec<u8>,
    pub(crate) error: Option<String>,
}

impl Served {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Door {
    pub(crate) fn new(bench: &Bench) -> Self {
        let (sender, inputs) = mpsc::channel(64);
        Self { streams: Streams::new(sender, bench.logs.clone(), &Limits::LINUX), inputs }
    }

    async fn next(&mut self) -> Input {
        let input = tokio::time::timeout(Duration::from_secs(60), self.inputs.recv()).await;
        input.ok().flatten().unwrap_or_else(|| panic!("the stream said nothing"))
    }

    pub(crate) fn open(&mut self, bench: &Bench, id: u64, credit: u32, target: StreamTarget) {
        let open = StreamOpen { session: SessionNumber(1), id, credit, target };
        self.streams.open(open, &bench.runtime, Millis::ZERO);
    }

    /// Reads to the end, granting anew what was read.
    pub(crate) async fn finish(&mut self, id: u64) -> Served {
        let mut served = Served::default();
        loop {
            match self.next().await {
                Input::StreamHead(head) if head.id == id => served.head = Some(head),
                Input::StreamData(data) if data.id == id => {
                    let bytes = u32::try_from(data.bytes.len()).unwrap_or(u32::MAX);
                    served.body.extend(data.bytes);
                    self.streams.credit(StreamCredit { id, bytes });
                }
                Input::StreamEnd(end) if end.id == id => {
                    self.streams.ended(id);
                    return Served { error: end.error, ..served };
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn logs(pod: u128) -> LogsRequest {
    LogsRequest {
        uid: PodUid(pod),
        container: "main".into(),
        follow: false,
        previous: false,
        timestamps: false,
        tail_lines: None,
        since_ms: None,
        limit_bytes: None,
    }
}

pub(crate) fn get(pod: u128, port: u16, path: &str) -> StreamTarget {
    StreamTarget::Http(HttpRequest {
        uid: PodUid(pod),
        port,
        method: "GET".into(),
        path: path.into(),
        headers: vec![("accept".into(), b"*/*".to_vec())],
    })
}

pub(crate) fn web() -> Container {
    Container {
        ports: vec![("http".into(), 8080)],
        env: vec![variable("POD_NAME", "web-1"), variable("NODE_NAME", "pi-1")],
        ..container()
    }
}

// DESIGN, decision 10
#[tokio::test]
async fn a_handler_answers_with_its_pod_and_node() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("hello-1"), web()).await;
    bench.started(&run).await;
    let mut door = Door::new(&bench);
    for (id, port) in [(1, 8080), (2, 0)] {
        door.open(&bench, id, 4, get(1, port, "/"));
        let served = door.finish(id).await;
        assert_eq!(served.head.as_ref().map(|head| head.status), Some(200), "{served:?}");
        assert_eq!(served.text(), "hello:1\npod: web-1\nnode: pi-1\n");
        assert_eq!(served.error, None);
    }
    door.open(&bench, 3, 1 << 16, get(1, 8080, "/nowhere"));
    assert_eq!(door.finish(3).await.head.map(|head| head.status), Some(404));
}

#[tokio::test]
async fn nobody_answers_on_a_port_that_no_container_has() {
    let mut bench = Bench::new();
    let web = bench.start(1, &built("hello-1"), web()).await;
    bench.started(&web).await;
    let plain = bench.start(2, &built("stubborn"), container()).await;
    bench.started(&plain).await;
    let mut door = Door::new(&bench);
    for (id, pod, port) in [(1, 1, 9090), (2, 2, 8080), (3, 77, 8080)] {
        door.open(&bench, id, 1 << 16, get(pod, port, "/"));
        let served = door.finish(id).await;
        assert!(served.error.is_some_and(|error| error.starts_with("connection refused")), "pod {pod}");
    }
}

// TRM-03
#[tokio::test]
async fn a_handler_that_is_asked_to_stop_ends_with_zero() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("hello-1"), web()).await;
    bench.started(&run).await;
    bench.runtime.signal(&run, 30_000);
    assert_eq!(bench.exit(&run).await, Exit::Code(0));
}

// POD-11
#[tokio::test]
async fn logs_are_cut_as_asked_and_wait_for_credit() {
    let bench = Bench::new();
    let output = bench.logs.begin(PodUid(1), "main");
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    for line in ["one", "two", "three"] {
        output.append(at, line.as_bytes());
    }
    let mut door = Door::new(&bench);
    let cases = [
        (LogsRequest { ..logs(1) }, "one\ntwo\nthree\n"),
        (LogsRequest { tail_lines: Some(1), ..logs(1) }, "three\n"),
        (LogsRequest { limit_bytes: Some(6), ..logs(1) }, "one\ntw"),
        (LogsRequest { since_ms: Some(1000), ..logs(1) }, ""),
        (LogsRequest { timestamps: true, tail_lines: Some(1), ..logs(1) }, "2023-11-14T22:13:20.123000000Z three\n"),
    ];
    for (id, (request, want)) in (1..).zip(cases) {
        door.open(&bench, id, 3, StreamTarget::Logs(request));
        let served = door.finish(id).await;
        assert_eq!((served.text().as_str(), served.error), (want, None));
        assert_eq!(served.head.map(|head| head.status), Some(200));
    }
}

// POD-11
#[tokio::test]
async fn a_follower_stays_until_the_container_ends() {
    let bench = Bench::new();
    let output = bench.logs.begin(PodUid(1), "main");
    let mut door = Door::new(&bench);
    door.open(&bench, 1, 1 << 16, StreamTarget::Logs(LogsRequest { follow: true, ..logs(1) }));
    assert!(matches!(door.next().await, Input::StreamHead(_)));
    output.append(SystemTime::UNIX_EPOCH, b"first");
    match door.next().await {
        Input::StreamData(data) => assert_eq!(data.bytes, b"first\n"),
        other => panic!("{other:?}"),
    }
    output.append(SystemTime::UNIX_EPOCH, b"last");
    output.end();
    assert_eq!(door.finish(1).await.text(), "last\n");
}

// POD-11
#[tokio::test]
async fn logs_that_are_not_there_are_an_error() {
    let bench = Bench::new();
    let _current = bench.logs.begin(PodUid(1), "main");
    let mut door = Door::new(&bench);
    for (id, request) in [(1, LogsRequest { previous: true, ..logs(1) }), (2, logs(2))] {
        door.open(&bench, id, 1 << 16, StreamTarget::Logs(request));
        let served = door.finish(id).await;
        assert_eq!(served.head, None);
        assert!(served.error.is_some_and(|error| error.contains("\"main\"")));
    }
}

#[tokio::test]
async fn a_stream_that_the_controller_cancels_says_no_more() {
    let bench = Bench::new();
    let output = bench.logs.begin(PodUid(1), "main");
    let mut door = Door::new(&bench);
    door.open(&bench, 1, 1 << 16, StreamTarget::Logs(LogsRequest { follow: true, ..logs(1) }));
    assert!(matches!(door.next().await, Input::StreamHead(_)));
    door.streams.end(&StreamEnd { id: 1, error: Some("the client went away".into()) });
    output.append(SystemTime::UNIX_EPOCH, b"unheard");
    door.open(&bench, 2, 1 << 16, StreamTarget::Logs(logs(1)));
    assert_eq!(door.finish(2).await.text(), "unheard\n");
}

// POD-11
#[tokio::test]
async fn hundreds_of_followers_of_a_flood_hold_nothing_while_they_wait() {
    const FOLLOWERS: u64 = 200;
    let bench = Bench::new();
    let output = bench.logs.begin(PodUid(1), "main");
    let mut door = Door::new(&bench);
    for id in 1..=FOLLOWERS {
        door.open(&bench, id, 1 << 20, StreamTarget::Logs(LogsRequest { follow: true, ..logs(1) }));
    }
    let mut heads = 0;
    while heads < FOLLOWERS {
        assert!(matches!(door.next().await, Input::StreamHead(_)));
        heads += 1;
    }
    // Nobody takes what they say, and the container goes on: its writer waits for none of them.
    for number in 0..100_000 {
        output.append(SystemTime::UNIX_EPOCH, format!("line {number:06} of a flood").as_bytes());
        if number % 1000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    output.end();
    let mut texts = vec![Vec::new(); FOLLOWERS as usize + 1];
    let mut ended = 0;
    while ended < FOLLOWERS {
        match door.next().await {
            Input::StreamData(data) => texts[data.id as usize].extend(data.bytes),
            Input::StreamEnd(end) => {
                assert_eq!(end.error, None);
                ended += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    for text in &texts[1..] {
        assert!(text.ends_with(b"line 099999 of a flood\n"));
        // What the ring keeps, and one piece that was said before.
        assert!(text.len() <= Limits::LINUX.log_bytes + STREAM_CHUNK_BYTES, "{} bytes", text.len());
    }
}

#[tokio::test]
async fn usage_is_counted_when_somebody_asks() {
    let mut bench = Bench::new();
    let run = bench.start(1, &built("stubborn"), container()).await;
    bench.started(&run).await;
    let mut door = Door::new(&bench);
    door.open(&bench, 1, 16, StreamTarget::Usage);
    let served = door.finish(1).await;
    assert_eq!((served.head.map(|head| head.status), served.error), (Some(200), None));
    let usage = decode_usage(&served.body).unwrap_or_else(|| panic!("no usage: {:?}", served.body));
    assert!(usage.cpu_ns > 0 && usage.memory_bytes > 0, "{usage:?}");
    let found: Vec<_> = usage.containers.iter().map(|used| (used.uid, used.container.as_str())).collect();
    assert_eq!(found, [(PodUid(1), "main")]);
}
