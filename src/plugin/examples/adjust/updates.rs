//! Updates outside of events: a JSON line on stdin requests one. The documentation of `main.rs`
//! describes the lines.

use super::config::Resources;
use nri_plugin::{Failure, Reply, Session, Update, proto::ContainerUpdate};
use serde::Deserialize;
use std::{
    io::BufRead,
    sync::{Mutex, PoisonError},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    container: String,
    resources: Resources,
}

/// The session that updates are requested in: the newest one.
#[derive(Debug, Default)]
pub(crate) struct Updates(Mutex<Option<Session>>);

impl Updates {
    /// Replaces the session. Returns whether it is the first one.
    pub(crate) fn set_session(&self, session: &Session) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.replace(session.clone()).is_none()
    }

    /// Requests the update of a line, and returns the container and the updates that failed.
    async fn request(&self, line: &str) -> Reply<(String, Vec<ContainerUpdate>)> {
        let Request { container, resources } = serde_json::from_str(line)?;
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let session = session.ok_or_else(|| Failure::from("no session"))?;
        let mut update = Update::new(&container);
        resources.apply(&mut update);
        let failed = session.update_containers(vec![update], Vec::new()).await?;
        Ok((container, failed))
    }

    /// Requests the updates of all lines of stdin, and calls `done` with each result. This function
    /// blocks, so it needs a thread of its own, which the exit of the process ends.
    pub(crate) fn read_stdin(
        &self,
        runtime: &tokio::runtime::Handle,
        done: impl Fn(Reply<(String, Vec<ContainerUpdate>)>),
    ) {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            done(runtime.block_on(self.request(&line)));
        }
    }
}
