//! `run` and `restore`: plugins are asked, then the wrapper becomes the runtime, and our hooks
//! report the rest of the life.

use crate::{
    channel::Channel,
    host::process::Process,
    service::Service,
    verb::{
        creation::prepare::{Creation, prepare},
        request::{VerbRequest, refuse},
    },
};
use nri_control::{FrameError, Reply, Substitute};
use std::sync::Arc;

/// Serves a `run` or `restore`.
///
/// # Errors
/// The wrapper has gone, or does not speak the protocol.
pub async fn serve(
    service: &Arc<Service>,
    channel: &mut Channel,
    request: VerbRequest,
) -> Result<(), FrameError> {
    let id = request.key.id.clone();
    let lock = service.locks.container(&request.key).await;
    // Opened while the wrapper waits, so it is the right process.
    let process = channel.peer_pid().and_then(Process::open);
    let caller = channel.peer()?;
    let reply = match prepare(service, request, caller).await {
        Ok(Creation::Proceed(container, bundle_lock)) => {
            service.follow_run(&container, process, Some(bundle_lock));
            Reply::Proceed(Substitute::default())
        }
        Ok(Creation::Bypass) => Reply::Bypass,
        Err(error) => refuse(&id, &error),
    };
    drop(lock);
    channel.send(&reply).await
}
