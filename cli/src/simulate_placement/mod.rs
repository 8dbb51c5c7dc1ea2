//! `coracle simulate-placement`: where the pods of manifests would go and why, without touching anything.
//!
//! *In:* manifests, and a cluster: from files, or read from the API. *Out:* a table, or JSON; 0 when every pod has a node, 1
//! when one has none, 2 when it could not be found out.
//! *Must never know:* how a node is chosen: that is the controller's core, which runs here in memory.
//! *Tested:* end to end.

mod live;
mod show;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use coracle_controller_core::controller::what_if::{GivenError, WhatIf};
use coracle_controller_core::manifest;
use coracle_controller_core::schedule::Detail;
use serde_json::Value;

use crate::Failure;
use crate::arguments::{Output, SimulatePlacement};

/// The exit code for manifests or a cluster that cannot be read.
const BAD_INPUT: u8 = 2;

/// An object, and where it was found: the words that go before what is wrong with it.
#[derive(Debug)]
struct Found {
    place: String,
    value: Value,
}

/// Prints where the pods would go.
pub(crate) fn run(options: &SimulatePlacement) -> ExitCode {
    match forecast(options) {
        Ok(code) => code,
        Err(errors) => {
            for error in errors {
                eprintln!("error: {error}");
            }
            ExitCode::from(BAD_INPUT)
        }
    }
}

fn forecast(options: &SimulatePlacement) -> Result<ExitCode, Vec<String>> {
    let manifests = read_all(&options.filename)?;
    let is_live = options.nodes.is_empty();
    let cluster = if is_live {
        live::read(options.kubeconfig.as_deref()).map_err(|error: Failure| vec![crate::chain(error.as_ref())])?
    } else {
        read_all(&options.nodes)?
    };
    let (places, objects): (Vec<String>, Vec<Value>) =
        cluster.into_iter().map(|found| (found.place, found.value)).unzip();
    let scheduler = options.scheduler.read().map_err(|error| vec![crate::chain(error.as_ref())])?;
    let detail = Detail { limit: options.limit.into(), nodes: Vec::new() };
    let mut what_if =
        WhatIf::new(objects, &scheduler, detail, options.seed).map_err(|GivenError { index, error }| {
            let place = places.get(index).map_or("the cluster", String::as_str);
            vec![format!("{place}: {error}")]
        })?;
    let mut errors = Vec::new();
    for Found { place, value } in manifests {
        if !is_live {
            what_if.assume_namespace(value["metadata"]["namespace"].as_str().unwrap_or_default());
        }
        match what_if.apply(value) {
            Ok(warnings) => warnings.iter().for_each(|warning| eprintln!("warning: {place}: {warning}")),
            Err(error) => errors.push(format!("{place}: {error}")),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let forecast = what_if.finish();
    match options.output {
        Output::Json => println!("{:#}", forecast.to_json()),
        Output::Table => print!("{}", show::table(&forecast)),
    }
    Ok(if forecast.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every object of every file, in order; or everything that is wrong with the files.
fn read_all(files: &[PathBuf]) -> Result<Vec<Found>, Vec<String>> {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        match read(file) {
            Ok(objects) => found.extend(objects),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

fn read(file: &Path) -> Result<Vec<Found>, String> {
    let shown = file.display();
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    read.map_err(|error| format!("failed to read {shown}: {error}"))?;
    let documents = manifest::parse(&bytes).map_err(|error| format!("{shown}: {error}"))?;
    let found = documents.into_iter().map(|document| {
        let metadata = &document.value["metadata"];
        let name = metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()).unwrap_or_default();
        let kind = document.value["kind"].as_str().unwrap_or("object");
        let place = format!("{shown}: document {} ({kind} {name})", document.index + 1);
        Found { place, value: document.value }
    });
    Ok(found.collect())
}
