//! `bad-handler`: an HTTP guest that fails in the way that the path of a request names. `component.rs` does it.

#[cfg(target_arch = "wasm32")]
mod component;

/// How one request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// 200, so that one sees that the others harm nothing: `/`.
    Well,
    /// Waits for hours and answers nothing: `/never`.
    Never,
    /// Computes without end: `/spin`.
    Spin,
    /// Ends without an answer: `/nothing`.
    Nothing,
    /// Answers a second time through a handle that it has given away: `/twice`.
    Twice,
    /// Traps: `/trap`.
    Trap,
    /// Traps in the middle of its body: `/half`.
    Half,
    /// 404 for any other path.
    Unknown,
}

/// Reads the path. `path_and_query` is as `wasi:http` gives it: absent for an empty path.
pub fn way(path_and_query: Option<&str>) -> Way {
    match path_and_query.unwrap_or("/").split('?').next().unwrap_or_default() {
        "" | "/" => Way::Well,
        "/never" => Way::Never,
        "/spin" => Way::Spin,
        "/nothing" => Way::Nothing,
        "/twice" => Way::Twice,
        "/trap" => Way::Trap,
        "/half" => Way::Half,
        _ => Way::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_the_way() {
        assert_eq!(way(None), Way::Well);
        assert_eq!(way(Some("/?a=/trap")), Way::Well);
        assert_eq!(way(Some("/trap?a")), Way::Trap);
        assert_eq!(way(Some("/traps")), Way::Unknown);
    }
}
