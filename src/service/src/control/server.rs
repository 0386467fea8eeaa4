//! The control socket: accepts and authorizes connections, decodes requests, and calls the function
//! for each request. The runtime verbs are served in [`crate::verb`].

use crate::{
    channel::{self, Channel, LargeMessages},
    control::{
        peer::authorize,
        places::{Place, Places},
    },
    error::CallerError,
    host::line_limit::LineLimit,
    process::this_process::Ending,
    service::Service,
    verb::{
        create, delete, hook,
        request::{VerbRequest, refuse},
        run, start, update,
    },
};
use nri_adaptation::traced;
use nri_control::{Begin, FrameError, Reply, Request, Verb};
use nri_files::OsText;
use std::{fmt::Display, os::fd::OwnedFd, sync::Arc, time::Duration};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, mpsc},
};

/// Pause after an `accept` that failed, for example because descriptors are exhausted: without the
/// pause, the loop would use a whole CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until the service ends. A listener from `replacements` replaces the current
/// one, whose path was removed.
pub async fn serve(
    service: Arc<Service>,
    mut listener: UnixListener,
    mut replacements: mpsc::Receiver<UnixListener>,
) {
    let large = LargeMessages::default();
    let places = Places::new(service.process.descriptors.connections);
    let refusals = LineLimit::default();
    loop {
        let next = async { (places.free().await, listener.accept().await) };
        let (free, accepted) = tokio::select! {
            // The end is polled first: a connection that this nrid does not accept stays in the
            // socket's queue for the next nrid.
            biased;
            () = service.process.end_requested() => return,
            Some(replacement) = replacements.recv() => {
                listener = replacement;
                continue;
            }
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => match admit(&stream, &places, free) {
                Ok(place) => {
                    let (service, channel) = (service.clone(), Channel::new(stream, large.clone()));
                    tokio::spawn(async move {
                        let _place = place;
                        match connection(&service, channel).await {
                            Ok(()) | Err(FrameError::Closed) => {}
                            Err(error) => tracing::warn!(%error, "control connection failed"),
                        }
                    });
                }
                Err(error) => {
                    if let Some(not_logged) = refusals.next(&error) {
                        tracing::warn!(error, not_logged, "control connection refused");
                    }
                    channel::refuse(stream, format!("nrid refuses: {error}"));
                }
            },
            Err(error) => {
                tracing::error!(%error, "cannot accept a control connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Gives a place to the connection of a peer that may send requests, before anything is read.
///
/// # Errors
/// Why the peer is refused.
fn admit(
    stream: &UnixStream,
    places: &Places,
    free: Option<OwnedSemaphorePermit>,
) -> Result<Option<Place>, String> {
    fn text(error: impl Display) -> String {
        error.to_string()
    }
    let peer = authorize(stream).map_err(text)?;
    free.map(|permit| places.take(permit, peer)).transpose().map_err(text)
}

/// Serves the requests of a connection, one after the other.
async fn connection(service: &Arc<Service>, mut channel: Channel) -> Result<(), FrameError> {
    let mut is_first = true;
    loop {
        let received = if std::mem::take(&mut is_first) {
            channel.receive_first().await
        } else {
            channel.receive().await
        };
        let (request, fds) = match received {
            Err(FrameError::OtherProtocol(_)) => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let restarting = service.restart_if_replaced("unknown (other protocol)");
                return channel.send(&Reply::OtherVersion { version, restarting }).await;
            }
            received => received?,
        };
        if !matches!(request.version.as_str(), "" | env!("CARGO_PKG_VERSION")) {
            service.restart_if_replaced(&request.version);
        }
        let must_complete = !matches!(
            request.message,
            Request::Ping | Request::Status | Request::Stop | Request::Restart { .. }
        );
        if service.process.parent.gives_way(&request.message, channel.peer_pid()) {
            tracing::info!("nrid ends, as conmon waits for it; the caller starts the next nrid");
            service.process.end(Ending::Stop);
        }
        let in_progress = service.process.start_request();
        if must_complete && in_progress.is_none() {
            // Closed without a reply: nothing was started, and the wrapper sends its request to the
            // next nrid.
            return Ok(());
        }
        let _in_progress = in_progress.filter(|_| must_complete);
        match request.message {
            Request::Ping => channel.send(&Reply::Done).await?,
            Request::Status => {
                channel.send(&Reply::Status(Box::new(service.status().await))).await?
            }
            Request::Restart { program } => {
                if let Err(error) = service.restart(program.as_ref().map(OsText::as_path)).await {
                    channel.send(&refuse("", &error)).await?;
                    continue;
                }
                channel.send(&Reply::Done).await?;
                std::future::pending::<()>().await;
            }
            Request::Stop => {
                channel.send(&Reply::Done).await?;
                service.process.end(Ending::Stop);
                // Keeps the connection open until the process ends, for which the peer waits.
                std::future::pending::<()>().await;
            }
            message => tokio::select! {
                // Polled first: if a plugin does not reply because nrid is closing it, the request
                // must be abandoned and not fail.
                biased;
                () = service.process.abandoned() => return Err(FrameError::Closed),
                served = serve_request(service, &mut channel, message, fds) => served?,
            },
        }
    }
}

/// Serves a request that a clean end of `nrid` waits for.
async fn serve_request(
    service: &Arc<Service>,
    channel: &mut Channel,
    message: Request,
    fds: Vec<OwnedFd>,
) -> Result<(), FrameError> {
    match message {
        Request::Begin(begin) => serve_verb(service, channel, *begin, fds).await,
        Request::Hook(hook) => channel.send(&hook::serve(service, &hook).await).await,
        Request::Verify { ids } => {
            let verified = service.verify(&ids).await;
            channel.send(&Reply::Verified(verified)).await
        }
        Request::Describe(question) => channel.send(&service.describe(&question).await).await,
        Request::LogLevel { level } => {
            let changed = service.process.set_log_level(level.as_deref(), &service.settings());
            let reply = match changed.map_err(CallerError::from) {
                Ok(()) => Reply::Done,
                Err(error) => refuse("", &error.into()),
            };
            channel.send(&reply).await
        }
        Request::Reload => {
            let reply = match service.reload().await {
                Ok(reloaded) => Reply::Reloaded(Box::new(reloaded)),
                Err(error) => refuse("", &error),
            };
            channel.send(&reply).await
        }
        _ => {
            channel.send(&refuse("", &CallerError::NoVerb.into())).await?;
            Err(FrameError::Closed)
        }
    }
}

async fn serve_verb(
    service: &Arc<Service>,
    channel: &mut Channel,
    begin: Begin,
    fds: Vec<OwnedFd>,
) -> Result<(), FrameError> {
    let (verb, id) = (begin.verb, begin.id.clone());
    let namespace = channel.peer_pid().and_then(|pid| service.engines.namespaces.of_process(pid));
    let request = match VerbRequest::parse(begin, fds.into_iter().next(), namespace).await {
        Ok(request) => request,
        Err(error) => return channel.send(&refuse(&id, &error)).await,
    };
    let trace = request.trace.clone();
    let serve = async {
        match verb {
            Verb::Create => create::serve(service, channel, request).await,
            Verb::Run | Verb::Restore => run::serve(service, channel, request).await,
            Verb::Start => start::serve(service, channel, &request).await,
            Verb::Update => update::serve(service, channel, &request).await,
            Verb::Delete => delete::serve(service, channel, &request).await,
        }
    };
    traced(trace, serve).await
}
