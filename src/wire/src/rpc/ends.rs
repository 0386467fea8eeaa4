//! The two ends of a session: the Plugin and the Runtime service over one trunk.
//!
//! Connection 1 carries the Plugin service, 2 the Runtime service. Dropping an end closes the
//! trunk. The trunk also ends when ttrpc closes one of the two connections.

use crate::error::WireError;
use crate::rpc::client::{PluginClient, RuntimeClient};
use crate::rpc::guard::{Guard, Side};
use crate::rpc::service::{self, CallLimits, Plugin, Runtime, SessionLimits};
use crate::trunk::closed::Closed;
use crate::trunk::conn::Conn;
use crate::trunk::frame::ConnId;
use crate::trunk::handle::Trunk;
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

/// A ttrpc server, stored only to keep it alive. `Server` is not `Sync`, so a lock that is never
/// taken makes it so.
type KeptServer = std::sync::Mutex<Server>;

/// The runtime's end of a plugin's socket: calls the plugin, serves the runtime.
pub struct RuntimeEnd {
    trunk: Trunk,
    plugin: PluginClient,
    _server: KeptServer,
}

/// The plugin's end of its socket: calls the runtime, serves the plugin.
pub struct PluginEnd {
    trunk: Trunk,
    runtime: RuntimeClient,
    _server: KeptServer,
}

impl RuntimeEnd {
    /// Serves `runtime` to the plugin at the other end of `stream`. A request may arrive before
    /// this function returns.
    ///
    /// # Errors
    /// If the trunk ended.
    pub async fn new<S>(
        stream: S,
        runtime: Arc<dyn Runtime + Send + Sync>,
    ) -> Result<Self, WireError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::over(Trunk::new(stream), runtime, &CallLimits::default()).await
    }

    /// Like [`new`](Self::new), over an existing trunk, with limits that several sessions share.
    /// Connections 1 and 2 of the trunk must not be open.
    ///
    /// # Errors
    /// If the trunk has ended or one of the connections is open.
    pub async fn over(
        trunk: Trunk,
        runtime: Arc<dyn Runtime + Send + Sync>,
        limits: &CallLimits,
    ) -> Result<Self, WireError> {
        let services = service::create_runtime(runtime);
        let services = service::detached(services, Some(&SessionLimits::new(limits)));
        let (client, server) = connect(&trunk, ConnId::PLUGIN, ConnId::RUNTIME, services).await?;
        Ok(Self {
            plugin: PluginClient::new(client, trunk.clone()),
            trunk,
            _server: KeptServer::new(server),
        })
    }

    /// Returns the client of the plugin.
    pub fn plugin(&self) -> &PluginClient {
        &self.plugin
    }

    /// Returns the trunk of the session.
    pub fn trunk(&self) -> &Trunk {
        &self.trunk
    }

    /// Ends the session. Handlers in progress complete; their replies are dropped.
    pub fn close(&self) {
        self.trunk.close();
    }

    /// Waits for the end of the session, and returns its cause. Cancel safe.
    pub async fn closed(&self) -> Closed {
        self.trunk.closed().await
    }
}

impl PluginEnd {
    /// Serves `plugin` to the runtime at the other end of `stream`. A request may arrive before
    /// this function returns.
    ///
    /// # Errors
    /// If the trunk ended.
    pub async fn new<S>(stream: S, plugin: Arc<dyn Plugin + Send + Sync>) -> Result<Self, WireError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::over(Trunk::new(stream), plugin).await
    }

    /// Like [`new`](Self::new), over an existing trunk. Its connections 1 and 2 must not be open.
    ///
    /// # Errors
    /// If the trunk has ended or one of the connections is open.
    pub async fn over(
        trunk: Trunk,
        plugin: Arc<dyn Plugin + Send + Sync>,
    ) -> Result<Self, WireError> {
        let services = service::detached(service::create_plugin(plugin), None);
        let (client, server) = connect(&trunk, ConnId::RUNTIME, ConnId::PLUGIN, services).await?;
        Ok(Self {
            runtime: RuntimeClient::new(client, trunk.clone()),
            trunk,
            _server: KeptServer::new(server),
        })
    }

    /// Returns the client of the runtime.
    pub fn runtime(&self) -> &RuntimeClient {
        &self.runtime
    }

    /// Returns the trunk of the session.
    pub fn trunk(&self) -> &Trunk {
        &self.trunk
    }

    /// Ends the session. Handlers in progress complete; their replies are dropped.
    pub fn close(&self) {
        self.trunk.close();
    }

    /// Waits for the end of the session, and returns its cause. Cancel safe.
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

/// Opens both connections: a client on `client_conn`, a server on `server_conn`.
async fn connect(
    trunk: &Trunk,
    client_conn: ConnId,
    server_conn: ConnId,
    services: HashMap<String, Service>,
) -> Result<(Client, Server), WireError> {
    let (outgoing, incoming) = (trunk.open(client_conn)?, trunk.open(server_conn)?);
    let mut server = Server::new()
        .register_service(services)
        .add_listener(Listener::new(SingleConn(Some(incoming))));
    server.start().await.map_err(|source| WireError::Serve { conn: server_conn, source })?;
    Ok((Client::new(Socket::new(Guard::new(outgoing, Side::Client))), server))
}

/// A listener that accepts one connection. `Server::shutdown` panics when no listener is left, so
/// servers here are only dropped.
struct SingleConn(Option<Conn>);

impl Stream for SingleConn {
    type Item = io::Result<Guard>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(|conn| Ok(Guard::new(conn, Side::Server))))
    }
}
