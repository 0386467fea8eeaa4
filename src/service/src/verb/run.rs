//! `run` and `restore`: plugins adjust the container, the wrapper becomes the runtime by `exec`,
//! and our OCI hook reports creation, start and end of the container (`hook.rs`). `nrid` follows
//! the process, and at its end asks the runtime for what no hook has reported
//! (`lifecycle/run_watch.rs`).

use crate::{
    channel::Channel,
    service::Service,
    verb::{
        creation::prepare::{Creation, prepare},
        request::{VerbRequest, refuse},
    },
};
use nri_control::{FrameError, Reply};
use std::sync::Arc;

/// Serves a `run` or `restore`.
///
/// # Errors
/// The connection to the wrapper fails, or a frame is invalid.
pub async fn serve(
    service: &Arc<Service>,
    channel: &mut Channel,
    request: VerbRequest,
) -> Result<(), FrameError> {
    let id = request.key.id.clone();
    let lock = match service.lock_for(&request, channel).await {
        Ok(lock) => lock,
        Err(error) => return channel.send(&request.refuse(&error)).await,
    };
    let caller = channel.peer()?;
    let reply = match prepare(service, &lock, request, caller).await {
        Ok(Creation::Proceed(recorded, substitute)) => {
            service.follow_run(&recorded.follow(), caller);
            Reply::Proceed(substitute)
        }
        Ok(Creation::Bypass) => Reply::Bypass,
        Err(error) => refuse(&id, &error),
    };
    drop(lock);
    channel.send(&reply).await
}
