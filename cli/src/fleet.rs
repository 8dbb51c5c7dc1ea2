//! `coracle fleet`: hollow agents, and what they count.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use coracle_fleet::{Figures, Refused, Settings};
use coracle_model::{NodeFacts, ResourceAmounts};
use tokio::time::Instant;

use crate::arguments::Fleet;
use crate::{Failure, Outcome, asked_to_stop, chain, open_files};

/// Files that this process needs beside a connection a node.
const OTHER_FILES: u64 = 64;
/// How soon after it happened it is said that all have joined.
const LOOK: Duration = Duration::from_millis(100);
/// What the nodes have, as those of Kubernetes' scheduler benchmarks.
const CAPACITY: ResourceAmounts =
    ResourceAmounts { cpu_millis: 4000, memory_bytes: 32 << 30, storage_bytes: 256 << 30 };

/// Runs until Ctrl-C or SIGTERM; 1 when no node is left because the controller wanted none.
pub(crate) fn run(options: &Fleet) -> Outcome {
    let nodes = u64::from(options.nodes);
    let files = open_files::raise();
    if files < nodes + OTHER_FILES {
        let wanted = nodes + OTHER_FILES;
        return Err(format!(
            "--nodes {nodes}: a process may have {files} files open here, want {wanted}; raise the hard limit \
             (ulimit -Hn {wanted}), or start several fleets with different --name-prefix"
        )
        .into());
    }
    let settings = settings(options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch(options, settings))
}

/// Milliseconds, or a range of them.
///
/// # Errors
/// What is wrong, and what would be right.
pub(crate) fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number: want 20, or 5..50"));
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    if first <= last { Ok(first..=last) } else { Err(format!("{first} is more than {last}: want 5..50")) }
}

fn settings(options: &Fleet) -> Result<Settings, Failure> {
    if !(0.0..=1.0).contains(&options.fail_rate) {
        return Err(format!("--fail-rate {}: want a share from 0 to 1, such as 0.01", options.fail_rate).into());
    }
    let facts = NodeFacts {
        capacity: CAPACITY,
        allocatable: CAPACITY,
        max_pods: options.pods_per_node,
        machine_id: String::new(),
        ..coracle_agent::facts::read(String::new(), Vec::new(), Path::new("."))
    };
    let seed = match options.seed {
        Some(seed) => seed,
        None => getrandom::u64()?,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1000")]
    let fail_per_mille = (options.fail_rate * 1000.0).round() as u64;
    Ok(Settings {
        broker: options.broker.parse()?,
        cluster: options.cluster.clone(),
        nodes: options.nodes,
        name_prefix: options.name_prefix.clone(),
        zones: options.zones.clone(),
        facts,
        start_ms: options.start_ms.clone(),
        fail_per_mille,
        pulls: options.pull,
        joins_per_second: options.join_rate,
        seed,
    })
}

async fn watch(options: &Fleet, settings: Settings) -> Outcome {
    let nodes = u64::from(options.nodes);
    let printer = Printer { nodes, json: options.json, started: Instant::now() };
    let mut fleet = coracle_fleet::Fleet::start(settings)?;
    let mut last = (Instant::now(), Figures::default());
    let mut looks = tokio::time::interval(LOOK);
    let mut prints = tokio::time::interval(Duration::from_secs(options.every));
    // An interval's first tick comes at once.
    prints.tick().await;
    let mut have_joined = false;
    let asked = asked_to_stop();
    tokio::pin!(asked);
    loop {
        tokio::select! {
            asked = &mut asked => {
                asked?;
                break;
            }
            refused = fleet.refused() => printer.refused(&refused),
            _ = prints.tick() => {
                let now = (Instant::now(), fleet.figures());
                printer.figures(now.1, last.1, now.0 - last.0);
                last = now;
            }
            _ = looks.tick() => {
                let figures = fleet.figures();
                if !have_joined && figures.joined == nodes {
                    have_joined = true;
                    printer.joined(figures);
                }
                if figures.refused == nodes {
                    return Err("the controller wanted none of the nodes".into());
                }
            }
        }
    }
    printer.summary(fleet.stop().await);
    Ok(ExitCode::SUCCESS)
}

/// Says it to people, or to programs.
struct Printer {
    nodes: u64,
    json: bool,
    started: Instant,
}

impl Printer {
    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn refused(&self, refused: &Refused) {
        eprintln!("coracle: {}", chain(refused));
    }

    fn joined(&self, figures: Figures) {
        if self.json {
            return self.object("joined", figures);
        }
        println!("coracle fleet ready: {} nodes joined in {:.1} s", self.nodes, self.seconds());
    }

    fn figures(&self, now: Figures, before: Figures, passed: Duration) {
        if self.json {
            return self.object("figures", now);
        }
        #[expect(clippy::cast_precision_loss, reason = "what a fleet counts in a few seconds is far below 2^52")]
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / passed.as_secs_f64();
        println!(
            "{}/{} joined, {} pods running, up {:.0} msg/s {:.1} kB/s, down {:.0} msg/s {:.1} kB/s, {} reconnects, {} failed \
             connects",
            now.joined,
            self.nodes,
            now.pods_running,
            rate(now.up_messages, before.up_messages),
            rate(now.up_bytes, before.up_bytes) / 1000.0,
            rate(now.down_messages, before.down_messages),
            rate(now.down_bytes, before.down_bytes) / 1000.0,
            now.reconnects,
            now.connects_failed,
        );
    }

    fn summary(&self, figures: Figures) {
        if self.json {
            return self.object("summary", figures);
        }
        println!(
            "coracle fleet ended after {:.1} s: {} starts, {} ends, up {} messages {} bytes, down {} messages {} bytes, {} \
             artifacts pulled ({} bytes), {} reconnects, {} failed connects, {} refused",
            self.seconds(),
            figures.starts,
            figures.ends,
            figures.up_messages,
            figures.up_bytes,
            figures.down_messages,
            figures.down_bytes,
            figures.artifacts_pulled,
            figures.artifact_bytes,
            figures.reconnects,
            figures.connects_failed,
            figures.refused,
        );
    }

    fn object(&self, event: &str, figures: Figures) {
        let object = serde_json::json!({
            "event": event,
            "seconds": self.seconds(),
            "nodes": self.nodes,
            "connected": figures.connected,
            "joined": figures.joined,
            "refused": figures.refused,
            "podsRunning": figures.pods_running,
            "starts": figures.starts,
            "ends": figures.ends,
            "reconnects": figures.reconnects,
            "connectsFailed": figures.connects_failed,
            "upMessages": figures.up_messages,
            "upBytes": figures.up_bytes,
            "downMessages": figures.down_messages,
            "downBytes": figures.down_bytes,
            "artifactsPulled": figures.artifacts_pulled,
            "artifactBytes": figures.artifact_bytes,
        });
        println!("{object}");
    }
}
