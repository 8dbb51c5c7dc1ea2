//! Pods: defaults, refusals, and what of a live one may change.

use serde_json::{Value, json};

use super::{admitted, changed, container, pod, refused};
use crate::kind::Kind;

#[test]
fn a_pod_gets_kubernetes_defaults_and_no_other_field() {
    let limits = json!({"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "500m"}});
    let env = json!([{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    let fields = json!({"resources": limits, "ports": [{"containerPort": 80}], "env": env});
    let found = admitted(Kind::POD, container(fields)).unwrap();
    let tolerations: Vec<Value> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .into_iter()
        .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}))
        .collect();
    let want = json!({
        "containers": [{
            "name": "c", "image": "samples/hello:1", "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "500m", "memory": "64Mi"}},
        }],
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler", "securityContext": {}, "enableServiceLinks": true, "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority", "tolerations": tolerations,
    });
    assert_eq!(found["spec"], want);
    assert_eq!(found["status"], json!({"phase": "Pending", "qosClass": "Burstable"}));
}

#[test]
fn a_pod_begins_with_the_condition_and_class_that_its_spec_means() {
    // SCH-03, PRI-09
    let gated = admitted(Kind::POD, pod(json!({"schedulingGates": [{"name": "example.com/g"}]}))).unwrap();
    assert_eq!(gated["status"]["conditions"][0]["reason"], "SchedulingGated");
    assert_eq!(gated["status"]["qosClass"], "BestEffort");
    let placed = admitted(Kind::POD, pod(json!({"nodeName": "n"}))).unwrap();
    assert_eq!(placed["status"]["conditions"][0]["status"], "True");
    let resources = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let guaranteed = admitted(Kind::POD, container(json!({"resources": resources}))).unwrap();
    assert_eq!(guaranteed["status"]["qosClass"], "Guaranteed");
    let critical = admitted(Kind::POD, pod(json!({"priorityClassName": "system-node-critical"}))).unwrap();
    assert_eq!(critical["spec"]["priority"], 2_000_001_000);
    for (spec, words) in [
        (json!({"priorityClassName": "high"}), "pods \"p\" is forbidden: no PriorityClass with name high was found"),
        (json!({"priority": 5}), "the integer value of priority (5) must not be provided"),
        (json!({"preemptionPolicy": "Never"}), "the string value of PreemptionPolicy (Never) must not be provided"),
    ] {
        let error = admitted(Kind::POD, pod(spec)).unwrap_err();
        assert_eq!((error.code, error.reason), (403, "Forbidden"));
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn a_bad_container_is_refused_with_the_fields_path() {
    // POD-05
    let ports = |first: Value, second: Value| container(json!({"ports": [first, second]}));
    refused(
        Kind::POD,
        &[
            (
                container(json!({"name": "Big"})),
                "spec.containers[0].name: Invalid value: \"Big\": a lowercase RFC 1123 label",
            ),
            (container(json!({"name": ""})), "spec.containers[0].name: Required value"),
            (container(json!({"image": ""})), "spec.containers[0].image: Required value"),
            (container(json!({"image": " a"})), "spec.containers[0].image: Invalid value: \" a\""),
            (container(json!({"imagePullPolicy": "Often"})), "spec.containers[0].imagePullPolicy: Unsupported value"),
            (pod(json!({"containers": []})), "spec.containers: Required value"),
            (
                pod(json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]})),
                "spec.containers[1].name: Duplicate value: \"c\"",
            ),
            (ports(json!({"containerPort": 0}), json!({"containerPort": 1})), "ports[0].containerPort: Required value"),
            (
                ports(json!({"containerPort": 1}), json!({"containerPort": 65536})),
                "ports[1].containerPort: Invalid value: 65536",
            ),
            (
                ports(json!({"containerPort": 1, "name": "a"}), json!({"containerPort": 2, "name": "a"})),
                "spec.containers[0].ports[1].name: Duplicate value: \"a\"",
            ),
            (
                ports(json!({"containerPort": 1, "hostPort": 9}), json!({"containerPort": 2, "hostPort": 9})),
                "spec.containers[0].ports[1].hostPort: Duplicate value",
            ),
        ],
    );
}

#[test]
fn a_bad_environment_and_bad_resources_are_refused_with_the_fields_path() {
    // POD-08
    let env = |variable: Value| container(json!({"env": [variable]}));
    let resources = |resources: Value| container(json!({"resources": resources}));
    refused(
        Kind::POD,
        &[
            (env(json!({"name": "A=B"})), "spec.containers[0].env[0].name: Invalid value: \"A=B\""),
            (
                env(json!({"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})),
                "env[0].valueFrom",
            ),
            (
                env(json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}})),
                "fieldRef.fieldPath: Invalid value",
            ),
            (
                env(json!({"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m"}}})),
                "configMapKeyRef.key: Required value",
            ),
            (
                env(json!({"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}})),
                "secretKeyRef.name: Required value",
            ),
            (container(json!({"envFrom": [{"prefix": "A"}]})), "spec.containers[0].envFrom[0]: Invalid value"),
            (
                resources(json!({"limits": {"cpu": "fast"}})),
                "resources.limits[cpu]: Invalid value: \"fast\": quantities must match",
            ),
            (
                resources(json!({"limits": {"cpu": "-1"}})),
                "limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ),
            (
                resources(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
                "resources.requests[cpu]: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ),
            (
                resources(json!({"requests": {"disk": "1"}})),
                "requests[disk]: Invalid value: \"disk\": must be a standard resource",
            ),
        ],
    );
}

#[test]
fn a_bad_pod_is_refused_with_the_fields_path() {
    let affinity = |expression: Value| {
        pod(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}))
    };
    refused(
        Kind::POD,
        &[
            (pod(json!({"restartPolicy": "Sometimes"})), "spec.restartPolicy: Unsupported value: \"Sometimes\""),
            (
                pod(json!({"terminationGracePeriodSeconds": -1})),
                "spec.terminationGracePeriodSeconds: Invalid value: -1",
            ),
            (pod(json!({"nodeSelector": {"a b": "c"}})), "spec.nodeSelector: Invalid value: \"a b\""),
            (pod(json!({"tolerations": [{"operator": "Equal"}]})), "spec.tolerations[0].operator: Invalid value"),
            (
                pod(json!({"tolerations": [{"key": "a", "operator": "Like"}]})),
                "spec.tolerations[0].operator: Unsupported value",
            ),
            (
                pod(json!({"tolerations": [{"key": "a", "effect": "No"}]})),
                "spec.tolerations[0].effect: Unsupported value",
            ),
            (
                pod(json!({"tolerations": [{"operator": "Exists", "value": "v"}]})),
                "spec.tolerations[0].value: Invalid value",
            ),
            (
                pod(json!({"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]})),
                "spec.tolerations[0].effect: Invalid value",
            ),
            (affinity(json!({"key": "a", "operator": "In"})), "matchExpressions[0].values: Required value"),
            (
                affinity(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
                "matchExpressions[0].values: Forbidden",
            ),
            (
                affinity(json!({"key": "a", "operator": "Gt", "values": ["x"]})),
                "matchExpressions[0].values[0]: Invalid value: \"x\"",
            ),
            (
                affinity(json!({"key": "a", "operator": "Near", "values": ["x"]})),
                "matchExpressions[0].operator: Invalid value",
            ),
            (
                pod(
                    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0,
                "preference": {}}]}}}),
                ),
                "preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0",
            ),
            (pod(json!({"schedulingGates": [{"name": "g"}], "nodeName": "n"})), "spec.nodeName: Forbidden"),
        ],
    );
    let mut named = pod(json!({}));
    named["metadata"]["name"] = json!("Not_a_name");
    refused(Kind::POD, &[(named, "metadata.name: Invalid value: \"Not_a_name\": a lowercase RFC 1123 subdomain")]);
}

#[test]
fn spread_constraints_are_checked() {
    // TSC-01
    let spread = |constraint: Value| pod(json!({"topologySpreadConstraints": [constraint]}));
    for (value, words) in [
        (
            spread(json!({"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"})),
            "[0].maxSkew: Invalid value: 0",
        ),
        (spread(json!({"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"})), "[0].topologyKey: Required value"),
        (spread(json!({"maxSkew": 1, "topologyKey": "z"})), "[0].whenUnsatisfiable: Unsupported value: \"\""),
        (
            spread(json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2})),
            "[0].minDomains: Invalid value: 2",
        ),
    ] {
        let error = admitted(Kind::POD, value).unwrap_err();
        assert!(error.message.contains(&format!("spec.topologySpreadConstraints{words}")), "{error}");
    }
}

#[test]
fn what_this_build_cannot_do_is_refused_with_its_path() {
    // POD-14
    let security = |context: Value| container(json!({"securityContext": context}));
    refused(
        Kind::POD,
        &[
            (security(json!({"privileged": true})), "spec.containers[0].securityContext.privileged: Forbidden"),
            (security(json!({"runAsUser": 1000})), "spec.containers[0].securityContext.runAsUser: Forbidden"),
            (security(json!({"capabilities": {"add": ["NET_ADMIN"]}})), "securityContext.capabilities.add: Forbidden"),
            (
                security(json!({"seccompProfile": {"type": "Unconfined"}})),
                "securityContext.seccompProfile.type: Forbidden",
            ),
            (pod(json!({"securityContext": {"fsGroup": 1}})), "spec.securityContext.fsGroup: Forbidden"),
            (
                pod(json!({"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]})),
                "spec.volumes[0].nfs: Forbidden",
            ),
            (pod(json!({"initContainers": [{"name": "i", "image": "i"}]})), "spec.initContainers[0]: Forbidden"),
            (pod(json!({"hostNetwork": true})), "spec.hostNetwork: Forbidden"),
            (
                container(json!({"livenessProbe": {"exec": {"command": ["a"]}}})),
                "spec.containers[0].livenessProbe: Forbidden",
            ),
            (
                container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}})),
                "spec.containers[0].lifecycle: Forbidden",
            ),
            (
                container(json!({"volumeDevices": [{"name": "v", "devicePath": "/v"}]})),
                "spec.containers[0].volumeDevices[0]: Forbidden",
            ),
            (container(json!({"tty": true})), "spec.containers[0].tty: Forbidden"),
            (pod(json!({"activeDeadlineSeconds": 10})), "spec.activeDeadlineSeconds: Forbidden"),
        ],
    );
    let harmless = json!({"privileged": false, "allowPrivilegeEscalation": false, "runAsNonRoot": true,
        "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
    let found = admitted(Kind::POD, security(harmless.clone())).unwrap();
    assert_eq!(found["spec"]["containers"][0]["securityContext"], harmless);
    assert!(admitted(Kind::POD, pod(json!({"hostNetwork": false, "volumes": [], "hostPID": false}))).is_ok());
}

#[test]
fn of_a_live_pod_only_the_documented_fields_change() {
    // POD-10
    let spec = json!({"schedulingGates": [{"name": "a"}, {"name": "b"}]});
    let old = admitted(Kind::POD, pod(spec)).unwrap();
    let allowed = changed(Kind::POD, &old, |pod| {
        pod["metadata"]["labels"] = json!({"x": "y"});
        pod["spec"]["containers"][0]["image"] = json!("samples/hello:2");
        pod["spec"]["schedulingGates"] = json!([{"name": "b"}]);
        pod["spec"]["tolerations"].as_array_mut().unwrap().push(json!({"key": "k", "operator": "Exists"}));
        pod["spec"].as_object_mut().unwrap().remove("priority");
    });
    assert_eq!(allowed.unwrap()["spec"]["priority"], 0);
    type Change = fn(&mut Value);
    let table: [(Change, &str); 6] = [
        (|pod| pod["spec"]["schedulingGates"][1]["name"] = json!("c"), "spec.schedulingGates[1]: Forbidden"),
        (|pod| pod["spec"]["tolerations"] = json!([]), ""),
        (|pod| pod["spec"]["tolerations"][0]["operator"] = json!("Equal"), "spec.tolerations: Forbidden"),
        (|pod| pod["spec"]["nodeName"] = json!("n"), "spec.nodeName differs"),
        (
            |pod| pod["spec"]["containers"][0]["args"] = json!(["x"]),
            "spec: Forbidden: pod updates may not change fields other",
        ),
        (|pod| pod["spec"]["containers"] = json!([]), "spec.containers: Forbidden"),
    ];
    for (change, words) in table {
        let result = changed(Kind::POD, &old, change);
        match words {
            // The two tolerations that every pod has come back by themselves.
            "" => assert!(result.is_ok()),
            _ => assert!(result.as_ref().is_err_and(|error| error.message.contains(words)), "{words}: {result:?}"),
        }
    }
}
