//! `coracle explain-placement`: why a pod is where it is, or nowhere (SCH-04), as the API answers it.

use std::fmt::Write as _;
use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;

use crate::Outcome;
use crate::arguments::{ExplainPlacement, Output};
use crate::client::send;
use crate::kubeconfig;
use crate::table::Table;

/// Asks once and prints the answer.
pub(crate) fn run(options: &ExplainPlacement) -> Outcome {
    let config = kubeconfig::find(options.kubeconfig.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(send(&config, Method::GET, &path(options), Vec::new()))?;
    match options.output {
        Output::Json => println!("{answer:#}"),
        Output::Table => print!("{}", shown(&answer)),
    }
    Ok(ExitCode::SUCCESS)
}

fn path(options: &ExplainPlacement) -> String {
    let (namespace, pod) = (escape(&options.namespace), escape(&options.pod));
    let mut path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/placement?limit={}", options.limit);
    for node in &options.node {
        path.push_str("&node=");
        path.push_str(&escape(node));
    }
    path
}

/// Percent-encodes what no name has in it.
fn escape(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The answer for people.
fn shown(answer: &Value) -> String {
    let mut text = String::new();
    let mut line = |title: &str, words: &str| {
        // Writing to a text never fails.
        let _written = writeln!(text, "{title:9} {words}");
    };
    let metadata = &answer["metadata"];
    line("Pod:", &format!("{}/{}", word(metadata, "namespace"), word(metadata, "name")));
    line("State:", &state(answer));
    if let Some(node) = answer["chosenNode"].as_str() {
        let would = if answer["state"] == "Bound" { " (if it were free)" } else { "" };
        line("Goes to:", &format!("{node}{would}"));
    }
    if let Some(node) = answer["nominatedNode"].as_str() {
        line("Held on:", node);
    }
    line("Message:", word(answer, "message"));
    if let Some(preemption) = answer.get("preemption").filter(|preemption| preemption["helps"] == true) {
        line("Preempts:", &victims(preemption));
    }
    text.push('\n');
    text.push_str(&nodes(answer).text());
    if let Some(omitted) = answer["omitted"].as_u64().filter(|omitted| *omitted > 0) {
        let _written = writeln!(text, "and {omitted} more nodes (--limit N, --node NODE)");
    }
    let refused = answer["reasons"].as_array().map_or(&[][..], Vec::as_slice);
    if !refused.is_empty() {
        let mut table = Table::new(&["NODES", "REFUSED BY", "REASON"]);
        for reason in refused {
            let (plugin, words) = (word(reason, "plugin"), word(reason, "reason"));
            table.row(vec![reason["nodes"].to_string(), plugin.to_owned(), words.to_owned()]);
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    text
}

fn state(answer: &Value) -> String {
    match (word(answer, "state"), answer["presentNode"].as_str()) {
        ("Bound", Some(node)) => format!("on node {node}"),
        ("Waiting", _) => "waits for a node".to_owned(),
        ("Gated", _) => "waits for its scheduling gates".to_owned(),
        ("Elsewhere", _) => "waits for another scheduler".to_owned(),
        ("Ended", _) => "has ended".to_owned(),
        (other, _) => other.to_owned(),
    }
}

fn victims(preemption: &Value) -> String {
    let victims = preemption["victims"].as_array().into_iter().flatten();
    let named = victims.map(|victim| {
        format!("{}/{} (priority {})", word(victim, "namespace"), word(victim, "name"), victim["priority"])
    });
    format!("{} on node {}", named.collect::<Vec<_>>().join(", "), word(preemption, "node"))
}

fn nodes(answer: &Value) -> Table {
    let mut table = Table::new(&["NODE", "", "SCORE", "WHY"]);
    for verdict in answer["verdicts"].as_array().into_iter().flatten() {
        let marks = [("chosen", "chosen"), ("present", "now")];
        let marks = marks.iter().filter(|(field, _)| verdict[*field] == true).map(|(_, mark)| *mark);
        let marks = marks.collect::<Vec<_>>().join(",");
        let score = verdict["score"].as_i64().map_or_else(|| "-".to_owned(), |score| score.to_string());
        table.row(vec![word(verdict, "node").to_owned(), marks, score, why(verdict)]);
    }
    table
}

/// Points that count for something, or the reasons against the node.
fn why(verdict: &Value) -> String {
    let reasons = verdict["reasons"].as_array().into_iter().flatten();
    let reasons = reasons.map(|reason| word(reason, "reason").to_owned());
    let points = verdict["points"].as_array().into_iter().flatten().filter(|points| points["weighted"] != 0);
    let points = points.map(|points| format!("{} {}x{}", word(points, "plugin"), points["points"], points["weight"]));
    reasons.chain(points).collect::<Vec<_>>().join(", ")
}

fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
