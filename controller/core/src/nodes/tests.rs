//! Sessions from the controller's side: births, desired sets, reports, and messages that come late or twice.

use std::sync::Arc;

use coracle_model::{
    BootId, ClusterId, Condition, ConditionKind, ConditionStatus, ContainerState, ContainerStatus, InstanceId, Millis,
    NodeFacts, Phase, PodStatus, ResourceAmounts, SessionNumber,
};
use coracle_wire::Item;
use coracle_wire::down::Down;
use coracle_wire::up::{Birth, Death, Lease, Report, Up};
use serde_json::{Value, json};

use super::Nodes;
use crate::clock::Now;
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::plan::{Plan, Write};
use crate::store::{Action, Change};
use crate::view::View;

mod standing;

const UID: &str = "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11";

fn now(mono_ms: u64) -> Now {
    Now { wall_ms: 1_795_232_430_000 + mono_ms, mono: Millis(mono_ms) }
}

fn birth(session: u64, instance: u128) -> Up {
    let facts = NodeFacts {
        arch: "arm64".into(),
        os: "linux".into(),
        target: "aarch64-unknown-linux-gnu".into(),
        engine: "48".into(),
        zone: "zone-a".into(),
        labels: vec![("disk".into(), "ssd".into())],
        capacity: ResourceAmounts { cpu_millis: 4000, memory_bytes: 1 << 30, storage_bytes: 1 << 33 },
        allocatable: ResourceAmounts { cpu_millis: 3900, memory_bytes: 1 << 29, storage_bytes: 1 << 32 },
        interfaces: Vec::new(),
        max_pods: 110,
        agent_version: "0.1.0".into(),
        kernel: "6.1".into(),
        os_image: "Debian".into(),
        machine_id: String::new(),
    };
    Up::Birth(Birth {
        session: SessionNumber(session),
        instance: InstanceId(instance),
        boot: BootId(1),
        speaks: (1, 9),
        pinned: None,
        now: Millis(0),
        facts,
        holds: 0,
    })
}

/// A view with the node `pi` and one pod on it, and the sessions beside it.
struct Fixture {
    view: View,
    nodes: Nodes,
}

impl Fixture {
    fn new() -> Self {
        let mut fixture = Self { view: View::default(), nodes: Nodes::new(ClusterId(7), [1; 32], Millis(0)) };
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let metadata = json!({"name": "pi", "uid": "00000000-0000-4000-8000-000000000001"});
        fixture.put(Kind::NODE, json!({"metadata": metadata, "status": ready}));
        fixture
    }

    fn put(&mut self, kind: Kind, value: Value) {
        let object = Arc::new(Object::from_value(kind, self.view.revision() + 1, value).expect("an object"));
        let previous = self.view.get(&object.key).cloned();
        let action = if previous.is_some() { Action::Modified } else { Action::Added };
        let change = Change { revision: object.revision, action, object, previous };
        self.view.apply(&change);
        self.nodes.observe(&self.view, &change);
    }

    fn pod(&mut self, more: &Value) {
        let mut value = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": UID},
            "spec": {"nodeName": "pi", "containers": [{"name": "main", "image": "samples/hello:1"}]},
            "status": {"phase": "Pending"},
        });
        json_patch::merge(&mut value, more);
        self.put(Kind::POD, value);
    }

    fn hear(&mut self, at: u64, up: Up) -> Plan {
        self.nodes.hear(&self.view, now(at), "pi", up)
    }

    fn downs(&mut self, at: u64) -> Vec<Down> {
        self.nodes.flush(&self.view, now(at));
        self.nodes.take_downs().into_iter().map(|(_, down)| down).collect()
    }
}

fn status(phase: Phase, stopped: bool) -> PodStatus {
    PodStatus {
        uid: UID.parse().expect("a uid"),
        phase,
        reason: String::new(),
        message: String::new(),
        accepted_at: Millis(500),
        conditions: vec![Condition {
            kind: ConditionKind::Ready,
            status: ConditionStatus::True,
            reason: String::new(),
            message: String::new(),
            changed_at: Millis(1000),
        }],
        containers: vec![ContainerStatus {
            name: "main".into(),
            state: ContainerState::Running { started_at: Millis(1000) },
            last_state: None,
            restart_count: 0,
            ready: true,
            started: true,
            image: "samples/hello:1".into(),
            image_id: None,
            attempt: 1,
        }],
        stopped,
    }
}

fn report(session: u64, sequence: u64, statuses: &[PodStatus]) -> Up {
    Up::Report(Report {
        session: SessionNumber(session),
        sequence,
        now: Millis(2000),
        applied: 1,
        statuses: statuses.iter().map(|status| Item::new(status.uid, status)).collect(),
        events: Vec::new(),
        refused: Vec::new(),
    })
}

#[test]
fn a_birth_makes_the_node_and_brings_the_whole_set() {
    // EDGE-01, SCH-05
    let mut fixture = Fixture::new();
    fixture.pod(&json!({}));
    let plan = fixture.hear(0, birth(1, 1));
    let Some(Write::Update { value, .. }) = plan.writes.first() else { panic!("labels first: {plan:?}") };
    let labels = &value["metadata"]["labels"];
    assert_eq!(labels["topology.kubernetes.io/zone"], "zone-a");
    assert_eq!(labels["kubernetes.io/arch"], "arm64");
    assert_eq!(labels["kubernetes.io/hostname"], "pi");
    assert_eq!(labels["disk"], "ssd");
    let downs = fixture.downs(0);
    assert!(matches!(&downs[0], Down::Welcome(welcome) if welcome.version == 1));
    assert!(matches!(&downs[1], Down::Sync(sync) if sync.pods.len() == 1 && sync.parts == 1));
    assert!(fixture.downs(1).is_empty(), "nothing changed");
}

#[test]
fn changes_travel_as_deltas_and_a_lost_one_is_mended_by_a_sync() {
    let mut fixture = Fixture::new();
    let _ = fixture.hear(0, birth(1, 1));
    let _ = fixture.downs(0);
    fixture.pod(&json!({}));
    let downs = fixture.downs(10);
    assert!(matches!(&downs[..], [Down::Delta(delta)] if delta.upserts.len() == 1 && delta.sequence == 2));
    let lease = Up::Lease(Lease { session: SessionNumber(1), applied: 1 });
    let _ = fixture.hear(1000, lease.clone());
    assert!(fixture.downs(1000).is_empty(), "it may still be on its way");
    let at = fixture.nodes.wake_at().expect("a time to look again").0;
    assert!(matches!(&fixture.downs(at)[..], [Down::Sync(sync)] if sync.sequence == 3 && sync.pods.len() == 1));
    let _ = fixture.hear(at + 1, Up::Lease(Lease { session: SessionNumber(1), applied: 3 }));
    assert_eq!(fixture.nodes.wake_at(), None, "confirmed");
}

#[test]
fn a_set_that_takes_long_to_travel_is_not_sent_ever_faster() {
    let mut fixture = Fixture::new();
    fixture.hear(0, birth(1, 1));
    let mut sent_at = Vec::new();
    for at in 0..200 {
        if fixture.downs(at * 1000).iter().any(|down| matches!(down, Down::Sync(_))) {
            sent_at.push(at);
        }
    }
    assert_eq!(sent_at, [0, 5, 15, 35, 75, 115, 155, 195]);
    // Once all is confirmed, the next change that is lost is mended as soon as ever.
    fixture.hear(200_000, Up::Lease(Lease { session: SessionNumber(1), applied: 8 }));
    fixture.pod(&json!({}));
    assert!(matches!(fixture.downs(201_000)[..], [Down::Delta(_)]));
    assert!(matches!(fixture.downs(206_000)[..], [Down::Sync(_)]));
}

#[test]
fn a_pod_that_has_ended_is_not_sent_to_a_new_session() {
    let mut fixture = Fixture::new();
    fixture.pod(&json!({"status": {"phase": "Succeeded"}}));
    let _ = fixture.hear(0, birth(1, 1));
    let downs = fixture.downs(0);
    assert!(matches!(&downs[1], Down::Sync(sync) if sync.pods.is_empty()));
}

#[test]
fn a_report_becomes_a_status_once_and_is_acknowledged_twice() {
    // LIF-01, LIF-02
    let mut fixture = Fixture::new();
    fixture.pod(&json!({}));
    let _ = fixture.hear(0, birth(1, 1));
    let _ = fixture.downs(0);
    let plan = fixture.hear(2000, report(1, 1, &[status(Phase::Running, false)]));
    let written = plan.writes.iter().find_map(|write| match write {
        Write::Status { key, status, .. } if key.kind == Kind::POD => Some(status),
        _ => None,
    });
    let written = written.expect("a status");
    assert_eq!(written["phase"], "Running");
    assert_eq!(written["startTime"], "2026-11-21T03:40:30Z");
    assert_eq!(written["containerStatuses"][0]["state"]["running"]["startedAt"], "2026-11-21T03:40:31Z");
    assert_eq!(written["containerStatuses"][0]["containerID"], format!("coracle://{UID}/main/500.1"));
    assert_eq!(written["conditions"][0]["lastTransitionTime"], "2026-11-21T03:40:31Z");
    let again = fixture.hear(2001, report(1, 1, &[status(Phase::Running, false)]));
    assert!(again.writes.iter().all(|write| !matches!(write, Write::Status { key, .. } if key.kind == Kind::POD)));
    let acks = fixture.downs(2001).into_iter().filter(|down| matches!(down, Down::Ack(_)));
    assert_eq!(acks.count(), 2);
}

#[test]
fn a_report_that_was_overtaken_is_said_again() {
    // The simulator's seed 5: an acknowledgement of the newer report took the older one for heard, and the end of a
    // deleted pod was lost.
    let mut fixture = Fixture::new();
    fixture.pod(&json!({"metadata": {"deletionTimestamp": "2026-11-21T03:41:00Z", "deletionGracePeriodSeconds": 30}}));
    let _ = fixture.hear(0, birth(1, 1));
    let _ = fixture.downs(0);
    let _ = fixture.hear(2000, report(1, 2, &[]));
    let late = fixture.hear(2001, report(1, 1, &[status(Phase::Failed, true)]));
    assert!(late.writes.is_empty(), "what it says may be older than what the other said");
    let acks: Vec<_> = fixture.downs(2001).into_iter().filter(|down| matches!(down, Down::Ack(_))).collect();
    assert!(matches!(&acks[..], [Down::Ack(ack)] if ack.sequence == 2), "{acks:?}");
    let again = fixture.hear(7000, report(1, 3, &[status(Phase::Failed, true)]));
    assert!(again.writes.iter().any(|write| matches!(write, Write::Remove { .. })), "TRM-06");
}

#[test]
fn a_birth_that_was_overtaken_ends_no_session() {
    let mut fixture = Fixture::new();
    let _ = fixture.hear(0, birth(2, 1));
    let _ = fixture.downs(0);
    let _ = fixture.hear(10, birth(1, 1));
    assert!(fixture.downs(10).is_empty());
    let _ = fixture.hear(20, Up::Lease(Lease { session: SessionNumber(2), applied: 1 }));
    assert!(fixture.downs(20).is_empty(), "session 2 goes on");
    // Numbers that began anew are taken once the later session is over.
    let _ = fixture.hear(30, Up::Death(Death { session: SessionNumber(2) }));
    let _ = fixture.hear(40, birth(1, 1));
    assert!(matches!(&fixture.downs(40)[..], [Down::Welcome(_), Down::Sync(_)]));
}

#[test]
fn a_session_that_was_thought_gone_is_sent_everything() {
    let mut fixture = Fixture::new();
    let _ = fixture.hear(0, birth(1, 1));
    let _ = fixture.downs(0);
    let _ = fixture.hear(10, Up::Death(Death { session: SessionNumber(1) }));
    fixture.pod(&json!({}));
    assert!(fixture.downs(20).is_empty(), "nobody is there to hear it");
    let _ = fixture.hear(30, Up::Lease(Lease { session: SessionNumber(1), applied: 1 }));
    assert!(matches!(&fixture.downs(30)[..], [Down::Sync(sync)] if sync.pods.len() == 1));
}

#[test]
fn restarts_are_counted_through_the_restart_of_an_agent() {
    // LIF-02
    let mut fixture = Fixture::new();
    fixture.pod(&json!({"status": {"containerStatuses": [
        {"name": "main", "restartCount": 3, "containerID": format!("coracle://{UID}/main/7.4")},
    ]}}));
    let _ = fixture.hear(0, birth(1, 1));
    let plan = fixture.hear(2000, report(1, 1, &[status(Phase::Running, false)]));
    let Some(Write::Status { status, .. }) = plan.writes.last() else { panic!("a status: {plan:?}") };
    assert_eq!(status["containerStatuses"][0]["restartCount"], 4);
}

#[test]
fn a_phase_never_goes_backwards() {
    // LIF-01
    let mut fixture = Fixture::new();
    fixture.pod(&json!({"status": {"phase": "Failed"}}));
    let _ = fixture.hear(0, birth(1, 1));
    let plan = fixture.hear(2000, report(1, 1, &[status(Phase::Running, false)]));
    assert!(plan.writes.iter().all(|write| !matches!(write, Write::Status { key, .. } if key.kind == Kind::POD)));
}

#[test]
fn only_the_nodes_word_removes_a_deleted_pod() {
    // TRM-06, SAF-01
    let mut fixture = Fixture::new();
    let ending = json!({"metadata": {
        "deletionTimestamp": "2026-11-21T03:41:00Z", "deletionGracePeriodSeconds": 30,
    }});
    fixture.pod(&ending);
    let _ = fixture.hear(0, birth(1, 1));
    let removes = |plan: &Plan| plan.writes.iter().any(|write| matches!(write, Write::Remove { .. }));
    let running = fixture.hear(2000, report(1, 1, &[status(Phase::Running, false)]));
    assert!(!removes(&running));
    let stopped = fixture.hear(2001, report(1, 2, &[status(Phase::Failed, true)]));
    assert!(removes(&stopped));
    let elsewhere = fixture.nodes.hear(&fixture.view, now(2002), "other", birth(1, 2));
    assert!(!removes(&elsewhere));
    let lie = fixture.nodes.hear(&fixture.view, now(2003), "other", report(1, 1, &[status(Phase::Failed, true)]));
    assert!(!removes(&lie), "another node's word about this pod counts for nothing");
}

#[test]
fn old_sessions_are_ignored_and_unknown_ones_are_asked_to_introduce_themselves() {
    let mut fixture = Fixture::new();
    fixture.pod(&json!({}));
    let lease = |session| Up::Lease(Lease { session: SessionNumber(session), applied: 0 });
    let _ = fixture.hear(0, lease(4));
    assert!(matches!(&fixture.downs(0)[..], [Down::Reintroduce(word)] if word.session == SessionNumber(4)));
    let _ = fixture.hear(0, birth(5, 1));
    let _ = fixture.downs(0);
    let late = Up::Death(Death { session: SessionNumber(4) });
    let _ = fixture.hear(1, late);
    let plan = fixture.hear(1, report(4, 9, &[status(Phase::Running, false)]));
    assert_eq!(plan, Plan::default());
    assert!(fixture.downs(1).is_empty());
    fixture.pod(&json!({"metadata": {"annotations": {"coracle.dev/stdin-eof": "now"}}}));
    assert_eq!(fixture.downs(2).len(), 1, "the late will did not end the new session");
}

#[test]
fn a_second_agent_of_one_name_is_refused_while_the_first_one_lives() {
    let mut fixture = Fixture::new();
    let _ = fixture.hear(0, birth(1, 1));
    let _ = fixture.downs(0);
    let _ = fixture.hear(1000, birth(1, 2));
    assert!(matches!(&fixture.downs(1000)[..], [Down::Refuse(refuse)] if refuse.instance == InstanceId(2)));
    // The first one says goodbye: its name is free.
    let _ = fixture.hear(2000, Up::Death(Death { session: SessionNumber(1) }));
    let _ = fixture.hear(3000, birth(1, 2));
    assert!(matches!(&fixture.downs(3000)[0], Down::Welcome(_)));
    // Or it is not heard for the time of a lease.
    let _ = fixture.hear(60_000, birth(1, 3));
    assert!(matches!(&fixture.downs(60_000)[0], Down::Welcome(_)));
}

#[test]
fn a_pod_that_waits_for_its_config_map_is_sent_again_when_that_appears() {
    // POD-09
    let mut fixture = Fixture::new();
    let from = json!({"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}});
    fixture.pod(&json!({"spec": {"containers": [{"name": "main", "image": "i", "env": [from]}]}}));
    let _ = fixture.hear(0, birth(1, 1));
    let _ = fixture.downs(0);
    fixture.put(
        Kind::CONFIG_MAP,
        json!({"metadata": {"name": "c", "namespace": "default", "uid": "00000000-0000-4000-8000-000000000002"},
               "data": {"a": "1"}}),
    );
    let downs = fixture.downs(1);
    let [Down::Delta(delta)] = &downs[..] else { panic!("one delta: {downs:?}") };
    let pod: coracle_model::Pod = delta.upserts[0].read().expect("a pod");
    assert_eq!(pod.containers[0].config_error, None);
    assert_eq!(pod.containers[0].env[0].value, "1");
}

#[test]
fn a_node_that_was_given_up_and_is_heard_again_begins_a_new_session() {
    // SAF-04: its pods were set to not ready meanwhile, and are all reported anew.
    let mut fixture = Fixture::new();
    let _ = fixture.hear(0, birth(1, 1));
    let _ = fixture.downs(0);
    let unknown = json!({"conditions": [{"type": "Ready", "status": "Unknown"}]});
    let metadata = json!({"name": "pi", "uid": "00000000-0000-4000-8000-000000000001"});
    fixture.put(Kind::NODE, json!({"metadata": metadata, "status": unknown}));
    let _ = fixture.hear(90_000, Up::Lease(Lease { session: SessionNumber(1), applied: 1 }));
    assert!(matches!(&fixture.downs(90_000)[..], [Down::Reintroduce(_)]));
    let plan = fixture.hear(90_100, birth(2, 1));
    let ready = plan.writes.iter().any(|write| match write {
        Write::Status { status, .. } => status["conditions"][0]["status"] == "True",
        _ => false,
    });
    assert!(ready, "the birth makes it ready: {plan:?}");
}

#[test]
fn a_deleted_node_object_comes_back_with_the_next_birth() {
    let mut fixture = Fixture::new();
    let _ = fixture.hear(0, birth(1, 1));
    let _ = fixture.downs(0);
    let key = Key::new(Kind::NODE, "", "pi");
    let object = fixture.view.get(&key).cloned().expect("the node");
    let change = Change { revision: 99, action: Action::Deleted, object, previous: None };
    fixture.view.apply(&change);
    fixture.nodes.observe(&fixture.view, &change);
    assert!(matches!(&fixture.downs(1)[..], [Down::Reintroduce(_)]));
    let plan = fixture.hear(2, birth(2, 1));
    assert!(matches!(&plan.writes[..], [Write::Create { kind, .. }] if *kind == Kind::NODE));
}

#[test]
fn a_changed_config_map_goes_to_the_pods_that_read_it_and_to_no_others() {
    // VOL-01
    let mut fixture = Fixture::new();
    fixture.hear(0, birth(1, 1));
    fixture.pod(&json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "conf"}}]}}));
    let _ = fixture.downs(0);
    let map = |name: &str, number: u8, text: &str| {
        json!({"metadata": {"name": name, "namespace": "default",
            "uid": format!("00000000-0000-4000-8000-00000000001{number}")}, "data": {"a": text}})
    };
    let source = |downs: &[Down]| match downs {
        [Down::Delta(delta)] => {
            let pod: coracle_model::Pod = delta.upserts[0].read().expect("a pod");
            pod.volumes[0].source.clone()
        }
        other => panic!("{other:?}"),
    };
    let file = |text: &str| {
        let file = coracle_model::VolumeFile { path: "a".into(), bytes: text.into(), mode: 0o644 };
        coracle_model::VolumeSource::Files(vec![file])
    };
    for text in ["1", "2"] {
        fixture.put(Kind::CONFIG_MAP, map("conf", 1, text));
        assert_eq!(source(&fixture.downs(1)), file(text));
    }
    fixture.put(Kind::CONFIG_MAP, map("conf", 1, "2"));
    fixture.put(Kind::CONFIG_MAP, map("other", 2, "3"));
    fixture.put(Kind::SECRET, map("conf", 3, "NA=="));
    assert_eq!(fixture.downs(2), []);
}
