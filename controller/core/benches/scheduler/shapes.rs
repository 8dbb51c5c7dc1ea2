//! The shapes of scheduler_perf, rebuilt: which nodes and pods there are, and which pods are measured.

use coracle_controller_core::Kind;
use serde_json::{Value, json};

use crate::bed::Bed;

/// One shape.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Numbers of nodes to measure with.
    pub(crate) nodes: &'static [usize],
    /// What is there beside the nodes.
    around: fn(&mut Bed, usize),
    /// One pod that is measured.
    pub(crate) pod: fn(&str, usize) -> Value,
    /// Pods of it that one cluster of this many nodes takes.
    most: fn(usize) -> usize,
}

impl Shape {
    pub(crate) fn bed(&self, nodes: usize) -> Bed {
        let mut bed = Bed::new((self.most)(nodes));
        for number in 0..nodes {
            bed.add(Kind::NODE, node(number));
        }
        for namespace in ["default", "others"] {
            let labels = json!({"team": "devops"});
            bed.add(Kind::NAMESPACE, json!({"metadata": {"name": namespace, "labels": labels}}));
        }
        (self.around)(&mut bed, nodes);
        bed.settle();
        bed
    }
}

const SIZES: &[usize] = &[500, 5_000];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Every shape.
pub(crate) const SHAPES: &[Shape] = &[
    Shape {
        name: "basic",
        nodes: &[500, 5_000, 100_000],
        around: |bed, _| pods(bed, 1_000, basic),
        pod: basic,
        most: tenfold,
    },
    Shape {
        name: "node-affinity",
        nodes: SIZES,
        around: |bed, _| pods(bed, 1_000, node_affinity),
        pod: node_affinity,
        most: tenfold,
    },
    Shape {
        name: "topology-spreading",
        nodes: SIZES,
        around: |bed, nodes| pods(bed, nodes, basic),
        pod: spread_hard,
        most: same,
    },
    Shape {
        name: "preferred-topology-spreading",
        nodes: SIZES,
        around: |bed, nodes| pods(bed, nodes, basic),
        pod: spread_soft,
        most: same,
    },
    Shape {
        name: "pod-affinity",
        nodes: SIZES,
        around: |bed, nodes| pods(bed, nodes, affinity),
        pod: affinity,
        most: same,
    },
    Shape {
        name: "pod-anti-affinity",
        nodes: SIZES,
        around: |bed, nodes| pods(bed, nodes / 5, anti_affinity),
        pod: anti_affinity,
        most: half,
    },
    Shape {
        name: "preferred-pod-affinity",
        nodes: SIZES,
        around: |bed, nodes| pods(bed, nodes, affinity_soft),
        pod: affinity_soft,
        most: same,
    },
    Shape {
        name: "preferred-pod-anti-affinity",
        nodes: SIZES,
        around: |bed, nodes| pods(bed, nodes, anti_affinity_soft),
        pod: anti_affinity_soft,
        most: same,
    },
    Shape { name: "mixed", nodes: SIZES, around: mixed, pod: basic, most: same },
    Shape { name: "unschedulable", nodes: SIZES, around: |bed, _| pods(bed, 200, giant), pod: basic, most: same },
    Shape { name: "preemption", nodes: SIZES, around: |bed, nodes| pods(bed, 4 * nodes, low), pod: high, most: same },
    Shape { name: "daemonset", nodes: &[500, 15_000], around: |_, _| {}, pod: daemon, most: same },
    Shape {
        name: "anti-affinity-with-namespace-selector",
        nodes: SIZES,
        around: |bed, nodes| pods(bed, nodes / 5, anti_affinity_everywhere),
        pod: anti_affinity_everywhere,
        most: half,
    },
];

const fn tenfold(nodes: usize) -> usize {
    if nodes < 20_000 { 10 * nodes } else { nodes }
}

const fn same(nodes: usize) -> usize {
    nodes
}

const fn half(nodes: usize) -> usize {
    nodes / 2
}

fn pods(bed: &mut Bed, count: usize, pod: fn(&str, usize) -> Value) {
    for number in 0..count {
        bed.add(Kind::POD, pod(&format!("before-{number}"), number));
    }
}

fn mixed(bed: &mut Bed, nodes: usize) {
    for (kind, pod) in [basic, affinity, anti_affinity, affinity_soft, anti_affinity_soft].into_iter().enumerate() {
        for number in 0..nodes / 5 {
            bed.add(Kind::POD, pod(&format!("before-{kind}-{number}"), number));
        }
    }
}

fn node(number: usize) -> Value {
    let name = format!("node-{number}");
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("moon-{}", number % 3)});
    json!({"metadata": {"name": name, "labels": labels}, "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}}})
}

fn pod(name: &str, labels: Value, mut spec: Value, cpu: &str) -> Value {
    spec["containers"] = json!([{"name": "pause", "image": "samples/sensor:1",
        "resources": {"requests": {"cpu": cpu, "memory": "500Mi"}}}]);
    spec["schedulerName"] = json!("default-scheduler");
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
}

fn basic(name: &str, _: usize) -> Value {
    pod(name, json!({}), json!({}), "1m")
}

fn giant(name: &str, _: usize) -> Value {
    pod(name, json!({}), json!({}), "9")
}

fn low(name: &str, _: usize) -> Value {
    pod(name, json!({}), json!({}), "900m")
}

fn high(name: &str, _: usize) -> Value {
    pod(name, json!({}), json!({"priority": 10}), "3000m")
}

fn daemon(name: &str, number: usize) -> Value {
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [format!("node-{}", number - 1)]}]);
    let affinity = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}});
    pod(name, json!({}), json!({"affinity": affinity}), "1m")
}

fn node_affinity(name: &str, _: usize) -> Value {
    let expressions = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["moon-1", "moon-2"]}]);
    let affinity = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}});
    pod(name, json!({}), json!({"affinity": affinity}), "1m")
}

fn spread(name: &str, when_unsatisfiable: &str) -> Value {
    let constraint = json!({"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": when_unsatisfiable, "labelSelector": {"matchLabels": {"color": "blue"}}});
    pod(name, json!({"color": "blue"}), json!({"topologySpreadConstraints": [constraint]}), "1m")
}

fn spread_hard(name: &str, _: usize) -> Value {
    spread(name, "DoNotSchedule")
}

fn spread_soft(name: &str, _: usize) -> Value {
    spread(name, "ScheduleAnyway")
}

fn term(key: &str, color: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"color": color}}, "namespaces": ["default", "others"]})
}

fn affinity(name: &str, _: usize) -> Value {
    let terms = json!([term("topology.kubernetes.io/zone", "blue")]);
    pod(name, json!({"color": "blue"}), json!({"affinity": {"podAffinity": {REQUIRED: terms}}}), "1m")
}

fn anti_affinity(name: &str, _: usize) -> Value {
    let terms = json!([term("kubernetes.io/hostname", "green")]);
    pod(name, json!({"color": "green"}), json!({"affinity": {"podAntiAffinity": {REQUIRED: terms}}}), "1m")
}

fn anti_affinity_everywhere(name: &str, _: usize) -> Value {
    let terms = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"color": "green"}},
        "namespaceSelector": {"matchLabels": {"team": "devops"}}}]);
    pod(name, json!({"color": "green"}), json!({"affinity": {"podAntiAffinity": {REQUIRED: terms}}}), "1m")
}

fn affinity_soft(name: &str, _: usize) -> Value {
    let terms = json!([{"weight": 1, "podAffinityTerm": term("kubernetes.io/hostname", "red")}]);
    pod(name, json!({"color": "red"}), json!({"affinity": {"podAffinity": {PREFERRED: terms}}}), "1m")
}

fn anti_affinity_soft(name: &str, _: usize) -> Value {
    let terms = json!([{"weight": 1, "podAffinityTerm": term("kubernetes.io/hostname", "yellow")}]);
    pod(name, json!({"color": "yellow"}), json!({"affinity": {"podAntiAffinity": {PREFERRED: terms}}}), "1m")
}
