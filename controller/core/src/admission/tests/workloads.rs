//! `ReplicaSet`, Deployment and `DaemonSet`.

use serde_json::{Value, json};

use super::{admitted, changed, refused, workload};
use crate::kind::Kind;

#[test]
fn workloads_get_their_defaults() {
    // DEP-01
    let deployment = admitted(Kind::DEPLOYMENT, workload(json!({}))).unwrap();
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    assert_eq!(spec["strategy"], strategy);
    assert_eq!(spec["template"]["spec"]["terminationGracePeriodSeconds"], 30);
    // What belongs to pods alone stays out of templates.
    for field in ["tolerations", "priority", "enableServiceLinks"] {
        assert_eq!(spec["template"]["spec"][field], Value::Null);
    }
    let set = admitted(Kind::DAEMON_SET, workload(json!({}))).unwrap();
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    assert_eq!(set["spec"]["updateStrategy"], strategy);
    assert_eq!(admitted(Kind::REPLICA_SET, workload(json!({}))).unwrap()["spec"]["replicas"], 1);
}

#[test]
fn a_bad_workload_is_refused_with_the_fields_path() {
    // RS-04, DEP-10
    let never = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}});
    let unnamed = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}});
    let contradiction =
        json!({"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]});
    for kind in [Kind::REPLICA_SET, Kind::DEPLOYMENT, Kind::DAEMON_SET] {
        refused(
            kind,
            &[
                (workload(json!({"selector": null})), "spec.selector: Required value"),
                (workload(json!({"selector": {}})), "empty selector is invalid for"),
                (
                    workload(json!({"selector": {"matchLabels": {"app": "b"}}})),
                    "spec.template.metadata.labels: Invalid value",
                ),
                (workload(json!({"selector": contradiction})), "`selector` does not match template `labels`"),
                (
                    workload(
                        json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Is", "values": ["a"]}]}}),
                    ),
                    "spec.selector.matchExpressions[0].operator: Invalid value: \"Is\"",
                ),
                (
                    workload(json!({"template": never})),
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\"",
                ),
                (workload(json!({"template": unnamed})), "spec.template.spec.containers[0].image: Required value"),
                (workload(json!({"minReadySeconds": -1})), "spec.minReadySeconds: Invalid value: -1"),
            ],
        );
        let old = admitted(kind, workload(json!({}))).unwrap();
        let moved = changed(kind, &old, |new| {
            new["spec"]["selector"]["matchLabels"] = json!({"app": "b"});
            new["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
        });
        assert!(
            moved
                .unwrap_err()
                .message
                .contains("spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable")
        );
    }
}

#[test]
fn a_bad_update_strategy_is_refused_with_the_fields_path() {
    // DEP-02, DEP-08, DS-02
    let rolling = |surge: Value, unavailable: Value| {
        workload(json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}))
    };
    refused(
        Kind::DEPLOYMENT,
        &[
            (workload(json!({"replicas": -1})), "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
            (
                workload(json!({"progressDeadlineSeconds": 10, "minReadySeconds": 10})),
                "spec.progressDeadlineSeconds: Invalid value: 10",
            ),
            (workload(json!({"strategy": {"type": "Slow"}})), "spec.strategy.type: Unsupported value: \"Slow\""),
            (
                workload(json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}})),
                "spec.strategy.rollingUpdate: Forbidden",
            ),
            (
                rolling(json!(0), json!("0%")),
                "maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
            ),
            (
                rolling(json!("many"), json!(1)),
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"many\": a valid percent string",
            ),
            (
                rolling(json!(1), json!("101%")),
                "maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ),
            (rolling(json!(-1), json!(1)), "maxSurge: Invalid value: -1"),
        ],
    );
    let daemon = |surge: Value, unavailable: Value| {
        workload(json!({"updateStrategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}))
    };
    refused(
        Kind::DAEMON_SET,
        &[
            (daemon(json!(0), json!(0)), "maxUnavailable: Required value: cannot be 0 when maxSurge is 0"),
            (daemon(json!(1), json!(1)), "maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"),
        ],
    );
}
