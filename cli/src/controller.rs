//! `coracle controller`: the real thing, one process of the two that a production cluster needs.

use std::process::ExitCode;

use coracle_controller::server::{self, Broker, Settings};
use coracle_link::BrokerUrl;

use crate::arguments::Controller;
use crate::{Outcome, asked_to_stop, open_files, runtime};

/// Runs until Ctrl-C or SIGTERM, or until the controller fails.
pub(crate) fn run(options: Controller) -> Outcome {
    if options.store != "embedded" {
        return Err(unknown_store(&options.store).into());
    }
    let broker = match &options.mqtt_broker {
        None => Broker::Embedded(options.mqtt_listen),
        Some(url) => {
            let url: BrokerUrl = url.parse()?;
            url.refuse_plaintext()?;
            Broker::External(url)
        }
    };
    let settings = Settings {
        data_dir: options.data_dir,
        cluster: options.cluster,
        api_listen: options.api_listen,
        broker,
        images: options.images.options(server::own_program())?,
        scheduler: options.scheduler.read()?,
    };
    open_files::raise();
    runtime()?.block_on(async {
        let mut running = server::start(settings).await?;
        println!(
            "coracle controller ready: api https://{} broker {} kubeconfig {}",
            running.api,
            running.broker,
            running.kubeconfig.display()
        );
        tokio::select! {
            asked = asked_to_stop() => asked?,
            failed = running.failed() => return Err(failed.into()),
        }
        running.stop().await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn unknown_store(store: &str) -> String {
    if store.starts_with("etcd://") {
        format!("--store {store}: the etcd store is not in this build; use --store embedded")
    } else {
        format!("--store {store}: want \"embedded\" or \"etcd://HOST:PORT\"")
    }
}
