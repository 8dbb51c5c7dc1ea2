//! What happens to a cluster, drawn at random.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::super::tests::World;
use super::drawn::{NAMESPACES, Shown, ZONE, some_claim, some_images, some_node, some_pod, some_volume};
use super::objects::text;
use crate::kind::Kind;
use crate::object::{Key, Object};

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    PutNode(Shown),
    DeleteNode(u8),
    /// Another zone, or none.
    MoveNode(u8, u8),
    Cordon(u8),
    PutPod(Shown),
    DeletePod(Index),
    EndPod(Index),
    AskToEnd(Index),
    /// Another `app`.
    RelabelPod(Index, &'static str),
    RelabelNamespace(&'static str, &'static str),
    /// A namespace, an `app` (or `all`, or all `others` than a), and how many may be disrupted; none takes the budget away.
    Budget(&'static str, &'static str, Option<u8>),
    /// A namespace, and the `app` that it selects; none takes the service away.
    Service(&'static str, Option<&'static str>),
    /// A node says that it holds these images.
    SetImages(u8, Shown),
    /// Unless there is one of this name.
    PutVolume(Shown),
    PutClaim(Shown),
    DeleteVolume(Index),
    DeleteClaim(Index),
    /// It goes when nobody uses it any more, which is never here.
    AskClaimToGo(Index),
    BindVolumes,
    /// Whether the class `later` leaves the choice of volumes to the scheduler.
    SetClass(bool),
    /// Seconds.
    Wait(u8),
    /// A successor is shown everything, so many objects with each step, and takes over.
    Compact(u8),
}

/// What happens: some claims, volumes and nodes are there before anything else.
pub(super) fn some_history() -> impl Strategy<Value = Vec<Step>> {
    let storage = prop_oneof![some_volume().prop_map(Step::PutVolume), some_claim().prop_map(Step::PutClaim)];
    let before = prop_oneof![1 => Just(Vec::new()), 2 => vec(storage, 3..10)];
    let nodes = vec(some_node().prop_map(Step::PutNode), 0..4);
    (before, nodes, vec(some_step(), 1..38)).prop_map(|(before, nodes, after)| [before, nodes, after].concat())
}

fn some_step() -> impl Strategy<Value = Step> {
    let app = || select(vec!["a", "b", "c"]);
    let place = || select(NAMESPACES.to_vec());
    prop_oneof![
        5 => some_node().prop_map(Step::PutNode),
        1 => (0..6_u8).prop_map(Step::DeleteNode),
        1 => (0..6_u8, 0..4_u8).prop_map(|(node, zone)| Step::MoveNode(node, zone)),
        1 => (0..6_u8).prop_map(Step::Cordon),
        16 => some_pod().prop_map(Step::PutPod),
        2 => any::<Index>().prop_map(Step::DeletePod),
        1 => any::<Index>().prop_map(Step::EndPod),
        1 => any::<Index>().prop_map(Step::AskToEnd),
        2 => (any::<Index>(), app()).prop_map(|(pod, app)| Step::RelabelPod(pod, app)),
        1 => (select(NAMESPACES.to_vec()), select(vec!["one", "two"])).prop_map(|(name, team)| Step::RelabelNamespace(name, team)),
        2 => (place(), select(vec!["a", "b", "c", "all", "others"]), weighted(0.8, 0..2_u8))
            .prop_map(|(place, app, allowed)| Step::Budget(place, app, allowed)),
        1 => (place(), weighted(0.7, app())).prop_map(|(place, app)| Step::Service(place, app)),
        1 => (0..6_u8, some_images()).prop_map(|(node, images)| Step::SetImages(node, images)),
        1 => some_volume().prop_map(Step::PutVolume),
        1 => some_claim().prop_map(Step::PutClaim),
        1 => some_storage_accident(),
        2 => Just(Step::BindVolumes),
        2 => (0..20_u8).prop_map(Step::Wait),
        1 => (1..9_u8).prop_map(Step::Compact),
    ]
}

fn some_storage_accident() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any::<Index>().prop_map(Step::DeleteVolume),
        2 => any::<Index>().prop_map(Step::DeleteClaim),
        1 => any::<Index>().prop_map(Step::AskClaimToGo),
        1 => any::<bool>().prop_map(Step::SetClass),
    ]
}

/// A cluster without nodes: namespaces, in each a set that pods may belong to, and classes of volumes.
pub(super) fn empty_world(seed: u64, configuration: &Value) -> World {
    let mut world = World::configured(seed, configuration);
    set_class(&mut world, "now", "Immediate");
    set_class(&mut world, "later", "WaitForFirstConsumer");
    for name in NAMESPACES {
        world.put(Kind::NAMESPACE, json!({"metadata": {"name": name, "labels": {"team": "one"}}}));
        let selector = json!({"matchLabels": {"app": "a"}});
        world.put(
            Kind::REPLICA_SET,
            json!({"metadata": {"name": "set", "namespace": name}, "spec": {"selector": selector}}),
        );
    }
    world
}

fn set_class(world: &mut World, name: &str, mode: &str) {
    world.put(Kind::STORAGE_CLASS, json!({"metadata": {"name": name}, "volumeBindingMode": mode}));
}

/// Adds a pod under a name of its own.
pub(super) fn put_pod(world: &mut World, mut value: Value, name: &str) -> Key {
    value["metadata"]["name"] = json!(name);
    if value["metadata"]["ownerReferences"] == "set" {
        let set = Key::new(Kind::REPLICA_SET, text(&value["metadata"], "namespace"), "set");
        let uid = world.view.get(&set).unwrap().uid.to_string();
        value["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": uid, "controller": true}]);
    }
    world.put(Kind::POD, value)
}

pub(super) fn play(world: &mut World, step: Step, number: usize) {
    let named = |number: u8| Key::new(Kind::NODE, "", &format!("n{number}"));
    let pods: Vec<Key> = world.view.list(Kind::POD, None).map(|pod| pod.key.clone()).collect();
    let picked = |index: &Index| (!pods.is_empty()).then(|| index.get(&pods).clone());
    let Some(step) = play_storage(world, step) else { return };
    match step {
        Step::PutNode(Shown(value)) => drop(world.put(Kind::NODE, value)),
        Step::DeleteNode(number) if world.view.get(&named(number)).is_some() => world.delete(&named(number)),
        Step::MoveNode(number, zone) if world.view.get(&named(number)).is_some() => {
            world.edit(&named(number), |node| {
                let labels = node["metadata"]["labels"].as_object_mut().unwrap();
                if zone == 3 {
                    drop(labels.remove(ZONE))
                } else {
                    drop(labels.insert(ZONE.to_owned(), json!(format!("z{zone}"))))
                }
            })
        }
        Step::Cordon(number) if world.view.get(&named(number)).is_some() => world.edit(&named(number), |node| {
            node["spec"]["unschedulable"] = json!(node["spec"]["unschedulable"] != true);
        }),
        Step::PutPod(Shown(value)) => drop(put_pod(world, value, &format!("p{number}"))),
        Step::DeletePod(index) => picked(&index).iter().for_each(|key| world.delete(key)),
        Step::EndPod(index) => {
            picked(&index).iter().for_each(|key| world.edit(key, |pod| pod["status"]["phase"] = json!("Succeeded")))
        }
        Step::AskToEnd(index) => picked(&index)
            .iter()
            .filter(|key| world.node_of(key).is_some())
            .cloned()
            .collect::<Vec<_>>()
            .iter()
            .for_each(|key| {
                world.edit(key, |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z"))
            }),
        Step::RelabelPod(index, app) => {
            picked(&index).iter().for_each(|key| world.edit(key, |pod| pod["metadata"]["labels"]["app"] = json!(app)))
        }
        Step::RelabelNamespace(name, team) => world.edit(&Key::new(Kind::NAMESPACE, "", name), |namespace| {
            namespace["metadata"]["labels"]["team"] = json!(team);
        }),
        Step::Budget(namespace, app, allowed) => put_or_delete(
            world,
            Key::new(Kind::POD_DISRUPTION_BUDGET, namespace, app),
            allowed.map(|allowed| {
                let selector = match app {
                    "all" => json!({}),
                    "others" => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}),
                    app => json!({"matchLabels": {"app": app}}),
                };
                json!({"spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed}})
            }),
        ),
        Step::Service(namespace, app) => put_or_delete(
            world,
            Key::new(Kind::SERVICE, namespace, "service"),
            app.map(|app| json!({"spec": {"selector": {"app": app}}})),
        ),
        Step::SetImages(number, Shown(images)) if world.view.get(&named(number)).is_some() => {
            world.edit(&named(number), |node| node["status"]["images"] = images);
        }
        Step::Compact(at_once) => world.scheduler.compact(&world.view, usize::from(at_once)),
        Step::Wait(seconds) => world.now.mono = world.now.mono + u64::from(seconds) * 1000,
        // There is no such node; or it was played already.
        _ => {}
    }
}

/// What happens to claims and volumes; gives back what is none of that.
fn play_storage(world: &mut World, step: Step) -> Option<Step> {
    let any = |world: &World, kind: Kind, index: &Index| {
        let keys: Vec<Key> = world.view.list(kind, None).map(|object| object.key.clone()).collect();
        (!keys.is_empty()).then(|| index.get(&keys).clone())
    };
    match step {
        Step::PutVolume(Shown(value)) => put_new(world, Kind::PERSISTENT_VOLUME, value),
        Step::PutClaim(Shown(value)) => put_new(world, Kind::PERSISTENT_VOLUME_CLAIM, value),
        Step::DeleteVolume(index) => {
            any(world, Kind::PERSISTENT_VOLUME, &index).iter().for_each(|key| world.delete(key));
        }
        Step::DeleteClaim(index) => {
            any(world, Kind::PERSISTENT_VOLUME_CLAIM, &index).iter().for_each(|key| world.delete(key));
        }
        Step::AskClaimToGo(index) => any(world, Kind::PERSISTENT_VOLUME_CLAIM, &index).iter().for_each(|key| {
            world.edit(key, |claim| claim["metadata"]["deletionTimestamp"] = json!("2026-11-21T03:40:30Z"));
        }),
        Step::BindVolumes => drop(world.bind_volumes()),
        Step::SetClass(waits) => set_class(world, "later", if waits { "WaitForFirstConsumer" } else { "Immediate" }),
        other => return Some(other),
    }
    None
}

fn put_new(world: &mut World, kind: Kind, value: Value) {
    let metadata = &value["metadata"];
    if world.view.get(&Key::new(kind, text(metadata, "namespace"), text(metadata, "name"))).is_none() {
        world.put(kind, value);
    }
}

fn put_or_delete(world: &mut World, key: Key, value: Option<Value>) {
    if let Some(mut value) = value {
        value["metadata"] = json!({"name": &*key.name, "namespace": &*key.namespace});
        world.put(key.kind, value);
    } else if world.view.get(&key).is_some() {
        world.delete(&key);
    }
}

/// Pods that have been bound start, each at a time of its own; the `number`th of all.
pub(super) fn start_pods(world: &mut World, number: &mut u32) {
    let is_new = |pod: &Value| !text(&pod["spec"], "nodeName").is_empty() && pod["status"]["startTime"].is_null();
    let pods: Vec<Key> =
        world.view.list(Kind::POD, None).filter(|pod| is_new(&pod.value())).map(|pod| pod.key.clone()).collect();
    for key in pods {
        *number += 1;
        // Scattered, so that those that came later did not all start later.
        let at = *number * 7919 % 86_400;
        let stamp = format!("2026-11-20T{:02}:{:02}:{:02}Z", at / 3600, at / 60 % 60, at % 60);
        world.edit(&key, |pod| pod["status"]["startTime"] = json!(stamp));
    }
}

/// Whoever was asked to go has gone.
pub(super) fn reap(world: &mut World) {
    let ending: Vec<Key> =
        world.view.list(Kind::POD, None).filter(|pod| pod.is_deleting()).map(|pod| pod.key.clone()).collect();
    ending.iter().for_each(|key| world.delete(key));
}

/// Every object in an order that has nothing to do with how they came about.
pub(super) fn shuffled(world: &World, salt: u64) -> Vec<Arc<Object>> {
    let kinds = [
        Kind::NAMESPACE,
        Kind::REPLICA_SET,
        Kind::SERVICE,
        Kind::POD_DISRUPTION_BUDGET,
        Kind::STORAGE_CLASS,
        Kind::PERSISTENT_VOLUME,
        Kind::PERSISTENT_VOLUME_CLAIM,
        Kind::NODE,
        Kind::POD,
    ];
    let mut all: Vec<_> = kinds.iter().flat_map(|kind| world.view.list(*kind, None).cloned()).collect();
    let mix =
        |text: &str| text.bytes().fold(salt | 1, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    all.sort_by_key(|object| mix(&format!("{}/{}", object.namespace(), object.name())));
    all
}
