//! Connects a plugin to a runtime, registers the plugin, and runs its session.

use crate::{Plugin, Session, StubError, launched::Launched, served::Served};
use nri_api::{
    NRI_VERSION, PluginId,
    proto::{FailurePolicy, RegisterPluginRequest},
};
use nri_wire::PluginEnd;
use std::{
    env,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::net::UnixStream;

/// Default sockets, in order: the socket of engines with built-in NRI, the socket of `nrid`, and
/// the socket of earlier releases of `nrid`.
pub const DEFAULT_SOCKETS: [&str; 3] = [
    "/var/run/nri/nri.sock",
    "/run/nri-container-runtime/plugins/nri.sock",
    "/run/nri-container-runtime/nri.sock",
];

/// Default time limit of the registration, as in upstream NRI.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// A registered plugin and its connection. Dropping it ends the session.
pub struct Stub {
    end: PluginEnd,
    session: Session,
    refusal: Arc<Mutex<Option<String>>>,
}

/// Builder of a [`Stub`].
pub struct Builder<P> {
    plugin: Arc<P>,
    name: Option<String>,
    index: Option<String>,
    sockets: Vec<PathBuf>,
    stream: Option<UnixStream>,
    registration_timeout: Duration,
    failure_policy: Option<FailurePolicy>,
}

impl Stub {
    /// Creates a builder. All settings but the index have a default. The index has a default only
    /// if the program is named `NN-name`.
    pub fn builder<P: Plugin>(plugin: P) -> Builder<P> {
        Self::shared(Arc::new(plugin))
    }

    /// Creates a builder for a shared plugin, so that the plugin can be used for several
    /// connections.
    pub fn shared<P: Plugin>(plugin: Arc<P>) -> Builder<P> {
        Builder {
            plugin,
            name: None,
            index: None,
            sockets: Vec::new(),
            stream: None,
            registration_timeout: REGISTRATION_TIMEOUT,
            failure_policy: None,
        }
    }

    /// Returns the session, for updates outside of handlers.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Handles events until the connection ends. Dropping the future ends the session.
    ///
    /// # Errors
    /// If the socket failed, the runtime violated the protocol, or the plugin refused its
    /// configuration.
    pub async fn run(self) -> Result<(), StubError> {
        let reason = self.end.closed().await;
        let plugin = self.session.plugin().clone();
        if let Some(reason) = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(StubError::Configure { plugin, reason });
        }
        match reason {
            r if r.is_clean() => Ok(()),
            source => Err(StubError::Session { plugin, source }),
        }
    }

    /// Ends the session after all replies are sent.
    pub async fn stop(self) {
        self.end.trunk().flush().await.ok(); // fails if the session has already ended
        self.end.close();
    }
}

impl<P: Plugin> Builder<P> {
    /// Sets the plugin's name. A runtime that launches the plugin overrides the name. By
    /// default the name is taken from the program's file name, `NN-name` or `name`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the plugin's index, two digits. A runtime that launches the plugin overrides the
    /// index. By default the index is taken from the program's file name, `NN-name`.
    #[must_use]
    pub fn index(mut self, index: impl Into<String>) -> Self {
        self.index = Some(index.into());
        self
    }

    /// Adds a socket to connect to, even if the plugin was launched. Several sockets are tried in
    /// the given order. Default: [`DEFAULT_SOCKETS`].
    #[must_use]
    pub fn socket_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.sockets.push(path.into());
        self
    }

    /// Uses an existing connection instead of a socket path, even if the plugin was launched.
    #[must_use]
    pub fn stream(mut self, stream: UnixStream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Sets the time limit of the registration. Default: 5 s.
    #[must_use]
    pub fn registration_timeout(mut self, timeout: Duration) -> Self {
        self.registration_timeout = timeout;
        self
    }

    /// Requests how the runtime handles a failure of the plugin to reply: with `fail_request` the
    /// request fails, with `keep_connected` a timeout does not end the session. By default, and
    /// with runtimes before NRI v0.12.5, requests proceed without the plugin, and a timeout ends
    /// the session. `nrid` lets its administrator override `keep_connected`.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = Some(policy);
        self
    }

    /// Connects and registers the plugin. The runtime then configures and synchronizes the
    /// plugin, possibly before this method returns.
    ///
    /// # Errors
    /// If no socket accepts the connection, the runtime refuses the plugin, or the plugin's name or
    /// index is missing or invalid.
    pub async fn connect(self) -> Result<Stub, StubError> {
        let is_explicit = self.stream.is_some() || !self.sockets.is_empty();
        let launched = if is_explicit { None } else { Launched::from_env()? };
        let plugin = identity(&self, launched.as_ref(), env::args_os().next().map(PathBuf::from))?;
        let stream = match (self.stream, launched) {
            (Some(stream), _) => stream,
            (None, Some(launched)) => {
                let failed = |source| StubError::Connect(vec![("inherited socket".into(), source)]);
                let socket = launched.socket()?;
                socket.set_nonblocking(true).map_err(failed)?;
                UnixStream::from_std(socket).map_err(failed)?
            }
            (None, None) if self.sockets.is_empty() => {
                connect_to_first(&DEFAULT_SOCKETS.map(PathBuf::from)).await?
            }
            (None, None) => connect_to_first(&self.sockets).await?,
        };

        let session = Session::new(plugin.clone());
        let refusal = Arc::new(Mutex::new(None));
        let served = Served {
            plugin: self.plugin,
            session: session.clone(),
            parts: Mutex::new(None),
            refusal: refusal.clone(),
            failure_policy: self.failure_policy,
        };
        let end = PluginEnd::new(stream, Arc::new(served)).await?;
        session.set_client(end.runtime().clone());
        let mut request = RegisterPluginRequest::new();
        request.plugin_name = plugin.name.to_string();
        request.plugin_idx = plugin.index.to_string();
        request.NRI_version = NRI_VERSION.to_owned();
        end.runtime()
            .register_plugin(self.registration_timeout, &request)
            .await
            .map_err(|source| StubError::Register { plugin, source })?;
        Ok(Stub { end, session, refusal })
    }
}

/// Returns the identity of the plugin: from the runtime that launched it, from the builder, or from
/// the program's name.
fn identity<P>(
    builder: &Builder<P>,
    launched: Option<&Launched>,
    program: Option<PathBuf>,
) -> Result<PluginId, StubError> {
    let file =
        program.as_deref().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    let from_program = file.as_deref().and_then(|f| PluginId::from_file_name(f).ok());
    let name = launched
        .and_then(|l| l.name.clone())
        .or_else(|| builder.name.clone())
        .or_else(|| from_program.as_ref().map(|id| id.name.to_string()))
        .or(file)
        .ok_or(StubError::NoIdentity("name"))?;
    let index = launched
        .and_then(|l| l.index.clone())
        .or_else(|| builder.index.clone())
        .or_else(|| from_program.map(|id| id.index.to_string()))
        .ok_or(StubError::NoIdentity("index"))?;
    Ok(PluginId::new(&index, &name)?)
}

/// Connects to the first of the sockets that accepts the connection.
async fn connect_to_first(paths: &[PathBuf]) -> Result<UnixStream, StubError> {
    let mut failures = Vec::new();
    for path in paths {
        match UnixStream::connect(path).await {
            Ok(stream) => return Ok(stream),
            Err(e) => failures.push((path.clone(), e)),
        }
    }
    Err(StubError::Connect(failures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventMask;

    struct Nothing;
    impl Plugin for Nothing {
        fn events(&self) -> EventMask {
            EventMask::ALL
        }
    }

    #[test]
    fn the_identity_comes_from_the_builder_then_from_the_program() {
        let check = |name: Option<&str>,
                     index: Option<&str>,
                     program: Option<&str>,
                     expect: Result<&str, &str>| {
            let mut builder = Stub::builder(Nothing);
            (builder.name, builder.index) = (name.map(Into::into), index.map(Into::into));
            let id = identity(&builder, None, program.map(Into::into));
            let id = id.as_ref().map(ToString::to_string).map_err(ToString::to_string);
            // The first 17 characters tell the errors apart.
            assert_eq!(id.as_ref().map(String::as_str).map_err(|e| &e[..17.min(e.len())]), expect);
        };
        check(Some("a"), Some("10"), Some("/x/20-b"), Ok("10-a"));
        check(None, None, Some("/x/20-b"), Ok("20-b"));
        check(Some("a"), None, Some("20-b"), Ok("20-a"));
        check(None, Some("10"), Some("20-b"), Ok("10-b"));
        check(None, Some("10"), Some("/usr/bin/logger"), Ok("10-logger"));
        check(None, None, Some("/usr/bin/logger"), Err("the plugin has no"));
        check(Some("a b"), Some("10"), None, Err("invalid name or i"));
        check(Some("a"), Some("1"), None, Err("invalid name or i"));
    }
}
