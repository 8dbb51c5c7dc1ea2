//! The query form of a label selector.

use std::collections::BTreeSet;

use super::label::{Requirement, SelectorError, Test};

/// Reads all requirements of a query.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut reader = Reader { rest: text.trim_start() };
    let mut found = Vec::new();
    if reader.rest.is_empty() {
        return Ok(found);
    }
    loop {
        found.push(reader.requirement()?);
        if reader.rest.is_empty() {
            break;
        }
        if !reader.take(",") {
            return Err(refuse(reader.rest, "expected ',' or the end"));
        }
        if reader.rest.is_empty() {
            return Err(refuse("", "expected another requirement after ','"));
        }
    }
    found.sort_by(|one, two| one.key.cmp(&two.key));
    Ok(found)
}

fn refuse(found: &str, expected: &str) -> SelectorError {
    SelectorError(format!("unable to parse requirement: found '{found}', {expected}"))
}

/// What is left to read, without leading white space.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else { return false };
        self.rest = rest.trim_start();
        true
    }

    /// Everything up to white space or an operator's sign.
    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|sign: char| sign.is_whitespace() || "=!<>(),".contains(sign));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.take("!") {
            let key = self.word();
            check_key(key)?;
            return Ok(Requirement { key: key.into(), test: Test::DoesNotExist });
        }
        let key = self.word();
        check_key(key)?;
        let test = self.test()?;
        Ok(Requirement { key: key.into(), test })
    }

    fn test(&mut self) -> Result<Test, SelectorError> {
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok(Test::Exists);
        }
        if self.take("!=") {
            return Ok(Test::NotEquals(self.value()?));
        }
        if self.take("==") || self.take("=") {
            return Ok(Test::Equals(self.value()?));
        }
        if self.take(">") {
            return Ok(Test::GreaterThan(self.number()?));
        }
        if self.take("<") {
            return Ok(Test::LessThan(self.number()?));
        }
        let rest = self.rest;
        match self.word() {
            "in" => Ok(Test::In(self.values()?)),
            "notin" => Ok(Test::NotIn(self.values()?)),
            _ => Err(refuse(rest, "expected an operator: '=', '==', '!=', 'in', 'notin', '>', '<'")),
        }
    }

    fn value(&mut self) -> Result<Box<str>, SelectorError> {
        let value = self.word();
        check_value(value)?;
        Ok(value.into())
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let value = self.word();
        value.parse().map_err(|_| refuse(value, "expected a whole number"))
    }

    fn values(&mut self) -> Result<BTreeSet<Box<str>>, SelectorError> {
        if !self.take("(") {
            return Err(refuse(self.rest, "expected '('"));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(refuse(self.rest, "expected ',' or ')'"));
            }
        }
    }
}

/// A label's key: a name of 63 letters at most, behind an optional DNS prefix.
pub(super) fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fits = prefix.is_none_or(|prefix| {
        !prefix.is_empty()
            && prefix.len() <= 253
            && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte))
    });
    if prefix_fits && !name.is_empty() && is_name(name) {
        return Ok(());
    }
    Err(SelectorError(format!("unable to parse requirement: key: Invalid value: \"{key}\": not a label key")))
}

/// A label's value: empty, or a name of 63 letters at most.
pub(super) fn check_value(value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    Err(SelectorError(format!("unable to parse requirement: value: Invalid value: \"{value}\": not a label value")))
}

fn is_name(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
