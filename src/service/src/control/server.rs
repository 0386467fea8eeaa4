//! The control socket: a task per connection, which follows one verb from its beginning to its end.

use crate::{
    control::connection::{Channel, Large},
    error::{CallerError, Error},
    lifecycle::exit_watch::Process,
    service::{DELETE_PATIENCE, Ending, Service},
    state::{
        record::{Caller, Key, Phase, Record, has_ended},
        registry::{Container, LaneGuard},
    },
    verb::create::Creation,
};
use nri_control::{Begin, Exit, Finished, FrameError, OsText, Reply, Request, Substitute, Verb};
use nri_trust::Owners;
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
};
use tokio::net::{UnixListener, UnixStream};

/// Accepts connections until the service ends.
pub async fn serve(service: Arc<Service>, listener: UnixListener) {
    let large = Large::default();
    loop {
        let accepted = tokio::select! {
            // First: who is not accepted is the successor's.
            biased;
            () = service.ended() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                if let Err(error) = admit(&stream) {
                    tracing::warn!(%error, "a control connection was refused");
                    continue;
                }
                let (service, channel) = (service.clone(), Channel::new(stream, large.clone()));
                tokio::spawn(async move {
                    match connection(&service, channel).await {
                        Ok(()) | Err(FrameError::Closed) => {}
                        Err(error) => tracing::warn!(%error, "control connection"),
                    }
                });
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept a control connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

/// Whether who connects may tell us what to do: a request names programs that are run with our
/// rights. The socket's place and mode keep others away; this is for a socket that a unit or a
/// drop-in put elsewhere.
fn admit(stream: &UnixStream) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    if Owners::of_this_process().contains(uid) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it is user {uid}'s")))
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
                let restarting = service.met_other("that speaks another protocol");
                return channel.send(&Reply::OtherVersion { version, restarting }).await;
            }
            received => received?,
        };
        if !matches!(request.version.as_str(), "" | env!("CARGO_PKG_VERSION")) {
            service.met_other(&request.version);
        }
        let is_work =
            !matches!(request.message, Request::Status | Request::Stop | Request::Restart { .. });
        let under_way = service.begin();
        if is_work && under_way.is_none() {
            // Without an answer: nothing was begun, and whoever comes next is asked again.
            return Ok(());
        }
        let _under_way = under_way.filter(|_| is_work);
        match request.message {
            Request::Status => {
                channel.send(&Reply::Status(Box::new(service.status().await))).await?
            }
            Request::Restart { program } => {
                if let Err(error) = service.restart(program.as_ref().map(OsText::as_path)).await {
                    channel.send(&refused("", &error)).await?;
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
                // First: what plugins that are just being closed have not answered looks like their
                // failure.
                biased;
                () = service.given_up() => return Err(FrameError::Closed),
                done = work(service, &mut channel, message, fds) => done?,
            },
        }
    }
}

/// What an end waits for, but not for ever.
async fn work(
    service: &Arc<Service>,
    channel: &mut Channel,
    message: Request,
    fds: Vec<OwnedFd>,
) -> Result<(), FrameError> {
    match message {
        Request::Begin(begin) => verb(service, channel, &begin, fds).await,
        Request::Hook(hook) => {
            let container = service.registry.by_hook_name(&hook.record);
            let id = container.as_ref().map(|c| c.key().id).unwrap_or_default();
            let handled = service.hook(&hook, container).await;
            let reply = handled.map_or_else(|e| refused(&id, &e), |()| Reply::Done);
            channel.send(&reply).await
        }
        Request::Verify { ids } => {
            let verified = service.verify(&ids).await;
            channel.send(&Reply::Verified(verified)).await
        }
        Request::Reload => {
            let reloaded = service.reload().await;
            let reply = reloaded
                .map_or_else(|e| refused("", &e), |reloaded| Reply::Reloaded(Box::new(reloaded)));
            channel.send(&reply).await
        }
        _ => {
            channel.send(&refused("", &CallerError::NoVerb.into())).await?;
            Err(FrameError::Closed)
        }
    }
}

/// The one line that the engine shows, which names the container; an empty id names none.
fn refused(id: &str, error: &Error) -> Reply {
    let message = error.line(id);
    tracing::warn!("{message}");
    Reply::Refused { message }
}

async fn verb(
    service: &Arc<Service>,
    channel: &mut Channel,
    begin: &Begin,
    fds: Vec<OwnedFd>,
) -> Result<(), FrameError> {
    if !is_file_name(&begin.id) {
        return channel.send(&refused(&begin.id, &CallerError::InvalidId.into())).await;
    }
    let key = key_of(begin);
    let outcome = match begin.verb {
        Verb::Create => create(service, channel, begin, &key, fds).await?,
        Verb::Run | Verb::Restore => run(service, channel, begin, &key, fds).await?,
        Verb::Start => start(service, channel, &key).await?,
        Verb::Update => update(service, channel, begin, &key).await?,
        Verb::Delete => delete(service, channel, &key).await?,
    };
    match outcome {
        Some(reply) => channel.send(&reply).await,
        None => Ok(()),
    }
}

/// Ids are names of files and directories, ours and the runtime's.
fn is_file_name(id: &str) -> bool {
    !matches!(id, "" | "." | "..") && id.len() <= 255 && !id.contains(['/', '\0'])
}

fn key_of(begin: &Begin) -> Key {
    let runtime = crate::host::runtime::LowLevelRuntime::new(
        &begin.runtime,
        &begin.globals,
        begin.root.as_ref(),
        &begin.environment,
        &begin.cwd,
    );
    Key { root: nri_control::resolved_root(&runtime.root()), id: begin.id.clone() }
}

/// Answers «proceed» and waits for the verb's end; a caller that is gone without a word counts as
/// not finished.
async fn proceed(channel: &mut Channel, substitute: Substitute) -> Option<Finished> {
    channel.send(&Reply::Proceed(substitute)).await.ok()?;
    match channel.receive().await {
        Ok((request, _)) => match request.message {
            Request::Finished(finished) => Some(finished),
            _ => None,
        },
        Err(_) => None,
    }
}

/// The answer to send, if any is left to be sent.
type Answer = Result<Option<Reply>, FrameError>;

async fn create(
    service: &Arc<Service>,
    channel: &mut Channel,
    begin: &Begin,
    key: &Key,
    fds: Vec<OwnedFd>,
) -> Answer {
    let lane = service.lane(key).await;
    let caller = caller(channel)?;
    let (container, turn) = match created(service, begin, key, fds, caller).await {
        Ok(Creation::Proceed(container, turn)) => (container, turn),
        Ok(Creation::Bypass) => return Ok(Some(Reply::Bypass)),
        Err(error) => return Ok(Some(refused(&key.id, &error))),
    };
    let finished = proceed(channel, Substitute::default()).await;
    let record = container.record();
    let made = match &finished {
        Some(finished) => finished.exit.success(),
        // The wrapper was killed, its runtime with it: what is there counts.
        None => record.runtime.state(&key.id).await.is_ok(),
    };
    drop(turn);
    if !made {
        // The engine may look at its bundle as soon as it hears of the failure.
        service.finish(&container).await;
        channel.send(&Reply::Done).await?;
        return Ok(None);
    }
    let mut pid = finished.and_then(|f| f.pid);
    if pid.is_none() && (record.asked != record.in_force || record.has_owned_resources()) {
        pid = pid_of(&record).await;
    }
    if let Err(error) = service.enforce_created(&container, pid) {
        if let Err(error) = record.runtime.delete(&key.id).await {
            tracing::error!(container = key.id, %error, "cannot delete what is not as it should be");
        }
        service.finish(&container).await;
        channel.send(&refused(&key.id, &error)).await?;
        return Ok(None);
    }
    // From now on it can be updated. The engine need not wait for what plugins are told; its next
    // verb waits for the lane.
    service.registry.change(&container, |r| r.phase = Phase::Created);
    let reply = channel.send(&Reply::Done).await;
    if pid.is_none() {
        pid = pid_of(&record).await;
    }
    service.created(&container, pid).await;
    drop(lane);
    reply.map(|()| None)
}

/// Who asks, as far as the kernel tells.
///
/// # Errors
/// It is gone. What it wanted is not to be begun, for its engine may be at the next container by
/// now.
fn caller(channel: &Channel) -> Result<Option<Caller>, FrameError> {
    // 0: a process of a namespace that we do not see.
    let Some(pid) = channel.peer_pid().filter(|pid| *pid > 0) else { return Ok(None) };
    if has_ended(pid) { Err(FrameError::Closed) } else { Ok(Caller::of(pid)) }
}

async fn pid_of(record: &Record) -> Option<i32> {
    let state = record.runtime.state(&record.key.id).await;
    state.ok().map(|s| s.pid).filter(|pid| *pid > 0)
}

async fn created(
    service: &Arc<Service>,
    begin: &Begin,
    key: &Key,
    fds: Vec<OwnedFd>,
    caller: Option<Caller>,
) -> Result<Creation, Error> {
    let dir = fds.into_iter().next();
    let dir = dir.ok_or(CallerError::NoBundle)?;
    service.create(begin, key, dir, caller).await
}

/// After the answer the caller becomes the runtime, and hooks report.
async fn run(
    service: &Arc<Service>,
    channel: &mut Channel,
    begin: &Begin,
    key: &Key,
    fds: Vec<OwnedFd>,
) -> Answer {
    let lane = service.lane(key).await;
    // Opened while the peer waits for us, so it is the right process.
    let process = channel.peer_pid().and_then(Process::open);
    let caller = caller(channel)?;
    let reply = match created(service, begin, key, fds, caller).await {
        Ok(Creation::Proceed(container, turn)) => {
            service.follow_run(&container, process, Some(turn));
            Reply::Proceed(Substitute::default())
        }
        Ok(Creation::Bypass) => Reply::Bypass,
        Err(error) => refused(&key.id, &error),
    };
    drop(lane);
    Ok(Some(reply))
}

async fn start(service: &Arc<Service>, channel: &mut Channel, key: &Key) -> Answer {
    let _lane = service.lane(key).await;
    let Some(container) = service.registry.get(key) else { return Ok(Some(Reply::Bypass)) };
    if container.is_being_made() {
        // As early for the runtime as for us.
        return Ok(Some(Reply::Bypass));
    }
    if container.record().phase == Phase::Creating {
        // An nrid before us did not hear of the end of its creation.
        service.settle(&container).await;
    }
    if container.record().process_is_gone() {
        service.stop_if_owed(&container).await;
    }
    // The runtime refuses it; plugins have heard of the start, or of the end already.
    if container.record().phase >= Phase::Running {
        return Ok(Some(Reply::Bypass));
    }
    if container.is_amiss.load(Ordering::SeqCst) {
        let _turn = container.setting.lock().await;
        if let Err(error) = service.enforce_created(&container, None) {
            return Ok(Some(refused(&key.id, &error)));
        }
        container.is_amiss.store(false, Ordering::SeqCst);
    }
    if let Err(error) = service.starting(&container).await {
        return Ok(Some(refused(&key.id, &error.into())));
    }
    let started = match proceed(channel, Substitute::default()).await {
        Some(finished) => finished.exit.success(),
        None => {
            let state = container.record().runtime.state(&key.id).await;
            state.is_ok_and(|s| s.status == "running" || s.status == "stopped")
        }
    };
    if started {
        service.registry.change(&container, Record::note_running);
    }
    let reply = channel.send(&Reply::Done).await;
    if started {
        service.running(&container).await;
    }
    reply.map(|()| None)
}

async fn update(service: &Arc<Service>, channel: &mut Channel, begin: &Begin, key: &Key) -> Answer {
    let caller = channel.peer_pid().and_then(Caller::of);
    if let Some(container) = service.registry.get(key) {
        container.note_asked(caller);
    }
    let _lane = service.lane(key).await;
    if let Some(container) = service.registry.get(key) {
        if container.record().process_is_gone() {
            service.stop_if_owed(&container).await;
        }
        // The runtime refuses it, and plugins have heard of the end.
        if container.record().phase == Phase::Stopped {
            return Ok(Some(Reply::Bypass));
        }
    }
    let update = match service.update(begin, key, caller).await {
        Ok(Some(update)) => update,
        Ok(None) => return Ok(Some(Reply::Bypass)),
        Err(error) => return Ok(Some(refused(&key.id, &error))),
    };
    let finished = proceed(channel, update.substitute.clone()).await;
    match finished {
        Some(finished) if finished.exit == Exit::Code(0) => match service.updated(update).await {
            Ok(()) => Ok(Some(Reply::Done)),
            Err(error) => Ok(Some(refused(&key.id, &error))),
        },
        Some(_) => {
            service.not_updated(&update).await;
            Ok(Some(Reply::Done))
        }
        // The wrapper was killed, its runtime with it: what the control groups hold counts.
        None => {
            service.perhaps_updated(&update).await;
            Ok(None)
        }
    }
}

async fn delete(service: &Arc<Service>, channel: &mut Channel, key: &Key) -> Answer {
    let lane = service.lane_within(key, DELETE_PATIENCE).await;
    let Some(container) = service.registry.get(key) else { return Ok(Some(Reply::Bypass)) };
    if lane.is_some() && container.record().process_is_gone() {
        service.stop_if_owed(&container).await;
    }
    let was_there = container.is_there();
    container.set_deleting(true);
    let finished = proceed(channel, Substitute::default()).await;
    container.set_deleting(false);
    // `checkpoint` removes a container by itself; a later delete fails, and yet there is nothing
    // left.
    let gone =
        finished.is_some_and(|f| f.exit.success()) || !container.record().runtime.has(&key.id);
    // What is not there yet may come, and whoever makes it settles it.
    let gone = gone && (was_there || !container.is_being_made());
    if !gone {
        return Ok(Some(Reply::Done));
    }
    // The engine may use its bundle again as soon as it has the answer, its id only with the lane.
    container.set_gone();
    service.give_back(&container.record()).await;
    let reply = channel.send(&Reply::Done).await;
    match lane {
        Some(lane) => end(service, &container, lane).await,
        None => {
            let (service, key) = (service.clone(), key.clone());
            tokio::spawn(async move {
                let lane = service.lane(&key).await;
                end(&service, &container, lane).await;
            });
        }
    }
    reply.map(|()| None)
}

async fn end(service: &Service, container: &Arc<Container>, _lane: LaneGuard) {
    let known = service.registry.get(&container.key());
    if known.is_some_and(|known| Arc::ptr_eq(&known, container)) {
        service.finish(container).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_lead_elsewhere() {
        for id in ["", ".", "..", "a/b", "../../etc/x", "/", "a\0b", &"x".repeat(256)] {
            assert!(!is_file_name(id), "{id:?}");
        }
        for id in ["a", "...", "a.b_c-d+e", "a\nb", &"x".repeat(255)] {
            assert!(is_file_name(id), "{id:?}");
        }
    }

    #[tokio::test]
    async fn who_may_give_orders() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(admit(&ours).is_ok());
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
            // The user of this thread only.
            let nobody = rustix::fs::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            std::os::unix::net::UnixStream::connect(&path).unwrap()
        };
        let _client = std::thread::scope(|s| s.spawn(connect).join().unwrap());
        let (stream, _) = listener.accept().await.unwrap();
        assert_eq!(admit(&stream).unwrap_err().to_string(), "it is user 65534's");
    }
}
