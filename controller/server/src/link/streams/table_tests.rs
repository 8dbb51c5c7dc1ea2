use coracle_model::PodUid;
use coracle_wire::stream::{HttpRequest, LogsRequest};

use super::*;

const SESSION: SessionNumber = SessionNumber(3);

fn logs() -> StreamTarget {
    StreamTarget::Logs(LogsRequest {
        uid: PodUid(7),
        container: "c".to_owned(),
        follow: true,
        previous: false,
        timestamps: false,
        tail_lines: None,
        since_ms: None,
        limit_bytes: None,
    })
}

fn http() -> StreamTarget {
    StreamTarget::Http(HttpRequest {
        uid: PodUid(7),
        port: 8080,
        method: "POST".to_owned(),
        path: "/".to_owned(),
        headers: Vec::new(),
    })
}

fn head(id: u64, credit: u32) -> Up {
    Up::StreamHead(StreamHead { id, status: 200, headers: Vec::new(), credit })
}

fn data(id: u64, length: usize) -> Up {
    Up::StreamData(StreamData { id, bytes: vec![7; length] })
}

fn end(id: u64, error: Option<&str>) -> Up {
    Up::StreamEnd(StreamEnd { id, error: error.map(str::to_owned) })
}

fn open_logs(table: &mut Table) -> u64 {
    let (id, downs) = table.open("a", SESSION, logs(), None).expect("room");
    assert_eq!(downs.len(), 1);
    table.hear("a", head(id, 0));
    assert_eq!(table.head(id), Head::Said(200, Vec::new()));
    id
}

fn body_bytes(downs: &[Down]) -> usize {
    let length = |down: &Down| if let Down::StreamData(data) = down { data.bytes.len() } else { 0 };
    downs.iter().map(length).sum()
}

// POD-11
#[test]
fn what_an_agent_says_is_read_in_order_to_its_end() {
    let mut table = Table::default();
    let id = open_logs(&mut table);
    assert_eq!(table.read(id), Read::Pending);
    for text in ["one\n", "two\n"] {
        let heard = table.hear("a", Up::StreamData(StreamData { id, bytes: text.into() }));
        assert_eq!(heard, Heard { wake: Some(id), downs: Vec::new() });
    }
    table.hear("a", end(id, None));
    assert_eq!(table.read(id), Read::Data(Bytes::from_static(b"one\ntwo\n"), None));
    assert_eq!(table.read(id), Read::End);
    assert_eq!(table.close(id), None);
}

#[test]
fn a_stream_that_nobody_reads_stops_its_agent_and_reading_lets_it_go_on() {
    let mut table = Table::default();
    let id = open_logs(&mut table);
    let window = STREAM_CREDIT_BYTES as usize;
    assert!(table.hear("a", data(id, window)).downs.is_empty());
    let grant = Down::StreamCredit(StreamCredit { id, bytes: STREAM_CREDIT_BYTES });
    assert_eq!(table.read(id), Read::Data(vec![7; window].into(), Some(grant)));
    assert!(table.hear("a", data(id, window)).downs.is_empty());
}

#[test]
fn small_reads_are_granted_together() {
    let mut table = Table::default();
    let id = open_logs(&mut table);
    let mut granted = 0;
    for _ in 0..64 {
        table.hear("a", data(id, STREAM_CREDIT_BYTES as usize / 64));
        if let Read::Data(_, Some(Down::StreamCredit(credit))) = table.read(id) {
            granted += 1;
            assert_eq!(credit.bytes, STREAM_CREDIT_BYTES / 2);
        }
    }
    assert_eq!(granted, 2);
}

#[test]
fn an_agent_that_sends_more_than_it_may_loses_the_stream() {
    let mut table = Table::default();
    let id = open_logs(&mut table);
    let heard = table.hear("a", data(id, STREAM_CREDIT_BYTES as usize + 1));
    assert!(matches!(&heard.downs[..], [Down::StreamEnd(StreamEnd { error: Some(_), .. })]));
    assert!(matches!(table.read(id), Read::Failed(_)));
    assert_eq!(table.hear("a", data(id, 1)), Heard::default());
}

#[test]
fn data_before_the_head_and_two_heads_are_against_the_rules() {
    for second in [data(1, 1), head(1, 0)] {
        let mut table = Table::default();
        let (id, _) = table.open("a", SESSION, logs(), None).expect("room");
        if matches!(second, Up::StreamHead(_)) {
            table.hear("a", head(id, 0));
        }
        assert_eq!(table.hear("a", second).downs.len(), 1);
        assert!(matches!(table.read(id), Read::Failed(_)));
    }
}

#[test]
fn a_request_without_a_body_is_whole_at_once() {
    let mut table = Table::default();
    let (id, downs) = table.open("a", SESSION, http(), Some(Bytes::new())).expect("room");
    assert_eq!(downs[1..], [Down::StreamEnd(StreamEnd { id, error: None })]);
}

#[test]
fn a_large_body_is_sent_as_the_agent_takes_it() {
    let mut table = Table::default();
    let window = STREAM_CREDIT_BYTES as usize;
    let (id, downs) = table.open("a", SESSION, http(), Some(vec![7; window * 2 + 1].into())).expect("room");
    assert_eq!(body_bytes(&downs), window);
    let largest = |down: &Down| matches!(down, Down::StreamData(data) if data.bytes.len() > STREAM_CHUNK_BYTES);
    assert!(!downs.iter().any(largest));
    // The head's credit counts from the first byte of the body, so this is what was allowed already.
    assert!(table.hear("a", head(id, STREAM_CREDIT_BYTES)).downs.is_empty());
    let heard = table.hear("a", Up::StreamCredit(StreamCredit { id, bytes: STREAM_CREDIT_BYTES }));
    assert_eq!(body_bytes(&heard.downs), window);
    let heard = table.hear("a", Up::StreamCredit(StreamCredit { id, bytes: 1 }));
    let last = Down::StreamData(StreamData { id, bytes: vec![7] });
    assert_eq!(heard.downs, [last, Down::StreamEnd(StreamEnd { id, error: None })]);
}

#[test]
fn nobody_speaks_on_the_stream_of_another_node() {
    let mut table = Table::default();
    let (id, _) = table.open("a", SESSION, logs(), None).expect("room");
    assert_eq!(table.hear("b", head(id, 0)), Heard::default());
    assert_eq!(table.head(id), Head::Pending);
}

#[test]
fn a_stream_ends_with_its_node_and_keeps_what_had_arrived() {
    let mut table = Table::default();
    let id = open_logs(&mut table);
    let (other, _) = table.open("b", SESSION, logs(), None).expect("room");
    table.hear("a", data(id, 3));
    assert_eq!(table.fail_all(Some("a"), "the node is gone"), [id]);
    assert_eq!(table.read(id), Read::Data(vec![7; 3].into(), None));
    assert_eq!(table.read(id), Read::Failed("the node is gone".to_owned()));
    assert_eq!(table.fail_all(None, "the link is gone"), [other]);
    assert_eq!(table.head(other), Head::Failed("the link is gone".to_owned()));
    assert_eq!(table.close(other), None);
}

#[test]
fn a_reader_that_goes_away_tells_the_agent() {
    let mut table = Table::default();
    let id = open_logs(&mut table);
    let Some((node, Down::StreamEnd(end))) = table.close(id) else { panic!("the agent has to know") };
    assert_eq!((node.as_str(), end.id, end.error.is_some()), ("a", id, true));
    assert_eq!(table.hear("a", data(id, 1)), Heard::default());
}

#[test]
fn an_agent_that_ends_before_it_answers_says_why() {
    let mut table = Table::default();
    let (id, _) = table.open("a", SESSION, logs(), None).expect("room");
    table.hear("a", end(id, Some("no such container")));
    assert_eq!(table.head(id), Head::Refused("no such container".to_owned()));
}

#[test]
fn streams_are_bounded_on_one_node_and_in_all() {
    let mut table = Table::default();
    for _ in 0..Limits::LINUX.streams {
        table.open("a", SESSION, logs(), None).expect("room");
    }
    assert_eq!(table.open("a", SESSION, logs(), None), Err(TooMany));
    let mut nodes = 0..;
    while table.streams.len() < MAX_STREAMS {
        table.open(&format!("n{}", nodes.next().expect("a number")), SESSION, logs(), None).expect("room");
    }
    assert_eq!(table.open("b", SESSION, logs(), None), Err(TooMany));
}

// POD-11
#[test]
fn the_more_streams_are_open_the_less_each_may_hold() {
    let mut table = Table::default();
    let mut held = 0_u64;
    for number in 0..MAX_STREAMS {
        let node = format!("node-{}", number / Limits::LINUX.streams);
        let (_, downs) = table.open(&node, SESSION, logs(), None).expect("room");
        let Some(Down::StreamOpen(open)) = downs.first() else { panic!("not an opening") };
        held += u64::from(open.credit);
    }
    assert!(held <= 100 * 1024 * 1024, "{held} bytes");
    assert!(table.open("another", SESSION, logs(), None).is_err());
    // A small window is granted anew as it is read, too.
    let id = table.last_id;
    let node = table.node(id).expect("open").to_owned();
    table.hear(&node, head(id, 0));
    table.hear(&node, data(id, 8 * 1024));
    let grant = Down::StreamCredit(StreamCredit { id, bytes: 8 * 1024 });
    assert_eq!(table.read(id), Read::Data(vec![7; 8 * 1024].into(), Some(grant)));
    let broken = table.hear(&node, data(id, 16 * 1024 + 1));
    assert!(matches!(broken.downs.as_slice(), [Down::StreamEnd(_)]), "{broken:?}");
}
