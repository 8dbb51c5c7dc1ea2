//! `coracle up`: a whole cluster in one process, with a sample workload (EDGE-08, decision 14).
//!
//! The agents are library instances that speak the real protocol over the real loopback MQTT.

mod agents;
mod sample;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use coracle_controller::server::{self, Broker, Running, Settings};
use coracle_controller_core::View;
use tokio::time::Instant;

use crate::arguments::Up;
use crate::{Outcome, asked_to_stop, runtime};
use agents::Agents;

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Runs until Ctrl-C; with `--exit-when-ready` until everything is Ready or the time is over.
pub(crate) fn run(options: Up) -> Outcome {
    let settings = Settings {
        data_dir: options.data_dir.join("controller"),
        cluster: "default".to_owned(),
        api_listen: options.api_listen,
        broker: Broker::Embedded(options.mqtt_listen),
        images: options.images.options(server::own_program())?,
        scheduler: options.scheduler.read()?,
    };
    runtime()?.block_on(async move {
        let mut running = server::start(settings).await?;
        let mut agents = Agents::start(&options, &running.broker.to_string())?;
        let outcome = tokio::select! {
            outcome = bring_up(&options, &mut running) => outcome,
            asked = asked_to_stop() => asked.map(|()| ExitCode::SUCCESS).map_err(Into::into),
            failed = agents.failed() => Err(failed.into()),
        };
        agents.stop().await;
        running.stop().await?;
        outcome
    })
}

/// Waits for the nodes, so that the sample spreads over all of them; applies it, shows how it comes up, and stays.
async fn bring_up(options: &Up, running: &mut Running) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(options.timeout);
    let progress = show::Progress::new();
    let look = |view: &View| show::State::of(view, options.nodes);
    let ready = wait_for(running, &progress, deadline, look, show::State::has_nodes).await;
    sample::apply(&running.cluster).await?;
    let ready = ready && wait_for(running, &progress, deadline, look, show::State::is_ready).await;
    progress.finish();
    print!("{}", running.cluster.read(show::tables));
    if options.exit_when_ready {
        if !ready {
            eprintln!("coracle: not everything was Running and Ready within {} s", options.timeout);
        }
        return Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if !ready {
        eprintln!("coracle: not everything is Running and Ready after {} s; going on", options.timeout);
    }
    print!("{}", show::next_steps(running));
    Err(running.failed().await.into())
}

/// Shows progress until it is enough, or until the time is over: then false.
async fn wait_for(
    running: &Running,
    progress: &show::Progress,
    deadline: Instant,
    look: impl Fn(&View) -> show::State,
    enough: impl Fn(show::State) -> bool,
) -> bool {
    loop {
        let state = running.cluster.read(&look);
        progress.show(&state);
        if enough(state) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
}
