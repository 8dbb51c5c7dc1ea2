//! Payloads from elsewhere: noise, cut ones, newer writers.

use coracle_model::{Container, Pod, PodStatus, PodUid, RestartPolicy, Stop, Volume};
use coracle_wire::down::{Down, Sync};
use coracle_wire::envelope::VERSION;
use coracle_wire::up::{Birth, Up};
use coracle_wire::{DecodeError, EncodeError, Item};
use proptest::prelude::*;

use crate::samples;

/// The payload with more bytes behind its message, and a length that says so.
fn with_more(payload: &[u8], more: &[u8]) -> Vec<u8> {
    let mut longer = [payload, more].concat();
    let length = u32::try_from(longer.len() - 6).expect("small");
    longer[2..6].copy_from_slice(&length.to_le_bytes());
    longer
}

#[test]
fn fields_that_a_newer_writer_added_are_passed_over() {
    for (name, message) in samples::up() {
        let payload = message.encode().expect("it fits");
        assert_eq!(Up::decode(&with_more(&payload, &[1, 2, 255])), Ok(message), "{name}");
    }
    for (name, message) in samples::down() {
        let payload = message.encode().expect("it fits");
        assert_eq!(Down::decode(&with_more(&payload, &[1, 2, 255])), Ok(message), "{name}");
    }
}

/// A pod as a later version might write it: one field more.
#[derive(serde::Serialize)]
struct NewerPod {
    pod: Pod,
    patience: i32,
}

#[test]
fn an_item_with_a_newer_field_is_read_without_it() {
    let pod = samples::pod();
    let newer = Item::new(pod.uid, &NewerPod { pod: pod.clone(), patience: 1000 });
    assert_eq!(newer.read::<Pod>(), Some(pod));
}

/// A pod as it was written before it had a priority.
#[derive(serde::Serialize)]
struct OlderPod {
    uid: PodUid,
    namespace: String,
    name: String,
    restart_policy: RestartPolicy,
    termination_grace_ms: u64,
    containers: Vec<Container>,
    stop: Option<Stop>,
    volumes: Vec<Volume>,
}

#[test]
fn an_item_that_an_older_writer_left_without_its_last_field_is_read_with_the_default() {
    for pod in [samples::pod(), samples::bare_pod()] {
        let Pod { uid, namespace, name, restart_policy, termination_grace_ms, containers, stop, volumes, .. } =
            pod.clone();
        let older = OlderPod { uid, namespace, name, restart_policy, termination_grace_ms, containers, stop, volumes };
        assert_eq!(Item::new(uid, &older).read::<Pod>(), Some(Pod { priority: 0, ..pod }));
    }
}

/// A restart policy that this build does not know.
#[derive(serde::Serialize)]
enum NewerPolicy {
    #[expect(dead_code, reason = "it holds the place of a known one")]
    Always,
    #[expect(dead_code, reason = "it holds the place of a known one")]
    OnFailure,
    #[expect(dead_code, reason = "it holds the place of a known one")]
    Never,
    Sometimes,
}

/// The fields of a pod up to its restart policy.
#[derive(serde::Serialize)]
struct PodHead {
    uid: PodUid,
    namespace: String,
    name: String,
    restart_policy: NewerPolicy,
}

#[test]
fn an_item_that_cannot_be_understood_is_refused_alone() {
    let (good, other) = (samples::pod(), samples::bare_pod());
    let head = PodHead {
        uid: PodUid(9),
        namespace: "default".to_owned(),
        name: "new".to_owned(),
        restart_policy: NewerPolicy::Sometimes,
    };
    let pods = vec![Item::new(good.uid, &good), Item::new(head.uid, &head), Item::new(other.uid, &other)];
    let sync = Sync { session: coracle_model::SessionNumber(1), sequence: 1, part: 0, parts: 1, pods };
    let payload = Down::Sync(sync).encode().expect("it fits");
    let Ok(Down::Sync(read)) = Down::decode(&payload) else { panic!("the sync itself is read") };
    assert_eq!(read.pods.iter().map(Item::read::<Pod>).collect::<Vec<_>>(), [Some(good), None, Some(other)]);
    assert_eq!(read.pods[1].uid, PodUid(9));
}

#[test]
fn a_version_that_is_too_new_is_named() {
    let mut payload = Up::Birth(samples::birth()).encode().expect("it fits");
    payload[0] = VERSION + 1;
    assert_eq!(Up::decode(&payload), Err(DecodeError::Version { found: VERSION + 1 }));
    payload[0] = 0;
    assert_eq!(Up::decode(&payload), Err(DecodeError::Version { found: 0 }));
}

#[test]
fn a_birth_says_which_versions_its_agent_speaks() {
    let birth = Birth { speaks: (1, 9), ..samples::birth() };
    let payload = Up::Birth(birth.clone()).encode().expect("it fits");
    assert_eq!(Up::decode(&payload), Ok(Up::Birth(birth)));
}

#[test]
fn payloads_that_were_cut_say_so() {
    for (name, message) in samples::up() {
        let payload = message.encode().expect("it fits");
        for length in 0..payload.len() {
            let cut = Up::decode(&payload[..length]);
            assert!(matches!(cut, Err(DecodeError::Short { .. } | DecodeError::Length { .. })), "{name} at {length}");
        }
    }
}

#[test]
fn what_is_too_large_does_not_travel() {
    let large = Down::StreamData(coracle_wire::stream::StreamData { id: 1, bytes: vec![0; 1024 * 1024] });
    assert!(matches!(large.encode(), Err(EncodeError::TooLarge { .. })));
    assert!(matches!(Down::decode(&vec![1; 1024 * 1024 + 1]), Err(DecodeError::TooLarge { .. })));
}

/// A right frame around any bytes, so that the message itself is reached.
fn framed() -> impl Strategy<Value = Vec<u8>> {
    (0_u8..16, proptest::collection::vec(any::<u8>(), 0..200)).prop_map(|(kind, body)| {
        let length = u32::try_from(body.len()).expect("small");
        [&[VERSION, kind][..], &length.to_le_bytes(), &body].concat()
    })
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), framed in framed()) {
        for payload in [bytes, framed] {
            let _ = Up::decode(&payload);
            if let Ok(Down::Sync(sync)) = Down::decode(&payload) {
                for item in sync.pods {
                    let _ = item.read::<Pod>();
                }
            }
        }
    }

    #[test]
    fn a_golden_message_with_one_changed_byte_makes_no_reader_panic(
        which in any::<proptest::sample::Index>(), place in any::<proptest::sample::Index>(), byte in any::<u8>(),
    ) {
        let samples = samples::down();
        let mut payload = samples[which.index(samples.len())].1.encode().expect("it fits");
        let place = place.index(payload.len());
        payload[place] = byte;
        if let Ok(Down::Sync(sync)) = Down::decode(&payload) {
            for item in sync.pods {
                let _ = item.read::<Pod>();
                let _ = item.read::<PodStatus>();
            }
        }
    }

    #[test]
    fn pods_survive_their_encoding(name in "[a-z]{1,20}", grace in any::<u64>(), never in any::<bool>(), count in 0_usize..5) {
        let mut pod = samples::pod();
        pod.restart_policy = if never { RestartPolicy::Never } else { RestartPolicy::Always };
        pod.termination_grace_ms = grace;
        pod.containers = vec![pod.containers[0].clone(); count];
        pod.name = name;
        prop_assert_eq!(Item::new(pod.uid, &pod).read::<Pod>(), Some(pod));
    }
}
