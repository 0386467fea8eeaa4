//! Sessions of plugins with the runtime under test.

use super::{Containers, Scripted, scripted::method};
use crate::case::PluginScript;
use nri_api::proto::{ConfigureRequest, Event, RegisterPluginRequest};
use nri_api::{EventMask, NRI_VERSION};
use nri_wire::PluginEnd;
use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::{net::UnixStream, runtime::Runtime, time::timeout};

/// Time limit for a session to be opened: runtimes wait for requests in progress first.
const OPEN_TIMEOUT: Duration = Duration::from_secs(15);

/// Opens sessions with one runtime.
pub struct Sessions {
    tokio: Runtime,
    socket: PathBuf,
    /// Containers of the running case.
    pub containers: Arc<Containers>,
    /// Subscription to everything that the runtime knows.
    all: EventMask,
}

/// A session of a plugin. Dropping it closes the connection.
pub struct Session {
    /// The plugin.
    pub plugin: Arc<Scripted>,
    end: Arc<PluginEnd>,
}

/// What `Configure` says of the runtime, and which events it knows.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Name of the runtime.
    pub name: String,
    /// Version of the runtime.
    pub version: String,
    /// Version of NRI, as announced or as concluded.
    pub nri: String,
}

impl Sessions {
    /// Creates the async runtime of the plugins.
    ///
    /// # Errors
    /// If it has no threads or descriptors.
    pub fn new(socket: &Path) -> std::io::Result<Self> {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let containers = Arc::default();
        Ok(Self { tokio, socket: socket.to_owned(), containers, all: EventMask::ALL })
    }

    /// Connects plugins with fewer and fewer events until the runtime accepts one, and returns what
    /// it says about itself. A runtime refuses events that it does not know, and only NRI v0.12
    /// announces its version.
    ///
    /// # Errors
    /// Why the runtime accepts no plugin.
    pub fn probe(&mut self) -> Result<Facts, String> {
        let without = |mask: EventMask, events: &[Event]| {
            events.iter().fold(mask, |mask, event| mask.without(*event))
        };
        let no_validation = without(EventMask::ALL, &[Event::VALIDATE_CONTAINER_ADJUSTMENT]);
        let oldest =
            without(no_validation, &[Event::UPDATE_POD_SANDBOX, Event::POST_UPDATE_POD_SANDBOX]);
        let forms = [(EventMask::ALL, "v0.10"), (no_validation, "v0.9"), (oldest, "v0.7")];
        let mut reason = String::new();
        for (mask, concluded) in forms {
            self.all = mask;
            let script = PluginScript { id: "00-probe".to_owned(), ..Default::default() };
            match self.open(&script) {
                Ok(session) => {
                    let configured = session.configured();
                    let announced = configured.NRI_version.clone();
                    let has_timeouts = configured.request_timeout > 0;
                    let nri = match (announced.is_empty(), has_timeouts) {
                        (false, _) => announced,
                        (true, true) => concluded.to_owned(),
                        (true, false) => "v0.6".to_owned(),
                    };
                    return Ok(Facts {
                        name: configured.runtime_name.clone(),
                        version: configured.runtime_version.clone(),
                        nri,
                    });
                }
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    /// Connects and registers a plugin, and waits until it is synchronized.
    ///
    /// # Errors
    /// Why the session was not opened.
    pub fn open(&self, script: &PluginScript) -> Result<Session, String> {
        self.tokio.block_on(async {
            match timeout(OPEN_TIMEOUT, self.connect(script)).await {
                Ok(result) => result,
                Err(_) => Err(format!("not synchronized within {} s", OPEN_TIMEOUT.as_secs())),
            }
        })
    }

    /// Opens a session and closes it, after which the runtime has noticed that earlier ones were
    /// closed: a creation would wait for a plugin that has just left, or be refused without the
    /// verdict of a validator.
    pub fn settle(&self) {
        let events = vec!["RemovePodSandbox".to_owned()];
        let script = PluginScript { id: "00-settle".to_owned(), events, ..Default::default() };
        // A runtime that accepts no plugin fails the next case.
        self.open(&script).ok();
    }

    /// Runs a future to its end.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.tokio.block_on(future)
    }

    async fn connect(&self, script: &PluginScript) -> Result<Session, String> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| e.to_string())?;
        let mask = self.mask(&script.events).bits();
        let plugin = Arc::new(Scripted::new(script.clone(), mask, self.containers.clone()));
        let end = PluginEnd::new(stream, plugin.clone()).await.map_err(|e| e.to_string())?;
        let end = Arc::new(end);
        let (index, name) = script.id.split_once('-').unwrap_or(("", &script.id));
        let mut request = RegisterPluginRequest::new();
        request.plugin_idx = index.to_owned();
        request.plugin_name = name.to_owned();
        request.NRI_version = NRI_VERSION.to_owned();
        end.runtime()
            .register_plugin(Duration::from_secs(5), &request)
            .await
            .map_err(|error| format!("the registration failed: {error}"))?;
        let session = Session { plugin, end };
        tokio::select! {
            () = session.plugin.synchronized.notified() => {}
            _ = session.end.closed() => return Err("the runtime closed the session".to_owned()),
        }
        let (plugin, end) = (session.plugin.clone(), session.end.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = plugin.disconnect.notified() => end.close(),
                _ = end.closed() => {}
            }
        });
        Ok(session)
    }

    /// Returns the subscription to these events, or to all that the runtime knows.
    fn mask(&self, events: &[String]) -> EventMask {
        if events.is_empty() {
            return self.all;
        }
        let is_named = |event: &Event| events.contains(&method(&format!("{event:?}")));
        EventMask::ALL.iter().filter(is_named).collect()
    }
}

impl Session {
    /// Returns what the runtime says about itself.
    pub fn configured(&self) -> ConfigureRequest {
        let configured = self.plugin.configured.lock().unwrap_or_else(PoisonError::into_inner);
        configured.clone().unwrap_or_default()
    }

    /// Whether the session is open.
    pub fn is_open(&self) -> bool {
        self.end.trunk().close_reason().is_none()
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.end.close();
    }

    /// The runtime, for unsolicited requests.
    pub fn runtime(&self) -> &nri_wire::RuntimeClient {
        self.end.runtime()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end.close();
    }
}
