//! In which form an answer is wanted. Everything can be had as JSON, so nothing is ever refused.

use coracle_controller_core::openapi::{V2_PROTOBUF, V2_PROTOBUF_OLD};
use coracle_controller_core::table::Version;
use http::HeaderMap;
use http::header::ACCEPT;

/// One of the forms that `Accept` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Plain JSON.
    Json,
    /// `as=Table`
    Table(Version),
    /// `as=PartialObjectMetadata` or `…List`; the API version of the form.
    Metadata(&'static str),
    /// `as=APIGroupDiscoveryList`; its version.
    Discovery(&'static str),
    /// The version 2 document in protobuf.
    OpenApiProtobuf,
}

/// The first form in `Accept` that is served.
pub(super) fn wanted(headers: &HeaderMap) -> Wanted {
    let lists = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).find_map(form).unwrap_or(Wanted::Json)
}

fn form(item: &str) -> Option<Wanted> {
    let mut parts = item.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    if media == V2_PROTOBUF || media == V2_PROTOBUF_OLD {
        return Some(Wanted::OpenApiProtobuf);
    }
    if !matches!(media, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let value = |name: &str| parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value);
    match (value("as"), value("g"), value("v")) {
        ("", _, _) => Some(Wanted::Json),
        ("Table", "meta.k8s.io", "v1") => Some(Wanted::Table(Version::V1)),
        ("Table", "meta.k8s.io", "v1beta1") => Some(Wanted::Table(Version::V1Beta1)),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
            Some(Wanted::Metadata("meta.k8s.io/v1"))
        }
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1beta1") => {
            Some(Wanted::Metadata("meta.k8s.io/v1beta1"))
        }
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Wanted::Discovery("v2")),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => Some(Wanted::Discovery("v2beta1")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_served_wins() {
        for (accept, expected) in [
            ("", Wanted::Json),
            ("*/*", Wanted::Json),
            ("application/vnd.kubernetes.protobuf,application/json", Wanted::Json),
            ("application/yaml", Wanted::Json),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Wanted::Table(Version::V1),
            ),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json", Wanted::Table(Version::V1Beta1)),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Wanted::Json),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Wanted::Metadata("meta.k8s.io/v1"),
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                Wanted::Discovery("v2"),
            ),
            (V2_PROTOBUF, Wanted::OpenApiProtobuf),
            (V2_PROTOBUF_OLD, Wanted::OpenApiProtobuf),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().expect("a header"));
            assert_eq!(wanted(&headers), expected, "{accept}");
        }
    }
}
