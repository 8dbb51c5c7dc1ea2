//! `coracle apply`: a manifest over MQTT, with the outcome on an MQTT 5 response topic (EDGE-04).

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use coracle_link::{BrokerUrl, Session, Settings};
use coracle_model::limits::MAX_MESSAGE_BYTES;
use coracle_wire::topic;
use serde_json::Value;

use crate::arguments::Apply;
use crate::{Failure, Outcome};

/// Publishes the manifest and prints one line a document. 0 when every one was carried out.
pub(crate) fn run(options: &Apply) -> Outcome {
    let manifest = read(options)?;
    if manifest.len() > MAX_MESSAGE_BYTES - 1024 {
        return Err(format!(
            "{}: {} bytes are more than fit one MQTT message ({MAX_MESSAGE_BYTES}); use kubectl apply",
            options.filename.display(),
            manifest.len()
        )
        .into());
    }
    let broker: BrokerUrl = options.broker.parse()?;
    broker.refuse_plaintext()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let limit = Duration::from_secs(options.timeout);
    let reply = runtime.block_on(async { tokio::time::timeout(limit, exchange(options, broker, manifest)).await });
    let reply = reply.map_err(|_| {
        format!(
            "no answer within {} s; does a controller of cluster \"{}\" use this broker?",
            options.timeout, options.cluster
        )
    })??;
    show(&serde_json::from_slice(&reply)?)
}

fn read(options: &Apply) -> Result<Vec<u8>, String> {
    let mut manifest = Vec::new();
    let read = if options.filename.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut manifest).map(|_| ())
    } else {
        std::fs::read(&options.filename).map(|bytes| manifest = bytes)
    };
    read.map_err(|error| format!("failed to read {}: {error}", options.filename.display()))?;
    Ok(manifest)
}

async fn exchange(options: &Apply, broker: BrokerUrl, manifest: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let mut id = [0; 8];
    getrandom::fill(&mut id)?;
    let id = u64::from_le_bytes(id);
    let response_topic = format!("coracle-apply/{id:016x}");
    let settings = Settings {
        broker,
        client_id: format!("coracle-apply-{id:016x}"),
        keep_alive: Duration::from_secs(30),
        will: None,
        subscribe: vec![response_topic.clone()],
    };
    let mut session = Session::connect(&settings).await?;
    let topic = if options.delete {
        topic::manifests_delete(&options.cluster)
    } else {
        topic::manifests_apply(&options.cluster)
    };
    let correlation = id.to_le_bytes().to_vec();
    session.publisher().publish_request(&topic, manifest, &response_topic, correlation.clone().into())?;
    loop {
        let message = session.next().await?;
        if message.correlation.as_deref() == Some(correlation.as_slice()) {
            session.close().await;
            return Ok(message.payload.to_vec());
        }
    }
}

/// One line a document, as `kubectl apply` prints them; refusals go to standard error.
fn show(reply: &Value) -> Outcome {
    let mut refused = false;
    if let Some(error) = reply["error"].as_str() {
        eprintln!("error: {error}");
        refused = true;
    }
    for result in reply["results"].as_array().into_iter().flatten() {
        let text = |field: &str| result[field].as_str().unwrap_or_default();
        let outcome = text("outcome");
        if outcome == "refused" {
            refused = true;
            eprintln!("document {}: {}", result["index"], text("message"));
        } else {
            println!("{}/{} {outcome}", text("kind").to_lowercase(), text("name"));
        }
    }
    Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
