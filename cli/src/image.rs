//! `coracle image`: the images of a controller, over its API.

mod arguments;
mod progress;
mod show;

use std::path::Path;
use std::process::ExitCode;

use bytes::{Bytes, BytesMut};
use coracle_controller::images::layout;
use coracle_model::limits::MAX_IMAGE_BYTES;
use http_body_util::{BodyExt, Empty};
use hyper::Method;
use hyper::body::Incoming;
use indicatif::HumanBytes;
use serde_json::Value;

use self::arguments::{Api, Named, Pull, Push, Remove};
pub(crate) use self::arguments::{ImageCommand, Images};
use self::progress::{Progress, Upload};
use crate::client::{Client, send};
use crate::kubeconfig::{self, Kubeconfig};
use crate::{Failure, Outcome};

/// The longest line of progress.
const MAX_LINE_BYTES: usize = 1 << 20;

/// One command.
pub(crate) fn run(command: &ImageCommand) -> Outcome {
    let done = async {
        match command {
            ImageCommand::Push(options) => push(options).await,
            ImageCommand::Pull(options) => pull(options).await,
            ImageCommand::List(options) => list(options).await,
            ImageCommand::Inspect(options) => inspect(options).await,
            ImageCommand::Rm(options) => remove(options).await,
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(done)?);
    Ok(ExitCode::SUCCESS)
}

fn config(api: &Api) -> Result<Kubeconfig, Failure> {
    Ok(kubeconfig::find(api.kubeconfig.as_deref())?)
}

async fn push(options: &Push) -> Result<String, Failure> {
    let config = config(&options.api)?;
    let wasm = Bytes::from(read(&options.file)?);
    let mut client = Client::connect(&config).await?;
    let progress = Progress::begin(&format!("pushing {}", options.name), wasm.len() as u64);
    let body = Upload::new(wasm, progress.clone()).boxed_unsync();
    let answer = client.ask_with(Method::PUT, &path(&options.name), Some("application/wasm"), body).await;
    progress.end();
    let answer = answer?.into_body().collect().await?.to_bytes();
    Ok(show::taken(&serde_json::from_slice(&answer)?))
}

/// A WebAssembly file, or what is in an OCI layout.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    if layout::is_layout(file) {
        let read = layout::read(file);
        return read.map_err(|error| format!("failed to read {}: {}", file.display(), crate::chain(&error)).into());
    }
    let failed = |error: std::io::Error| format!("failed to read {}: {error}", file.display());
    let size_bytes = std::fs::metadata(file).map_err(failed)?.len();
    // The controller would hang up in the middle, and nobody would learn why.
    if size_bytes > MAX_IMAGE_BYTES as u64 {
        let (found, most) = (HumanBytes(size_bytes), HumanBytes(MAX_IMAGE_BYTES as u64));
        return Err(format!("failed to read {}: it has {found}, and an image may have {most}", file.display()).into());
    }
    Ok(std::fs::read(file).map_err(failed)?)
}

async fn pull(options: &Pull) -> Result<String, Failure> {
    let config = config(&options.api)?;
    let mut path = path(&options.name);
    if let Some(secret) = &options.secret {
        path.push_str(&format!("&secret={}", escape(secret)));
    }
    let mut client = Client::connect(&config).await?;
    let answer = client.ask_with(Method::POST, &path, None, Empty::new().boxed_unsync()).await?;
    let progress = Progress::begin(&format!("pulling {}", options.name), 0);
    let last = follow(answer.into_body(), &progress).await;
    progress.end();
    let last = last?;
    match last["error"].as_str() {
        Some(error) => Err(error.into()),
        None if last["digest"].is_string() => Ok(show::taken(&last)),
        None => Err("the controller ended before the image was pulled".into()),
    }
}

/// Shows lines of progress; gives the last line.
async fn follow(mut body: Incoming, progress: &Progress) -> Result<Value, Failure> {
    let mut last = Value::Null;
    let mut buffer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            last = serde_json::from_slice(&buffer.split_to(end + 1))?;
            if let (Some(bytes), Some(total)) = (last["bytes"].as_u64(), last["total"].as_u64()) {
                progress.set(bytes, total);
            }
        }
        if buffer.len() > MAX_LINE_BYTES {
            return Err("the controller's answer makes no sense".into());
        }
    }
    Ok(last)
}

async fn list(options: &Api) -> Result<String, Failure> {
    Ok(show::list(&send(&config(options)?, Method::GET, "/coracle/v1/images", Vec::new()).await?))
}

async fn inspect(options: &Named) -> Result<String, Failure> {
    let config = config(&options.api)?;
    Ok(show::inspection(&send(&config, Method::GET, &path(&options.name), Vec::new()).await?))
}

async fn remove(options: &Remove) -> Result<String, Failure> {
    let config = config(&options.api)?;
    let force = if options.force { "&force=true" } else { "" };
    let answer = send(&config, Method::DELETE, &format!("{}{force}", path(&options.name)), Vec::new()).await?;
    let what = if answer["imagesRemoved"].as_u64() > Some(0) { "and its image" } else { "its image stays" };
    Ok(format!("{} removed, {what}\n", options.name))
}

/// The path of an image.
fn path(name: &str) -> String {
    format!("/coracle/v1/images?name={}", escape(name))
}

/// Percent-encodes what may not stand in a query.
fn escape(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
