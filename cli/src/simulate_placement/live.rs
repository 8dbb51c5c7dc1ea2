//! A live cluster, read page by page: whatever the rules look at, and nothing secret.

use std::path::Path;

use coracle_controller_core::Kind;
use http_body_util::BodyExt;
use hyper::Method;
use serde_json::{Value, json};

use super::Found;
use crate::Failure;
use crate::client::Client;
use crate::kubeconfig;

/// Objects of one page.
const PAGE: usize = 2_000;

/// Reads every kind that decides on where pods go.
pub(super) fn read(kubeconfig: Option<&Path>) -> Result<Vec<Found>, Failure> {
    let config = kubeconfig::find(kubeconfig)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::connect(&config).await?;
        let mut found = Vec::new();
        for kind in Kind::all().filter(|kind| matters(*kind)) {
            list(&mut client, kind, &mut found).await?;
        }
        Ok(found)
    })
}

fn matters(kind: Kind) -> bool {
    kind.info().stored && ![Kind::CONFIG_MAP, Kind::SECRET, Kind::EVENT].contains(&kind)
}

async fn list(client: &mut Client, kind: Kind, found: &mut Vec<Found>) -> Result<(), Failure> {
    let info = kind.info();
    let group = if info.group.is_empty() { "api".to_owned() } else { format!("apis/{}", info.group) };
    let mut next = String::new();
    loop {
        let path = format!("/{group}/{}/{}?limit={PAGE}{next}", info.version, info.plural);
        let answer = client.ask(Method::GET, &path, "application/json", Vec::new()).await?;
        let body = answer.into_body().collect().await?.to_bytes();
        let mut page: Value = serde_json::from_slice(&body)?;
        let items = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        for mut value in items {
            // Items of a list do not say what they are.
            value["apiVersion"] = json!(kind.api_version());
            value["kind"] = json!(info.kind);
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            found.push(Found { place: format!("the cluster's {} {name}", info.kind), value });
        }
        match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => next = format!("&continue={token}"),
            None => return Ok(()),
        }
    }
}
