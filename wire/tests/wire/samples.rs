//! One message of every kind, with something in every field.

use coracle_model::{
    BootId, ClusterId, Condition, ConditionKind, ConditionStatus, Container, ContainerState, ContainerStatus, Digest,
    EnvVar, InstanceId, Millis, NodeFacts, NodeImage, Phase, Pod, PodEvent, PodStatus, PodUid, PullPolicy,
    ResourceAmounts, RestartPolicy, SessionNumber, Stop, Terminated, Volume, VolumeFile, VolumeMount, VolumeSource,
};
use coracle_wire::Item;
use coracle_wire::artifact::{ArtifactManifest, ArtifactRefusal, ArtifactReply, ArtifactRequest, Block, BlockRequest};
use coracle_wire::down::{Ack, Delta, Down, Refuse, Reintroduce, Sync, Welcome};
use coracle_wire::stream::{
    HttpRequest, LogsRequest, StreamCredit, StreamData, StreamEnd, StreamHead, StreamOpen, StreamTarget,
};
use coracle_wire::up::{Birth, Death, Lease, NodeReport, Report, Up};

const UID: PodUid = PodUid(0x6f1c_1a3e_8a5b_4b06_9a53_2f0d_1c7e_4b11);
const SESSION: SessionNumber = SessionNumber(300);

/// Every message of an agent, with the name of its golden file.
pub(crate) fn up() -> Vec<(&'static str, Up)> {
    vec![
        ("up-birth", Up::Birth(birth())),
        ("up-death", Up::Death(Death { session: SESSION })),
        ("up-report", Up::Report(report())),
        ("up-lease", Up::Lease(Lease { session: SESSION, applied: 77 })),
        ("up-artifact", Up::Artifact(ArtifactRequest { session: SESSION, image: "samples/hello:1".to_owned() })),
        (
            "up-blocks",
            Up::Blocks(BlockRequest { session: SESSION, artifact: Digest([0xbb; 32]), blocks: vec![0, 1, 200] }),
        ),
        (
            "up-stream-head",
            Up::StreamHead(StreamHead {
                id: 9,
                status: 200,
                headers: vec![("content-type".to_owned(), b"text/plain".to_vec())],
                credit: 65_536,
            }),
        ),
        ("up-stream-data", Up::StreamData(StreamData { id: 9, bytes: b"21.5 C\n".to_vec() })),
        ("up-stream-credit", Up::StreamCredit(StreamCredit { id: 9, bytes: 32_768 })),
        ("up-stream-end", Up::StreamEnd(StreamEnd { id: 9, error: Some("the container has ended".to_owned()) })),
        ("up-node", Up::Node(node())),
    ]
}

/// Every message of a controller, with the name of its golden file.
pub(crate) fn down() -> Vec<(&'static str, Down)> {
    let items = |pods: &[Pod]| pods.iter().map(|pod| Item::new(pod.uid, pod)).collect();
    vec![
        (
            "down-welcome",
            Down::Welcome(Welcome {
                session: SESSION,
                version: 1,
                cluster: ClusterId(7),
                artifact_key: [0xcc; 32],
                renew_ms: 10_000,
            }),
        ),
        (
            "down-refuse",
            Down::Refuse(Refuse { instance: InstanceId(5), reason: "another agent has this name".to_owned() }),
        ),
        ("down-reintroduce", Down::Reintroduce(Reintroduce { session: SESSION })),
        (
            "down-sync",
            Down::Sync(Sync { session: SESSION, sequence: 78, part: 1, parts: 2, pods: items(&[pod(), bare_pod()]) }),
        ),
        (
            "down-delta",
            Down::Delta(Delta { session: SESSION, sequence: 79, upserts: items(&[pod()]), removes: vec![PodUid(3)] }),
        ),
        ("down-ack", Down::Ack(Ack { session: SESSION, sequence: 12 })),
        (
            "down-artifact",
            Down::Artifact(ArtifactReply { image: "samples/hello:1".to_owned(), result: Ok(manifest()) }),
        ),
        (
            "down-artifact-refusal",
            Down::Artifact(ArtifactReply {
                image: "samples/hello:1".to_owned(),
                result: Err(ArtifactRefusal::Busy("three others are being compiled".to_owned())),
            }),
        ),
        ("down-block", Down::Block(Block { artifact: Digest([0xbb; 32]), index: 2, bytes: vec![0, 97, 115, 109] })),
        (
            "down-stream-open-logs",
            Down::StreamOpen(StreamOpen { session: SESSION, id: 9, credit: 262_144, target: logs() }),
        ),
        (
            "down-stream-open-http",
            Down::StreamOpen(StreamOpen { session: SESSION, id: 10, credit: 262_144, target: http() }),
        ),
        (
            "down-stream-open-usage",
            Down::StreamOpen(StreamOpen { session: SESSION, id: 11, credit: 262_144, target: StreamTarget::Usage }),
        ),
        ("down-stream-data", Down::StreamData(StreamData { id: 10, bytes: b"{}".to_vec() })),
        ("down-stream-credit", Down::StreamCredit(StreamCredit { id: 9, bytes: 32_768 })),
        ("down-stream-end", Down::StreamEnd(StreamEnd { id: 10, error: None })),
    ]
}

pub(crate) fn birth() -> Birth {
    let amounts = |cpu_millis, memory_bytes| ResourceAmounts { cpu_millis, memory_bytes, storage_bytes: 1 << 33 };
    Birth {
        session: SESSION,
        instance: InstanceId(5),
        boot: BootId(6),
        speaks: (1, 1),
        pinned: Some(ClusterId(7)),
        now: Millis(123_456),
        facts: NodeFacts {
            arch: "arm64".to_owned(),
            os: "linux".to_owned(),
            target: "aarch64-unknown-linux-gnu".to_owned(),
            engine: "48.0.8-1".to_owned(),
            zone: "hall-2".to_owned(),
            labels: vec![("camera".to_owned(), "yes".to_owned())],
            capacity: amounts(4000, 1 << 30),
            allocatable: amounts(3800, 1 << 29),
            interfaces: vec!["wasi:cli/environment@0.2".to_owned()],
            max_pods: 1000,
            agent_version: "0.1.0".to_owned(),
            kernel: "6.12".to_owned(),
            os_image: "Debian".to_owned(),
            machine_id: "m1".to_owned(),
        },
        holds: 76,
    }
}

pub(crate) fn pod() -> Pod {
    Pod {
        uid: UID,
        namespace: "default".to_owned(),
        name: "web-0".to_owned(),
        restart_policy: RestartPolicy::OnFailure,
        termination_grace_ms: 30_000,
        priority: -5,
        containers: vec![Container {
            name: "web".to_owned(),
            image: "samples/hello:1".to_owned(),
            pull_policy: PullPolicy::IfNotPresent,
            argv: vec!["hello".to_owned(), "--loud".to_owned()],
            env: vec![EnvVar { name: "LEVEL".to_owned(), value: "3".to_owned() }],
            working_dir: Some("/data".to_owned()),
            ports: vec![("http".to_owned(), 8080)],
            limits: ResourceAmounts { cpu_millis: 500, memory_bytes: 1 << 26, storage_bytes: 1 << 20 },
            requests: ResourceAmounts { cpu_millis: 100, memory_bytes: 1 << 25, storage_bytes: 0 },
            config_error: Some("configmap \"settings\" not found".to_owned()),
            stdin_eof: true,
            mounts: vec![VolumeMount {
                volume: "settings".to_owned(),
                path: "/etc/settings".to_owned(),
                sub_path: String::new(),
                read_only: true,
            }],
        }],
        stop: Some(Stop { grace_ms: 5_000 }),
        volumes: vec![
            Volume {
                name: "settings".to_owned(),
                source: VolumeSource::Files(vec![VolumeFile {
                    path: "level".to_owned(),
                    bytes: b"3".to_vec(),
                    mode: 0o644,
                }]),
            },
            Volume {
                name: "scratch".to_owned(),
                source: VolumeSource::EmptyDir { in_memory: true, size_limit_bytes: 1 << 20 },
            },
            Volume {
                name: "keys".to_owned(),
                source: VolumeSource::Unavailable("secret \"keys\" not found".to_owned()),
            },
        ],
    }
}

/// A pod with as little in it as a pod can have.
pub(crate) fn bare_pod() -> Pod {
    let mut pod = pod();
    pod.uid = PodUid(4);
    (pod.stop, pod.priority) = (None, 0);
    pod.restart_policy = RestartPolicy::Always;
    let container = &mut pod.containers[0];
    (container.argv, container.env, container.ports) = (Vec::new(), Vec::new(), Vec::new());
    (container.working_dir, container.config_error, container.stdin_eof) = (None, None, false);
    (container.limits, container.requests) = (ResourceAmounts::default(), ResourceAmounts::default());
    container.pull_policy = PullPolicy::Never;
    pod
}

fn report() -> Report {
    Report {
        session: SESSION,
        sequence: 12,
        now: Millis(200_000),
        applied: 77,
        statuses: vec![Item::new(UID, &status())],
        events: vec![PodEvent {
            uid: UID,
            container: "web".to_owned(),
            warning: true,
            reason: "BackOff".to_owned(),
            message: "Back-off restarting failed container".to_owned(),
        }],
        refused: vec![(PodUid(8), "this agent cannot read the pod".to_owned())],
    }
}

fn node() -> NodeReport {
    let image = |fill, size_bytes, names: &[&str]| NodeImage {
        image: Digest([fill; 32]),
        size_bytes,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    NodeReport {
        session: SESSION,
        sequence: 13,
        applied: 77,
        memory_pressure: true,
        disk_pressure: false,
        images: vec![image(0xaa, 1_300_000, &["samples/hello", "samples/hello:1"]), image(0xab, 9, &[])],
    }
}

pub(crate) fn status() -> PodStatus {
    let terminated = |exit_code, attempt| Terminated {
        exit_code,
        signal: 9,
        reason: "Error".to_owned(),
        message: "killed".to_owned(),
        started_at: Millis(1_000),
        finished_at: Millis(2_000),
        attempt,
    };
    let container = |name: &str, state| ContainerStatus {
        name: name.to_owned(),
        state,
        last_state: Some(terminated(-1, 1)),
        restart_count: 1,
        ready: true,
        started: true,
        image: "samples/hello:1".to_owned(),
        image_id: Some(Digest([0xaa; 32])),
        attempt: 2,
    };
    let waiting = ContainerState::Waiting {
        reason: "CrashLoopBackOff".to_owned(),
        message: "back-off 10s restarting failed container=web".to_owned(),
    };
    PodStatus {
        uid: UID,
        phase: Phase::Running,
        reason: "Why".to_owned(),
        message: "because".to_owned(),
        accepted_at: Millis(500),
        conditions: vec![Condition {
            kind: ConditionKind::Ready,
            status: ConditionStatus::False,
            reason: "ContainersNotReady".to_owned(),
            message: "containers with unready status: [web]".to_owned(),
            changed_at: Millis(1_500),
        }],
        containers: vec![
            container("a", waiting),
            container("b", ContainerState::Running { started_at: Millis(1_700) }),
            container("c", ContainerState::Terminated(terminated(137, 2))),
        ],
        stopped: false,
    }
}

fn manifest() -> ArtifactManifest {
    ArtifactManifest {
        image: Digest([0xaa; 32]),
        artifact: Digest([0xbb; 32]),
        size: 131_073,
        target: "aarch64-unknown-linux-gnu".to_owned(),
        engine: "48.0.8-1".to_owned(),
        blocks: vec![Digest([1; 32]), Digest([2; 32])],
        signature: vec![0xdd; 64],
    }
}

fn logs() -> StreamTarget {
    StreamTarget::Logs(LogsRequest {
        uid: UID,
        container: "web".to_owned(),
        follow: true,
        previous: false,
        timestamps: true,
        tail_lines: Some(20),
        since_ms: Some(60_000),
        limit_bytes: None,
    })
}

fn http() -> StreamTarget {
    StreamTarget::Http(HttpRequest {
        uid: UID,
        port: 8080,
        method: "POST".to_owned(),
        path: "/readings?unit=C".to_owned(),
        headers: vec![("accept".to_owned(), b"*/*".to_vec())],
    })
}
