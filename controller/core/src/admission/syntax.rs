//! How names, labels and keys are spelled. Every rule gives the sentences in which Kubernetes refuses; none when the
//! text is right.

use serde_json::Value;

use super::at::{At, Causes, entries};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
    and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
    or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// A rule of spelling.
pub(super) type Rule = fn(&str) -> Vec<String>;

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// Letters, digits and `others`, with a letter or digit at both ends; capitals only if `capitals`.
fn spelled(text: &str, capitals: bool, others: &[u8]) -> bool {
    let alphanumeric =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || (capitals && byte.is_ascii_uppercase());
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| alphanumeric(*byte));
    let bytes = text.as_bytes();
    ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(|byte| alphanumeric(*byte) || others.contains(byte))
}

/// A DNS label (RFC 1123).
pub(super) fn label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !spelled(text, false, b"-") {
        wrong.push(LABEL.to_owned());
    }
    wrong
}

/// A DNS label (RFC 1035): one that begins with a letter; what services' names are.
pub(super) fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !spelled(text, false, b"-") || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        wrong.push(LABEL_1035.to_owned());
    }
    wrong
}

/// A DNS subdomain (RFC 1123): what most objects' names are (POD-05).
pub(super) fn subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if !text.split('.').all(|part| spelled(part, false, b"-")) {
        wrong.push(SUBDOMAIN.to_owned());
    }
    wrong
}

/// A qualified name: the key of a label, an annotation, a taint or a resource.
pub(super) fn qualified_name(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        Some(_) => {
            return vec![format!(
                "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut wrong = Vec::new();
    match prefix {
        Some("") => wrong.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => wrong.extend(subdomain(prefix).into_iter().map(|detail| format!("prefix part {detail}"))),
        None => {}
    }
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_long(63)));
    }
    if !spelled(name, true, b"-_.") {
        wrong.push(format!("name part {QUALIFIED}"));
    }
    wrong
}

/// The value of a label.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !text.is_empty() && !spelled(text, true, b"-_.") {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
}

/// A key of a config map or a secret.
pub(super) fn config_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        wrong.push(CONFIG_KEY.to_owned());
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// The name of an environment variable.
pub(super) fn env_name(text: &str) -> Vec<String> {
    let right = !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    if right { Vec::new() } else { vec![ENV_NAME.to_owned()] }
}

/// The name of a port (RFC 6335).
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |fails: bool, detail: &str| {
        if fails {
            wrong.push(detail.to_owned());
        }
    };
    let bytes = text.as_bytes();
    check(bytes.len() > 15, "must be no more than 15 bytes");
    let allowed = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    check(!bytes.iter().all(allowed), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    check(!bytes.iter().any(u8::is_ascii_lowercase), "must contain at least one letter (a-z)");
    check(text.contains("--"), "must not contain consecutive hyphens");
    check(text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen");
    wrong
}

/// Checks one text, which must be there.
pub(super) fn check(found: &str, rule: Rule, at: &At<'_>, causes: &mut Causes) {
    let found_value = || Value::String(found.to_owned());
    causes.extend(rule(found).iter().map(|detail| at.invalid(&found_value(), detail)));
}

/// Checks a map of labels: the keys and the values.
pub(super) fn check_labels(labels: &Value, at: &At<'_>, causes: &mut Causes) {
    for (key, value) in entries(labels) {
        check(key, qualified_name, at, causes);
        check(value.as_str().unwrap_or_default(), label_value, at, causes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rule: Rule, right: &[&str], wrong: &[&str]) {
        for text in right {
            assert_eq!(rule(text), Vec::<String>::new(), "{text:?}");
        }
        for text in wrong {
            assert_ne!(rule(text), Vec::<String>::new(), "{text:?}");
        }
    }

    #[test]
    fn names_follow_kubernetes_rules() {
        let (long, longest) = ("a".repeat(64), "a".repeat(254));
        table(label, &["a", "a-b", "0", "a1"], &["", "A", "-a", "a-", "a.b", "a_b", "ä", &long]);
        table(dns_1035_label, &["a", "a-1"], &["", "1a", "A", "a-", "a.b", &long]);
        table(subdomain, &["a", "a.b-c.d", "1.2"], &["", "a..b", ".a", "a.", "a.-b", "A", &longest]);
        table(
            qualified_name,
            &["a", "A_b.c-d", "example.com/x", "a/b"],
            &["", "/a", "a/", "a/b/c", "-a", "A.com/x", "x y", &long],
        );
        table(label_value, &["", "a", "A_1.x-y"], &["-", "a ", "_a", &long]);
        table(
            config_key,
            &["a", "A.b_c-d", "...a".trim_start_matches('.'), "-"],
            &["", ".", "..", "..a", "a/b", "a b"],
        );
        table(env_name, &["A", "a.b-c", "1", "A B"], &["", "A=B", "ä", "a\n"]);
        table(port_name, &["http", "a-1"], &["", "80", "a--b", "-a", "a-", "HTTP", "abcdefghijklmnop"]);
    }
}
