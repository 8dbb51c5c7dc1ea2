//! `$(VAR)` and `$$`.

use std::collections::{BTreeMap, BTreeSet};

/// Variables by name.
pub(super) type Known<'a> = BTreeMap<&'a str, &'a str>;

/// `$(VAR)` becomes the variable's value, `$$` a dollar; an unknown variable stays as it is written.
pub(super) fn expand(text: &str, known: &Known<'_>) -> String {
    walk(text, |name| known.get(name).map(|value| (*value).to_owned()))
}

/// As [`expand`], but every variable must be known and not empty; the error names those that are not.
pub(super) fn expand_all(text: &str, known: &Known<'_>) -> Result<String, String> {
    let mut missing = BTreeSet::new();
    let expanded = walk(text, |name| match known.get(name).copied().unwrap_or_default() {
        "" => {
            missing.insert(name.to_owned());
            None
        }
        value => Some(value.to_owned()),
    });
    if missing.is_empty() {
        return Ok(expanded);
    }
    Err(format!("missing value for {}", missing.into_iter().collect::<Vec<_>>().join(", ")))
}

fn walk(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            expanded.push('$');
            rest = escaped;
        } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            match value(name) {
                Some(value) => expanded.push_str(&value),
                None => expanded.push_str(&rest[at..rest.len() - behind.len()]),
            }
            rest = behind;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_expand_as_in_kubernetes() {
        // POD-08
        let known = BTreeMap::from([("A", "1"), ("B", "two"), ("E", "")]);
        for (text, want) in [
            ("$(A)-$(B)", "1-two"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(C)", "$(C)"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("cost: 5$", "cost: 5$"),
            ("$(E)", ""),
            ("", ""),
        ] {
            assert_eq!(expand(text, &known), want, "{text}");
        }
        assert_eq!(expand_all("$(A)/$(B)", &known), Ok("1/two".to_owned()));
        assert_eq!(expand_all("$(D)/$(C)/$(E)/$(D)", &known), Err("missing value for C, D, E".to_owned()));
    }
}
