//! Query parameters. Unknown ones are ignored, as Kubernetes does; known ones that make no sense are refused.

use std::str::FromStr;

use axum::extract::Query as Pairs;
use coracle_controller_core::ApiError;
use coracle_controller_core::request::FieldValidation;
use http::Uri;

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads them.
    pub(super) fn of(uri: &Uri) -> Result<Self, ApiError> {
        let pairs = Pairs::<Vec<(String, String)>>::try_from_uri(uri);
        pairs.map(|Pairs(pairs)| Self(pairs)).map_err(|error| ApiError::bad_request(error.body_text()))
    }

    /// A parameter; `None` when it is missing or empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// A parameter that may be given several times; empty ones are skipped.
    pub(super) fn texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// A number.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let refuse = |found: &str| ApiError::bad_request(format!("{name} is not a number that fits: \"{found}\""));
        self.text(name).map(|text| text.parse().map_err(|_| refuse(text))).transpose()
    }

    /// A switch; there without a value means on.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        let Some((_, value)) = self.0.iter().find(|(key, _)| key == name) else { return Ok(false) };
        match value.as_str() {
            "" | "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
            "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
            other => Err(ApiError::bad_request(format!("{name} is true or false, found \"{other}\""))),
        }
    }

    /// `dryRun`
    pub(super) fn dry_run(&self) -> Result<bool, ApiError> {
        match self.text("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(ApiError::bad_request(format!("dryRun is \"All\" or missing, found \"{other}\""))),
        }
    }

    /// `fieldValidation`
    pub(super) fn field_validation(&self) -> Result<FieldValidation, ApiError> {
        match self.text("fieldValidation") {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some(other) => Err(ApiError::bad_request(format!(
                "fieldValidation is one of \"Ignore\", \"Warn\", \"Strict\", found \"{other}\""
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().expect("a URI")).expect("a query")
    }

    #[test]
    fn parameters_are_read_and_wrong_ones_refused() {
        let found = query("limit=500&labelSelector=a%3Db%2Cc&watch&follow=false&dryRun=All&empty=");
        assert_eq!(found.text("labelSelector"), Some("a=b,c"));
        assert_eq!(found.number("limit"), Ok(Some(500_usize)));
        assert_eq!(found.number::<u64>("missing"), Ok(None));
        assert_eq!((found.flag("watch"), found.flag("follow"), found.flag("other")), (Ok(true), Ok(false), Ok(false)));
        assert_eq!((found.dry_run(), found.text("empty")), (Ok(true), None));
        assert_eq!(found.field_validation(), Ok(FieldValidation::Warn));
        let wrong = query("limit=-1&watch=maybe&dryRun=Some&fieldValidation=strict");
        assert_eq!(wrong.number::<usize>("limit").map_err(|error| error.code), Err(400));
        assert_eq!(wrong.flag("watch").map_err(|error| error.code), Err(400));
        assert_eq!(wrong.dry_run().map_err(|error| error.code), Err(400));
        assert_eq!(wrong.field_validation().map_err(|error| error.code), Err(400));
    }
}
