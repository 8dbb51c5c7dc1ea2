//! What is not about objects: discovery, `OpenAPI`, version, health and metrics.

use std::fmt::Write as _;

use axum::body::Body;
use coracle_controller_core::openapi::{self, Document, V2_PROTOBUF};
use coracle_controller_core::{ApiError, Kind, discovery};
use http::Response;

use super::accept::Wanted;
use super::route::Route;
use super::{App, respond};

/// Answers a path that is not about objects; `address` is the one by which the client found us.
pub(super) fn answer(app: &App, route: &Route, wanted: Wanted, address: &str) -> Result<Response<Body>, ApiError> {
    let found = match route {
        Route::Root => respond::json(200, discovery::paths()),
        Route::Health => respond::bytes(200, "text/plain; charset=utf-8", "ok"),
        Route::Version => respond::json(200, discovery::version(&platform())),
        Route::Metrics => respond::bytes(200, "text/plain; version=0.0.4", metrics(app)),
        Route::CoreVersions => match aggregated(true, wanted) {
            Some(response) => response,
            None => respond::json(200, discovery::core_versions(address)),
        },
        Route::Groups => match aggregated(false, wanted) {
            Some(response) => response,
            None => respond::json(200, discovery::groups()),
        },
        Route::Group(name) => respond::json(200, discovery::group(name).ok_or_else(ApiError::no_such_path)?),
        Route::Resources(group, version) => {
            respond::json(200, discovery::resources(group, version).ok_or_else(ApiError::no_such_path)?)
        }
        Route::OpenApiV2 if wanted == Wanted::OpenApiProtobuf => {
            respond::bytes(200, V2_PROTOBUF, openapi::v2_protobuf())
        }
        Route::OpenApiV2 => respond::json(200, openapi::v2_json()),
        Route::OpenApiV2Protobuf => respond::bytes(200, V2_PROTOBUF, openapi::v2_protobuf()),
        Route::OpenApiV3Index => respond::json(200, openapi::v3_index(documents(app))),
        Route::OpenApiV3(path) => {
            let document = documents(app).iter().find(|document| document.path == *path);
            respond::json(200, &document.ok_or_else(ApiError::no_such_path)?.body)
        }
        Route::Images | Route::Objects(_) | Route::Computed(_) => return Err(ApiError::no_such_path()),
    };
    Ok(found)
}

fn documents(app: &App) -> &[Document] {
    app.documents.get_or_init(openapi::v3_documents)
}

fn aggregated(core: bool, wanted: Wanted) -> Option<Response<Body>> {
    let (version, media) = match wanted {
        Wanted::Discovery("v2") => ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
        Wanted::Discovery("v2beta1") => {
            ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
        }
        _ => return None,
    };
    Some(respond::bytes(200, media, discovery::aggregated(core, version).to_string()))
}

/// As Go names it.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

fn metrics(app: &App) -> String {
    let counts = app.cluster.read(|view| {
        let kinds = Kind::all().filter(|kind| kind.info().stored);
        kinds.map(|kind| (kind, view.list(kind, None).count())).collect::<Vec<_>>()
    });
    let mut text = String::from(
        "# HELP coracle_store_revision The revision of the last committed change.\n\
         # TYPE coracle_store_revision gauge\n",
    );
    // Writing to a string does not fail.
    let _: std::fmt::Result = writeln!(text, "coracle_store_revision {}", app.cluster.revision());
    text.push_str("# HELP coracle_objects Stored objects.\n# TYPE coracle_objects gauge\n");
    for (kind, count) in counts {
        let _: std::fmt::Result = writeln!(text, "coracle_objects{{resource=\"{}\"}} {count}", kind.qualified_plural());
    }
    text
}
