//! `coracle image`: push and list images, over the API.

use std::process::ExitCode;

use hyper::Method;

use crate::arguments::{Api, Push};
use crate::{Outcome, client, kubeconfig};

/// Pushes one file.
pub(crate) fn push(options: &Push) -> Outcome {
    let config = kubeconfig::find(options.api.kubeconfig.as_deref())?;
    let bytes =
        std::fs::read(&options.file).map_err(|error| format!("failed to read {}: {error}", options.file.display()))?;
    let path = format!("/coracle/v1/images?name={}", escape(&options.name));
    let answer = runtime()?.block_on(client::send(&config, Method::PUT, &path, bytes))?;
    println!("{} {}", options.name, answer["digest"].as_str().unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

/// Lists every image, with its digest.
pub(crate) fn list(options: &Api) -> Outcome {
    let config = kubeconfig::find(options.kubeconfig.as_deref())?;
    let answer = runtime()?.block_on(client::send(&config, Method::GET, "/coracle/v1/images", Vec::new()))?;
    let images = answer["images"].as_array().cloned().unwrap_or_default();
    let width = images.iter().filter_map(|image| image["name"].as_str()).map(str::len).max().unwrap_or(0).max(4);
    println!("{:width$}  {:71}  SIZE", "NAME", "DIGEST");
    for image in &images {
        let text = |field: &str| image[field].as_str().unwrap_or_default();
        println!("{:width$}  {:71}  {}", text("name"), text("digest"), image["sizeBytes"]);
    }
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Percent-encodes what may not stand in a query.
fn escape(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
