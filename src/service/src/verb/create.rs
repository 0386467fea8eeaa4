//! `create`: plugins adjust the container, the runtime creates it from the adjusted bundle, and
//! `nrid` checks that the resources set by plugins are effective.
//!
//! 1. The wrapper sends the descriptor of its bundle, and waits. This file takes the container
//!    lock.
//! 2. [`prepare`] decides who the container is, asks plugins, and writes record and bundle.
//! 3. The wrapper runs the runtime with the bundle of `nrid`, and reports. If the runtime has
//!    failed, the reply names the fields of plugins that are in question, for the wrapper's error.
//! 4. `Recorded::created` (`lifecycle/creation.rs`) compares the cgroups with what plugins set,
//!    writes what is missing, and makes the container Created. No hook is needed: the container's
//!    process does not run yet, and the engine waits for the reply.
//! 5. After the reply, plugins are notified, still under the container lock.

use crate::{
    channel::Channel,
    lifecycle::runtime_failure::{self, RuntimeInput},
    service::Service,
    verb::{
        creation::prepare::{Creation, prepare},
        request::{VerbRequest, refuse},
    },
};
use nri_control::{FrameError, Reply};
use std::sync::Arc;

/// Serves a `create`.
///
/// # Errors
/// The connection to the wrapper fails, or a frame is invalid.
pub async fn serve(
    service: &Arc<Service>,
    channel: &mut Channel,
    request: VerbRequest,
) -> Result<(), FrameError> {
    let key = request.key.clone();
    let lock = match service.lock_for(&request, channel).await {
        Ok(lock) => lock,
        Err(error) => return channel.send(&request.refuse(&error)).await,
    };
    let caller = channel.peer()?;
    let (recorded, substitute) = match prepare(service, &lock, request, caller).await {
        Ok(Creation::Proceed(recorded, substitute)) => (recorded, substitute),
        Ok(Creation::Bypass) => return channel.send(&Reply::Bypass).await,
        Err(error) => return channel.send(&refuse(&key.id, &error)).await,
    };
    let finished = channel.proceed(substitute).await;
    let record = recorded.container().record();
    let created = match &finished {
        Some(finished) => finished.exit.success(),
        // The wrapper was killed, and its runtime with it: `state` shows whether the container
        // exists.
        None => record.runtime.state(&key.id).await.is_ok(),
    };
    if !created {
        let requested = RuntimeInput::of(&record);
        let text = match finished {
            Some(f) => runtime_failure::report(service, &record, "create", &f, requested),
            None => {
                let message = "the wrapper ended before it reported the result".to_owned();
                service.audit_failure(&record, "create", None, message);
                None
            }
        };
        recorded.fail(service).await;
        return channel.send(&runtime_failure::reply(text)).await;
    }
    let mut pid = finished.and_then(|f| f.pid);
    if pid.is_none() && record.has_plugin_resources() {
        pid = record.runtime.pid(&key.id).await;
    }
    let container = match recorded.created(service, pid).await {
        Ok(container) => container,
        Err(error) => return channel.send(&refuse(&key.id, &error)).await,
    };
    // The reply comes first: the engine need not wait for notifications. Its next verb waits for
    // the container lock.
    let replied = channel.send(&Reply::Done).await;
    if pid.is_none() {
        pid = record.runtime.pid(&key.id).await;
    }
    service.announce_created(&container, pid).await;
    drop(lock);
    replied
}
