//! The crank as a whole: a store without room, and a controller that was not running for a while.

mod scheduler;
mod volumes;

use coracle_model::{
    BootId, ClusterId, InstanceId, Millis, NodeFacts, Phase, PodStatus, ResourceAmounts, SessionNumber,
};
use coracle_wire::Item;
use coracle_wire::down::Down;
use coracle_wire::up::{Birth, Lease, Report, Up};
use serde_json::{Value, json};

use super::*;
use crate::kind::Kind;
use crate::object::Object;
use crate::request::{DeleteOptions, FieldValidation};

struct Fixture {
    controller: Controller,
    now: Now,
    tickets: Ticket,
}

impl Fixture {
    fn new() -> Self {
        let now = Now { wall_ms: 1_795_232_430_000, mono: Millis(1_000) };
        let identity = Identity { cluster: ClusterId(1), artifact_key: [7; 32], entropy: 5 };
        let mut fixture = Self { controller: Controller::new(View::default(), identity, now), now, tickets: 0 };
        fixture.settle();
        fixture
    }

    fn settle(&mut self) -> Stage {
        self.controller.settle(self.now)
    }

    fn hear(&mut self, up: Up) -> Vec<Down> {
        self.controller.handle(self.now, Input::Hear { node: "pi".to_owned(), up: Box::new(up) });
        let stage = self.settle();
        let downs = stage.effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { down, .. } => Some(*down),
            Effect::Answer(..) => None,
        });
        downs.collect()
    }

    fn ask(&mut self, kind: Kind, name: &str, verb: Verb, dry_run: bool) -> (Result<Answer, ApiError>, usize) {
        self.tickets += 1;
        let namespace = "default".to_owned();
        let field_validation = FieldValidation::Strict;
        let name = name.to_owned();
        let request = Request { kind, namespace, name, subresource: None, verb, dry_run, field_validation };
        self.controller.handle(self.now, Input::Request(self.tickets, Box::new(request)));
        let stage = self.settle();
        let answers = stage.effects.into_iter().find_map(|effect| match effect {
            Effect::Answer(ticket, answer) if ticket == self.tickets => Some(*answer),
            Effect::Answer(..) | Effect::Send { .. } => None,
        });
        (answers.expect("an answer"), stage.changes.len())
    }

    fn create(&mut self, name: &str, dry_run: bool) -> (Result<Answer, ApiError>, usize) {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.ask(Kind::CONFIG_MAP, "", Verb::Create(value), dry_run)
    }

    fn room(&mut self, room: Room) {
        self.controller.handle(self.now, Input::Room(room));
    }

    fn pass(&mut self, ms: u64) {
        self.now = Now { wall_ms: self.now.wall_ms + ms, mono: self.now.mono + ms };
    }

    fn node(&self) -> Value {
        self.controller.view().get(&Key::new(Kind::NODE, "", "pi")).map(|node| Object::value(node)).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        let conditions = self.node()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }
}

fn full() -> Room {
    Room::Full("the disk is full".to_owned())
}

fn birth(session: u64) -> Up {
    let amounts = ResourceAmounts { cpu_millis: 4000, memory_bytes: 1 << 30, storage_bytes: 1 << 33 };
    let facts = NodeFacts {
        arch: "arm64".into(),
        os: "linux".into(),
        target: "aarch64-unknown-linux-gnu".into(),
        engine: "48".into(),
        zone: "zone-a".into(),
        labels: Vec::new(),
        capacity: amounts,
        allocatable: amounts,
        interfaces: Vec::new(),
        max_pods: 110,
        agent_version: "0.1.0".into(),
        kernel: "6.1".into(),
        os_image: "Debian".into(),
        machine_id: String::new(),
    };
    let (session, instance) = (SessionNumber(session), InstanceId(1));
    Up::Birth(Birth {
        session,
        instance,
        boot: BootId(1),
        speaks: (1, 9),
        pinned: None,
        now: Millis(0),
        facts,
        holds: 0,
    })
}

fn lease(session: u64) -> Up {
    Up::Lease(Lease { session: SessionNumber(session), applied: 1 })
}

fn report(sequence: u64, pod: &Object) -> Up {
    let status = PodStatus {
        uid: pod.uid,
        phase: Phase::Running,
        reason: String::new(),
        message: String::new(),
        accepted_at: Millis(1),
        conditions: Vec::new(),
        containers: Vec::new(),
        stopped: false,
    };
    let statuses = vec![Item::new(pod.uid, &status)];
    let (session, now) = (SessionNumber(1), Millis(2));
    Up::Report(Report { session, sequence, now, applied: 1, statuses, events: Vec::new(), refused: Vec::new() })
}

#[test]
fn while_the_store_is_full_writes_are_refused_and_nothing_is_staged() {
    let mut fixture = Fixture::new();
    assert!(fixture.create("before", false).0.is_ok());
    fixture.room(full());
    let (refused, changes) = fixture.create("during", false);
    let refused = refused.expect_err("no room");
    assert_eq!((refused.code, refused.reason, &*refused.message), (507, "InsufficientStorage", "the disk is full"));
    assert_eq!(changes, 0);
    // A deletion needs room as well.
    let delete = Verb::Delete(DeleteOptions::default());
    assert_eq!(fixture.ask(Kind::CONFIG_MAP, "before", delete, false).0.expect_err("no room").code, 507);
    assert!(fixture.create("tried", true).0.is_ok(), "a dry run needs none");
    fixture.pass(3_600_000);
    assert!(fixture.settle().changes.is_empty(), "time alone writes nothing either");
    fixture.room(Room::Plenty);
    let (created, changes) = fixture.create("after", false);
    assert!(created.is_ok() && changes >= 1);
}

#[test]
fn while_the_store_is_nearly_full_only_events_are_not_kept() {
    let mut fixture = Fixture::new();
    let pod = |name: &str| {
        let containers = json!([{"name": "main", "image": "samples/hello:1"}]);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}})
    };
    let events = |fixture: &Fixture| fixture.controller.view().list(Kind::EVENT, None).count();
    fixture.room(Room::Scarce);
    // A pod for which there is no node is told so in an event.
    assert!(fixture.ask(Kind::POD, "", Verb::Create(pod("one")), false).0.is_ok());
    assert_eq!(events(&fixture), 0);
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Mine", "message": "m", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "one"},
    });
    assert_eq!(fixture.ask(Kind::EVENT, "", Verb::Create(event), false).0.expect_err("no event").code, 507);
    fixture.room(Room::Plenty);
    assert!(fixture.ask(Kind::POD, "", Verb::Create(pod("two")), false).0.is_ok());
    assert_eq!(events(&fixture), 1);
}

// EDGE-05
#[test]
fn while_the_store_is_full_agents_are_heard_and_what_they_say_is_not_acknowledged() {
    let mut fixture = Fixture::new();
    fixture.hear(birth(1));
    let containers = json!([{"name": "main", "image": "samples/hello:1"}]);
    let spec = json!({"nodeName": "pi", "containers": containers});
    let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    fixture.ask(Kind::POD, "", Verb::Create(value), false).0.expect("a pod");
    let pod = fixture.controller.view().get(&Key::new(Kind::POD, "default", "p")).cloned().expect("it is there");
    fixture.room(full());
    assert!(
        !fixture.hear(report(1, &pod)).iter().any(|down| matches!(down, Down::Ack(_))),
        "nothing durable came of it"
    );
    // For an hour: nobody is given up, since everybody is heard.
    for _ in 0..360 {
        fixture.pass(10_000);
        assert!(!fixture.hear(lease(1)).iter().any(|down| matches!(down, Down::Reintroduce(_))));
    }
    // A node may begin a session, and is sent what it should run.
    let downs = fixture.hear(birth(2));
    assert!(downs.iter().any(|down| matches!(down, Down::Welcome(_))), "{downs:?}");
    assert!(downs.iter().any(|down| matches!(down, Down::Sync(_))), "{downs:?}");
    fixture.room(Room::Plenty);
    fixture.settle();
    assert!(fixture.is_ready(), "it was heard all the time");
    let downs = fixture.hear(lease(2));
    assert!(downs.iter().any(|down| matches!(down, Down::Reintroduce(_))), "what its birth said is wanted: {downs:?}");
    fixture.hear(birth(1));
    let acknowledged = fixture.hear(report(1, &pod));
    assert!(acknowledged.iter().any(|down| matches!(down, Down::Ack(_))), "{acknowledged:?}");
    assert_eq!(fixture.controller.view().get(&pod.key).expect("it is there").value()["status"]["phase"], "Running");
}

#[test]
fn a_node_that_came_while_the_store_was_full_is_made_when_there_is_room() {
    let mut fixture = Fixture::new();
    fixture.room(full());
    let downs = fixture.hear(birth(1));
    assert!(downs.iter().any(|down| matches!(down, Down::Welcome(_))), "{downs:?}");
    assert!(fixture.node().is_null());
    for _ in 0..5 {
        fixture.pass(10_000);
        assert!(fixture.hear(lease(1)).is_empty(), "it is not sent round in circles meanwhile");
    }
    fixture.room(Room::Plenty);
    let stage = fixture.settle();
    let again = |effect: &Effect| matches!(effect, Effect::Send { down, .. } if matches!(**down, Down::Reintroduce(_)));
    assert!(stage.effects.iter().any(again), "{:?}", stage.effects);
    fixture.hear(birth(2));
    assert!(fixture.is_ready());
}

// EDGE-05: SIGSTOP, a suspended laptop, a disk that hung for a minute.
#[test]
fn a_controller_that_was_not_running_blames_nobody_for_the_silence() {
    let mut fixture = Fixture::new();
    fixture.hear(birth(1));
    assert!(fixture.is_ready());
    fixture.pass(120_000);
    fixture.settle();
    assert!(fixture.is_ready(), "nobody could be heard");
    // A node that has really gone is found out all the same, its full time later.
    for _ in 0..41 {
        fixture.pass(1_000);
        fixture.settle();
    }
    assert!(!fixture.is_ready());
}
