//! The table against the schemas that Kubernetes' own types carry.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1 as apps,
    authentication::v1 as authentication,
    authorization::v1 as authorization,
    autoscaling::{v1 as autoscaling, v2 as autoscaling_v2},
    batch::v1 as batch,
    coordination::v1 as coordination,
    core::v1 as core,
    discovery::v1 as discovery,
    events::v1 as events,
    networking::v1 as networking,
    policy::v1 as policy,
    rbac::v1 as rbac,
    scheduling::v1 as scheduling,
    storage::v1 as storage,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value};

use super::*;
use crate::Kind;

/// Types and fields of Kubernetes' newest alphas, which no client sends that has not switched them on: they are dropped.
const LEFT_OUT: &[&str] = &[
    "ImageVolumeStatus",
    "ListMeta.shardInfo",
    "NodeAllocatableResourceClaimStatus",
    "PodSchedulingGroup",
    "PodSpec.schedulingGroup",
    "PodStatus.nodeAllocatableResourceClaimStatuses",
    "ResourceHealth.message",
    "ShardInfo",
    "VolumeMountStatus.volumeStatus",
    "VolumeStatus",
];

fn parsed() -> Table {
    Table::parse(include_str!("../messages.txt")).expect("the table can be read")
}

/// The names that a message has in JSON.
fn names(table: &Table, message: &Message) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for field in &message.fields {
        match (field.count, field.shape) {
            (Count::Inline, Shape::Message(place)) => found.extend(names(table, &table.messages[place])),
            _ => assert!(found.insert(field.name), "{} has {} twice", message.name, field.name),
        }
    }
    found
}

macro_rules! schemas {
    ($($kind:ty),* $(,)?) => {{
        let mut generator = SchemaSettings::openapi3().into_generator();
        $(add::<$kind>(&mut generator);)*
        generator.take_definitions(true)
    }};
}

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

fn all_schemas() -> Map<String, Value> {
    schemas![
        core::Binding,
        core::ConfigMap,
        core::Endpoints,
        core::Event,
        core::LimitRange,
        core::Namespace,
        core::Node,
        core::PersistentVolume,
        core::PersistentVolumeClaim,
        core::Pod,
        core::PodTemplate,
        core::ReplicationController,
        core::ResourceQuota,
        core::Secret,
        core::Service,
        core::ServiceAccount,
        apps::ControllerRevision,
        apps::DaemonSet,
        apps::Deployment,
        apps::ReplicaSet,
        apps::StatefulSet,
        batch::CronJob,
        batch::Job,
        autoscaling::HorizontalPodAutoscaler,
        autoscaling::Scale,
        autoscaling_v2::HorizontalPodAutoscaler,
        policy::Eviction,
        policy::PodDisruptionBudget,
        networking::Ingress,
        networking::IngressClass,
        networking::NetworkPolicy,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        rbac::Role,
        rbac::RoleBinding,
        authorization::LocalSubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
        authorization::SubjectAccessReview,
        authentication::SelfSubjectReview,
        authentication::TokenRequest,
        authentication::TokenReview,
        coordination::Lease,
        scheduling::PriorityClass,
        storage::StorageClass,
        discovery::EndpointSlice,
        events::Event,
        meta::DeleteOptions,
        meta::Status,
    ]
}

/// `io.k8s.api.apps.v1.Deployment` as (`apps`, `Deployment`).
fn group_and_name(schema: &str) -> (&str, &str) {
    let mut parts = schema.rsplit('.');
    let name = parts.next().unwrap_or_default();
    (parts.nth(1).unwrap_or_default(), name)
}

#[test]
fn every_message_has_exactly_the_fields_of_its_schema() {
    let (table, schemas) = (parsed(), all_schemas());
    let mut checked = 0;
    for (schema, value) in &schemas {
        let (group, name) = group_and_name(schema);
        let Some(properties) = value["properties"].as_object() else { continue };
        let mut messages = table.messages.iter().filter(|message| {
            let section = message.section.split(['.', '/']).next().unwrap_or_default();
            let version = message.section.rsplit('/').next().unwrap_or_default();
            let fits = if message.section == "v1" { group == "core" } else { section == group };
            fits && message.name == name && schema.contains(&format!(".{version}."))
        });
        let Some(message) = messages.next() else {
            assert!(LEFT_OUT.contains(&name), "{schema} is not in the table");
            continue;
        };
        let own = names(&table, message);
        let wanted: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        // A type names itself beside the object, in the envelope.
        let missing: Vec<&&str> = wanted
            .difference(&own)
            .filter(|field| !matches!(**field, "apiVersion" | "kind"))
            .filter(|field| !LEFT_OUT.contains(&format!("{name}.{field}").as_str()))
            .collect();
        let surplus: Vec<&&str> = own.difference(&wanted).filter(|field| **field != "workloadRef").collect();
        assert!(missing.is_empty() && surplus.is_empty(), "{schema}: {missing:?} {surplus:?}");
        for field in &message.fields {
            fits(schema, field, &value["properties"][field.name], &schemas);
        }
        checked += 1;
    }
    assert!(checked > 300, "only {checked} types were compared");
}

/// Whether a field is what its schema says.
fn fits(schema: &str, field: &Field, property: &Value, schemas: &Map<String, Value>) {
    if property.is_null() || field.count == Count::Inline {
        return;
    }
    let value = match field.count {
        Count::List => &property["items"],
        Count::Map => &property["additionalProperties"],
        Count::One | Count::Inline => property,
    };
    let reference = value["$ref"].as_str().or_else(|| value["allOf"][0]["$ref"].as_str()).unwrap_or_default();
    let target = reference.rsplit('/').next().unwrap_or_default();
    let (_, name) = group_and_name(target);
    let kind = value["type"].as_str().unwrap_or_default();
    let at = || format!("{schema}.{}: {field:?} and {property}", field.name);
    match field.shape {
        Shape::Text => assert!(kind == "string" && value["format"].is_null(), "{}", at()),
        Shape::Number => assert_eq!(kind, "integer", "{}", at()),
        Shape::Switch => assert_eq!(kind, "boolean", "{}", at()),
        Shape::Strings => assert_eq!(kind, "array", "{}", at()),
        Shape::Bytes => assert!(name == "ByteString" || value["format"] == "byte", "{}", at()),
        Shape::Time => assert!(name == "Time" || value["format"] == "date-time", "{}", at()),
        Shape::MicroTime => assert!(name == "MicroTime" || value["format"] == "date-time", "{}", at()),
        Shape::Quantity => assert_eq!(name, "Quantity", "{}", at()),
        Shape::IntOrString => assert_eq!(name, "IntOrString", "{}", at()),
        Shape::Raw => assert!(matches!(name, "RawExtension" | "FieldsV1"), "{}", at()),
        Shape::Message(_) => assert!(schemas[target]["type"] == "object", "{}", at()),
    }
}

#[test]
fn every_kind_that_is_served_can_be_sent() {
    let table = parsed();
    for kind in Kind::all() {
        assert!(table.root(&kind.api_version(), kind.info().kind).is_some(), "{kind:?} is missing in messages.txt");
    }
    assert!(table.root("apps/v1", "DeleteOptions").is_some());
    for (api_version, kind) in [("apps/v1", "Pod"), ("v1", "Deployment"), ("", "Pod"), ("v1", "")] {
        assert!(table.root(api_version, kind).is_none(), "{api_version} {kind}");
    }
}

#[test]
fn no_message_holds_itself() {
    fn deepest(table: &Table, place: usize, above: &mut Vec<usize>) -> usize {
        assert!(!above.contains(&place), "{} holds itself", table.messages[place].name);
        above.push(place);
        let fields = table.messages[place].fields.iter();
        let below = fields.filter_map(|field| match field.shape {
            Shape::Message(inner) => Some(deepest(table, inner, above)),
            _ => None,
        });
        let depth = 1 + below.max().unwrap_or_default();
        above.pop();
        depth
    }
    let table = parsed();
    let depth = (0..table.messages.len()).map(|place| deepest(&table, place, &mut Vec::new())).max();
    assert!(depth.is_some_and(|depth| depth < 32), "{depth:?}");
}

#[test]
fn a_line_that_makes_no_sense_is_named() {
    for text in ["[v1]\nPod a:Nothing", "[v1]\nPod 2=a 1=b", "[v1]\nPod a\nPod b", "  a", "[v1]\nPod x=a"] {
        assert!(Table::parse(text).is_err(), "{text}");
    }
}
