//! Persistent volumes and claims as rules see them (VOL-02): what a claim is bound to, which volumes are free, who uses
//! what.
//!
//! *In:* changes of volumes, claims and classes, and pods that come and go. *Out:* answers about the claims of one pod,
//! and a version that changes with every answer.
//! *Must never know:* how a claim comes to be bound once its volume is chosen.
//! *Tested:* tables through the scheduler in `tests/volumes.rs`, and against the oracle.
//!
//! Nothing here costs a pod without claims anything. A pod with claims asks a question of this version of the storage,
//! so that what was found of nodes for it is found anew when any of this has changed.

mod shelves;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::filters::Refusal;
use super::hints::Hints;
use super::nodes::{NodeId, Nodes};
use super::symbols::{Symbol, Symbols};
use super::terms::{Facts, Term};
use crate::kind::Kind;
use crate::object::{Key, Object, Uid};
use crate::plan::Write;
use crate::selector::{LabelSelector, Labels};
use crate::view::View;
use crate::volumes::{BOUND_BY_CONTROLLER, ClaimPhase, ClaimRow, VolumeRow, waits_for_consumer};

use shelves::Shelves;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Volume {
    row: VolumeRow,
    labels: Arc<Labels>,
    /// `spec.nodeAffinity.required`; `None` for a volume that can be reached from every node.
    affinity: Option<Vec<Term>>,
    /// By its labels; `None` for a volume that has none of [`zones::LABELS`].
    zones: Option<[Term; 2]>,
    is_deleting: bool,
}

impl Volume {
    fn is_reached_from(&self, node: Facts<'_>, symbols: &Symbols) -> bool {
        self.affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node, symbols)))
    }

    fn is_in_zone_of(&self, node: Facts<'_>, symbols: &Symbols) -> bool {
        self.zones.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node, symbols)))
    }

    fn is_free(&self) -> bool {
        self.row.is_free() && !self.is_deleting
    }
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    key: Key,
    uid: Uid,
    row: ClaimRow,
    /// `spec.volumeName`, for messages.
    volume: Symbol,
    /// `spec.selector`; `None` when there is none.
    selector: Option<LabelSelector>,
    is_deleting: bool,
}

impl Claim {
    fn bound_to(&self) -> Option<&Arc<str>> {
        self.row.volume.as_ref().filter(|_| self.row.phase == ClaimPhase::Bound)
    }

    fn accepts(&self, volume: &Volume) -> bool {
        volume.row.fits(&self.row) && self.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Storage {
    version: u64,
    claims: BTreeMap<Symbol, Claim>,
    volumes: BTreeMap<Arc<str>, Volume>,
    /// Classes that leave the choice of a volume to the scheduler.
    delayed: BTreeSet<Arc<str>>,
    shelves: Shelves,
    /// Volumes that are somebody's, or set aside for somebody, by claim.
    set_aside: BTreeMap<Key, BTreeSet<Arc<str>>>,
    /// Pods on each node that use a claim.
    users: BTreeMap<Symbol, BTreeMap<NodeId, u32>>,
}

/// The name of a claim among all claims.
fn claim_symbol(namespace: &str, name: &str, symbols: &mut Symbols) -> Symbol {
    symbols.intern(&format!("{namespace}/{name}"))
}

/// The claims of a pod's volumes in their order, each once.
pub(super) fn claims_of(namespace: &str, spec: &Value, symbols: &mut Symbols) -> Vec<Symbol> {
    let names = spec["volumes"].as_array().into_iter().flatten();
    let names = names.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    let mut seen = BTreeSet::new();
    names.map(|name| claim_symbol(namespace, name, symbols)).filter(|claim| seen.insert(*claim)).collect()
}

impl Storage {
    /// Changes whenever an answer may.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Takes over a volume, a claim or a class; what of it could help a pod that waits. A claim helps nobody but the
    /// pods that name it.
    pub(super) fn observe(&mut self, object: &Object, gone: bool, symbols: &mut Symbols) -> Hints {
        match object.key.kind {
            Kind::PERSISTENT_VOLUME => self.observe_volume(object, gone, symbols),
            Kind::PERSISTENT_VOLUME_CLAIM => {
                self.observe_claim(object, gone, symbols);
                Hints::NONE
            }
            _ => {
                let name = &object.key.name;
                let changed = if !gone && waits_for_consumer(&object.head()) {
                    self.delayed.insert(Arc::clone(name))
                } else {
                    self.delayed.remove(name)
                };
                self.version += u64::from(changed);
                Hints::NONE.when(changed, Hints::CLASS)
            }
        }
    }

    fn observe_volume(&mut self, object: &Object, gone: bool, symbols: &mut Symbols) -> Hints {
        let name = &object.key.name;
        let after = object.row.volume().filter(|_| !gone).map(|row| {
            let required = object.head()["spec"]["nodeAffinity"]["required"].take();
            let terms = |terms: &Vec<Value>| terms.iter().map(|term| Term::compile(term, symbols)).collect();
            Volume {
                row: row.clone(),
                labels: Arc::clone(&object.labels),
                affinity: required["nodeSelectorTerms"].as_array().map(terms),
                zones: zones::terms(&object.labels, symbols),
                is_deleting: object.is_deleting(),
            }
        });
        if self.volumes.get(name) == after.as_ref() {
            return Hints::NONE;
        }
        self.version += 1;
        let before = self.volumes.remove(name);
        if let Some(before) = &before {
            self.shelves.take(name, before);
            self.note_set_aside(name, before, false);
        }
        let Some(volume) = after else { return Hints::NONE };
        if volume.is_free() {
            self.shelves.put(name, &volume);
        }
        self.note_set_aside(name, &volume, true);
        let place = |volume: &Volume| (volume.affinity.clone(), volume.zones.clone(), volume.row.reserved.clone());
        let is_elsewhere = before.is_none_or(|before| place(&before) != place(&volume));
        let hints = Hints::NONE.when(is_elsewhere || volume.is_free(), Hints::VOLUME);
        self.volumes.insert(Arc::clone(name), volume);
        hints
    }

    fn note_set_aside(&mut self, name: &Arc<str>, volume: &Volume, is_there: bool) {
        let Some(reference) = &volume.row.reserved else { return };
        let volumes = self.set_aside.entry(reference.claim.clone()).or_default();
        if is_there {
            volumes.insert(Arc::clone(name));
        } else {
            volumes.remove(name);
        }
        if volumes.is_empty() {
            self.set_aside.remove(&reference.claim);
        }
    }

    /// The volume that a user, or a pod before, has set aside for a claim: it gets no other. One that is too small is of
    /// no use to it.
    fn set_aside_for(&self, claim: &Claim) -> Option<(&Arc<str>, &Volume)> {
        let volumes = self.set_aside.get(&claim.key)?.iter();
        let mut volumes = volumes.filter_map(|name| Some((name, self.volumes.get(name)?)));
        volumes.find(|(_, Volume { row, .. })| {
            let means = row.reserved.as_ref().is_some_and(|of| of.uid.is_none_or(|uid| uid == claim.uid));
            means && row.capacity_bytes >= claim.row.request_bytes && row.is_block == claim.row.is_block
        })
    }

    fn observe_claim(&mut self, object: &Object, gone: bool, symbols: &mut Symbols) {
        let symbol = claim_symbol(object.namespace(), object.name(), symbols);
        let after = object.row.claim().filter(|_| !gone).map(|row| {
            let selector = object.head()["spec"]["selector"].take();
            // One that cannot be read matches nothing.
            let read = |selector| LabelSelector::of_json(selector).unwrap_or_else(|_| LabelSelector::nothing());
            let selector = Some(&selector).filter(|selector| !selector.is_null()).map(read);
            let volume = symbols.intern(row.volume.as_deref().unwrap_or_default());
            let (key, uid, row) = (object.key.clone(), object.uid, row.clone());
            Claim { key, uid, row, volume, selector, is_deleting: object.is_deleting() }
        });
        if self.claims.get(&symbol) == after.as_ref() {
            return;
        }
        self.version += 1;
        match after {
            Some(claim) => self.claims.insert(symbol, claim),
            None => self.claims.remove(&symbol),
        };
    }

    /// A pod with these claims is on a node now.
    pub(super) fn arrive(&mut self, claims: &[Symbol], node: NodeId) {
        for claim in claims {
            let pods = self.users.entry(*claim).or_default().entry(node).or_default();
            *pods += 1;
            self.version += u64::from(*pods == 1 || self.is_for_one_pod(*claim));
        }
    }

    /// It is gone.
    pub(super) fn leave(&mut self, claims: &[Symbol], node: NodeId) {
        for claim in claims {
            let is_for_one_pod = self.is_for_one_pod(*claim);
            let Some(nodes) = self.users.get_mut(claim) else { continue };
            let Some(pods) = nodes.get_mut(&node) else { continue };
            *pods -= 1;
            self.version += u64::from(*pods == 0 || is_for_one_pod);
            if *pods == 0 {
                nodes.remove(&node);
            }
            if nodes.is_empty() {
                self.users.remove(claim);
            }
        }
    }

    /// Pods on nodes that are gone use nothing.
    pub(super) fn node_came_or_went(&mut self, node: NodeId) {
        let is_used = self.users.values().any(|nodes| nodes.contains_key(&node));
        self.version += u64::from(is_used);
    }

    fn is_for_one_pod(&self, claim: Symbol) -> bool {
        self.claims.get(&claim).is_some_and(|claim| claim.row.modes.is_for_one_pod())
    }

    /// How many pods use a claim that only one pod may use; 0 for any other claim.
    pub(super) fn users_of_exclusive(&self, claim: Symbol, nodes: &Nodes) -> i64 {
        if !self.is_for_one_pod(claim) {
            return 0;
        }
        let users = self.users.get(&claim).into_iter().flatten();
        users.filter(|(node, _)| nodes.is_present(**node)).map(|(_, pods)| i64::from(*pods)).sum()
    }

    /// Whether a claim's volume is in use on another node, and can be used on one at a time.
    pub(super) fn is_attached_elsewhere(&self, claim: Symbol, node: NodeId, nodes: &Nodes) -> bool {
        let Some(volume) = self.volume_of(claim) else { return false };
        let elsewhere =
            |users: &BTreeMap<NodeId, u32>| users.keys().any(|other| *other != node && nodes.is_present(*other));
        volume.row.modes.is_for_one_node() && !volume.row.is_local && self.users.get(&claim).is_some_and(elsewhere)
    }

    fn volume_of(&self, claim: Symbol) -> Option<&Volume> {
        self.volumes.get(self.claims.get(&claim)?.bound_to()?)
    }

    fn is_delayed(&self, claim: &Claim) -> bool {
        claim.row.volume.is_none() && self.delayed.contains(&claim.row.class)
    }

    /// Why a pod with these claims can go nowhere at all. As in Kubernetes, the first claim that is wrong is told, and only
    /// then whether one has no volume.
    pub(super) fn obstacle(&self, claims: &[Symbol]) -> Option<Refusal> {
        let wrong = claims.iter().find_map(|symbol| match self.claims.get(symbol) {
            None => Some(Refusal::ClaimMissing(*symbol)),
            Some(claim) if claim.row.phase == ClaimPhase::Lost => Some(Refusal::ClaimLost(*symbol, claim.volume)),
            Some(claim) => claim.is_deleting.then_some(Refusal::ClaimGoing(*symbol)),
        });
        let has_none = |claim: &Claim| claim.row.phase == ClaimPhase::Pending && !self.is_delayed(claim);
        wrong.or_else(|| {
            let is_unbound = claims.iter().filter_map(|symbol| self.claims.get(symbol)).any(has_none);
            is_unbound.then_some(Refusal::UnboundClaims)
        })
    }

    /// What keeps a pod with these claims from a node.
    pub(super) fn refuse(&self, claims: &[Symbol], node: Facts<'_>, symbols: &Symbols, refusals: &mut Vec<Refusal>) {
        let bound = || claims.iter().filter(|claim| self.claims.get(claim).and_then(Claim::bound_to).is_some());
        if bound().any(|claim| self.volume_of(*claim).is_some_and(|volume| !volume.is_reached_from(node, symbols))) {
            refusals.push(Refusal::VolumeAffinity);
        }
        if self.choose(claims, node, symbols).is_none() {
            refusals.push(Refusal::NoVolume);
        }
        if bound().any(|claim| self.volume_of(*claim).is_none()) {
            refusals.push(Refusal::VolumeGone);
        }
    }

    /// Whether no label of a volume of these claims says that it lies in another zone or region.
    pub(super) fn are_in_zone(&self, claims: &[Symbol], node: Facts<'_>, symbols: &Symbols) -> bool {
        let mut volumes = claims.iter().filter_map(|claim| self.volume_of(*claim));
        volumes.all(|volume| volume.is_in_zone_of(node, symbols))
    }

    /// The volumes for those of the claims that have none yet, on a node: for each, the smaller claims first, the
    /// smallest that fits, or what is set aside for it. `None` when there is not one for each.
    fn choose(&self, claims: &[Symbol], node: Facts<'_>, symbols: &Symbols) -> Option<Vec<(&Claim, &Arc<str>)>> {
        let known = claims.iter().filter_map(|claim| self.claims.get(claim));
        let mut waiting: Vec<&Claim> =
            known.filter(|claim| claim.row.phase == ClaimPhase::Pending && self.is_delayed(claim)).collect();
        waiting.sort_by(|one, two| (one.row.request_bytes, &one.key).cmp(&(two.row.request_bytes, &two.key)));
        let mut chosen: Vec<(&Claim, &Arc<str>)> = Vec::new();
        let mut taken = BTreeSet::new();
        for claim in waiting {
            if let Some((name, volume)) = self.set_aside_for(claim) {
                if !volume.is_reached_from(node, symbols) {
                    return None;
                }
                chosen.push((claim, name));
                continue;
            }
            let accepts = |name: &Arc<str>| {
                let Some(volume) = self.volumes.get(name) else { return false };
                !taken.contains(name) && claim.accepts(volume) && volume.is_reached_from(node, symbols)
            };
            let volume = self.shelves.smallest(&claim.row, node, accepts)?;
            taken.insert(Arc::clone(volume));
            chosen.push((claim, volume));
        }
        Some(chosen)
    }

    /// Sets volumes aside for the claims of a pod that goes to a node. Who binds claims does the rest.
    pub(super) fn set_aside(&self, view: &View, claims: &[Symbol], node: Facts<'_>, symbols: &Symbols) -> Vec<Write> {
        let chosen = self.choose(claims, node, symbols).unwrap_or_default();
        let write = |(claim, volume): (&Claim, &Arc<str>)| {
            let volume = view.get(&Key::new(Kind::PERSISTENT_VOLUME, "", volume))?;
            set_aside(volume, view.get(&claim.key)?)
        };
        chosen.into_iter().filter_map(write).collect()
    }
}

/// Says in a volume which claim is to have it; `None` if it says so.
pub(crate) fn set_aside(volume: &Object, claim: &Object) -> Option<Write> {
    let mut value = volume.value();
    let before = value.clone();
    let is_stated = value["spec"]["claimRef"].is_object();
    value["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(),
        "uid": claim.uid.to_string(), "resourceVersion": claim.revision.to_string(),
    });
    if is_stated {
        // It said the same without the uid.
        let known = &before["spec"]["claimRef"];
        if known["uid"] == value["spec"]["claimRef"]["uid"] {
            return None;
        }
    } else {
        value["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
    }
    Some(Write::Update { key: volume.key.clone(), expected: volume.revision, value })
}
