//! How images are shown.

use std::fmt::Write as _;

use indicatif::HumanBytes;
use serde_json::Value;

/// Every image, a line each.
pub(super) fn list(answer: &Value) -> String {
    let images = answer["images"].as_array().map_or(&[][..], Vec::as_slice);
    let width = images.iter().filter_map(|image| image["name"].as_str()).map(str::len).max().unwrap_or(0).max(4);
    let mut text = format!("{:width$}  {:71}  SIZE\n", "NAME", "DIGEST");
    for image in images {
        line(&mut text, &format!("{:width$}  {:71}  {}", word(image, "name"), word(image, "digest"), size(image)));
    }
    text
}

/// What was pushed or pulled.
pub(super) fn taken(image: &Value) -> String {
    let mut text = format!("{} {}\n", word(image, "name"), word(image, "digest"));
    let imports = words(image, "imports").count();
    line(&mut text, &format!("{}, {imports} imports; {}", word(image, "form"), nodes(image)));
    for import in words(image, "imports") {
        line(&mut text, &format!("  {import}"));
    }
    text
}

/// All about one image.
pub(super) fn inspection(image: &Value) -> String {
    let mut text = String::new();
    line(&mut text, &format!("Digest:  {}", word(image, "digest")));
    line(&mut text, &format!("Size:    {}", size(image)));
    line(&mut text, &format!("Form:    {}", word(image, "form")));
    line(&mut text, &format!("Nodes:   {}", nodes(image)));
    line(&mut text, "Names:");
    for name in image["names"].as_array().into_iter().flatten() {
        let manifest = name["manifest"].as_str().map(|manifest| format!(" (pulled, manifest {manifest})"));
        let built_in = name["builtIn"].as_bool().unwrap_or_default().then(|| " (built in)".to_owned());
        line(&mut text, &format!("  {}{}", word(name, "name"), manifest.or(built_in).unwrap_or_default()));
    }
    for (title, field) in [("Imports:", "imports"), ("Exports:", "exports")] {
        line(&mut text, title);
        for name in words(image, field) {
            line(&mut text, &format!("  {name}"));
        }
    }
    line(&mut text, "Artifacts:");
    let artifacts = image["artifacts"].as_array().map_or(&[][..], Vec::as_slice);
    let width = artifacts.iter().map(|artifact| word(artifact, "target").len()).max().unwrap_or_default();
    for artifact in artifacts {
        let used = artifact["lastUsed"].as_str().map_or_else(|| "not known".to_owned(), ToOwned::to_owned);
        let size = size(artifact);
        line(&mut text, &format!("  {:width$}  {size:>10}  last used {used}", word(artifact, "target")));
    }
    text
}

/// How many nodes could run it.
fn nodes(image: &Value) -> String {
    let count = |field: &str| image["nodes"][field].as_u64().unwrap_or_default();
    let (connected, offering, unknown) = (count("connected"), count("offering"), count("unknown"));
    if connected == 0 {
        return "no node is connected".to_owned();
    }
    let unknown = if unknown > 0 { format!(" ({unknown} do not say)") } else { String::new() };
    format!("{offering} of {connected} connected nodes offer all of them{unknown}")
}

fn size(value: &Value) -> String {
    HumanBytes(value["sizeBytes"].as_u64().unwrap_or_default()).to_string()
}

fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn words<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    value[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn line(text: &mut String, line: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{line}");
}
