//! What a pod asks of a node, compiled from its spec. Pods of one template ask the same question, and share it.

use serde_json::Value;

use super::symbols::{Effect, HostPort, Resource, Symbol, Symbols, Taint};
use super::terms::Term;
use crate::rows;

/// What Kubernetes counts for a container that asks for no cpu, when nodes are scored: 100 thousandths.
const UNSTATED_CPU_MILLIS: u64 = 100;
/// The same for memory: 200 MiB.
const UNSTATED_MEMORY_BYTES: u64 = 200 * 1024 * 1024;

/// Everything that decides where a pod may go, and nothing that tells one pod from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    /// `spec.nodeName`, for a pod that states it and is asked about all the same.
    pub(super) node_name: Option<Symbol>,
    /// `spec.tolerations`
    pub(super) tolerations: Vec<Toleration>,
    /// `spec.nodeSelector`
    pub(super) node_selector: Vec<(Symbol, Symbol)>,
    /// Required node affinity: one of the terms matches.
    pub(super) required: Option<Vec<Term>>,
    /// Preferred node affinity, with weights.
    pub(super) preferred: Vec<(i64, Term)>,
    /// Host ports.
    pub(super) host_ports: Vec<HostPort>,
    /// The sum of the containers' requests, without those that are 0.
    pub(super) requests: Vec<(Resource, u64)>,
    /// Cpu and memory as scores count them: what is not stated is not nothing.
    pub(super) scored: [u64; 2],
}

/// One of `spec.tolerations`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Toleration {
    key: Option<Symbol>,
    /// `None` for `Exists`.
    value: Option<Symbol>,
    effect: Option<Effect>,
}

impl Toleration {
    fn compile(found: &Value, symbols: &mut Symbols) -> Self {
        let text = |field: &str| found[field].as_str().unwrap_or_default();
        let key = text("key");
        Self {
            key: (!key.is_empty()).then(|| symbols.intern(key)),
            value: (text("operator") != "Exists").then(|| symbols.intern(text("value"))),
            effect: Effect::read(text("effect")),
        }
    }

    fn tolerates(&self, taint: Taint) -> bool {
        self.key.is_none_or(|key| key == taint.key)
            && self.effect.is_none_or(|effect| effect == taint.effect)
            && self.value.is_none_or(|value| value == taint.value)
    }
}

impl Question {
    /// Compiles a pod's spec.
    pub(super) fn compile(pod: &Value, symbols: &mut Symbols) -> Self {
        let spec = &pod["spec"];
        let affinity = &spec["affinity"]["nodeAffinity"];
        let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
        let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let node_name = spec["nodeName"].as_str().filter(|name| !name.is_empty());
        let mut question = Self {
            node_name: node_name.map(|name| symbols.intern(name)),
            tolerations: list(&spec["tolerations"]).iter().map(|found| Toleration::compile(found, symbols)).collect(),
            node_selector: Vec::new(),
            required: (!required.is_null()).then(|| {
                list(&required["nodeSelectorTerms"]).iter().map(|term| Term::compile(term, symbols)).collect()
            }),
            preferred: preferred
                .into_iter()
                .flatten()
                .map(|found| {
                    (found["weight"].as_i64().unwrap_or_default(), Term::compile(&found["preference"], symbols))
                })
                .filter(|(weight, term)| *weight != 0 && !term.is_empty())
                .collect(),
            ..Self::default()
        };
        for (key, value) in spec["nodeSelector"].as_object().into_iter().flatten() {
            let (key, value) = (symbols.intern(key), symbols.intern(value.as_str().unwrap_or_default()));
            question.node_selector.push((key, value));
        }
        for container in spec["containers"].as_array().into_iter().flatten() {
            question.add_container(container, symbols);
        }
        question.requests.retain(|(_, amount)| *amount > 0);
        question.requests.sort_unstable();
        question
    }

    fn add_container(&mut self, container: &Value, symbols: &mut Symbols) {
        let requests = &container["resources"]["requests"];
        let unstated = [("cpu", UNSTATED_CPU_MILLIS), ("memory", UNSTATED_MEMORY_BYTES)];
        for (scored, (name, amount)) in self.scored.iter_mut().zip(unstated) {
            let found = &requests[name];
            *scored = scored.saturating_add(if found.is_null() { amount } else { read_amount(name, found) });
        }
        for (name, found) in requests.as_object().into_iter().flatten() {
            let (resource, amount) = (symbols.resource(name), read_amount(name, found));
            match self.requests.iter_mut().find(|(known, _)| *known == resource) {
                Some((_, sum)) => *sum = sum.saturating_add(amount),
                None => self.requests.push((resource, amount)),
            }
        }
        for port in container["ports"].as_array().into_iter().flatten() {
            let number = port["hostPort"].as_u64().and_then(|number| u16::try_from(number).ok()).unwrap_or_default();
            if number != 0 {
                self.host_ports.push(HostPort::new(port["protocol"].as_str().unwrap_or("TCP"), number));
            }
        }
    }

    /// What is asked of one resource.
    pub(super) fn request(&self, resource: Resource) -> u64 {
        self.requests.iter().find(|(known, _)| *known == resource).map_or(0, |(_, amount)| *amount)
    }

    /// Whether one of the tolerations tolerates the taint.
    pub(super) fn tolerates(&self, taint: Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// Whether one of the tolerations that speak of `PreferNoSchedule` tolerates the taint.
    pub(super) fn tolerates_softly(&self, taint: Taint) -> bool {
        let mut soft = self
            .tolerations
            .iter()
            .filter(|toleration| toleration.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule));
        soft.any(|toleration| toleration.tolerates(taint))
    }
}

/// Cpu in thousandths, everything else in units.
pub(super) fn read_amount(name: &str, found: &Value) -> u64 {
    if name == "cpu" { rows::cpu_millis(found) } else { rows::units(found) }
}
