//! Disruption budgets and services.

use serde_json::{Value, json};

use super::{admitted, changed, refused};
use crate::admission::{status, warnings};
use crate::kind::Kind;
use crate::view::View;

fn object(spec: Value) -> Value {
    json!({"metadata": {"name": "b", "namespace": "default"}, "spec": spec})
}

// PDB-01
#[test]
fn a_bad_disruption_budget_is_refused_with_the_fields_path() {
    let selector = json!({"matchLabels": {"app": "a"}});
    let budget = |field: &str, value: Value| object(json!({"selector": selector, field: value}));
    refused(
        Kind::POD_DISRUPTION_BUDGET,
        &[
            (
                object(json!({"minAvailable": 1, "maxUnavailable": 1})),
                "minAvailable and maxUnavailable cannot be both set",
            ),
            (
                budget("minAvailable", json!(-1)),
                "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                budget("maxUnavailable", json!("101%")),
                "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ),
            (
                budget("maxUnavailable", json!("half")),
                "spec.maxUnavailable: Invalid value: \"half\": a valid percent string must be",
            ),
            (
                budget("unhealthyPodEvictionPolicy", json!("Never")),
                "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \
                 \"IfHealthyBudget\"",
            ),
            (
                object(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}})),
                "spec.selector.matchExpressions[0].operator: Invalid value: \"Is\"",
            ),
        ],
    );
    let old = admitted(Kind::POD_DISRUPTION_BUDGET, budget("minAvailable", json!("50%"))).unwrap();
    assert_eq!(old["spec"], json!({"selector": selector, "minAvailable": "50%"}));
    assert!(changed(Kind::POD_DISRUPTION_BUDGET, &old, |budget| budget["spec"]["minAvailable"] = json!(2)).is_ok());
    let mut new = old.clone();
    new["status"] = json!({"disruptionsAllowed": -1});
    let error = status(&View::default(), Kind::POD_DISRUPTION_BUDGET, &old, &new).unwrap_err();
    assert!(error.message.contains("status.disruptionsAllowed: Invalid value: -1"), "{error}");
}

// TSC-05
#[test]
fn a_service_has_kubernetes_defaults_and_says_what_it_does_not_do() {
    let found = admitted(Kind::SERVICE, object(json!({"selector": {"app": "a"}, "ports": [{"port": 80}]}))).unwrap();
    let want = json!({
        "selector": {"app": "a"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "type": "ClusterIP",
        "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    });
    assert_eq!(found["spec"], want);
    assert_eq!(found["status"], json!({"loadBalancer": {}}));
    assert!(warnings(Kind::SERVICE, &found)[0].starts_with("services have no endpoints"));
    let headless = admitted(Kind::SERVICE, object(json!({"clusterIP": "None"}))).unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let error = changed(Kind::SERVICE, &found, |service| service["spec"]["clusterIP"] = json!("None")).unwrap_err();
    assert!(error.message.contains("spec.clusterIP: Invalid value: \"None\": field is immutable"), "{error}");
}

#[test]
fn a_bad_service_is_refused_with_the_fields_path() {
    let ports = |ports: Value| object(json!({"ports": ports}));
    let with = |field: &str, value: Value| object(json!({"ports": [{"port": 80}], field: value}));
    let mut unnamed = ports(json!([{"port": 80}]));
    unnamed["metadata"]["name"] = json!("1a");
    refused(
        Kind::SERVICE,
        &[
            (unnamed, "metadata.name: Invalid value: \"1a\": a DNS-1035 label must"),
            (object(json!({})), "spec.ports: Required value"),
            (with("type", json!("NodePort")), "spec.type: Forbidden: services of type NodePort are not in this build"),
            (with("type", json!("Other")), "spec.type: Unsupported value: \"Other\""),
            (with("clusterIP", json!("10.0.0.1")), "spec.clusterIP: Forbidden"),
            (with("externalIPs", json!(["10.0.0.1"])), "spec.externalIPs: Forbidden"),
            (with("selector", json!({"a b": ""})), "spec.selector: Invalid value: \"a b\""),
            (with("sessionAffinity", json!("Cookie")), "spec.sessionAffinity: Unsupported value: \"Cookie\""),
            (
                ports(json!([{"port": 0}])),
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ),
            (ports(json!([{"port": 1, "targetPort": 70000}])), "spec.ports[0].targetPort: Invalid value: 70000"),
            (ports(json!([{"port": 1, "targetPort": "a--b"}])), "spec.ports[0].targetPort: Invalid value: \"a--b\""),
            (ports(json!([{"port": 1, "protocol": "ICMP"}])), "spec.ports[0].protocol: Unsupported value: \"ICMP\""),
            (ports(json!([{"port": 1, "nodePort": 30000}])), "spec.ports[0].nodePort: Forbidden: may not be used when"),
            (ports(json!([{"port": 1, "name": "a"}, {"port": 2}])), "spec.ports[1].name: Required value"),
            (
                ports(json!([{"port": 1, "name": "a"}, {"port": 2, "name": "a"}])),
                "spec.ports[1].name: Duplicate value: \"a\"",
            ),
            (
                ports(json!([{"port": 1, "name": "a"}, {"port": 1, "name": "b"}])),
                "spec.ports[1]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}",
            ),
        ],
    );
}
