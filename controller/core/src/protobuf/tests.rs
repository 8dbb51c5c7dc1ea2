//! Bodies: what comes out of good ones, and that bad ones are refused.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Writes protobuf, for bodies that no `kubectl` at hand would send.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn raw(mut self, mut number: u64) -> Self {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
        self
    }

    fn number(self, field: u64, number: i64) -> Self {
        self.raw(field << 3).raw(number.cast_unsigned())
    }

    fn bytes(self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        let mut writer = self.raw(field << 3 | 2).raw(bytes.as_ref().len() as u64);
        writer.0.extend_from_slice(bytes.as_ref());
        writer
    }

    fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, message.0)
    }
}

fn w() -> Writer {
    Writer::default()
}

fn body(api_version: &str, kind: &str, object: Writer) -> Vec<u8> {
    let names = w().bytes(1, api_version).bytes(2, kind);
    let envelope = w().message(1, names).bytes(2, object.0).bytes(3, "").bytes(4, "");
    [MAGIC, &envelope.0].concat()
}

fn lifted(api_version: &str, kind: &str, object: Writer) -> Value {
    to_json(&body(api_version, kind, object)).expect("a good body")
}

fn entry(key: &str, value: impl AsRef<[u8]>) -> Writer {
    w().bytes(1, key).bytes(2, value)
}

/// As Kubernetes' clients write it: fields that are no pointers travel also when they are empty.
fn deployment() -> Writer {
    let metadata = w().bytes(1, "web").bytes(2, "").number(7, 0).message(8, w()).message(11, entry("app", "web"));
    let selector = w().message(1, entry("app", "web"));
    let limits = w().message(1, entry("cpu", w().bytes(1, "500m").0));
    let container = w().bytes(1, "c").bytes(2, "a:1").bytes(5, "").message(8, limits).number(16, 0).number(18, 0);
    let spec = w()
        .message(2, container)
        .bytes(3, "")
        .number(4, 0)
        .number(11, 0)
        .number(21, 0)
        .message(22, w().bytes(1, "k").number(5, 0));
    let template = w().message(1, w().message(8, w())).message(2, spec);
    let rolling =
        w().message(1, w().number(1, 1).number(2, 0).bytes(3, "25%")).message(2, w().number(1, 0).number(2, 0));
    let spec = w()
        .number(1, 0)
        .message(2, selector)
        .message(3, template)
        .message(4, w().bytes(1, "").message(2, rolling))
        .number(5, 0)
        .number(7, 0);
    w().message(1, metadata).message(2, spec).message(3, w().number(1, 0).number(2, 0))
}

// API-01
#[test]
fn what_nobody_has_set_is_left_out_and_a_pointer_to_zero_stays() {
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {}, "spec": {
                "containers": [{"name": "c", "image": "a:1", "resources": {"limits": {"cpu": "500m"}}}],
                "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
                "tolerations": [{"key": "k", "tolerationSeconds": 0}],
            }},
            "strategy": {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}},
        },
        "status": {},
    });
    assert_eq!(lifted("apps/v1", "Deployment", deployment()), expected);
}

// API-01
#[test]
fn special_types_are_written_as_kubernetes_writes_them() {
    let at = |seconds, nanos| w().number(1, seconds).number(2, nanos);
    let metadata = w()
        .message(8, at(1_795_232_430, 999_999_999))
        .message(
            13,
            w().bytes(1, "ReplicaSet").bytes(3, "a").bytes(4, "u").bytes(5, "apps/v1").number(6, 0).number(7, 1),
        )
        .message(17, w().bytes(1, "me").bytes(6, "FieldsV1").message(7, w().bytes(1, r#"{"f:data":{}}"#)));
    let metadata = lifted("v1", "ConfigMap", w().message(1, metadata).message(3, entry("b", [0, 255])));
    assert_eq!(
        metadata,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "binaryData": {"b": "AP8="},
            "metadata": {
                "creationTimestamp": "2026-11-21T03:40:30Z",
                "ownerReferences": [{
                    "kind": "ReplicaSet", "name": "a", "uid": "u", "apiVersion": "apps/v1", "controller": false,
                    "blockOwnerDeletion": true,
                }],
                "managedFields": [{"manager": "me", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}],
            },
        })
    );
    let lease = w().message(2, w().bytes(1, "me").number(2, 40).message(4, at(1_795_232_430, 123_456_789)));
    let lease = lifted("coordination.k8s.io/v1", "Lease", lease);
    assert_eq!(lease["spec"]["renewTime"], "2026-11-21T03:40:30.123456Z");
    let revision = w().message(2, w().bytes(1, r#"{"spec":{"a":[1]}}"#)).number(3, i64::MAX);
    let revision = lifted("apps/v1", "ControllerRevision", revision);
    assert_eq!(revision["data"], json!({"spec": {"a": [1]}}));
    assert_eq!(revision["revision"], i64::MAX);
    // Embedded structs: a volume's source, a key's object, a probe's handler.
    let volume = w().bytes(1, "v").message(2, w().message(19, w().message(1, w().bytes(1, "m")).number(4, 0)));
    let port = w().number(1, 0).number(2, 8080).bytes(3, "");
    let probe = w().message(1, w().message(2, w().bytes(1, "/ok").message(2, port))).number(2, 0).number(7, 0);
    let container = w().bytes(1, "c").message(10, probe);
    let ids = w().number(4, 7).bytes(4, w().raw(8).raw(9).0);
    let pod = lifted("v1", "Pod", w().message(2, w().message(1, volume).message(2, container).message(14, ids)));
    assert_eq!(
        pod["spec"],
        json!({
            "volumes": [{"name": "v", "configMap": {"name": "m", "optional": false}}],
            "containers": [{
                "name": "c",
                "livenessProbe": {"httpGet": {"path": "/ok", "port": 8080}, "terminationGracePeriodSeconds": 0},
            }],
            "securityContext": {"supplementalGroups": [7, 8, 9]},
        })
    );
    let extra = w().message(5, entry("k", w().bytes(1, "a").bytes(1, "b").0));
    let review = lifted("authorization.k8s.io/v1", "SubjectAccessReview", w().message(2, extra));
    assert_eq!(review["spec"]["extra"], json!({"k": ["a", "b"]}));
}

// API-02
#[test]
fn options_of_a_deletion_come_under_the_name_of_any_group() {
    let options = w().number(1, 0).message(2, w().bytes(1, "u")).bytes(4, "Foreground").bytes(5, "All");
    let options = lifted("apps/v1", "DeleteOptions", options);
    assert_eq!(
        options,
        json!({
            "apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "u"},
            "propagationPolicy": "Foreground", "dryRun": ["All"],
        })
    );
    let eviction = w().message(1, w().bytes(1, "web").bytes(3, "d")).message(2, w().number(1, 5));
    let eviction = lifted("policy/v1", "Eviction", eviction);
    assert_eq!(eviction["deleteOptions"], json!({"gracePeriodSeconds": 5}));
    let scale = lifted("autoscaling/v1", "Scale", w().message(2, w().number(1, 0)).message(3, w().number(1, 2)));
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(0), &json!(2)));
    let status = lifted("v1", "Status", w().bytes(2, "Failure").number(6, -1).message(5, w().bytes(1, "x")));
    assert_eq!((&status["code"], &status["details"]["name"]), (&json!(-1), &json!("x")));
}

#[test]
fn a_message_in_pieces_is_one_and_the_last_value_counts() {
    let pieces = w()
        .message(1, w().bytes(1, "first"))
        .message(1, w().bytes(1, "last").bytes(3, "ns"))
        .message(2, entry("k", "1"))
        .message(2, entry("k", "2"))
        .number(99, 1);
    let map = lifted("v1", "ConfigMap", pieces);
    assert_eq!(map["metadata"], json!({"name": "last", "namespace": "ns"}));
    assert_eq!(map["data"], json!({"k": "2"}));
}

#[test]
fn what_is_wrong_is_named() {
    let pod = |spec: Writer| body("v1", "Pod", w().message(2, spec));
    let encoded = [MAGIC, &w().bytes(3, "gzip").0].concat();
    let other = [MAGIC, &w().message(1, w().bytes(1, "v1").bytes(2, "Pod")).bytes(4, "application/cbor").0].concat();
    for (body, words) in [
        (Vec::new(), "want the prefix \"k8s\\0\", found []"),
        (b"{}".to_vec(), "want the prefix \"k8s\\0\", found [7b, 7d]"),
        (MAGIC.to_vec(), "no message is known for kind \"\" in apiVersion \"\"; send JSON or YAML"),
        (
            body("v1", "Deployment", w()),
            "no message is known for kind \"Deployment\" in apiVersion \"v1\"; send JSON or YAML",
        ),
        (encoded, "the envelope has the content encoding \"gzip\", which is not served"),
        (other, "the envelope has the content type \"application/cbor\", which is not served"),
        ([MAGIC, &[0x0a, 9]].concat(), "it ends in the middle of a field"),
        (pod(w().bytes(10, [0xff])), "spec.nodeName: the string is not UTF-8"),
        (pod(w().number(10, 1)), "spec.nodeName: want bytes, found a number"),
        (pod(w().bytes(4, "1")), "spec.terminationGracePeriodSeconds: want a number, found bytes"),
        (
            pod(w().raw(4 << 3 | 5).raw(1).raw(1).raw(1).raw(1)),
            "spec.terminationGracePeriodSeconds: want a number, found a number of fixed size",
        ),
        (pod(w().message(2, w().bytes(1, "c").raw(11))), "spec.containers: a field has the unknown wire type 3"),
        (pod(w().message(2, w().raw(0))), "spec.containers: a number is out of range"),
        (
            body("v1", "Pod", w().message(1, w().message(8, w().number(1, i64::MAX)))),
            "metadata.creationTimestamp: 9223372036854775807 seconds since 1970 are no time",
        ),
        (
            body("apps/v1", "ControllerRevision", w().message(2, w().bytes(1, "{"))),
            "data: the embedded JSON cannot be read: EOF while parsing an object at line 1 column 1",
        ),
    ] {
        assert_eq!(to_json(&body).expect_err("refused").to_string(), words);
    }
}

#[test]
fn a_body_of_nothing_but_items_is_refused() {
    let items = (0..=MAX_VALUES).fold(w(), |spec, _| spec.bytes(2, ""));
    let error = to_json(&body("v1", "Pod", w().message(2, items))).expect_err("refused");
    assert_eq!(error, FieldFault::TooMany.at("spec.containers"));
    let json = format!("[{}0]", "0,".repeat(2 * MAX_VALUES));
    let error =
        to_json(&body("apps/v1", "ControllerRevision", w().message(2, w().bytes(1, json)))).expect_err("refused");
    assert_eq!(error, FieldFault::TooMany.at("data"));
}

proptest! {
    // EDGE-03: hostile bytes are refused or read, and harm nobody.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _read = to_json(&[MAGIC, &bytes].concat());
        let _read = to_json(&body("v1", "Pod", Writer(bytes)));
    }

    #[test]
    fn a_body_with_a_few_other_bytes_is_survived(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut body = body("apps/v1", "Deployment", deployment());
        for (place, byte) in changes {
            let place = place.index(body.len());
            body[place] = byte;
        }
        let _read = to_json(&body);
        let cut = cut.index(body.len());
        let _read = to_json(&body[..cut]);
    }
}
