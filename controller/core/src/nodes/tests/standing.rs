//! What nodes say of themselves: images and shortages.

use coracle_model::{Digest, NodeImage};
use coracle_wire::up::NodeReport;

use super::*;

const HEX: &str = "sha256:abababababababababababababababababababababababababababababababab";

fn image(fill: u8, size_bytes: u64, names: &[&str]) -> NodeImage {
    NodeImage { image: Digest([fill; 32]), size_bytes, names: names.iter().map(ToString::to_string).collect() }
}

fn says(sequence: u64, (memory, disk): (bool, bool), images: &[NodeImage]) -> Up {
    Up::Node(NodeReport {
        session: SessionNumber(1),
        sequence,
        applied: 1,
        memory_pressure: memory,
        disk_pressure: disk,
        images: images.to_vec(),
    })
}

impl Fixture {
    fn born() -> Self {
        let mut fixture = Self::new();
        let _ = fixture.hear(0, birth(1, 1));
        let _ = fixture.downs(0);
        fixture
    }

    /// Hears, and writes what the plan wants written of the node's status; how many writes that was.
    fn take(&mut self, at: u64, up: Up) -> (usize, Vec<String>) {
        let plan = self.hear(at, up);
        let notes = plan.notes.iter().map(|note| note.reason.clone()).collect();
        let count = plan.writes.len();
        for write in plan.writes {
            let Write::Status { key, status, .. } = write else { panic!("{write:?}") };
            let mut value = self.view.get(&key).expect("the node").value();
            value["status"] = status;
            self.put(Kind::NODE, value);
        }
        (count, notes)
    }

    fn status(&self) -> Value {
        self.view.get(&Key::new(Kind::NODE, "", "pi")).expect("the node").status()
    }

    fn condition(&self, kind: &str) -> Value {
        let status = self.status();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
    }
}

#[test]
fn images_are_listed_as_a_kubelet_lists_them_and_written_once() {
    // SCH-02
    let mut fixture = Fixture::born();
    let held = [
        image(1, 5, &["z:1"]),
        image(0xab, 70_000_000, &["host:5000/team/app", "host:5000/team/app:2", "team/app:1", "x@sha256:00"]),
    ];
    assert_eq!(fixture.take(10, says(1, (false, false), &held)).0, 1);
    assert!(matches!(&fixture.downs(10)[..], [Down::Ack(ack)] if ack.sequence == 1));
    let want = json!([
        {"names": [format!("host:5000/team/app@{HEX}"), format!("team/app@{HEX}"),
                   "host:5000/team/app:2", "host:5000/team/app:latest", "team/app:1"], "sizeBytes": 70_000_000},
        {"names": [format!("z@{}", Digest([1; 32])), "z:1"], "sizeBytes": 5},
    ]);
    assert_eq!(fixture.status()["images"], want);
    // The same again, in this session and in a later one: nothing is written.
    let [small, large] = held;
    assert_eq!(fixture.take(20, says(2, (false, false), &[large, small])), (0, Vec::new()));
    let plan = fixture.hear(30, birth(2, 1));
    let kept = plan.writes.iter().all(|write| match write {
        Write::Status { status, .. } => status["images"] == want,
        _ => true,
    });
    assert!(kept, "a birth says nothing of images, and takes none away: {plan:?}");
}

#[test]
fn images_that_go_are_taken_out() {
    let mut fixture = Fixture::born();
    let _ = fixture.take(10, says(1, (false, false), &[image(1, 5, &["z:1"])]));
    assert_eq!(fixture.take(20, says(2, (false, false), &[])).0, 1);
    assert!(fixture.status()["images"].is_null());
}

#[test]
fn a_hostile_list_of_images_is_cut_to_what_a_node_may_say() {
    let mut fixture = Fixture::born();
    let long = "x".repeat(513);
    let mut images: Vec<NodeImage> = (0..=254).map(|fill| image(fill, 100, &["a:1"])).collect();
    images.push(image(255, u64::MAX, &["", "with space:1", "b\u{7}:1", "ü:1", &long, "fine:1"]));
    images.push(image(7, u64::MAX - 1, &["\n"]));
    let many: Vec<String> = (0..50).map(|number| format!("repository-{number:02}:1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    images.push(image(8, 1000, &many));
    let _ = fixture.take(10, says(1, (false, false), &images));
    let listed = fixture.status()["images"].as_array().cloned().unwrap_or_default();
    assert_eq!(listed.len(), 50);
    assert_eq!(listed[0]["sizeBytes"], json!(i64::MAX));
    assert_eq!(listed[0]["names"], json!([format!("fine@{}", Digest([255; 32])), "fine:1"]));
    assert_eq!(listed[1]["names"].as_array().map(Vec::len), Some(5));
}

#[test]
fn shortages_are_conditions_and_events_in_a_kubelets_words() {
    // PRI-09
    let mut fixture = Fixture::born();
    let (writes, notes) = fixture.take(10_000, says(1, (false, false), &[]));
    assert_eq!((writes, notes), (1, Vec::new()));
    let memory = fixture.condition("MemoryPressure");
    assert_eq!((&memory["status"], &memory["reason"]), (&json!("False"), &json!("KubeletHasSufficientMemory")));
    assert_eq!(memory["message"], "kubelet has sufficient memory available");
    let disk = fixture.condition("DiskPressure");
    assert_eq!((&disk["status"], &disk["reason"]), (&json!("False"), &json!("KubeletHasNoDiskPressure")));
    assert_eq!(disk["message"], "kubelet has no disk pressure");

    let (writes, notes) = fixture.take(20_000, says(2, (true, false), &[]));
    assert_eq!((writes, notes), (1, vec!["NodeHasInsufficientMemory".to_owned(), "EvictionThresholdMet".to_owned()]));
    let memory = fixture.condition("MemoryPressure");
    assert_eq!((&memory["status"], &memory["reason"]), (&json!("True"), &json!("KubeletHasInsufficientMemory")));
    assert_eq!(memory["message"], "kubelet has insufficient memory available");
    assert_eq!(memory["lastTransitionTime"], json!(now(20_000).stamp()));
    assert_eq!(fixture.condition("DiskPressure"), disk, "what did not change keeps its stamps");
    assert_eq!(fixture.condition("Ready")["status"], "True");

    let (_, notes) = fixture.take(30_000, says(3, (false, true), &[]));
    assert_eq!(notes, ["NodeHasSufficientMemory", "NodeHasDiskPressure", "EvictionThresholdMet"]);
    let disk = fixture.condition("DiskPressure");
    assert_eq!((&disk["status"], &disk["reason"]), (&json!("True"), &json!("KubeletHasDiskPressure")));
    assert_eq!(disk["message"], "kubelet has disk pressure");
    assert_eq!(fixture.take(40_000, says(4, (false, true), &[])), (0, Vec::new()));
}

#[test]
fn a_node_that_was_silent_says_again_what_it_is_short_of() {
    let mut fixture = Fixture::born();
    let _ = fixture.take(10_000, says(1, (true, false), &[]));
    let mut value = fixture.view.get(&Key::new(Kind::NODE, "", "pi")).expect("the node").value();
    for condition in value["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if condition["type"] == "MemoryPressure" {
            condition["status"] = json!("Unknown");
            condition["reason"] = json!("NodeStatusUnknown");
        }
    }
    fixture.put(Kind::NODE, value);
    let _ = fixture.take(20_000, says(2, (true, false), &[]));
    assert_eq!(fixture.condition("MemoryPressure")["status"], "True");
}

#[test]
fn what_an_old_session_or_an_overtaken_report_says_of_its_node_counts_for_nothing() {
    let mut fixture = Fixture::born();
    let _ = fixture.take(10, says(5, (true, false), &[]));
    let _ = fixture.downs(10);
    assert_eq!(fixture.take(20, says(4, (false, false), &[])).0, 0);
    assert!(fixture.downs(20).is_empty(), "so that it is said again");
    let _ = fixture.hear(30, birth(2, 1));
    assert_eq!(fixture.take(40, says(6, (false, false), &[])).0, 0);
    assert_eq!(fixture.condition("MemoryPressure")["status"], "True");
}
