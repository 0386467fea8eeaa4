//! The two ends of a session: both services over one trunk.
//!
//! Connection 1 carries the Plugin service, 2 the Runtime service. Dropping an end closes the
//! trunk; when ttrpc closes one of the connections the trunk ends too.

use crate::error::WireError;
use crate::rpc::client::{PluginClient, RuntimeClient};
use crate::rpc::guard::{Guard, Side};
use crate::rpc::service::{self, Plugin, Runtime};
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

/// A server that is only kept alive. The lock makes it `Sync`, which its list of listeners is not.
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
    /// this returns.
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
        Self::over(Trunk::new(stream), runtime).await
    }

    /// Like [`new`](Self::new), over an existing trunk. Its connections 1 and 2 must not be open.
    ///
    /// # Errors
    /// If the trunk has ended or one of the connections is open.
    pub async fn over(
        trunk: Trunk,
        runtime: Arc<dyn Runtime + Send + Sync>,
    ) -> Result<Self, WireError> {
        let (client, server) =
            connect(&trunk, ConnId::PLUGIN, ConnId::RUNTIME, service::create_runtime(runtime))
                .await?;
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
    /// this returns.
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
        let (client, server) =
            connect(&trunk, ConnId::RUNTIME, ConnId::PLUGIN, service::create_plugin(plugin))
                .await?;
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

/// Opens both connections: a client on `call`, a server on `serve`.
async fn connect(
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

/// A listener that accepts one connection. `Server::shutdown` panics when no listener is left, so
/// servers here are only dropped.
struct Once(Option<Conn>);

impl Stream for Once {
    type Item = io::Result<Guard>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(|conn| Ok(Guard::new(conn, Side::Server))))
    }
}
