//! Names of images: `[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]`, by the rules that container registries share.

use std::fmt;
use std::str::FromStr;

use coracle_model::Digest;

/// Names above this are refused, as everywhere.
const MAX_REPOSITORY_CHARS: usize = 255;
const MAX_TAG_CHARS: usize = 128;
/// The repositories below this are built in.
const SAMPLES: &str = "samples/";

/// Why a text is no image name (`InvalidImageName`, POD-09).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid image name {name:?}: {what}")]
pub struct NameError {
    name: String,
    what: &'static str,
}

/// `spec.containers[].image`
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageName {
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl ImageName {
    /// Everything before the tag: `samples/hello`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The registry's host, with its port if there is one: `localhost:5000`. `None` for an image that was pushed to the
    /// controller.
    #[must_use]
    pub fn registry(&self) -> Option<&str> {
        self.repository.split_once('/').map(|(first, _)| first).filter(|first| is_host(first))
    }

    /// The repository as its registry knows it, without the host.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.repository.split_once('/') {
            Some((first, path)) if is_host(first) => path,
            _ => &self.repository,
        }
    }

    /// The tag; `latest` when there is neither tag nor digest, as in Kubernetes.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, which decides alone when there is one.
    #[must_use]
    pub const fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Whether it is one of the images that are built into the controller.
    #[must_use]
    pub fn is_sample(&self) -> bool {
        self.repository.starts_with(SAMPLES)
    }

    /// What the index of names calls it: repository and tag.
    pub(super) fn tagged(&self) -> Option<String> {
        self.tag().map(|tag| format!("{}:{tag}", self.repository))
    }

    /// What the index of names calls it once it was pulled from a registry: the digest decides, and else the tag.
    pub(super) fn pulled(&self) -> String {
        let tagged = || self.tagged().unwrap_or_else(|| self.repository.clone());
        self.digest.map_or_else(tagged, |digest| format!("{}@{digest}", self.repository))
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if let Some(tag) = self.tag() {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for ImageName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let error = |what| NameError { name: text.chars().take(300).collect(), what };
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => {
                let digest = digest.starts_with("sha256:").then(|| digest.parse().ok()).flatten();
                (rest, Some(digest.ok_or_else(|| error("want sha256: and 64 hexadecimal digits after the '@'"))?))
            }
            None => (text, None),
        };
        // A colon behind the last slash begins the tag; one before it begins the port of a registry.
        let name_begins = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (repository, tag) = match rest[name_begins..].find(':') {
            Some(colon) => (&rest[..name_begins + colon], Some(&rest[name_begins + colon + 1..])),
            None => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(error(
                "a tag has letters, digits, '_', '.' and '-', begins with none of the last two, at most 128",
            ));
        }
        if repository.is_empty() || repository.len() > MAX_REPOSITORY_CHARS {
            return Err(error("want 1 to 255 characters before the tag"));
        }
        let (host, path) = match repository.split_once('/') {
            Some((first, path)) if is_host(first) => (Some(first), path),
            _ => (None, repository),
        };
        if host.is_some_and(|host| !is_host_name(host)) {
            return Err(error("the registry is no host name with an optional port"));
        }
        if !path.split('/').all(is_component) {
            let what =
                "want lower case letters and digits in parts separated by '/', within them '.', '_', '__' or '-'";
            return Err(error(what));
        }
        let tag = tag.or(if digest.is_none() { Some("latest") } else { None });
        Ok(Self { repository: repository.to_owned(), tag: tag.map(str::to_owned), digest })
    }
}

fn is_tag(tag: &str) -> bool {
    let inner = tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    inner && (1..=MAX_TAG_CHARS).contains(&tag.len()) && !tag.starts_with(['.', '-'])
}

/// The first part is a registry when it could not be part of a path.
fn is_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

fn is_host_name(host: &str) -> bool {
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    name.split('.').all(is_label) && port.is_none_or(is_port)
}

/// Runs of lower case letters and digits, with one '.', '_' or '__', or any number of '-', between two of them.
fn is_component(part: &str) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    if !bytes.first().is_some_and(is_letter) || !bytes.last().is_some_and(is_letter) {
        return false;
    }
    bytes
        .split(is_letter)
        .all(|between| matches!(between, b"" | b"." | b"_" | b"__") || between.iter().all(|byte| *byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    // POD-09
    #[test]
    fn names_are_read_as_registries_read_them() {
        let digest = "ab".repeat(32);
        let with_digest = format!("a/b@sha256:{digest}");
        let with_both = format!("a/b:1@sha256:{digest}");
        let table = [
            ("hello", "hello", Some("latest")),
            ("samples/hello:1", "samples/hello", Some("1")),
            ("localhost:5000/a/b:v1.2_x-y", "localhost:5000/a/b", Some("v1.2_x-y")),
            ("localhost:5000/a", "localhost:5000/a", Some("latest")),
            ("Registry.example.com/a__b/c-d.e", "Registry.example.com/a__b/c-d.e", Some("latest")),
            ("a--b", "a--b", Some("latest")),
            (with_digest.as_str(), "a/b", None),
            (with_both.as_str(), "a/b", Some("1")),
        ];
        for (text, repository, tag) in table {
            let name: ImageName = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((name.repository(), name.tag()), (repository, tag), "{text}");
            assert_eq!(name.to_string().parse(), Ok(name), "{text}");
        }
    }

    #[test]
    fn a_registry_is_told_from_a_path() {
        for (text, registry, path) in [
            ("hello", None, "hello"),
            ("samples/hello:1", None, "samples/hello"),
            ("localhost/a:1", Some("localhost"), "a"),
            ("localhost:5000/a/b:1", Some("localhost:5000"), "a/b"),
            ("docker.io/library/a", Some("docker.io"), "library/a"),
        ] {
            let name: ImageName = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((name.registry(), name.path()), (registry, path), "{text}");
        }
    }

    // POD-09
    #[test]
    fn texts_that_are_no_name_are_refused() {
        let long = "a".repeat(256);
        let long_tag = format!("a:{}", "b".repeat(129));
        for text in [
            "",
            ":",
            "a:",
            ":1",
            "Hello",
            "a b",
            "a//b",
            "/a",
            "a/",
            "a..b",
            "a___b",
            "-a",
            "a-",
            "a:b c",
            "a:.b",
            "a@",
            "ä",
            "a@sha256:12",
            "a@md5:00",
            "x.y:port/a",
            "x.y:99999/a",
            "-x.y/a",
            "../a",
            "a/../b",
            &long,
            &long_tag,
        ] {
            assert!(text.parse::<ImageName>().is_err(), "{text}");
        }
    }
}
