//! `WWW-Authenticate` of registries: what they want to see.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// What a registry wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password with every request.
    Basic,
    /// A token that `realm` gives out.
    Bearer {
        /// A URL.
        realm: String,
        /// Whom the token is for; may be empty.
        service: String,
        /// What it allows; empty when the registry does not say.
        scope: String,
    },
}

impl Challenge {
    /// The first one that we can meet; a token is better than a password in every request.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).into_iter().filter_map(|value| value.to_str().ok());
        let mut basic = None;
        for value in values {
            let Ok(challenges) = http_auth::parse_challenges(value) else { continue };
            for challenge in challenges {
                let parameter = |name: &str| {
                    let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                    found.map(|(_, value)| value.to_unescaped()).unwrap_or_default()
                };
                if challenge.scheme.eq_ignore_ascii_case("bearer") {
                    let (realm, service, scope) = (parameter("realm"), parameter("service"), parameter("scope"));
                    return Some(Self::Bearer { realm, service, scope });
                }
                if challenge.scheme.eq_ignore_ascii_case("basic") {
                    basic = Some(Self::Basic);
                }
            }
        }
        basic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_preferred_to_a_password() {
        let mut headers = HeaderMap::new();
        assert_eq!(Challenge::of(&headers), None);
        headers.append(WWW_AUTHENTICATE, "Negotiate".parse().expect("a header"));
        assert_eq!(Challenge::of(&headers), None);
        headers.append(WWW_AUTHENTICATE, "Basic realm=\"r\"".parse().expect("a header"));
        assert_eq!(Challenge::of(&headers), Some(Challenge::Basic));
        let bearer = "Bearer realm=\"https://a/token\",service=\"s\",scope=\"repository:a:pull\"";
        headers.append(WWW_AUTHENTICATE, bearer.parse().expect("a header"));
        let wants = Challenge::Bearer {
            realm: "https://a/token".to_owned(),
            service: "s".to_owned(),
            scope: "repository:a:pull".to_owned(),
        };
        assert_eq!(Challenge::of(&headers), Some(wants));
    }
}
