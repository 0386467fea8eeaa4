//! The two ends of a session: the Plugin and the Runtime service over one trunk.
//!
//! Connection 1 carries the Plugin service, 2 the Runtime service. Dropping an end closes the
//! trunk.

use crate::error::WireError;
use crate::rpc::calls::Calls;
use crate::rpc::client::{PluginClient, RuntimeClient};
use crate::rpc::server::Server;
use crate::rpc::service::{self, CallLimits, Handlers, Plugin, Runtime, SessionLimits};
use crate::trunk::closed::Closed;
use crate::trunk::frame::ConnId;
use crate::trunk::handle::Trunk;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// The runtime's end of a plugin's socket: calls the plugin, serves the runtime.
pub struct RuntimeEnd {
    trunk: Trunk,
    plugin: PluginClient,
}

/// The plugin's end of its socket: calls the runtime, serves the plugin.
pub struct PluginEnd {
    trunk: Trunk,
    runtime: RuntimeClient,
    server: Arc<Server>,
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
        let handlers = Handlers::new(service::create_runtime(runtime));
        let limits = Some(SessionLimits::new(limits));
        let (calls, _) = connect(&trunk, ConnId::PLUGIN, ConnId::RUNTIME, handlers, limits)?;
        Ok(Self { plugin: PluginClient::new(ConnId::PLUGIN, calls, trunk.clone()), trunk })
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
        let handlers = Handlers::new(service::create_plugin(plugin));
        let (calls, server) = connect(&trunk, ConnId::RUNTIME, ConnId::PLUGIN, handlers, None)?;
        let runtime = RuntimeClient::new(ConnId::RUNTIME, calls, trunk.clone());
        Ok(Self { runtime, trunk, server })
    }

    /// Returns the client of the runtime.
    pub fn runtime(&self) -> &RuntimeClient {
        &self.runtime
    }

    /// Returns the trunk of the session.
    pub fn trunk(&self) -> &Trunk {
        &self.trunk
    }

    /// Waits until all received requests of the runtime are replied to, or the session ends. Cancel
    /// safe.
    pub async fn replied(&self) {
        tokio::select! {
            () = self.server.replied() => {}
            _ = self.trunk.closed() => {}
        }
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
fn connect(
    trunk: &Trunk,
    client_conn: ConnId,
    server_conn: ConnId,
    handlers: Handlers,
    limits: Option<SessionLimits>,
) -> Result<(Arc<Calls>, Arc<Server>), WireError> {
    let state = trunk.state();
    let calls = Arc::new(Calls::default());
    state.attach(client_conn, calls.clone())?;
    let server = Server::new(state.clone(), server_conn, handlers, limits);
    match state.attach(server_conn, server.clone()) {
        Ok(()) => Ok((calls, server)),
        Err(e) => {
            state.drop_conn(client_conn);
            Err(e)
        }
    }
}
