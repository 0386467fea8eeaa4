//! Both services over one trunk, from either end.
//!
//! Connection 1 carries the Plugin service, 2 the Runtime service. Who holds an end holds the
//! session: dropping it closes the trunk, and when ttrpc gives up one of the connections the trunk
//! ends as well.

use crate::{
    Closed, Conn, ConnId, Plugin, PluginClient, Runtime, RuntimeClient, Trunk, WireError,
    guard::{Guard, Side},
    service,
};
use futures_core::Stream;
use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite};
use ttrpc::r#async::{
    Client, Server, Service,
    transport::{Listener, Socket},
};

/// A server that is only kept alive; the lock makes it `Sync`, which its list of listeners is not.
type Kept = std::sync::Mutex<Server>;

/// The runtime's end of a plugin's socket: calls the plugin, serves the runtime.
pub struct RuntimeEnd {
    trunk: Trunk,
    plugin: PluginClient,
    _server: Kept,
}

/// The plugin's end of its socket: calls the runtime, serves the plugin.
pub struct PluginEnd {
    trunk: Trunk,
    runtime: RuntimeClient,
    _server: Kept,
}

impl RuntimeEnd {
    /// Begins to serve `runtime` to the plugin behind `stream`. A request may arrive before this
    /// returns.
    ///
    /// # Errors
    /// If the trunk ended meanwhile.
    pub async fn new<S>(
        stream: S,
        runtime: Arc<dyn Runtime + Send + Sync>,
    ) -> Result<Self, WireError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::over(Trunk::new(stream), runtime).await
    }

    /// The same over a trunk that exists, whose connections 1 and 2 are not open.
    ///
    /// # Errors
    /// If the trunk has ended or one of the connections is open.
    pub async fn over(
        trunk: Trunk,
        runtime: Arc<dyn Runtime + Send + Sync>,
    ) -> Result<Self, WireError> {
        let (client, server) =
            both(&trunk, ConnId::PLUGIN, ConnId::RUNTIME, service::create_runtime(runtime)).await?;
        Ok(Self {
            plugin: PluginClient::new(client, trunk.clone()),
            trunk,
            _server: Kept::new(server),
        })
    }

    /// Calls to the plugin.
    pub fn plugin(&self) -> &PluginClient {
        &self.plugin
    }

    /// What carries the session.
    pub fn trunk(&self) -> &Trunk {
        &self.trunk
    }

    /// Ends the session. Handlers that are at work finish; their answers go nowhere.
    pub fn close(&self) {
        self.trunk.close();
    }

    /// Waits for the end of the session and tells why it came. Cancel safe.
    pub async fn closed(&self) -> Closed {
        self.trunk.closed().await
    }
}

impl PluginEnd {
    /// Begins to serve `plugin` to the runtime behind `stream`. A request may arrive before this
    /// returns.
    ///
    /// # Errors
    /// If the trunk ended meanwhile.
    pub async fn new<S>(stream: S, plugin: Arc<dyn Plugin + Send + Sync>) -> Result<Self, WireError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::over(Trunk::new(stream), plugin).await
    }

    /// The same over a trunk that exists, whose connections 1 and 2 are not open.
    ///
    /// # Errors
    /// If the trunk has ended or one of the connections is open.
    pub async fn over(
        trunk: Trunk,
        plugin: Arc<dyn Plugin + Send + Sync>,
    ) -> Result<Self, WireError> {
        let (client, server) =
            both(&trunk, ConnId::RUNTIME, ConnId::PLUGIN, service::create_plugin(plugin)).await?;
        Ok(Self {
            runtime: RuntimeClient::new(client, trunk.clone()),
            trunk,
            _server: Kept::new(server),
        })
    }

    /// Calls to the runtime.
    pub fn runtime(&self) -> &RuntimeClient {
        &self.runtime
    }

    /// What carries the session.
    pub fn trunk(&self) -> &Trunk {
        &self.trunk
    }

    /// Ends the session. Handlers that are at work finish; their answers go nowhere.
    pub fn close(&self) {
        self.trunk.close();
    }

    /// Waits for the end of the session and tells why it came. Cancel safe.
    pub async fn closed(&self) -> Closed {
        self.trunk.closed().await
    }
}

impl Drop for RuntimeEnd {
    fn drop(&mut self) {
        self.trunk.close();
    }
}

impl Drop for PluginEnd {
    fn drop(&mut self) {
        self.trunk.close();
    }
}

async fn both(
    trunk: &Trunk,
    call: ConnId,
    serve: ConnId,
    services: HashMap<String, Service>,
) -> Result<(Client, Server), WireError> {
    let (calls, serves) = (trunk.open(call)?, trunk.open(serve)?);
    let mut server = Server::new()
        .register_service(service::detached(services))
        .add_listener(Listener::new(Once(Some(serves))));
    server.start().await.map_err(|source| WireError::Serve { conn: serve, source })?;
    Ok((Client::new(Socket::new(Guard::new(calls, Side::Client))), server))
}

/// A listener that accepts one connection. Ending a server that has no listener left by its
/// `shutdown` panics; dropping it does not, and that is all that is done here.
struct Once(Option<Conn>);

impl Stream for Once {
    type Item = io::Result<Guard>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(|conn| Ok(Guard::new(conn, Side::Server))))
    }
}
