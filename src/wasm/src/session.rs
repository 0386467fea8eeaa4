//! The session with the runtime that launched the process: registration, and its end.

use crate::error::Error;
use crate::guest::{Guest, START_LIMIT};
use crate::service::GuestService;
use nri_api::NRI_VERSION;
use nri_api::proto::RegisterPluginRequest;
use nri_plugin::{StubError, launched};
use nri_wire::PluginEnd;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::sync::mpsc::unbounded_channel;

/// Registers the guest, and has it handle requests until the runtime closes the connection.
///
/// # Errors
/// The process was not launched by a runtime, the session failed, or the guest cannot be called any
/// more.
pub(crate) async fn run(guest: Guest) -> Result<(), Error> {
    let (plugin, socket) = launched()?;
    socket.set_nonblocking(true).map_err(Error::Start)?;
    let stream = UnixStream::from_std(socket).map_err(Error::Start)?;
    let (failed, mut failures) = unbounded_channel();
    let service = Arc::new(GuestService::new(guest, failed));
    let end = PluginEnd::new(stream, service).await.map_err(StubError::from)?;
    let mut request = RegisterPluginRequest::new();
    request.plugin_name = plugin.name.to_string();
    request.plugin_idx = plugin.index.to_string();
    request.NRI_version = NRI_VERSION.to_owned();
    let registered = end.runtime().register_plugin(START_LIMIT, &request).await;
    registered.map_err(|source| StubError::Register { plugin, source })?;
    tokio::select! {
        // The service has a sender, so that the channel stays open.
        Some(failure) = failures.recv() => Err(failure),
        closed = end.closed() => {
            if closed.is_clean() { Ok(()) } else { Err(Error::Session(closed.to_string())) }
        }
    }
}
