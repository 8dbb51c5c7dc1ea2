//! The listener: TLS, HTTP/1.1 and HTTP/2, one task a connection, and a clean end.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::handle::handle;
use super::{App, Dependencies};
use crate::keys::identity_of;

/// Connections at once; a watch holds one with HTTP/1.1.
const CONNECTIONS: usize = 4096;
/// How long a client may take for the TLS handshake, and for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a listener rests that may not accept (no file descriptors left).
const REST: Duration = Duration::from_millis(100);
/// How long answers that are under way may take once the program ends.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often a silent HTTP/2 connection is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Serves the API until `stop` turns true; then accepts nothing more, lets answers come to their end and returns.
///
/// # Errors
/// None at present: a connection that fails is logged, and the listener goes on.
pub async fn serve(listener: TcpListener, dependencies: Dependencies, stop: Receiver<bool>) -> io::Result<()> {
    let Dependencies { cluster, streams, images, keys } = dependencies;
    let acceptor = TlsAcceptor::from(keys.server_tls());
    let (documents, samples) = (Arc::new(OnceLock::new()), Arc::default());
    let app = App { cluster, streams, images, keys, stop: stop.clone(), documents, samples };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = place_and_accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                connections.spawn(connection(acceptor.clone(), stream, app.clone(), stop.clone(), place));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection to the API");
                sleep(REST).await;
            }
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(LAST_WORDS, all).await.is_err() {
        tracing::info!("the API ends with requests unanswered");
    }
    Ok(())
}

/// Waits until the program ends, also by losing whoever would say so.
async fn stopped(stop: &mut Receiver<bool>) {
    let _: Result<_, _> = stop.wait_for(|stopping| *stopping).await.map(|_| ());
}

async fn place_and_accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// One connection, to its end. What goes wrong here is the client's business, and logged for who looks.
async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    app: App,
    mut stop: Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    // Watch events are small and wanted at once.
    let _: io::Result<()> = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake with the API failed"),
        Err(_) => return tracing::debug!("a TLS handshake with the API took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let user = certificate.and_then(identity_of);
    let service = service_fn(move |request: Request<Incoming>| {
        let (app, user) = (app.clone(), user.clone());
        async move { Ok::<_, Infallible>(handle(app, user, request.map(Body::new)).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE);
    let served = builder.serve_connection(TokioIo::new(stream), service);
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stopped(&mut stop) => {
            served.as_mut().graceful_shutdown();
            served.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection to the API ended with an error");
    }
}
