//! The control socket: accepts connections, authorizes and decodes their requests, and passes them
//! on. The verbs are in [`crate::verb`].

use crate::{
    channel::{Channel, LargeMessages},
    error::CallerError,
    service::{Ending, Service},
    verb::{
        create, delete, hook,
        request::{VerbRequest, refuse},
        run, start, update,
    },
};
use nri_control::{Begin, FrameError, OsText, Reply, Request, Verb};
use nri_trust::Owners;
use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};
use tokio::net::{UnixListener, UnixStream};

/// Pause after an `accept` that failed, because descriptors are exhausted for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until the service ends.
pub async fn serve(service: Arc<Service>, listener: UnixListener) {
    let large = LargeMessages::default();
    loop {
        let accepted = tokio::select! {
            // Polled first, so that a connection that is not accepted waits for the next nrid.
            biased;
            () = service.ended() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                if let Err(error) = authorize(&stream) {
                    tracing::warn!(%error, "control connection refused");
                    continue;
                }
                let (service, channel) = (service.clone(), Channel::new(stream, large.clone()));
                tokio::spawn(async move {
                    match connection(&service, channel).await {
                        Ok(()) | Err(FrameError::Closed) => {}
                        Err(error) => tracing::warn!(%error, "control connection failed"),
                    }
                });
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept a control connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Checks that a peer may send requests: they name programs that are run with the rights of `nrid`.
/// The directory and mode of the socket keep other users away, unless a systemd unit has moved it.
fn authorize(stream: &UnixStream) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    if Owners::of_this_process().contains(uid) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("the peer is user {uid}")))
}

async fn connection(service: &Arc<Service>, mut channel: Channel) -> Result<(), FrameError> {
    let mut first = true;
    loop {
        let received = match std::mem::take(&mut first) {
            true => channel.receive_first().await,
            false => channel.receive().await,
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
        let is_work =
            !matches!(request.message, Request::Status | Request::Stop | Request::Restart { .. });
        let in_progress = service.start_request();
        if is_work && in_progress.is_none() {
            // Closed without a reply: nothing was started, and the wrapper sends its request to the
            // next nrid.
            return Ok(());
        }
        let _in_progress = in_progress.filter(|_| is_work);
        match request.message {
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
                service.end(Ending::Stop);
                // The peer sees the end of the process as the end of this connection.
                std::future::pending::<()>().await;
            }
            message => tokio::select! {
                // Polled first: a missing reply of a plugin that is being closed must not count as
                // its failure.
                biased;
                () = service.abandoned() => return Err(FrameError::Closed),
                done = work(service, &mut channel, message, fds) => done?,
            },
        }
    }
}

/// Serves a request for which a clean end waits.
async fn work(
    service: &Arc<Service>,
    channel: &mut Channel,
    message: Request,
    fds: Vec<OwnedFd>,
) -> Result<(), FrameError> {
    match message {
        Request::Begin(begin) => verb(service, channel, *begin, fds).await,
        Request::Hook(hook) => channel.send(&hook::serve(service, &hook).await).await,
        Request::Verify { ids } => {
            let verified = service.verify(&ids).await;
            channel.send(&Reply::Verified(verified)).await
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

async fn verb(
    service: &Arc<Service>,
    channel: &mut Channel,
    begin: Begin,
    fds: Vec<OwnedFd>,
) -> Result<(), FrameError> {
    let (verb, id) = (begin.verb, begin.id.clone());
    let request = match VerbRequest::parse(begin, fds.into_iter().next()) {
        Ok(request) => request,
        Err(error) => return channel.send(&refuse(&id, &error.into())).await,
    };
    match verb {
        Verb::Create => create::serve(service, channel, request).await,
        Verb::Run | Verb::Restore => run::serve(service, channel, request).await,
        Verb::Start => start::serve(service, channel, &request).await,
        Verb::Update => update::serve(service, channel, &request).await,
        Verb::Delete => delete::serve(service, channel, &request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_owner_may_send_requests() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(authorize(&ours).is_ok());
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can be another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        for file in [dir.path(), &path] {
            std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o777))
                .unwrap();
        }
        let connect = || {
            // Changes the user of this thread only.
            let nobody = rustix::fs::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            std::os::unix::net::UnixStream::connect(&path).unwrap()
        };
        let _client = std::thread::scope(|s| s.spawn(connect).join().unwrap());
        let (stream, _) = listener.accept().await.unwrap();
        assert_eq!(authorize(&stream).unwrap_err().to_string(), "the peer is user 65534");
    }
}
