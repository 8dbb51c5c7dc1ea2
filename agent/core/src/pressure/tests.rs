//! Thresholds, order and words, as tables.

use alloc::string::ToString;
use alloc::vec;

use coracle_model::{Container, Pod, PullPolicy, ResourceAmounts, RestartPolicy};

use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

// PRI-09
#[test]
fn thresholds_are_read_in_a_kubelets_form() {
    let bytes = |bytes| Some(Threshold::Bytes(bytes));
    let share = |thousandths| Some(Threshold::Share(thousandths));
    for (text, memory, disk) in [
        ("", None, None),
        ("memory.available<100Mi", bytes(100 * MIB), None),
        ("memory.available<100Mi,nodefs.available<10%", bytes(100 * MIB), share(10_000)),
        (" nodefs.available < 1G , memory.available < 7.5% ,", share(7_500), bytes(1_000_000_000)),
        ("nodefs.available<0%,memory.available<100%", None, None),
    ] {
        assert_eq!(text.parse(), Ok(Thresholds { memory, disk }), "{text}");
    }
    use ParseThresholdsError::{Amount, Form, Signal, Twice};
    for (text, want) in [
        ("memory.available", Form("memory.available".to_string())),
        ("memory.available>1Gi", Form("memory.available>1Gi".to_string())),
        ("pid.available<10%", Signal("pid.available".to_string())),
        ("memory.available<0", Amount("0".to_string())),
        ("memory.available<-1Mi", Amount("-1Mi".to_string())),
        ("memory.available<101%", Amount("101%".to_string())),
        ("memory.available<-1%", Amount("-1%".to_string())),
        ("memory.available<1k%", Amount("1k%".to_string())),
        ("memory.available<", Amount(String::new())),
        ("memory.available<%", Amount("%".to_string())),
        ("nodefs.available<1Mi,nodefs.available<0%", Twice("nodefs.available".to_string())),
    ] {
        assert_eq!(text.parse::<Thresholds>(), Err(want), "{text}");
    }
}

#[test]
fn a_threshold_is_an_amount_or_a_part_of_all_there_is() {
    for (threshold, total, want) in [
        (Threshold::Bytes(5), 1, 5),
        (Threshold::Share(10_000), 1000, 100),
        (Threshold::Share(7_500), 1000, 75),
        (Threshold::Share(100_000), u64::MAX, u64::MAX),
        (Threshold::Share(1), 99_999, 0),
    ] {
        assert_eq!(threshold.bytes(total), want, "{threshold:?} of {total}");
    }
}

// PRI-09
#[test]
fn a_node_has_a_kubelets_thresholds_unless_it_is_small_or_its_disk_large() {
    for (memory, disk, memory_below, disk_below) in [
        (8 * GIB, 32 * GIB, 100 * MIB, 32 * GIB / 10),
        (1600 * MIB, 50 * GIB, 100 * MIB, 5 * GIB),
        (GIB, 51 * GIB, 64 * MIB, 5 * GIB),
        (128 * MIB, 64 * MIB, 8 * MIB, 64 * MIB / 10),
        (16 * GIB, 4096 * GIB, 100 * MIB, 5 * GIB),
    ] {
        let thresholds = Thresholds::of_node(memory, disk);
        let below = (thresholds.memory.map(|it| it.bytes(memory)), thresholds.disk.map(|it| it.bytes(disk)));
        assert_eq!(below, (Some(memory_below), Some(disk_below)), "{memory} {disk}");
    }
}

fn watching(text: &str) -> Pressure {
    let thresholds = text.parse().expect("thresholds");
    Pressure::new(Eviction { thresholds, transition_ms: 60_000 }, Millis::ZERO)
}

fn left(memory: u64, disk: u64) -> Measured {
    let room = |total_bytes, available_bytes| Some(Room { total_bytes, available_bytes });
    Measured { memory: room(GIB, memory), disk: room(1000, disk), ..Measured::default() }
}

// PRI-09
#[test]
fn a_condition_comes_at_once_and_goes_when_the_amount_was_above_for_the_whole_period() {
    let mut pressure = watching("memory.available<100Mi,nodefs.available<10%");
    for (at, memory, disk, short, conditions) in [
        (0, 100 * MIB, 100, 0, (false, false)),
        (10_000, 100 * MIB - 1, 100, 1, (true, false)),
        // Above it again: nothing is to be done, and the condition stays.
        (20_000, GIB, 100, 0, (true, false)),
        (50_000, 1, 99, 2, (true, true)),
        (60_000, GIB, 500, 0, (true, true)),
        (109_999, GIB, 500, 0, (true, true)),
        (110_000, GIB, 500, 0, (false, false)),
    ] {
        let found = pressure.judge(&left(memory, disk), Millis(at));
        assert_eq!((found.len(), (pressure.of_memory(), pressure.of_disk())), (short, conditions), "at {at}");
    }
}

#[test]
fn what_has_no_threshold_or_cannot_be_measured_is_never_short() {
    let mut pressure = watching("memory.available<100Mi");
    assert_eq!(pressure.judge(&left(GIB, 0), Millis(1)), []);
    assert_eq!(pressure.judge(&Measured::default(), Millis(2)), []);
    assert!(!pressure.of_memory() && !pressure.of_disk());
    assert_eq!(watching("").wake_at(), None);
    assert_eq!(Pressure::default().judge(&left(0, 0), Millis(1)), []);
}

#[test]
fn amounts_are_measured_every_ten_seconds_and_sooner_after_a_pod_went() {
    let mut pressure = watching("memory.available<100Mi");
    assert!(pressure.is_due(Millis(0)) && !pressure.is_due(Millis(9_999)) && pressure.is_due(Millis(10_000)));
    pressure.evicted(PodUid(1), Millis(11_000));
    assert_eq!(pressure.wake_at(), Some(Millis(12_000)));
    assert!(pressure.is_due(Millis(12_000)));
    // It still takes room; at the latest after half a minute another one may go.
    assert!(pressure.is_waiting(|uid| uid == PodUid(1), Millis(12_000)));
    assert_eq!(pressure.wake_at(), Some(Millis(13_000)));
    assert!(!pressure.is_waiting(|_| true, Millis(41_000)));
    pressure.evicted(PodUid(2), Millis(50_000));
    assert!(!pressure.is_waiting(|_| false, Millis(50_001)));
}

/// A pod with one container for each of these requests, in MiB, which uses so many MiB in each.
fn pod(number: u128, priority: i32, requests: &[u64], uses: &[u64]) -> (Pod, PodUse) {
    let amounts = |mib: u64| ResourceAmounts { cpu_millis: 0, memory_bytes: mib * MIB, storage_bytes: mib * MIB };
    let names = ["a", "b", "c"];
    let containers = requests.iter().zip(names).map(|(mib, name)| Container {
        name: name.to_string(),
        image: "x".to_string(),
        pull_policy: PullPolicy::IfNotPresent,
        argv: Vec::new(),
        env: Vec::new(),
        working_dir: None,
        ports: Vec::new(),
        limits: ResourceAmounts::default(),
        requests: amounts(*mib),
        config_error: None,
        stdin_eof: false,
        mounts: Vec::new(),
    });
    let pod = Pod {
        uid: PodUid(number),
        namespace: "default".to_string(),
        name: "p".to_string(),
        restart_policy: RestartPolicy::Always,
        termination_grace_ms: 0,
        containers: containers.collect(),
        stop: None,
        volumes: Vec::new(),
        priority,
    };
    let of = |(mib, name): (&u64, &str)| ContainerUse {
        name: name.to_string(),
        memory_bytes: mib * MIB,
        disk_bytes: mib * MIB,
    };
    let bytes = uses.iter().sum::<u64>() * MIB;
    let containers = uses.iter().zip(names).map(of).collect();
    (pod, PodUse { pod: PodUid(number), memory_bytes: bytes, disk_bytes: bytes, containers })
}

const SHORT_OF_MEMORY: Shortage =
    Shortage { resource: Resource::Memory, threshold_bytes: 100 * MIB, available_bytes: 81_024 * 1024 };
const SHORT_OF_DISK: Shortage =
    Shortage { resource: Resource::Disk, threshold_bytes: 2_145_033_217, available_bytes: 5 * MIB };

/// In which order these pods go, one after the other.
fn order(shortage: &Shortage, mut pods: Vec<(Pod, PodUse)>) -> Vec<u128> {
    let mut order = Vec::new();
    while let Some((uid, _)) = victim(shortage, pods.iter().map(|(pod, usage)| Contender { pod, usage })) {
        order.push(uid.0);
        pods.retain(|(pod, _)| pod.uid != uid);
    }
    order
}

// PRI-09
#[test]
fn pods_above_their_requests_go_the_least_important_first_then_the_furthest_above() {
    for (what, pods, want) in [
        ("within the request, nobody goes", vec![pod(1, 0, &[64], &[64]), pod(2, -9, &[64], &[1])], vec![]),
        (
            "usage over request decides who goes at all",
            vec![pod(1, 0, &[64], &[65]), pod(2, -9, &[64], &[64])],
            vec![1],
        ),
        ("priority comes before how far over", vec![pod(1, 5, &[], &[90]), pod(2, 4, &[64], &[65])], vec![2, 1]),
        ("of one priority, how far over", vec![pod(1, 0, &[10], &[20]), pod(2, 0, &[100], &[111])], vec![2, 1]),
        ("nothing requested is a request of nothing", vec![pod(1, 0, &[0], &[3]), pod(2, 0, &[30], &[31])], vec![1, 2]),
        ("containers count together", vec![pod(1, 0, &[10, 90], &[99, 1])], vec![]),
        ("equals go in one order", vec![pod(2, 0, &[0], &[3]), pod(1, 0, &[0], &[3])], vec![1, 2]),
        ("critical pods stay", vec![pod(1, 2_000_000_000, &[0], &[500]), pod(2, 1_999_999_999, &[0], &[1])], vec![2]),
        (
            "what is negative goes before what is nothing",
            vec![pod(1, 0, &[], &[9]), pod(2, -1, &[0], &[1])],
            vec![2, 1],
        ),
    ] {
        assert_eq!(order(&SHORT_OF_MEMORY, pods.clone()), want, "{what}");
        assert_eq!(order(&SHORT_OF_DISK, pods), want, "{what}, on the disk");
    }
}

// PRI-09
#[test]
fn a_victim_is_told_in_a_kubelets_words() {
    let says = |shortage, (pod, usage): (Pod, PodUse)| {
        victim(shortage, core::iter::once(Contender { pod: &pod, usage: &usage })).map(|(_, message)| message)
    };
    assert_eq!(
        says(&SHORT_OF_MEMORY, pod(1, 0, &[64, 0, 8], &[200, 1, 8])).as_deref(),
        Some(
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 81024Ki. \
             Container a was using 200Mi, request is 64Mi, has larger consumption of memory. \
             Container b was using 1Mi, request is 0, has larger consumption of memory. "
        )
    );
    assert_eq!(
        says(&SHORT_OF_DISK, pod(1, 0, &[0], &[20])).as_deref(),
        Some(
            "The node was low on resource: ephemeral-storage. Threshold quantity: 2145033217, available: 5Mi. \
             Container a was using 20Mi, request is 0, has larger consumption of ephemeral-storage. "
        )
    );
}
