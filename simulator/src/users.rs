//! People who ask for things: deployments that come, grow, change and go, daemon sets, and pods that end by themselves;
//! of several priorities, that want to be spread, together or apart; budgets, services, and nodes that change.

use coracle_controller_core::Kind;
use coracle_controller_core::request::{DeleteOptions, FieldValidation, PatchType, Request, Verb};
use serde_json::{Value, json};

use crate::chance::Chance;

const NAMES: u64 = 4;
/// Priority classes that users make: their values, and whether pods of them preempt.
const PRIORITIES: [(&str, i64, &str); 4] = [
    ("low", -10, "PreemptLowerPriority"),
    ("high", 1000, "PreemptLowerPriority"),
    ("polite", 500, "Never"),
    ("aloof", 1_000_000_000, "Never"),
];
/// How many they are.
pub(crate) const CLASSES: usize = PRIORITIES.len();
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The next wish.
pub(crate) fn wish(chance: &mut Chance) -> Request {
    let number = chance.below(NAMES);
    let deployment = format!("web-{number}");
    match chance.below(13) {
        10 => priority_class(usize::try_from(chance.below(CLASSES as u64)).unwrap_or_default()),
        11 => apply(Kind::POD_DISRUPTION_BUDGET, &deployment, budget(&deployment, chance)),
        12 => apply(Kind::SERVICE, &deployment, service(&deployment)),
        0..=3 => apply(Kind::DEPLOYMENT, &deployment, deployment_of(&deployment, chance)),
        4 | 5 => {
            let scale = json!({"spec": {"replicas": chance.below(7)}});
            request(Kind::DEPLOYMENT, &deployment, Verb::Patch(PatchType::Merge, scale))
        }
        6 => request(Kind::DEPLOYMENT, &deployment, Verb::Delete(DeleteOptions::default())),
        7 => {
            let name = format!("job-{}", chance.below(20));
            apply(Kind::POD, &name, job(&name, chance))
        }
        8 => {
            let name = format!("job-{}", chance.below(20));
            let grace_seconds = if chance.per_mille(200) { Some(0) } else { None };
            request(Kind::POD, &name, Verb::Delete(DeleteOptions { grace_seconds, ..DeleteOptions::default() }))
        }
        _ => apply(Kind::DAEMON_SET, "sensor", daemon_set(chance)),
    }
}

/// Somebody deletes the Node of an agent that may well be alive.
pub(crate) fn forget_node(name: &str) -> Request {
    Request { namespace: String::new(), ..request(Kind::NODE, name, Verb::Delete(DeleteOptions::default())) }
}

/// Somebody makes a priority class.
pub(crate) fn priority_class(number: usize) -> Request {
    let (name, value, policy) = PRIORITIES[number % CLASSES];
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": value, "preemptionPolicy": policy,
    });
    Request { namespace: String::new(), ..apply(Kind::PRIORITY_CLASS, name, class) }
}

/// Somebody cordons a node, taints it, or gives it another label.
pub(crate) fn change_node(name: &str, chance: &mut Chance) -> Request {
    let change = match chance.below(4) {
        0 => json!({"spec": {"unschedulable": chance.per_mille(400)}}),
        1 => {
            // The node's own taints are put back by whoever put them there.
            let effect = pick(chance, &["NoSchedule", "PreferNoSchedule"]);
            let mine =
                if chance.per_mille(500) { json!([{"key": "mine", "value": "", "effect": effect}]) } else { json!([]) };
            json!({"spec": {"taints": mine}})
        }
        2 => json!({"metadata": {"labels": {"disk": pick(chance, &["ssd", "hdd"])}}}),
        _ => json!({"metadata": {"labels": {"disk": null}}}),
    };
    Request { namespace: String::new(), ..request(Kind::NODE, name, Verb::Patch(PatchType::Merge, change)) }
}

fn pick<'a>(chance: &mut Chance, of: &[&'a str]) -> &'a str {
    let index = usize::try_from(chance.below(of.len() as u64)).unwrap_or_default();
    of.get(index).copied().unwrap_or_default()
}

fn budget(app: &str, chance: &mut Chance) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": chance.below(4), "selector": {"matchLabels": {"app": app}}},
    })
}

fn service(app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
    })
}

/// What a pod says of where it wants to be: most say nothing.
fn put_wishes(spec: &mut Value, app: &str, chance: &mut Chance) {
    let class = pick(chance, &["", "", "low", "high", "polite"]);
    if !class.is_empty() {
        spec["priorityClassName"] = json!(class);
    }
    let cpu = pick(chance, &["0", "100m", "100m", "250m", "400m", "700m"]);
    spec["containers"][0]["resources"] =
        json!({"requests": {"cpu": cpu, "memory": pick(chance, &["0", "64Mi", "400Mi"])}});
    if chance.per_mille(80) {
        spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8000 + chance.below(2)}]);
    }
    let (key, other) = (pick(chance, &[ZONE, HOSTNAME]), format!("web-{}", chance.below(NAMES)));
    let of = |app: &str| json!({"matchLabels": {"app": app}});
    let rule = chance.below(14);
    if key == ZONE && rule < 7 || matches!(rule, 5 | 6) {
        // Preemption where there are rules about a whole zone, or about who has to be there, need not come to rest, in
        // Kubernetes either: who is asked to go from one node comes back on another, where nothing is held for anybody.
        spec["priorityClassName"] = json!("aloof");
    }
    match rule {
        0 | 1 => {
            let when = pick(chance, &["DoNotSchedule", "ScheduleAnyway"]);
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1 + chance.below(2), "topologyKey": key,
                "whenUnsatisfiable": when, "labelSelector": of(app)}]);
        }
        2 | 3 => {
            spec["affinity"] = json!({"podAntiAffinity": needs(json!({"topologyKey": key, "labelSelector": of(app)}))})
        }
        4 => {
            spec["affinity"] =
                json!({"podAntiAffinity": needs(json!({"topologyKey": key, "labelSelector": of(&other)}))})
        }
        5 => spec["affinity"] = json!({"podAffinity": needs(json!({"topologyKey": key, "labelSelector": of(app)}))}),
        6 => spec["affinity"] = json!({"podAffinity": needs(json!({"topologyKey": key, "labelSelector": of(&other)}))}),
        7 => spec["nodeSelector"] = json!({"disk": "ssd"}),
        8 => spec["tolerations"] = json!([{"key": "mine", "operator": "Exists"}]),
        _ => {}
    }
}

fn needs(term: Value) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]})
}

fn request(kind: Kind, name: &str, verb: Verb) -> Request {
    Request {
        kind,
        namespace: "default".to_owned(),
        name: name.to_owned(),
        subresource: None,
        verb,
        dry_run: false,
        field_validation: FieldValidation::Strict,
    }
}

fn apply(kind: Kind, name: &str, value: Value) -> Request {
    request(kind, name, Verb::Apply(value))
}

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "100m"}}}],
        },
    })
}

fn deployment_of(name: &str, chance: &mut Chance) -> Value {
    let image = ["web:1", "web:2", "stubborn:1"][usize::try_from(chance.below(3)).unwrap_or(0)];
    let strategy = if chance.per_mille(250) { "Recreate" } else { "RollingUpdate" };
    let mut template = template(name, image);
    put_wishes(&mut template["spec"], name, chance);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": chance.below(7), "strategy": {"type": strategy},
            "selector": {"matchLabels": {"app": name}}, "template": template,
        },
    })
}

fn daemon_set(chance: &mut Chance) -> Value {
    let image = ["sensor:1", "sensor:2"][usize::try_from(chance.below(2)).unwrap_or(0)];
    let mut template = template("sensor", image);
    // It is meant for every node, whatever its taints.
    template["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoSchedule"}]);
    template["spec"]["priorityClassName"] = json!("system-node-critical");
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "sensor", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "sensor"}}, "template": template},
    })
}

fn job(name: &str, chance: &mut Chance) -> Value {
    let image = ["job:1", "crasher:1"][usize::try_from(chance.below(2)).unwrap_or(0)];
    let policy = ["Never", "OnFailure"][usize::try_from(chance.below(2)).unwrap_or(0)];
    let mut spec = json!({
        "restartPolicy": policy, "terminationGracePeriodSeconds": 5, "containers": [{"name": "main", "image": image}],
    });
    put_wishes(&mut spec, "job", chance);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "job"}}, "spec": spec,
    })
}
