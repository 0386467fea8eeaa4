//! Connects a plugin to a runtime, registers the plugin, and runs its session.

use crate::{
    Plugin, Session, StubError,
    config_file::PluginConfigFile,
    environment::{PluginEnvironment, SocketVariable, take_inherited},
    served::Served,
    session::RequestTarget,
};
use nri_api::{
    NRI_VERSION, PluginId,
    proto::{FailurePolicy, RegisterPluginRequest},
};
use nri_wire::PluginEnd;
use std::{
    env,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{net::UnixStream, time::timeout};

/// Default sockets, in order: the socket of engines with built-in NRI, and the two of `nrid`.
pub const DEFAULT_SOCKETS: [&str; 3] = [
    "/var/run/nri/nri.sock",
    "/run/nri-container-runtime/plugins/nri.sock",
    "/run/nri-container-runtime/nri.sock",
];

/// Default time limit of the registration, as in upstream NRI.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for replies to events that are handled when the session is stopped: a runtime does
/// not wait longer.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A registered plugin and its connection. Dropping it ends the session.
pub struct Stub {
    end: PluginEnd,
    session: Session,
    refusal: Arc<Mutex<Option<String>>>,
    is_shut_down: Arc<AtomicBool>,
}

/// Settings of a plugin, which [`run`](Self::run) keeps connected, and [`connect`](Self::connect)
/// connects once.
pub struct Builder<P> {
    pub(crate) plugin: Arc<P>,
    name: Option<String>,
    index: Option<String>,
    sockets: Vec<PathBuf>,
    stream: Option<UnixStream>,
    registration_timeout: Duration,
    failure_policy: Option<FailurePolicy>,
    pub(crate) config_file: Option<Arc<PluginConfigFile>>,
    pub(crate) is_once: bool,
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
            config_file: None,
            is_once: false,
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
        self.ended().await
    }

    /// Whether the runtime has told the plugin to end, by `Shutdown`.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Relaxed)
    }

    /// Waits for the end of the session.
    pub(crate) async fn ended(&self) -> Result<(), StubError> {
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

    /// Ends the session after all events that the plugin is handling have been replied to, which
    /// may take up to 2 s.
    pub async fn stop(self) {
        let replied = async {
            self.end.replied().await;
            self.end.trunk().flush().await
        };
        // Fails if the session has already ended.
        timeout(STOP_TIMEOUT, replied).await.ok();
        self.end.close();
    }
}

impl<P: Plugin> Builder<P> {
    /// Sets the plugin's name. The variable `NRI_PLUGIN_NAME` overrides it: a runtime sets it for a
    /// plugin that it launches. By default the name is taken from the program's file name:
    /// `NN-name`, `nri-name` or `name`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the plugin's index, two digits. The variable `NRI_PLUGIN_IDX` overrides it: a runtime
    /// sets it for a plugin that it launches. By default the index is taken from the program's file
    /// name, `NN-name`.
    #[must_use]
    pub fn index(mut self, index: impl Into<String>) -> Self {
        self.index = Some(index.into());
        self
    }

    /// Adds a socket to connect to. Several sockets are tried in the given order. The environment
    /// is ignored then. By default, the variable `NRI_PLUGIN_SOCKET` has the descriptor of a
    /// launched plugin's socket, or the path of a socket; without it, [`DEFAULT_SOCKETS`] are
    /// tried.
    #[must_use]
    pub fn socket_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.sockets.push(path.into());
        self
    }

    /// Uses an existing connection instead of a socket path. The environment is ignored, and the
    /// plugin does not connect again.
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
    /// request fails, with `keep_connected` a timeout does not end the session. Default:
    /// [`Plugin::failure_policy`]. With runtimes before NRI v0.12.4, requests proceed without the
    /// plugin, and a timeout ends the session. `nrid` lets its administrator override
    /// `keep_connected`.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = Some(policy);
        self
    }

    /// Sets a configuration file for runtimes that send no configuration, such as those that do not
    /// launch the plugin. [`run`](Self::run) passes its content to [`Plugin::reconfigure`] at the
    /// start and after each SIGHUP, and to [`Plugin::configure`] in each session. A file that the
    /// plugin refuses ends it at the start; after SIGHUP, the error is logged and nothing changes.
    #[must_use]
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config_file = Some(Arc::new(PluginConfigFile::new(path.into())));
        self
    }

    /// Connects and registers the plugin. The runtime then configures and synchronizes the
    /// plugin, possibly before this method returns.
    ///
    /// # Errors
    /// If no socket accepts the connection, the runtime refuses the plugin, or the plugin's name or
    /// index is missing or invalid.
    pub async fn connect(mut self) -> Result<Stub, StubError> {
        let environment = self.environment()?;
        let plugin = self.identity(&environment)?;
        self.open(&environment, plugin).await
    }

    /// Returns the variables that apply: none if the program determines the socket.
    pub(crate) fn environment(&self) -> Result<PluginEnvironment, StubError> {
        let is_explicit = self.stream.is_some() || !self.sockets.is_empty();
        if is_explicit { Ok(PluginEnvironment::default()) } else { PluginEnvironment::read() }
    }

    /// Returns the identity of the plugin: from the environment, the builder, or the program's
    /// name.
    pub(crate) fn identity(&self, environment: &PluginEnvironment) -> Result<PluginId, StubError> {
        identity(self, environment, env::args_os().next().map(PathBuf::from))
    }

    /// Whether the plugin has one connection, which it cannot open again.
    pub(crate) fn has_one_connection(&self, environment: &PluginEnvironment) -> bool {
        self.stream.is_some() || environment.is_launched()
    }

    /// Connects and registers the plugin.
    pub(crate) async fn open(
        &mut self,
        environment: &PluginEnvironment,
        plugin: PluginId,
    ) -> Result<Stub, StubError> {
        let stream = match (self.stream.take(), &environment.socket) {
            (Some(stream), _) => stream,
            (None, Some(SocketVariable::Inherited(fd))) => {
                let failed = |source| StubError::Connect(vec![("inherited socket".into(), source)]);
                let socket = take_inherited(*fd)?;
                socket.set_nonblocking(true).map_err(failed)?;
                UnixStream::from_std(socket).map_err(failed)?
            }
            (None, Some(SocketVariable::Path(path))) => {
                connect_to_first(std::slice::from_ref(path)).await?
            }
            (None, None) if self.sockets.is_empty() => {
                connect_to_first(&DEFAULT_SOCKETS.map(PathBuf::from)).await?
            }
            (None, None) => connect_to_first(&self.sockets).await?,
        };
        let peer = stream.peer_addr().ok();
        let socket = peer.and_then(|peer| peer.as_pathname().map(Path::to_owned));

        let session = Session::new(plugin.clone());
        let refusal = Arc::new(Mutex::new(None));
        let is_shut_down = Arc::new(AtomicBool::new(false));
        let served = Served {
            plugin: self.plugin.clone(),
            session: session.clone(),
            parts: Mutex::new(None),
            refusal: refusal.clone(),
            is_shut_down: is_shut_down.clone(),
            failure_policy: self.failure_policy.clone(),
            config_file: self.config_file.clone(),
            socket: socket.filter(|_| !self.is_once),
        };
        let end = PluginEnd::new(stream, Arc::new(served)).await?;
        session.set_target(RequestTarget::Runtime(end.runtime().clone()));
        let mut request = RegisterPluginRequest::new();
        request.plugin_name = plugin.name.to_string();
        request.plugin_idx = plugin.index.to_string();
        request.NRI_version = NRI_VERSION.to_owned();
        end.runtime()
            .register_plugin(self.registration_timeout, &request)
            .await
            .map_err(|source| StubError::Register { plugin, source })?;
        Ok(Stub { end, session, refusal, is_shut_down })
    }
}

fn identity<P>(
    builder: &Builder<P>,
    environment: &PluginEnvironment,
    program: Option<PathBuf>,
) -> Result<PluginId, StubError> {
    let file =
        program.as_deref().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    let from_program = file.as_deref().and_then(|f| PluginId::from_file_name(f).ok());
    let missing = |what, variable| StubError::NoIdentity { what, variable };
    let name = (environment.name.clone())
        .or_else(|| builder.name.clone())
        .or_else(|| from_program.as_ref().map(|id| id.name.to_string()))
        .or(file.map(|file| file.strip_prefix("nri-").unwrap_or(&file).to_owned()))
        .ok_or_else(|| missing("name", "NRI_PLUGIN_NAME"))?;
    let index = (environment.index.clone())
        .or_else(|| builder.index.clone())
        .or_else(|| from_program.map(|id| id.index.to_string()))
        .ok_or_else(|| missing("index", "NRI_PLUGIN_IDX"))?;
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

    struct Nothing;
    impl Plugin for Nothing {}

    #[test]
    fn the_identity_comes_from_environment_builder_and_program() {
        let check = |name: Option<&str>,
                     index: Option<&str>,
                     program: Option<&str>,
                     expect: Result<&str, &str>| {
            let mut builder = Stub::builder(Nothing);
            (builder.name, builder.index) = (name.map(Into::into), index.map(Into::into));
            let id = identity(&builder, &PluginEnvironment::default(), program.map(Into::into));
            let id = id.as_ref().map(ToString::to_string).map_err(ToString::to_string);
            // The first 17 characters tell the errors apart.
            assert_eq!(id.as_ref().map(String::as_str).map_err(|e| &e[..17.min(e.len())]), expect);
        };
        check(Some("a"), Some("10"), Some("/x/20-b"), Ok("10-a"));
        check(None, None, Some("/x/20-b"), Ok("20-b"));
        check(Some("a"), None, Some("20-b"), Ok("20-a"));
        check(None, Some("10"), Some("20-b"), Ok("10-b"));
        check(None, Some("10"), Some("/usr/bin/logger"), Ok("10-logger"));
        check(None, Some("10"), Some("/usr/bin/nri-logger"), Ok("10-logger"));
        check(None, None, Some("/usr/bin/logger"), Err("the plugin has no"));
        check(Some("a b"), Some("10"), None, Err("invalid name or i"));
        let (name, index) = (Some("e".to_owned()), Some("30".to_owned()));
        let environment = PluginEnvironment { name, index, socket: None };
        let builder = Stub::builder(Nothing).name("a").index("10");
        assert_eq!(identity(&builder, &environment, None).unwrap().to_string(), "30-e");
        check(Some("a"), Some("1"), None, Err("invalid name or i"));
    }
}
