use serde_json::{Value, json};

use super::*;

fn smp(kind: Kind, mut target: Value, patch: &Value) -> Result<Value, ApiError> {
    apply(kind, PatchType::StrategicMerge, &mut target, patch)?;
    Ok(target)
}

/// A pod whose spec is this.
fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": spec})
}

/// Patches a pod's spec and gives back the spec.
fn spec(before: Value, patch: Value) -> Value {
    let shown = patch.to_string();
    smp(Kind::POD, pod(before), &json!({"spec": patch})).unwrap_or_else(|error| panic!("{shown}: {error}"))["spec"]
        .clone()
}

#[test]
fn a_budgets_selector_is_replaced_whole_and_a_services_ports_are_merged() {
    let budget = |selector: Value| json!({"spec": {"minAvailable": 1, "selector": selector}});
    let (before, after) = (json!({"matchLabels": {"a": "1"}}), json!({"matchLabels": {"b": "2"}}));
    let mut sent = after.clone();
    sent["$patch"] = json!("replace");
    for change in [after.clone(), sent] {
        let patch = json!({"spec": {"selector": change}});
        let patched = smp(Kind::POD_DISRUPTION_BUDGET, budget(before.clone()), &patch);
        assert_eq!(patched, Ok(budget(after.clone())));
    }
    let (one, two) = (budget(before), budget(after));
    let patch = three_way(Kind::POD_DISRUPTION_BUDGET, &one, &two, &one);
    assert_eq!(smp(Kind::POD_DISRUPTION_BUDGET, one, &patch), Ok(two));
    let service = json!({"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 81, "name": "other"}]}});
    let patch = json!({"spec": {"ports": [{"port": 81, "name": "metrics"}]}});
    let expected = json!({"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 81, "name": "metrics"}]}});
    assert_eq!(smp(Kind::SERVICE, service, &patch), Ok(expected));
}

#[test]
fn lists_with_a_key_are_merged_and_others_replaced() {
    let containers = json!([{"name": "a", "image": "x:1", "args": ["1", "2"]}, {"name": "b", "image": "y:1"}]);
    for (name, before, patch, expected) in [
        (
            "one container by its name",
            json!({"containers": containers}),
            json!({"containers": [{"name": "a", "image": "x:2"}]}),
            json!({"containers": [{"name": "a", "image": "x:2", "args": ["1", "2"]}, {"name": "b", "image": "y:1"}]}),
        ),
        (
            "a new container goes to the end",
            json!({"containers": containers}),
            json!({"containers": [{"name": "c", "image": "z"}]}),
            json!({"containers": [
                {"name": "a", "image": "x:1", "args": ["1", "2"]}, {"name": "b", "image": "y:1"}, {"name": "c", "image": "z"},
            ]}),
        ),
        (
            "an atomic list is replaced",
            json!({"containers": [{"name": "a", "args": ["1", "2"]}], "tolerations": [{"key": "x"}]}),
            json!({"containers": [{"name": "a", "args": ["3"]}], "tolerations": [{"key": "y"}]}),
            json!({"containers": [{"name": "a", "args": ["3"]}], "tolerations": [{"key": "y"}]}),
        ),
        (
            "lists below a merged item are merged too",
            json!({"containers": [{"name": "a", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "B", "value": "2"}], "ports": [{"containerPort": 80, "name": "web"}]}]}),
            json!({"containers": [{
                "name": "a",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "name": "web"}],
            }]}),
        ),
        (
            "of two ports with one number the protocol decides",
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP", "name": "dns"}]}]}),
            json!({"containers": [{"name": "a", "ports": [
                {"containerPort": 53}, {"containerPort": 53, "protocol": "UDP", "name": "dns"},
            ]}]}),
        ),
        (
            "null takes a field out, and leaves none where there was none",
            json!({"nodeName": "n", "hostNetwork": true}),
            json!({"nodeName": null, "affinity": null, "securityContext": {"runAsUser": 1, "runAsGroup": null}}),
            json!({"hostNetwork": true, "securityContext": {"runAsUser": 1}}),
        ),
        (
            "an object replaces what is none",
            json!({"nodeSelector": null}),
            json!({"nodeSelector": {"a": "b"}}),
            json!({"nodeSelector": {"a": "b"}}),
        ),
    ] {
        assert_eq!(spec(before, patch), expected, "{name}");
    }
}

#[test]
fn directives_delete_and_replace() {
    let env = json!({"containers": [{"name": "a", "env": [{"name": "A"}, {"name": "B"}]}, {"name": "b"}]});
    for (name, before, patch, expected) in [
        (
            "an item is deleted by its key",
            env.clone(),
            json!({"containers": [{"name": "a", "env": [{"name": "A", "$patch": "delete"}]}, {"name": "x", "$patch": "delete"}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "B"}]}, {"name": "b"}]}),
        ),
        (
            "a list is replaced",
            env.clone(),
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}]}),
        ),
        (
            "an object is replaced",
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
            json!({"nodeSelector": {"$patch": "replace", "c": "3"}}),
            json!({"nodeSelector": {"c": "3"}}),
        ),
        (
            "an object is emptied",
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "delete"}, "affinity": {"$patch": "delete"}}),
            json!({"nodeSelector": {}}),
        ),
        (
            "merge is what happens anyway",
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "merge", "b": "2"}}),
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
        ),
        (
            "only the kept keys of a volume stay",
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}),
            json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
        ),
        (
            "directives do not stay in what is new",
            json!({}),
            json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [
                {"name": "a", "$setElementOrder/env": [{"name": "A"}], "env": [{"name": "A", "value": null}]},
            ]}),
            json!({"containers": [{"name": "a", "env": [{"name": "A"}]}]}),
        ),
    ] {
        assert_eq!(spec(before, patch), expected, "{name}");
    }
}

#[test]
fn element_order_is_kept_with_what_others_added() {
    for (name, before, order, changes, expected) in [
        ("named ones in their order", vec!["a", "b", "c"], vec!["c", "a", "b"], vec![], vec!["c", "a", "b"]),
        ("others stay before what they stood before", vec!["x", "a", "b"], vec!["b", "a"], vec![], vec!["x", "b", "a"]),
        ("others after all stay there", vec!["a", "b", "x"], vec!["b", "a"], vec![], vec!["b", "a", "x"]),
        ("new ones at their place", vec!["a", "x", "c"], vec!["a", "b", "c"], vec!["b"], vec!["a", "b", "x", "c"]),
    ] {
        let list = |names: &[&str]| Value::from(names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>());
        let mut patch = json!({"$setElementOrder/containers": list(&order)});
        if !changes.is_empty() {
            patch["containers"] = list(&changes);
        }
        assert_eq!(spec(json!({"containers": list(&before)}), patch), json!({"containers": list(&expected)}), "{name}");
    }
}

#[test]
fn sets_of_scalars_grow_and_shrink() {
    let target = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {
        "$setElementOrder/finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c", "b"],
    }});
    let patched = smp(Kind::CONFIG_MAP, target, &patch).expect("patched");
    assert_eq!(patched["metadata"]["finalizers"], json!(["c", "b"]));
}

#[test]
fn taints_are_replaced_and_conditions_merged() {
    let node = json!({
        "spec": {"taints": [{"key": "a"}, {"key": "b"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "Hostname", "address": "x"}]},
    });
    let patch = json!({
        "spec": {"taints": [{"key": "b"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}]},
    });
    let patched = smp(Kind::NODE, node, &patch).expect("patched");
    assert_eq!(patched["spec"]["taints"], json!([{"key": "b"}]));
    let conditions = json!([{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}]);
    assert_eq!(patched["status"]["conditions"], conditions);
    assert_eq!(patched["status"]["addresses"], json!([{"type": "Hostname", "address": "x"}]));
}

#[test]
fn malformed_patches_are_refused() {
    for patch in [
        json!([]),
        json!({"spec": {"$patch": "explode"}}),
        json!({"spec": {"containers": [{"image": "x"}]}}),
        json!({"spec": {"containers": ["a"]}}),
        json!({"spec": {"$setElementOrder/containers": "a"}}),
        json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "emptyDir": {}}]}}),
    ] {
        assert_eq!(smp(Kind::POD, pod(json!({})), &patch).map_err(|error| error.code), Err(400), "{patch}");
    }
}

#[test]
fn json_patches_are_bounded() {
    let patched = |patch: Value| {
        let mut target = json!({"metadata": {"name": "web", "labels": {"a": "1"}}});
        apply(Kind::POD, PatchType::Json, &mut target, &patch).map(|()| target).map_err(|error| error.code)
    };
    let done = patched(json!([
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "add", "path": "/metadata/labels/b~1c", "value": "2"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]));
    assert_eq!(done, Ok(json!({"metadata": {"name": "web", "labels": {"b/c": "2"}}})));
    assert_eq!(patched(json!([{"op": "test", "path": "/metadata/name", "value": "x"}])), Err(422));
    assert_eq!(patched(json!([{"op": "remove", "path": "/spec"}])), Err(422));
    assert_eq!(patched(json!([{"op": "jump", "path": "/spec"}])), Err(400));
    assert_eq!(patched(json!({"op": "remove"})), Err(400));
    assert_eq!(patched(json!([{"op": "replace", "path": "", "value": 1}])), Err(400));
    let doubling: Vec<Value> =
        (0..60).map(|index| json!({"op": "copy", "from": "", "path": format!("/c{index}")})).collect();
    assert_eq!(patched(Value::Array(doubling)), Err(400));
    let deep: Vec<Value> = (1..90).map(|index| json!({"op": "add", "path": "/a".repeat(index), "value": {}})).collect();
    assert!(patched(Value::Array(deep)).is_ok());
    let too_deep: Vec<Value> =
        (1..120).map(|index| json!({"op": "add", "path": "/a".repeat(index), "value": {}})).collect();
    assert_eq!(patched(Value::Array(too_deep)), Err(400));
}

#[test]
fn merge_patches_replace_lists_whole() {
    let mut target = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n"}});
    let patch = json!({"spec": {"containers": [{"name": "c"}], "nodeName": null}});
    apply(Kind::POD, PatchType::Merge, &mut target, &patch).expect("patched");
    assert_eq!(target, json!({"spec": {"containers": [{"name": "c"}]}}));
}

#[test]
fn three_ways_change_what_the_manifest_says_and_leave_what_others_set() {
    let deployment = |replicas: Value, containers: Value| {
        let mut spec = json!({"template": {"spec": {"containers": containers}}});
        if !replicas.is_null() {
            spec["replicas"] = replicas;
        }
        json!({"metadata": {"name": "web"}, "spec": spec})
    };
    let original = deployment(json!(3), json!([{"name": "a", "image": "x:1", "env": [{"name": "A"}]}, {"name": "b"}]));
    let modified = deployment(Value::Null, json!([{"name": "a", "image": "x:2"}, {"name": "c"}]));
    let mut current = original.clone();
    current["spec"]["template"]["spec"]["containers"] = json!([
        {"name": "side"},
        {"name": "a", "image": "x:1", "imagePullPolicy": "Always", "env": [{"name": "A"}, {"name": "INJECTED"}]},
        {"name": "b"},
    ]);
    current["status"] = json!({"replicas": 3});
    let patch = three_way(Kind::DEPLOYMENT, &original, &modified, &current);
    let expected = json!({"spec": {
        "replicas": null,
        "template": {"spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}],
            "containers": [
                {"name": "a", "image": "x:2", "env": null}, {"name": "c"}, {"$patch": "delete", "name": "b"},
            ],
        }},
    }});
    assert_eq!(patch, expected);
    let patched = smp(Kind::DEPLOYMENT, current, &patch).expect("patched");
    let containers = json!([
        {"name": "side"}, {"name": "a", "image": "x:2", "imagePullPolicy": "Always"}, {"name": "c"},
    ]);
    assert_eq!(patched["spec"]["template"]["spec"]["containers"], containers);
    assert_eq!(patched["spec"]["replicas"], Value::Null);
    assert_eq!(three_way(Kind::DEPLOYMENT, &modified, &modified, &patched), json!({}));
}

#[test]
fn three_ways_choose_one_volume_source_and_keep_foreign_finalizers() {
    let with = |volume: Value, finalizers: Value| json!({"metadata": {"finalizers": finalizers}, "spec": {"volumes": [volume]}});
    let original = with(json!({"name": "v", "emptyDir": {}}), json!(["ours/a"]));
    let modified = with(json!({"name": "v", "configMap": {"name": "c"}}), json!(["ours/b"]));
    let current = with(json!({"name": "v", "emptyDir": {}}), json!(["ours/a", "theirs/x"]));
    let patch = three_way(Kind::POD, &original, &modified, &current);
    let patched = smp(Kind::POD, current, &patch).expect("patched");
    assert_eq!(patched["spec"]["volumes"], json!([{"name": "v", "configMap": {"name": "c"}}]));
    let mut finalizers: Vec<&str> =
        patched["metadata"]["finalizers"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    finalizers.sort_unstable();
    assert_eq!(finalizers, ["ours/b", "theirs/x"]);
}
