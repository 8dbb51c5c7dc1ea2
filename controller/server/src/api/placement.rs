//! `GET …/pods/NAME/placement`: where a pod goes and why, or why it goes nowhere (SCH-04).

use axum::body::Body;
use coracle_controller_core::ApiError;
use coracle_controller_core::schedule::{Detail, MAX_LIMIT};
use http::Response;

use super::query::Query;
use super::route::Target;
use super::{App, respond};

/// Nodes that may be asked for by name.
const MAX_NAMES: usize = 100;

/// Asks the core, which answers between two batches.
pub(super) async fn placement(
    app: &App,
    target: &Target,
    name: &str,
    query: &Query,
) -> Result<Response<Body>, ApiError> {
    let answer = app.cluster.placement(target.namespace(), name, detail(query)?).await?;
    Ok(respond::json(200, answer))
}

/// `limit`, and `node` as often as one likes.
fn detail(query: &Query) -> Result<Detail, ApiError> {
    let mut detail = Detail::default();
    if let Some(limit) = query.number::<usize>("limit")? {
        if limit > MAX_LIMIT {
            return Err(ApiError::bad_request(format!("limit is at most {MAX_LIMIT}, found {limit}")));
        }
        detail.limit = limit;
    }
    detail.nodes = query.texts("node").map(ToOwned::to_owned).collect();
    if detail.nodes.len() > MAX_NAMES {
        let found = detail.nodes.len();
        return Err(ApiError::bad_request(format!("at most {MAX_NAMES} nodes can be asked for, found {found}")));
    }
    Ok(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Detail, u16> {
        let uri = format!("/api/v1/namespaces/d/pods/p/placement?{query}").parse().expect("a path");
        detail(&Query::of(&uri).expect("a query")).map_err(|error| error.code)
    }

    #[test]
    fn nodes_are_asked_for_by_number_and_by_name_within_bounds() {
        assert_eq!(read(""), Ok(Detail { limit: 20, nodes: Vec::new() }));
        let nodes = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(read("node=a&limit=0&node=b&node="), Ok(Detail { limit: 0, nodes }));
        assert_eq!(read("limit=500").map(|detail| detail.limit), Ok(500));
        for wrong in ["limit=501", "limit=-1", "limit=many"] {
            assert_eq!(read(wrong), Err(400), "{wrong}");
        }
        assert_eq!(read(&"node=a&".repeat(101)), Err(400));
    }
}
