//! The configuration file of a plugin that no runtime launches: runtimes send a configuration only
//! to plugins that they launch themselves.

use crate::{Plugin, Session, StubError};
use nri_api::PluginId;
use std::{
    convert::Infallible,
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::signal::unix::Signal;

/// A configuration file, and what the plugin has taken of it.
#[derive(Debug)]
pub(crate) struct PluginConfigFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Content of the file when the plugin accepted it last.
    text: String,
    /// The newest session in which the plugin was configured.
    session: Option<Session>,
}

impl PluginConfigFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::default() }
    }

    /// Returns the configuration for a new session.
    pub(crate) fn of_session(&self, session: &Session) -> String {
        let mut state = self.state();
        state.session = Some(session.clone());
        state.text.clone()
    }

    /// Reads the file, and passes it to the plugin.
    pub(crate) async fn load<P: Plugin>(&self, plugin: &P, id: &PluginId) -> Result<(), StubError> {
        let failed = |reason| StubError::ConfigFile { path: self.path.clone(), reason };
        let text = fs::read_to_string(&self.path).map_err(|error| failed(error.to_string()))?;
        let session = self.state().session.clone().unwrap_or_else(|| Session::new(id.clone()));
        let loaded = plugin.reconfigure(&session, &text).await;
        loaded.map_err(|error| failed(error.to_string()))?;
        self.state().text = text;
        Ok(())
    }

    /// Loads the file at each signal. A failure changes nothing, and is logged.
    pub(crate) async fn load_at<P: Plugin>(
        &self,
        mut signal: Signal,
        plugin: &P,
        id: &PluginId,
    ) -> Infallible {
        while signal.recv().await.is_some() {
            match self.load(plugin, id).await {
                Ok(()) => tracing::info!("{id}: {} loaded", self.path.display()),
                Err(error) => tracing::error!("{id}: {error}; the previous configuration stays"),
            }
        }
        std::future::pending().await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
