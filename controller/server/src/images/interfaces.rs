//! Which imports an engine can meet: by name, and by versions that are compatible in the way of its linker.
//!
//! A linker that has `wasi:cli/environment@0.2.12` meets an import of `@0.2.0`, and one of `@0.2.20`: within a major
//! version, and within a minor version before 1.0, interfaces only grow. Whether the functions are all there is found
//! when the component is linked.

/// An interface, with as much of its version as must be the same. Without a version, or with a preview of one, all of it.
fn track(interface: &str) -> (&str, &str) {
    let Some((name, version)) = interface.split_once('@') else { return (interface, "") };
    if version.contains(['-', '+']) {
        return (name, version);
    }
    let dots: Vec<usize> = version.match_indices('.').map(|(at, _)| at).collect();
    let major = &version[..dots.first().copied().unwrap_or(version.len())];
    let minor = &version[..dots.get(1).copied().unwrap_or(version.len())];
    match (major, minor) {
        ("0", "0.0") => (name, version),
        ("0", _) => (name, minor),
        _ => (name, major),
    }
}

/// Whether one of these interfaces meets this import.
pub(crate) fn is_offered(offered: &[String], import: &str) -> bool {
    let wanted = track(import);
    offered.iter().any(|interface| track(interface) == wanted)
}

/// The first import that none of these interfaces meets.
pub(crate) fn missing<'a>(imports: &'a [String], offered: &[String]) -> Option<&'a str> {
    imports.iter().map(String::as_str).find(|import| !is_offered(offered, import))
}

#[cfg(test)]
mod tests {
    use super::*;

    // EDGE-02
    #[test]
    fn versions_fit_as_the_linker_fits_them() {
        for (offered, import, fits) in [
            ("wasi:cli/environment@0.2.12", "wasi:cli/environment@0.2.0", true),
            ("wasi:cli/environment@0.2", "wasi:cli/environment@0.2.99", true),
            ("wasi:cli/environment@0.2.12", "wasi:cli/environment@0.3.0", false),
            ("wasi:cli/environment@0.2.12", "wasi:cli/exit@0.2.12", false),
            ("acme:gpio/pins@1.0.0", "acme:gpio/pins@1.4.2", true),
            ("acme:gpio/pins@1.0.0", "acme:gpio/pins@2.0.0", false),
            ("acme:gpio/pins@0.0.1", "acme:gpio/pins@0.0.2", false),
            ("acme:gpio/pins@1.0.0-rc.1", "acme:gpio/pins@1.0.0", false),
            ("acme:gpio/pins@1.0.0-rc.1", "acme:gpio/pins@1.0.0-rc.1", true),
            ("acme:gpio/pins", "acme:gpio/pins", true),
            ("acme:gpio/pins", "acme:gpio/pins@0.1.0", false),
        ] {
            assert_eq!(is_offered(&[offered.to_owned()], import), fits, "{offered} for {import}");
        }
    }

    #[test]
    fn the_first_that_is_missing_is_named() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let offered = texts(&["wasi:io/poll@0.2", "wasi:cli/exit@0.2"]);
        let imports = texts(&["wasi:io/poll@0.2.0", "acme:gpio/pins@1.0.0", "acme:gpio/more@1.0.0"]);
        assert_eq!(missing(&imports, &offered), Some("acme:gpio/pins@1.0.0"));
        assert_eq!(missing(&imports[..1], &offered), None);
    }
}
