//! A cluster for benches: the real controller core with hollow agents, and a store that forgets.
//!
//! Everything but the core is as cheap as it can be, so that what is measured is the core. Agents answer a desired set
//! with one report that says Running, with the two events of a container's start, as real ones do.

#![expect(unreachable_pub, reason = "a module of benches is their whole crate")]
#![expect(dead_code, reason = "each bench uses its part of it")]

use coracle_controller_core::controller::Identity;
use coracle_controller_core::request::{FieldValidation, Request, Verb};
use coracle_controller_core::{Controller, Effect, Input, Kind, Now, View};
use coracle_model::{
    BootId, ClusterId, Condition, ConditionKind, ConditionStatus, ContainerState, ContainerStatus, Digest, InstanceId,
    Millis, NodeFacts, Phase, Pod, PodEvent, PodStatus, ResourceAmounts, SessionNumber,
};
use coracle_wire::Item;
use coracle_wire::down::Down;
use coracle_wire::up::{Birth, Lease, Report, Up};
use serde_json::{Value, json};

/// Virtual wall time at the start.
const WALL_START_MS: u64 = 1_795_219_200_000;

/// The cluster.
pub struct Cluster {
    core: Controller,
    committed: View,
    mono: Millis,
    nodes: usize,
    sequence: u64,
    /// Changes that were made durable so far.
    pub changes: usize,
}

impl Cluster {
    /// A controller with no nodes, at rest.
    pub fn new() -> Self {
        let identity = Identity { cluster: ClusterId(1), artifact_key: [7; 32], entropy: 1 };
        let (view, mono) = (View::default(), Millis::from_secs(1));
        let core = Controller::new(view.clone(), identity, clock(mono));
        let mut cluster = Self { core, committed: view, mono, nodes: 0, sequence: 0, changes: 0 };
        cluster.settle();
        cluster
    }

    /// A controller with this many nodes, all Ready.
    pub fn of(nodes: usize) -> Self {
        let mut cluster = Self::new();
        cluster.join(nodes);
        cluster
    }

    /// So many more nodes are born.
    pub fn join(&mut self, nodes: usize) {
        for index in self.nodes..self.nodes + nodes {
            self.hear(index, birth(index));
        }
        self.nodes += nodes;
        self.settle();
    }

    /// What a user asks; the answer is dropped.
    pub fn create(&mut self, kind: Kind, value: Value) {
        let request = Request {
            kind,
            namespace: "default".to_owned(),
            name: String::new(),
            subresource: None,
            verb: Verb::Create(value),
            dry_run: false,
            field_validation: FieldValidation::Strict,
        };
        self.core.handle(clock(self.mono), Input::Request(1, Box::new(request)));
    }

    /// A deployment of so many pods; [`Self::settle`] makes and binds them.
    pub fn deploy(&mut self, name: &str, replicas: usize) {
        self.create(Kind::DEPLOYMENT, deployment(name, replicas));
    }

    /// So many pods that nobody controls; [`Self::settle`] binds them.
    pub fn create_pods(&mut self, count: usize) {
        for number in 0..count {
            let metadata = json!({"name": format!("load-{number:06}"), "labels": {"coracle.dev/load": "load"}});
            let container = json!({"name": "main", "image": "samples/sensor:1"});
            let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container]});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
            self.create(Kind::POD, pod);
        }
    }

    /// One batch, made durable nowhere; gives what agents are told.
    pub fn settle(&mut self) -> Vec<(String, Down)> {
        let stage = self.core.settle(clock(self.mono));
        self.changes += stage.changes.len();
        for change in &stage.changes {
            self.committed.apply(change);
        }
        let sends = stage.effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { node, down } => Some((node, *down)),
            Effect::Answer(..) => None,
        });
        sends.collect()
    }

    /// Every agent says that what it was told to run is running; without settling.
    pub fn report_running(&mut self, downs: &[(String, Down)]) {
        self.mono = self.mono + 20;
        self.sequence += 1;
        for (node, down) in downs {
            let pods = match down {
                Down::Delta(delta) => &delta.upserts,
                Down::Sync(sync) => &sync.pods,
                _ => continue,
            };
            let pods: Vec<Pod> = pods.iter().filter_map(Item::read).collect();
            if !pods.is_empty() {
                let up = Up::Report(report(self.sequence, &pods, self.mono));
                self.core.handle(clock(self.mono), Input::Hear { node: node.clone(), up: Box::new(up) });
            }
        }
    }

    /// Every node renews its lease; without settling.
    pub fn renew_leases(&mut self) {
        for index in 0..self.nodes {
            self.hear(index, Up::Lease(Lease { session: SessionNumber(1), applied: u64::MAX }));
        }
    }

    /// An hour later, events have expired.
    pub fn forget_events(&mut self) {
        self.mono = self.mono + 3_700_000;
        self.renew_leases();
        self.settle();
    }

    /// Pods whose phase is Running, in the committed view.
    pub fn running(&self) -> usize {
        let pods = self.committed.list(Kind::POD, None);
        pods.filter(|pod| pod.row.pod().is_some_and(|row| row.phase == Phase::Running)).count()
    }

    /// The committed view.
    pub fn view(&self) -> &View {
        &self.committed
    }

    fn hear(&mut self, index: usize, up: Up) {
        let input = Input::Hear { node: node_name(index), up: Box::new(up) };
        self.core.handle(clock(self.mono), input);
    }
}

const fn clock(mono: Millis) -> Now {
    Now { wall_ms: WALL_START_MS + mono.0, mono }
}

fn node_name(index: usize) -> String {
    format!("node-{index:05}")
}

fn deployment(name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "samples/hello:1", "ports": [{"containerPort": 8080, "name": "http"}],
                    "env": [{"name": "GREETING", "value": "hello"}],
                    "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"memory": "16Mi"}},
                }]},
            },
        },
    })
}

fn birth(index: usize) -> Up {
    let amounts = ResourceAmounts { cpu_millis: 4000, memory_bytes: 4 << 30, storage_bytes: 16 << 30 };
    Up::Birth(Birth {
        session: SessionNumber(1),
        instance: InstanceId(index as u128 + 1),
        boot: BootId(1),
        speaks: (1, 9),
        pinned: None,
        now: Millis(0),
        facts: NodeFacts {
            arch: "arm64".into(),
            os: "linux".into(),
            target: "aarch64-unknown-linux-gnu".into(),
            engine: "48.0.8-0123456789abcdef".into(),
            zone: format!("zone-{}", index % 3),
            labels: vec![("site".into(), format!("site-{}", index % 100))],
            capacity: amounts,
            allocatable: amounts,
            interfaces: Vec::new(),
            max_pods: 1100,
            agent_version: "0.1.0".into(),
            kernel: "6.12.41".into(),
            os_image: "Debian GNU/Linux 13 (trixie)".into(),
            machine_id: format!("{:032x}", index + 1),
        },
        holds: 0,
    })
}

fn report(sequence: u64, pods: &[Pod], at: Millis) -> Report {
    let events = pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)));
    let events = events.flat_map(|(pod, container)| {
        [("Created", "Created container: "), ("Started", "Started container ")].map(|(reason, words)| PodEvent {
            uid: pod.uid,
            container: container.name.clone(),
            warning: false,
            reason: reason.into(),
            message: format!("{words}{}", container.name),
        })
    });
    Report {
        session: SessionNumber(1),
        sequence,
        now: at,
        applied: u64::MAX,
        statuses: pods.iter().map(|pod| Item::new(pod.uid, &running(pod, at))).collect(),
        events: events.collect(),
        refused: Vec::new(),
    }
}

fn running(pod: &Pod, at: Millis) -> PodStatus {
    let condition = |kind| Condition {
        kind,
        status: ConditionStatus::True,
        reason: String::new(),
        message: String::new(),
        changed_at: at,
    };
    let kinds = [
        ConditionKind::PodReadyToStartContainers,
        ConditionKind::Initialized,
        ConditionKind::ContainersReady,
        ConditionKind::Ready,
    ];
    let containers = pod.containers.iter().map(|container| ContainerStatus {
        name: container.name.clone(),
        state: ContainerState::Running { started_at: at },
        last_state: None,
        restart_count: 0,
        ready: true,
        started: true,
        image: container.image.clone(),
        image_id: Some(Digest([0x5a; 32])),
        attempt: 1,
    });
    PodStatus {
        uid: pod.uid,
        phase: Phase::Running,
        reason: String::new(),
        message: String::new(),
        accepted_at: at,
        conditions: kinds.into_iter().map(condition).collect(),
        containers: containers.collect(),
        stopped: false,
    }
}
