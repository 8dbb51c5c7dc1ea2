use serde_json::{Value, json};

use super::*;
use crate::clock;

const NOW: &str = "2026-11-21T03:40:30Z";

fn now_ms() -> u64 {
    clock::parse_stamp(NOW).expect("a stamp")
}

fn object(kind: Kind, mut value: Value) -> Object {
    for (field, text) in [
        ("name", "web"),
        ("uid", "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11"),
        ("creationTimestamp", "2026-11-21T03:35:30Z"),
    ] {
        value["metadata"][field] = json!(text);
    }
    Object::from_value(kind, 7, value).expect("an object")
}

fn shown(kind: Kind, value: Value) -> Vec<String> {
    let cells = cells(&object(kind, value), now_ms());
    assert_eq!(cells.len(), columns(kind).len());
    cells.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)).collect()
}

#[test]
fn durations_are_short() {
    for (seconds, expected) in [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ] {
        assert_eq!(human_duration(seconds), expected, "{seconds}");
    }
}

fn waiting(reason: &str) -> Value {
    json!({"name": "a", "state": {"waiting": {"reason": reason}}, "restartCount": 0})
}

fn terminated(reason: &str, exit_code: i32) -> Value {
    json!({"name": "a", "state": {"terminated": {"reason": reason, "exitCode": exit_code}}, "restartCount": 0})
}

fn running(ready: bool) -> Value {
    json!({"name": "b", "state": {"running": {}}, "ready": ready, "restartCount": 0})
}

// API-04
#[test]
fn a_pods_status_is_found_among_its_containers() {
    let init = |status: Value| json!({"phase": "Pending", "initContainerStatuses": [status]});
    for (status, ready, word) in [
        (json!({"phase": "Pending"}), "0/2", "Pending"),
        (json!({"phase": "Failed", "reason": "Evicted"}), "0/2", "Evicted"),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            "0/2",
            "SchedulingGated",
        ),
        (json!({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}), "0/2", "ContainerCreating"),
        (json!({"phase": "Running", "containerStatuses": [running(true), running(true)]}), "2/2", "Running"),
        (json!({"phase": "Running", "containerStatuses": [running(false)]}), "0/2", "Running"),
        (
            json!({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff"), running(true)]}),
            "1/2",
            "CrashLoopBackOff",
        ),
        (json!({"phase": "Succeeded", "containerStatuses": [terminated("Completed", 0)]}), "0/2", "Completed"),
        (json!({"phase": "Failed", "containerStatuses": [terminated("Error", 3)]}), "0/2", "Error"),
        (json!({"phase": "Failed", "containerStatuses": [terminated("", 3)]}), "0/2", "ExitCode:3"),
        (
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}),
            "0/2",
            "Signal:9",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [terminated("Completed", 0), running(true)]}),
            "1/2",
            "NotReady",
        ),
        (
            json!({
                "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [terminated("Completed", 0), running(true)],
            }),
            "1/2",
            "Running",
        ),
        (init(running(false)), "0/2", "Init:0/2"),
        (init(waiting("PodInitializing")), "0/2", "Init:0/2"),
        (init(waiting("ImagePullBackOff")), "0/2", "Init:ImagePullBackOff"),
        (init(terminated("Error", 1)), "0/2", "Init:Error"),
        (init(terminated("", 1)), "0/2", "Init:ExitCode:1"),
        (
            json!({"phase": "Pending", "initContainerStatuses": [terminated("Completed", 0), running(false)]}),
            "0/2",
            "Init:1/2",
        ),
    ] {
        let pod = json!({
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "x"}, {"name": "y"}]},
            "status": status,
        });
        let cells = shown(Kind::POD, pod);
        assert_eq!((cells[1].as_str(), cells[2].as_str()), (ready, word), "{cells:?}");
    }
}

#[test]
fn a_pod_on_its_way_out_is_terminating() {
    for (status, word) in [
        (json!({"phase": "Running"}), "Terminating"),
        (json!({"phase": "Running", "reason": "NodeLost"}), "Unknown"),
        (json!({"phase": "Succeeded"}), "Succeeded"),
    ] {
        let pod = json!({"metadata": {"deletionTimestamp": NOW}, "status": status});
        assert_eq!(shown(Kind::POD, pod)[2], word);
    }
}

// API-04
#[test]
fn a_pods_other_columns() {
    let pod = json!({
        "spec": {
            "nodeName": "edge-1", "containers": [{"name": "a"}], "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}],
            "initContainers": [{"name": "log", "restartPolicy": "Always"}, {"name": "once"}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "g", "status": "True"}],
            "initContainerStatuses": [
                {"name": "log", "started": true, "ready": true, "restartCount": 2, "state": {"running": {}}},
                {"name": "once", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}},
            ],
            "containerStatuses": [{
                "name": "a", "ready": true, "restartCount": 3, "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2026-11-21T03:38:30Z"}},
            }],
        },
    });
    let expected = ["web", "2/2", "Running", "5 (2m ago)", "5m", "10.0.0.7", "edge-1", "<none>", "1/2"];
    assert_eq!(shown(Kind::POD, pod), expected);
}

// API-04
#[test]
fn nodes_say_whether_they_take_pods() {
    let ready = json!({
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "192.168.1.7"}],
            "nodeInfo": {
                "kubeletVersion": "v1.36.0", "osImage": "Debian", "kernelVersion": "6.1",
                "containerRuntimeVersion": "wasmtime://48",
            },
        },
    });
    let expected = [
        "web",
        "Ready,SchedulingDisabled",
        "edge,worker",
        "5m",
        "v1.36.0",
        "192.168.1.7",
        "<none>",
        "Debian",
        "6.1",
        "wasmtime://48",
    ];
    assert_eq!(shown(Kind::NODE, ready), expected);
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(shown(Kind::NODE, lost)[1..3], ["NotReady", "<none>"]);
    assert_eq!(shown(Kind::NODE, json!({}))[1], "Unknown");
}

// API-04
#[test]
fn workloads_count_their_pods() {
    let template = json!({"spec": {"nodeSelector": {"a": "b"}, "containers": [
        {"name": "x", "image": "i:1"}, {"name": "y", "image": "j:1"},
    ]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let status = json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2});
    let deployment = json!({"spec": spec, "status": status});
    assert_eq!(
        shown(Kind::DEPLOYMENT, deployment.clone()),
        ["web", "2/3", "1", "2", "5m", "x,y", "i:1,j:1", "app=web"]
    );
    assert_eq!(shown(Kind::REPLICA_SET, deployment), ["web", "3", "3", "2", "5m", "x,y", "i:1,j:1", "app=web"]);
    let status = json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3});
    let expected = ["web", "5", "4", "3", "0", "0", "a=b", "5m", "x,y", "i:1,j:1", "app=web"];
    assert_eq!(shown(Kind::DAEMON_SET, json!({"spec": spec, "status": status})), expected);
}

// API-04
#[test]
fn the_other_kinds() {
    let event = json!({
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"}, "type": "Warning",
        "reason": "BackOff", "message": " again \n", "count": 4, "source": {"component": "kubelet", "host": "edge-1"},
        "firstTimestamp": "2026-11-21T03:30:30Z", "lastTimestamp": "2026-11-21T03:40:00Z",
    });
    let expected =
        ["30s", "Warning", "BackOff", "pod/p", "spec.containers{a}", "kubelet, edge-1", "again", "10m", "4", "web"];
    assert_eq!(shown(Kind::EVENT, event), expected);
    assert_eq!(
        shown(Kind::CONFIG_MAP, json!({"data": {"a": "1"}, "binaryData": {"b": "", "c": ""}})),
        ["web", "3", "5m"]
    );
    assert_eq!(shown(Kind::SECRET, json!({"type": "Opaque", "data": {"a": "MQ=="}})), ["web", "Opaque", "1", "5m"]);
    assert_eq!(shown(Kind::NAMESPACE, json!({"status": {"phase": "Active"}})), ["web", "Active", "5m"]);
    assert_eq!(shown(Kind::LEASE, json!({"spec": {"holderIdentity": "edge-1"}})), ["web", "edge-1", "5m"]);
}

// API-04
#[test]
fn what_the_scheduler_reads() {
    let class = json!({"value": -7, "globalDefault": true, "preemptionPolicy": "Never"});
    assert_eq!(shown(Kind::PRIORITY_CLASS, class), ["web", "-7", "true", "5m", "Never"]);
    let budget = json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}});
    assert_eq!(shown(Kind::POD_DISRUPTION_BUDGET, budget), ["web", "50%", "N/A", "2", "5m"]);
    let budget = json!({"spec": {"maxUnavailable": 0}});
    assert_eq!(shown(Kind::POD_DISRUPTION_BUDGET, budget), ["web", "N/A", "0", "0", "5m"]);
    let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    let service = json!({"spec": {"type": "ClusterIP", "ports": ports, "selector": {"app": "web"}}});
    let expected = ["web", "ClusterIP", "<none>", "<none>", "80/TCP,53:30053/UDP", "5m", "app=web"];
    assert_eq!(shown(Kind::SERVICE, service), expected);
    let headless = json!({"spec": {"type": "ClusterIP", "clusterIP": "None"}});
    assert_eq!(shown(Kind::SERVICE, headless), ["web", "ClusterIP", "None", "<none>", "<none>", "5m", "<none>"]);
}

// API-04
#[test]
fn volumes_claims_and_their_classes() {
    let spec = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany", "ReadWriteOnce"], "storageClassName": "disk",
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "d", "name": "c"}, "volumeMode": "Filesystem",
    });
    let volume = json!({"spec": spec, "status": {"phase": "Bound"}});
    let expected = ["web", "1Gi", "RWO,ROX", "Retain", "Bound", "d/c", "disk", "<unset>", "", "5m", "Filesystem"];
    assert_eq!(shown(Kind::PERSISTENT_VOLUME, volume), expected);
    let waits =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk"}, "status": {"phase": "Pending"}});
    let expected = ["web", "Pending", "", "", "", "disk", "<unset>", "5m", "<unset>"];
    assert_eq!(shown(Kind::PERSISTENT_VOLUME_CLAIM, waits), expected);
    let bound = json!({
        "metadata": {"deletionTimestamp": NOW}, "spec": {"volumeName": "v", "storageClassName": "disk"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"]},
    });
    let expected = ["web", "Terminating", "v", "1Gi", "RWOP", "disk", "<unset>", "5m", "<unset>"];
    assert_eq!(shown(Kind::PERSISTENT_VOLUME_CLAIM, bound), expected);
    let class = json!({
        "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    let expected = ["web (default)", "p", "Delete", "WaitForFirstConsumer", "false", "5m"];
    assert_eq!(shown(Kind::STORAGE_CLASS, class), expected);
}

#[test]
fn odd_objects_print_without_a_panic() {
    for kind in Kind::all() {
        for value in [json!({}), json!({"spec": 1, "status": []}), json!({"status": {"containerStatuses": [1, null]}})]
        {
            shown(kind, value);
        }
    }
}

#[test]
fn a_table_carries_what_is_asked_for_beside_the_cells() {
    let map = object(Kind::CONFIG_MAP, json!({"data": {"a": "1"}}));
    let made = |version: Version, include: Include, definitions: bool| {
        let form = Form { version, include };
        table(Kind::CONFIG_MAP, [&map], json!({"resourceVersion": "9"}), now_ms(), form, definitions)
    };
    let shown = made(Version::V1, Include::Metadata, true);
    assert_eq!(shown["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(shown["metadata"], json!({"resourceVersion": "9"}));
    assert_eq!(shown["columnDefinitions"][0]["format"], "name");
    assert_eq!(shown["rows"][0]["cells"], json!(["web", 1, "5m"]));
    assert_eq!(shown["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(shown["rows"][0]["object"]["metadata"]["name"], "web");
    assert_eq!(made(Version::V1, Include::None, true)["rows"][0].get("object"), None);
    let whole = made(Version::V1Beta1, Include::Object, false);
    assert_eq!(whole["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(whole["rows"][0]["object"]["data"], json!({"a": "1"}));
    assert_eq!(whole["columnDefinitions"], json!([]));
}
