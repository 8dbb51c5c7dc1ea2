//! Lists of good and malformed manifests.

use super::*;
use serde_json::json;

fn values(text: &str) -> Vec<Value> {
    parse(text.as_bytes()).unwrap().into_iter().map(|document| document.value).collect()
}

#[test]
fn documents_of_one_stream_are_read_in_order_and_empty_ones_are_skipped() {
    let text = "# a comment\n---\na: 1\n---\n# nothing here\n---\nb: 2\n--- # the last\n{\"c\": 3}\n";
    let documents = parse(text.as_bytes()).unwrap();
    let found: Vec<_> = documents.iter().map(|document| (document.index, document.value.clone())).collect();
    assert_eq!(found, [(0, json!({"a": 1})), (2, json!({"b": 2})), (3, json!({"c": 3}))]);
    assert_eq!(parse(b"").unwrap(), []);
    assert_eq!(parse(b"\n# only words\n").unwrap(), []);
    assert_eq!(parse(b"---\n---\n").unwrap(), []);
}

#[test]
fn a_block_scalar_keeps_lines_that_look_like_markers_when_they_are_indented() {
    assert_eq!(values("data:\n  a: |\n    ---\n    x\n"), [json!({"data": {"a": "---\nx\n"}})]);
}

#[test]
fn json_is_read_as_json_and_lists_are_taken_apart() {
    let text = "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{\"kind\":\"Pod\"},\t{\"kind\":\"PodList\",\"items\":[{\"a\":\"\\ud83d\\ude00\"}]}]}";
    assert_eq!(values(text), [json!({"kind": "Pod"}), json!({"a": "😀"})]);
    assert_eq!(values("kind: List\nitems:\n"), Vec::<Value>::new());
    assert_eq!(values("kind: List\napiVersion: v1\nitems:\n- {a: 1}\n- {b: 2}\n"), [json!({"a": 1}), json!({"b": 2})]);
}

#[test]
fn scalars_have_kubectls_types() {
    let text = "octal: 0644\nyes_word: yes\ntext: \"0644\"\nfloat: 1.5\nnone: null\nempty:\nint: 12\nbig: 1e3\nversion: 1.2.3\n";
    let value = &values(text)[0];
    assert_eq!(value["octal"], json!(420));
    assert_eq!(value["text"], json!("0644"));
    assert_eq!(value["float"], json!(1.5));
    assert_eq!(value["none"], Value::Null);
    assert_eq!(value["empty"], Value::Null);
    assert_eq!(value["int"], json!(12));
    assert_eq!(value["version"], json!("1.2.3"));
    assert_eq!(value["yes_word"], json!(true));
}

#[test]
fn malformed_text_is_refused_with_its_place() {
    for (text, index, line, words) in [
        ("a: 1\n---\nb: [1, 2\nc: 3\n", 1, 4, ""),
        ("a: 1\n\tb: 2\n", 0, 1, "tab"),
        ("a: 1\nb: 2\na: 3\n", 0, 3, "uplicate"),
        ("{\"a\": 1,\n \"a\": 2}", 0, 2, "uplicate"),
        ("just words\n", 0, 1, "the document is a string"),
        ("- a\n- b\n", 0, 1, "the document is an array"),
        ("a: 1\n---\n42\n", 1, 2, "the document is a number"),
        ("kind: List\nitems: 3\n", 0, 1, "items is a number"),
        ("a: &x [1]\nb: *y\n", 0, 2, ""),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert_eq!((error.index, error.line), (index, line), "{text:?}: {error}");
        assert!(error.message.contains(words), "{text:?}: {error}");
        assert!(!error.message.is_empty());
    }
}

#[test]
fn an_alias_bomb_a_deep_nest_and_a_text_that_is_too_long_are_refused() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(",")));
    }
    assert!(parse(bomb.as_bytes()).is_err());
    assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    assert!(parse(format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000)).as_bytes()).is_err());
    assert!(parse(&vec![b' '; MAX_MANIFEST_BYTES + 1]).unwrap_err().message.contains("bytes"));
    assert!(parse(b"a: \xff\n").unwrap_err().message.contains("UTF-8"));
}

#[test]
fn a_manifest_names_its_kind_namespace_and_name() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    assert_eq!(identify(&pod), Ok((Kind::POD, "default".into(), "p".into())));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "x"}});
    assert_eq!(identify(&node), Ok((Kind::NODE, String::new(), "n".into())));
    for (value, words) in [
        (json!({"kind": "Pod"}), "apiVersion: Required value"),
        (json!({"apiVersion": "v1"}), "kind: Required value"),
        (json!({"apiVersion": "v2", "kind": "Pod"}), "no matches for kind \"Pod\" in version \"v2\""),
        (json!({"apiVersion": "v1", "kind": "Pod"}), "metadata.name: Required value"),
    ] {
        let error = identify(&value).unwrap_err();
        assert!(error.message.contains(words), "{error}");
    }
}
