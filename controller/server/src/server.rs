//! Puts the controller together, in the only order that is safe: directory and keys before any listener, the store
//! before anybody may ask, the broker before agents are heard, the API last.

use std::net::SocketAddr;
use std::path::PathBuf;

use coracle_controller_core::controller::Identity;
use coracle_controller_core::schedule::config::Configuration;
use coracle_link::BrokerUrl;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api;
use crate::committer::{Cluster, Committer, CommitterError};
use crate::data_dir::{DataDir, DataDirError};
use crate::images::{self, Images, ImagesError};
use crate::keys::{Keys, KeysError};
use crate::link::broker::{BrokerError, EmbeddedBroker};
use crate::link::driver;
use crate::store::EmbeddedStore;

/// Which broker carries the link.
#[derive(Clone, Debug)]
pub enum Broker {
    /// One of our own, in this process, on this address.
    Embedded(SocketAddr),
    /// Any MQTT 5 broker.
    External(BrokerUrl),
}

/// What a controller is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Everything that must outlive the process.
    pub data_dir: PathBuf,
    /// The cluster's name: a level in every topic.
    pub cluster: String,
    /// Where the API listens; port 0 for a free one.
    pub api_listen: SocketAddr,
    /// Who carries the link.
    pub broker: Broker,
    /// How images are kept, compiled and pulled.
    pub images: images::Options,
    /// How pods are placed.
    pub scheduler: Configuration,
}

/// Why a controller did not start, or did not go on. Texts fit after "failed to start the controller: ".
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data directory.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// Keys and certificates.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The image store.
    #[error(transparent)]
    Images(#[from] ImagesError),
    /// The store.
    #[error(transparent)]
    Store(#[from] coracle_controller_core::store::StoreError),
    /// The committer.
    #[error(transparent)]
    Committer(#[from] CommitterError),
    /// The embedded broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The API's address.
    #[error("failed to listen for the API on {address}")]
    Listen {
        /// As it was asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The API's name is not one.
    #[error("the cluster name \"{0}\" is no DNS subdomain: lower case letters, digits, '-' and '.'")]
    ClusterName(String),
    /// A task of ours ended in a panic.
    #[error("a task of the controller ended unexpectedly")]
    Task(#[from] tokio::task::JoinError),
}

/// A controller that runs.
pub struct Running {
    /// For reading and changing the cluster from within the process.
    pub cluster: Cluster,
    /// The images, for pushing from within the process.
    pub images: Images,
    /// Where the API listens.
    pub api: SocketAddr,
    /// The broker that agents are to use.
    pub broker: BrokerUrl,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    stop: watch::Sender<bool>,
    committer: JoinHandle<Result<(), CommitterError>>,
    api_task: JoinHandle<std::io::Result<()>>,
    driver: JoinHandle<()>,
    embedded: Option<EmbeddedBroker>,
    /// Holds the lock on the directory until everything has ended.
    _data_dir: DataDir,
}

impl Running {
    /// Waits until the controller fails by itself; a clean stop comes through [`Self::stop`].
    ///
    /// # Errors
    /// Why it failed.
    pub async fn failed(&mut self) -> ServerError {
        match (&mut self.committer).await {
            Ok(Ok(())) => std::future::pending().await,
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// Stops: no new requests, what was accepted is committed, then the link and the broker end.
    ///
    /// # Errors
    /// When the last batch could not be committed.
    pub async fn stop(self) -> Result<(), ServerError> {
        self.stop.send_replace(true);
        if let Err(error) = self.api_task.await? {
            tracing::warn!(%error, "the API ended with an error");
        }
        self.committer.await??;
        self.driver.await?;
        if let Some(broker) = self.embedded {
            broker.stop().await;
        }
        Ok(())
    }
}

/// Starts a controller. When this returns, the API answers and agents are heard.
///
/// # Errors
/// What could not be started, with the path or address that it is about.
pub async fn start(settings: Settings) -> Result<Running, ServerError> {
    if !coracle_wire::topic::is_name(&settings.cluster) {
        return Err(ServerError::ClusterName(settings.cluster));
    }
    let data_dir = DataDir::open(&settings.data_dir)?;
    let keys = Keys::open(&data_dir, settings.api_listen.ip())?;
    let store = EmbeddedStore::open(&data_dir.store())?;
    let images = Images::open(&data_dir.images(), keys.artifact().clone(), settings.images)?;
    let identity = Identity {
        cluster: keys.cluster(),
        artifact_key: keys.artifact().verifying_key().to_bytes(),
        entropy: entropy(),
    };
    let (committer, cluster, downs) = Committer::load(Box::new(store), identity, settings.scheduler)?;
    let listener = TcpListener::bind(settings.api_listen)
        .await
        .map_err(|source| ServerError::Listen { address: settings.api_listen, source })?;
    let api = listener.local_addr().map_err(|source| ServerError::Listen { address: settings.api_listen, source })?;
    let (embedded, broker) = match settings.broker {
        Broker::Embedded(listen) => {
            let (broker, address) = EmbeddedBroker::start(listen, &settings.cluster)?;
            (Some(broker), BrokerUrl::from(address))
        }
        Broker::External(url) => (None, url),
    };
    let (stop, stopping) = watch::channel(false);
    // It computes for as long as a batch takes. Among the other tasks it would hold up whoever waits for the same thread,
    // and a link that is held up for seconds loses every agent.
    let (runtime, committer) = (Handle::current(), committer.run(stopping.clone()));
    let committer = tokio::task::spawn_blocking(move || runtime.block_on(committer));
    let controller_id = embedded.as_ref().map(|broker| broker.controller_id().to_owned());
    let (streams, driver) = driver::start(
        broker.clone(),
        controller_id,
        settings.cluster,
        cluster.clone(),
        images.clone(),
        downs,
        stopping.clone(),
    );
    let kubeconfig = write_kubeconfig(&keys, &data_dir, api)?;
    let dependencies = api::Dependencies { cluster: cluster.clone(), streams, images: images.clone(), keys };
    let api_task = tokio::spawn(api::serve(listener, dependencies, stopping));
    Ok(Running {
        cluster,
        images,
        api,
        broker,
        kubeconfig,
        stop,
        committer,
        api_task,
        driver,
        embedded,
        _data_dir: data_dir,
    })
}

fn write_kubeconfig(keys: &Keys, data_dir: &DataDir, api: SocketAddr) -> Result<PathBuf, ServerError> {
    let path = data_dir.admin_kubeconfig();
    keys.write_admin_kubeconfig(&path, &server_url(api))?;
    Ok(path)
}

/// The API's address as a client on this machine writes it.
fn server_url(api: SocketAddr) -> String {
    if api.ip().is_unspecified() { format!("https://127.0.0.1:{}", api.port()) } else { format!("https://{api}") }
}

fn entropy() -> u64 {
    let mut bytes = [0; 8];
    // Without the system's randomness names would repeat those of an earlier start, which admission then refuses.
    if getrandom::fill(&mut bytes).is_err() {
        tracing::warn!("the system gives no randomness; generated names may repeat");
    }
    u64::from_le_bytes(bytes)
}

/// The program that runs now, also when an upgrade has replaced its file: what compiles images for it.
#[must_use]
pub fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}
