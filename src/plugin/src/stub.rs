//! From a plugin to a session: who it is, where the runtime is, registration, and the wait for the
//! end.

use crate::{Plugin, Session, StubError, launched::Launched, served::Served};
use nri_api::{NRI_VERSION, PluginId, proto::RegisterPluginRequest};
use nri_wire::PluginEnd;
use std::{
    env,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::net::UnixStream;

/// Where runtimes listen: upstream's place, then that of `nrid`.
pub const DEFAULT_SOCKETS: [&str; 2] =
    ["/var/run/nri/nri.sock", "/run/nri-container-runtime/nri.sock"];

/// How long a registration may take, as upstream's default.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// A registered plugin. Dropping it ends the session.
pub struct Stub {
    end: PluginEnd,
    session: Session,
    refusal: Arc<Mutex<Option<String>>>,
}

/// What is known of a plugin before it connects.
pub struct Builder<P> {
    plugin: Arc<P>,
    name: Option<String>,
    index: Option<String>,
    sockets: Vec<PathBuf>,
    stream: Option<UnixStream>,
    registration_timeout: Duration,
}

impl Stub {
    /// Begins with the plugin; everything else has a default.
    pub fn builder<P: Plugin>(plugin: P) -> Builder<P> {
        Self::shared(Arc::new(plugin))
    }

    /// The same with a plugin that is used elsewhere too, or again for the next connection.
    pub fn shared<P: Plugin>(plugin: Arc<P>) -> Builder<P> {
        Builder {
            plugin,
            name: None,
            index: None,
            sockets: Vec::new(),
            stream: None,
            registration_timeout: REGISTRATION_TIMEOUT,
        }
    }

    /// The connection, for updates outside of handlers.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Serves until the connection ends. Cancel safe: dropping the future ends the session.
    ///
    /// # Errors
    /// If the end was a failure: of the socket, of the protocol, or the plugin refused its
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

    /// Ends the session once everything that was answered has been sent.
    pub async fn stop(self) {
        self.end.trunk().flush().await.ok(); // if it has ended, that is what was asked for
        self.end.close();
    }
}

impl<P: Plugin> Builder<P> {
    /// The plugin's name. If it is launched, the runtime's word counts; without either, the
    /// program's name `NN-name`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The plugin's index, two digits. If it is launched, the runtime's word counts; without
    /// either, the program's name `NN-name`.
    #[must_use]
    pub fn index(mut self, index: impl Into<String>) -> Self {
        self.index = Some(index.into());
        self
    }

    /// Connects here, even if the plugin was launched. Several are tried in the order given.
    /// Default: [`DEFAULT_SOCKETS`].
    #[must_use]
    pub fn socket_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.sockets.push(path.into());
        self
    }

    /// Uses a connection that exists.
    #[must_use]
    pub fn stream(mut self, stream: UnixStream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// How long a registration may take. Default: 5 s.
    #[must_use]
    pub fn registration_timeout(mut self, timeout: Duration) -> Self {
        self.registration_timeout = timeout;
        self
    }

    /// Connects and registers. The runtime configures and synchronizes the plugin next, which may
    /// happen before this returns.
    ///
    /// # Errors
    /// If no runtime answers, it refuses the plugin, or the plugin has no identity.
    pub async fn connect(self) -> Result<Stub, StubError> {
        let explicit = self.stream.is_some() || !self.sockets.is_empty();
        let launched = if explicit { None } else { Launched::from_env()? };
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
                dial(&DEFAULT_SOCKETS.map(PathBuf::from)).await?
            }
            (None, None) => dial(&self.sockets).await?,
        };

        let session = Session::new(plugin.clone());
        let refusal = Arc::new(Mutex::new(None));
        let served = Served {
            plugin: self.plugin,
            session: session.clone(),
            parts: Mutex::new(None),
            refusal: refusal.clone(),
        };
        let end = PluginEnd::new(stream, Arc::new(served)).await?;
        session.connected(end.runtime().clone());
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

/// Who the plugin is: as launched, else as built, else as its program is named.
fn identity<P>(
    builder: &Builder<P>,
    launched: Option<&Launched>,
    program: Option<PathBuf>,
) -> Result<PluginId, StubError> {
    let file =
        program.as_deref().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    let named = file.as_deref().and_then(|f| PluginId::from_file_name(f).ok());
    let name = launched
        .and_then(|l| l.name.clone())
        .or_else(|| builder.name.clone())
        .or_else(|| named.as_ref().map(|id| id.name.to_string()))
        .or(file)
        .ok_or(StubError::NoIdentity("name"))?;
    let index = launched
        .and_then(|l| l.index.clone())
        .or_else(|| builder.index.clone())
        .or_else(|| named.map(|id| id.index.to_string()))
        .ok_or(StubError::NoIdentity("index"))?;
    Ok(PluginId::new(&index, &name)?)
}

/// The first of these sockets that answers.
async fn dial(paths: &[PathBuf]) -> Result<UnixStream, StubError> {
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
    fn identities() {
        let check = |name: Option<&str>,
                     index: Option<&str>,
                     program: Option<&str>,
                     expect: Result<&str, &str>| {
            let mut builder = Stub::builder(Nothing);
            (builder.name, builder.index) = (name.map(Into::into), index.map(Into::into));
            let id = identity(&builder, None, program.map(Into::into));
            let id = id.as_ref().map(ToString::to_string).map_err(ToString::to_string);
            assert_eq!(id.as_ref().map(String::as_str).map_err(|e| &e[..17.min(e.len())]), expect);
        };
        check(Some("a"), Some("10"), Some("/x/20-b"), Ok("10-a"));
        check(None, None, Some("/x/20-b"), Ok("20-b"));
        check(Some("a"), None, Some("20-b"), Ok("20-a"));
        check(None, Some("10"), Some("20-b"), Ok("10-b"));
        check(None, Some("10"), Some("/usr/bin/logger"), Ok("10-logger"));
        check(None, None, Some("/usr/bin/logger"), Err("the plugin has no"));
        check(Some("a b"), Some("10"), None, Err("bad identity"));
        check(Some("a"), Some("1"), None, Err("bad identity"));
    }
}
