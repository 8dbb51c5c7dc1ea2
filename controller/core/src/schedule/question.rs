//! What a pod asks of a node, compiled from its object. Pods of one template ask the same question, and share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::census::{Eligibility, Matcher, Scope};
use super::images::normalized;
use super::nodes::Nodes;
use super::requests;
use super::storage::Storage;
use super::symbols::{Effect, HostPort, Resource, Symbol, Symbols, Taint};
use super::terms::{Labels, Selector, Term};
use crate::object::{Object, Uid};
use crate::recent;

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
    /// Host ports, in order.
    pub(super) host_ports: Vec<HostPort>,
    /// The effective requests, without those that are 0; in order.
    pub(super) requests: Vec<(Resource, u64)>,
    /// Cpu and memory as scores count them.
    pub(super) scored: [u64; 2],
    /// `spec.topologySpreadConstraints`, or the defaults that take their place.
    pub(super) spread: Vec<SpreadConstraint>,
    /// The nodes that count for some of them: a few, however many constraints there are.
    pub(super) eligibilities: Vec<Arc<Eligibility>>,
    /// Whether the constraints are the system's defaults: then a node without one of their keys is no worse for it.
    pub(super) spread_is_default: bool,
    /// Required pod affinity.
    pub(super) affinity: Vec<PodTerm>,
    /// Required pod anti-affinity.
    pub(super) anti_affinity: Vec<PodTerm>,
    /// Preferred affinity to pods; the weight of anti-affinity is negative.
    pub(super) preferred_pods: Vec<(i64, PodTerm)>,
    /// Required node affinity that the profile adds to every pod's own.
    pub(super) enforced: Option<Vec<Term>>,
    /// What the profile scores instead of cpu and memory alike.
    pub(super) weighed: Option<Vec<Weighed>>,
    /// Tells by whose rules the pod is placed.
    pub(super) rulebook: u16,
    /// The images of its containers, one each; none while no node says which it holds.
    pub(super) images: Vec<Symbol>,
    /// The claims of its volumes.
    pub(super) claims: Vec<Symbol>,
    /// What was known of storage when this was asked; 0 for a pod without claims.
    pub(super) storage_version: u64,
}

/// A resource that a profile scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Weighed {
    pub(super) resource: Resource,
    pub(super) weight: i64,
    /// What the pod asks for.
    pub(super) amount: u64,
}

/// One of `spec.topologySpreadConstraints` (TSC-01).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpreadConstraint {
    /// `maxSkew`
    pub(super) max_skew: i64,
    /// `topologyKey`
    pub(super) key: Symbol,
    /// `whenUnsatisfiable: DoNotSchedule`
    pub(super) hard: bool,
    /// `minDomains`
    pub(super) min_domains: usize,
    /// The pods that count.
    pub(super) pods: Matcher,
    /// The nodes that count: one of the question's.
    pub(super) eligibility: usize,
}

/// A `PodAffinityTerm`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodTerm {
    /// `topologyKey`
    pub(super) key: Symbol,
    /// The pods that are meant.
    pub(super) pods: Scope,
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

    pub(super) fn tolerates(&self, taint: Taint) -> bool {
        self.key.is_none_or(|key| key == taint.key)
            && self.effect.is_none_or(|effect| effect == taint.effect)
            && self.value.is_none_or(|value| value == taint.value)
    }
}

/// The constraints of pods that state none, and what they count (TSC-05): the selectors of the services and of the
/// controller that the pod belongs to.
pub(super) struct DefaultSpread<'a> {
    /// As in `topologySpreadConstraints`, without a selector.
    pub(super) constraints: &'a [Value],
    /// A `LabelSelector`; null when the pod belongs to nobody.
    pub(super) selector: Value,
    /// They are the system's own and not an operator's: a node without one of their keys is no worse for it.
    pub(super) is_system: bool,
}

/// All that a pod's question follows from, but for services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asking {
    /// The text of its spec, but for the node.
    pub(super) spec: String,
    pub(super) node: Option<Arc<str>>,
    pub(super) namespace: Symbol,
    pub(super) labels: Labels,
    /// The controller, and its revision.
    pub(super) controller: Option<(Uid, u64)>,
    /// `schedulerName`
    pub(super) profile: Arc<str>,
}

impl recent::Source for Asking {
    fn text_bytes(&self) -> usize {
        self.spec.len()
    }
}

/// What is read while a question is compiled.
struct Reader<'a> {
    namespace: Symbol,
    labels: &'a [(Symbol, Symbol)],
    symbols: &'a mut Symbols,
}

/// A pod's labels, interned.
pub(super) fn labels_of(object: &Object, symbols: &mut Symbols) -> Labels {
    let mut labels: Vec<_> =
        object.labels.iter().map(|(key, value)| (symbols.intern(key), symbols.intern(value))).collect();
    labels.sort_unstable();
    labels.into()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Question {
    /// Compiles a pod.
    pub(super) fn compile(
        pod: &Object,
        labels: &Labels,
        default_spread: &DefaultSpread<'_>,
        symbols: &mut Symbols,
    ) -> Self {
        let spec = &pod.spec();
        let affinity = &spec["affinity"]["nodeAffinity"];
        let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
        let node_name = spec["nodeName"].as_str().filter(|name| !name.is_empty());
        let requests::Effective { requests, scored } = requests::effective(spec, symbols);
        let mut question = Self {
            node_name: node_name.map(|name| symbols.intern(name)),
            tolerations: list(&spec["tolerations"]).map(|found| Toleration::compile(found, symbols)).collect(),
            required: Term::compile_required(required, symbols),
            preferred: Term::compile_preferred(&affinity["preferredDuringSchedulingIgnoredDuringExecution"], symbols),
            host_ports: host_ports(spec),
            requests,
            scored,
            images: images(spec, symbols),
            claims: super::storage::claims_of(pod.namespace(), spec, symbols),
            ..Self::default()
        };
        for (key, value) in spec["nodeSelector"].as_object().into_iter().flatten() {
            let (key, value) = (symbols.intern(key), symbols.intern(value.as_str().unwrap_or_default()));
            question.node_selector.push((key, value));
        }
        let namespace = symbols.intern(pod.namespace());
        let mut reader = Reader { namespace, labels, symbols };
        question.read_affinity(&spec["affinity"], &mut reader);
        question.read_spread(spec, default_spread, &mut reader);
        question
    }

    fn read_affinity(&mut self, affinity: &Value, reader: &mut Reader<'_>) {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (kind, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            let terms: Vec<_> = list(&affinity[kind][required]).map(|found| reader.pod_term(found)).collect();
            if sign > 0 {
                self.affinity = terms;
            } else {
                self.anti_affinity = terms;
            }
            for found in list(&affinity[kind][preferred]) {
                let weight = sign * found["weight"].as_i64().unwrap_or_default();
                if weight != 0 {
                    self.preferred_pods.push((weight, reader.pod_term(&found["podAffinityTerm"])));
                }
            }
        }
    }

    fn read_spread(&mut self, spec: &Value, default: &DefaultSpread<'_>, reader: &mut Reader<'_>) {
        let mut constraints: Vec<Value> = list(&spec["topologySpreadConstraints"]).cloned().collect();
        if constraints.is_empty() && !default.selector.is_null() {
            constraints = default.constraints.to_vec();
            for constraint in &mut constraints {
                constraint["labelSelector"] = default.selector.clone();
            }
            self.spread_is_default = default.is_system;
        }
        let is_hard = |found: &Value| found["whenUnsatisfiable"] == "DoNotSchedule";
        // A node counts if it carries the keys of all constraints of the same sort.
        let mut keys: [BTreeSet<Symbol>; 2] = Default::default();
        for found in &constraints {
            keys[usize::from(is_hard(found))].insert(reader.text(found, "topologyKey"));
        }
        let keys = keys.map(|keys| keys.into_iter().collect::<Vec<_>>());
        let mut known: BTreeMap<(bool, bool, bool), usize> = BTreeMap::new();
        for found in &constraints {
            let (hard, key) = (is_hard(found), reader.text(found, "topologyKey"));
            let honours = |field: &str, otherwise: &str| found[field].as_str().unwrap_or(otherwise) == "Honor";
            // By host name, Kubernetes scores a node by the pods that are on it, whether or not the node counts.
            let all_count = !hard && key == reader.symbols.hostname;
            let affinity = !all_count && honours("nodeAffinityPolicy", "Honor");
            let taints = !all_count && honours("nodeTaintsPolicy", "Ignore");
            let eligibility = *known.entry((hard, affinity, taints)).or_insert_with(|| {
                self.eligibilities.push(Arc::new(Eligibility {
                    keys: if self.spread_is_default { Vec::new() } else { keys[usize::from(hard)].clone() },
                    node_selector: if affinity { self.node_selector.clone() } else { Vec::new() },
                    required: if affinity { self.required.clone() } else { None },
                    tolerations: taints.then(|| self.tolerations.clone()),
                }));
                self.eligibilities.len() - 1
            });
            self.spread.push(SpreadConstraint {
                max_skew: found["maxSkew"].as_i64().unwrap_or(1),
                key,
                hard,
                min_domains: usize::try_from(found["minDomains"].as_u64().unwrap_or(1)).unwrap_or(usize::MAX),
                pods: Matcher(vec![reader.own_namespace(found)]),
                eligibility,
            });
        }
    }

    /// What still counts of it once the pod is bound: what it uses, and what it holds for or against others. More pods
    /// share that.
    pub(super) fn of_bound(&self) -> Self {
        let Self { host_ports, requests, scored, affinity, anti_affinity, preferred_pods, claims, .. } = self;
        Self {
            host_ports: host_ports.clone(),
            requests: requests.clone(),
            scored: *scored,
            affinity: affinity.clone(),
            anti_affinity: anti_affinity.clone(),
            preferred_pods: preferred_pods.clone(),
            claims: claims.clone(),
            ..Self::default()
        }
    }

    /// The names of the only nodes that required node affinity can match, when it says so: each pod of a DaemonSet does.
    pub(super) fn only(&self) -> Option<Vec<Symbol>> {
        let terms = self.required.as_ref()?;
        let mut names: Vec<Symbol> =
            terms.iter().map(Term::only).collect::<Option<Vec<_>>>()?.into_iter().flatten().copied().collect();
        names.sort_unstable();
        names.dedup();
        Some(names)
    }

    /// Leaves out what plays no part now, so that more pods share the question: images while no node says which it
    /// holds. What is asked of storage is asked of this version of it.
    pub(super) fn of_now(mut self, nodes: &Nodes, storage: &Storage) -> Self {
        if nodes.images().is_empty() {
            self.images.clear();
        }
        if !self.claims.is_empty() {
            self.storage_version = storage.version();
        }
        self
    }

    /// Whether it would be another question if it were asked now.
    pub(super) fn is_stale(&self, nodes: &Nodes, storage: &Storage) -> bool {
        self.images.is_empty() != nodes.images().is_empty()
            || (!self.claims.is_empty() && self.storage_version != storage.version())
    }

    /// What is asked of one resource.
    pub(super) fn request(&self, resource: Resource) -> u64 {
        let place = self.requests.binary_search_by_key(&resource, |(known, _)| *known);
        place.map_or(0, |place| self.requests[place].1)
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

/// The images of all its containers, also of those that prepare it.
fn images(spec: &Value, symbols: &mut Symbols) -> Vec<Symbol> {
    let containers = list(&spec["initContainers"]).chain(list(&spec["containers"]));
    let names = containers.map(|container| normalized(container["image"].as_str().unwrap_or_default()));
    let mut images: Vec<Symbol> = names.map(|name| symbols.intern(&name)).collect();
    images.sort_unstable();
    images
}

/// What its containers and sidecars take, each port once; those that only prepare it come to an end.
fn host_ports(spec: &Value) -> Vec<HostPort> {
    let sidecars = list(&spec["initContainers"]).filter(|container| container["restartPolicy"] == "Always");
    let ports = list(&spec["containers"]).chain(sidecars).flat_map(|container| list(&container["ports"]));
    let ports: BTreeSet<HostPort> = ports
        .filter_map(|port| {
            let number = u16::try_from(port["hostPort"].as_u64()?).ok().filter(|number| *number != 0)?;
            Some(HostPort::new(port["protocol"].as_str().unwrap_or("TCP"), number))
        })
        .collect();
    ports.into_iter().collect()
}

impl Reader<'_> {
    fn text(&mut self, found: &Value, field: &str) -> Symbol {
        self.symbols.intern(found[field].as_str().unwrap_or_default())
    }

    /// `labelSelector` with what `matchLabelKeys` and `mismatchLabelKeys` add to it. A label that the pod does not carry
    /// adds nothing.
    fn selector(&mut self, found: &Value) -> Selector {
        let mut selector = Selector::compile(&found["labelSelector"], self.symbols);
        let keys = |field: &str| list(&found[field]).filter_map(Value::as_str);
        let same = keys("matchLabelKeys").map(|key| (key, true));
        let other = keys("mismatchLabelKeys").map(|key| (key, false));
        selector.and_labels(same.chain(other).filter_map(|(key, same)| {
            let key = self.symbols.intern(key);
            Some((key, super::terms::label(self.labels, key)?, same))
        }));
        selector
    }

    fn own_namespace(&mut self, found: &Value) -> Scope {
        Scope { namespaces: vec![self.namespace], namespace_selector: None, pods: self.selector(found) }
    }

    fn pod_term(&mut self, found: &Value) -> PodTerm {
        let mut namespaces: Vec<Symbol> =
            list(&found["namespaces"]).filter_map(Value::as_str).map(|name| self.symbols.intern(name)).collect();
        let selector = &found["namespaceSelector"];
        if namespaces.is_empty() && selector.is_null() {
            namespaces.push(self.namespace);
        }
        namespaces.sort_unstable();
        let namespace_selector = (!selector.is_null()).then(|| Selector::compile(selector, self.symbols));
        let pods = self.selector(found);
        PodTerm { key: self.text(found, "topologyKey"), pods: Scope { namespaces, namespace_selector, pods } }
    }
}
