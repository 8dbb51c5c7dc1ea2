//! `samples/hello`: answers over HTTP with where it runs and which version it is.
//!
//! Comes in: a method, a path and the environment. Goes out: a status and a text. This file knows nothing of WASI, so
//! that its tests run on the host; `component.rs` is the glue to `wasi:http`.

#[cfg(target_arch = "wasm32")]
mod component;

/// Version text of this build. One source makes two images, so that a rollout has something to roll out.
pub const VERSION: &str = match option_env!("CORACLE_HELLO_VERSION") {
    Some(version) => version,
    None => "1",
};

/// What the pod's environment says about where this copy runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the pod, or `unknown`.
    pub pod: String,
    /// Name of the node, or `unknown`.
    pub node: String,
}

impl Place {
    /// Reads `POD_NAME` and `NODE_NAME`, which the manifest fills by `fieldRef`. Without `POD_NAME` the pod's name is
    /// taken from `HOSTNAME`, which every pod has.
    pub fn from_environment(environment: &[(String, String)]) -> Self {
        let value = |name: &str| {
            environment.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.clone())
        };
        let unknown = || "unknown".to_string();
        Self {
            pod: value("POD_NAME").or_else(|| value("HOSTNAME")).unwrap_or_else(unknown),
            node: value("NODE_NAME").unwrap_or_else(unknown),
        }
    }
}

/// What goes back to the client.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// Text of the body.
    pub body: String,
}

/// Chooses the answer to one request. `path_and_query` is as `wasi:http` gives it: absent for an empty path.
pub fn answer(is_read: bool, path_and_query: Option<&str>, place: &Place) -> Answer {
    let path = path_and_query.unwrap_or("/").split('?').next().unwrap_or_default();
    let (status, body) = match path {
        "" | "/" | "/healthz" if !is_read => (405, "only GET and HEAD are answered here\n".to_string()),
        "" | "/" => (200, format!("hello:{VERSION}\npod: {}\nnode: {}\n", place.pod, place.node)),
        "/healthz" => (200, "ok".to_string()),
        _ => (404, format!("nothing at {path}; there is / and /healthz\n")),
    };
    Answer { status, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn root_names_version_pod_and_node() {
        let place = Place::from_environment(&environment(&[("POD_NAME", "hello-x7"), ("NODE_NAME", "desk-1")]));
        let expected = format!("hello:{VERSION}\npod: hello-x7\nnode: desk-1\n");
        for path in [None, Some(""), Some("/"), Some("/?a=b")] {
            assert_eq!(answer(true, path, &place), Answer { status: 200, body: expected.clone() });
        }
    }

    #[test]
    fn hostname_stands_in_for_a_missing_or_empty_pod_name() {
        let place = Place::from_environment(&environment(&[("HOSTNAME", "hello-0"), ("POD_NAME", "")]));
        assert_eq!(place, Place { pod: "hello-0".to_string(), node: "unknown".to_string() });
    }

    #[test]
    fn healthz_is_ok_and_other_paths_are_not_found() {
        let place = Place::from_environment(&[]);
        assert_eq!(answer(true, Some("/healthz"), &place), Answer { status: 200, body: "ok".to_string() });
        assert_eq!(answer(true, Some("/healthzz"), &place).status, 404);
        assert_eq!(answer(false, Some("/elsewhere"), &place).status, 404);
    }

    #[test]
    fn writing_is_refused() {
        let place = Place::from_environment(&[]);
        assert_eq!(answer(false, Some("/"), &place).status, 405);
        assert_eq!(answer(false, Some("/healthz"), &place).status, 405);
    }
}
