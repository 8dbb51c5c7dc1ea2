//! The local agents: one thread each, so that a guest in one cannot slow the link of another.

use std::thread::JoinHandle;

use coracle_agent::{AgentConfig, AgentError, Eviction, Thresholds};
use tokio::sync::{mpsc as channel, watch};

use crate::arguments::Up;
use crate::chain;

/// Agents that run.
pub(super) struct Agents {
    stop: watch::Sender<bool>,
    ended: channel::UnboundedReceiver<(String, Result<(), AgentError>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Agents {
    /// Starts `node-1` to `node-N`, spread over the zones in turn.
    ///
    /// # Errors
    /// When a thread cannot be made.
    pub(super) fn start(options: &Up, broker: &str) -> std::io::Result<Self> {
        let (stop, stopping) = watch::channel(false);
        let (ending, ended) = channel::unbounded_channel();
        let mut threads = Vec::new();
        for number in 1..=options.nodes {
            let node = format!("node-{number}");
            let zone = options.zones.get(usize::from(number - 1) % options.zones.len().max(1));
            let config = AgentConfig {
                broker: broker.to_owned(),
                cluster: "default".to_owned(),
                zone: zone.cloned().unwrap_or_default(),
                labels: Vec::new(),
                data_dir: options.data_dir.join(&node),
                node: node.clone(),
                // They share a machine with its user, who would not see why pods go when the disk is nearly full.
                eviction_hard: Some(Thresholds::default()),
                eviction_transition_ms: Eviction::TRANSITION_MS,
            };
            let (stopping, ending) = (stopping.clone(), ending.clone());
            threads.push(std::thread::Builder::new().name(node.clone()).spawn(move || {
                let mut stopping = stopping;
                let stop = async move {
                    // A sender that is gone means the end as well.
                    let _stopped = stopping.wait_for(|stopping| *stopping).await;
                };
                let outcome = coracle_agent::run_blocking(config, || {}, stop);
                // Nobody listens any more when everything stops at once.
                let _: Result<(), _> = ending.send((node, outcome));
            })?);
        }
        Ok(Self { stop, ended, threads })
    }

    /// Waits for an agent that ends though nobody asked it to.
    pub(super) async fn failed(&mut self) -> String {
        match self.ended.recv().await {
            Some((node, Err(error))) => format!("the agent {node} failed: {}", chain(&error)),
            Some((node, Ok(()))) => format!("the agent {node} ended by itself"),
            None => "no agent runs".to_owned(),
        }
    }

    /// Stops every agent and waits for it.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        let threads = self.threads;
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                if thread.join().is_err() {
                    tracing::error!("an agent panicked");
                }
            }
        });
        if joined.await.is_err() {
            tracing::error!("waiting for the agents failed");
        }
    }
}
