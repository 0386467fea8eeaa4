//! The plugin: calls the programs of NRI v0.1 for each pod and container that starts or stops.

use crate::{
    configuration::{Configuration, ConfigurationError},
    message::{ProgramResult, Request, Spec, State, sorted},
    program::{Deadline, ProgramError, SearchPath},
    resources::oci_resources,
};
use nri_plugin::{
    prelude::*,
    proto::{LinuxNamespace, LinuxResources},
};
use std::{collections::HashMap, path::PathBuf, time::Duration};

/// Time limit of an event if the runtime does not say one; upstream's default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Calls programs of NRI v0.1.
pub(crate) struct Adapter {
    configuration: PathBuf,
    search: SearchPath,
}

/// The programs were not all called.
#[derive(Debug, thiserror::Error)]
enum AdapterError {
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error("the request to NRI v0.1 plugins cannot be written: {0}")]
    Request(#[from] serde_json::Error),
    #[error("NRI v0.1 plugin {name}: {source}")]
    Program { name: String, source: ProgramError },
}

/// The container or pod of a request.
struct Subject<'a> {
    state: State,
    id: &'a str,
    pid: u32,
    spec: Spec,
}

impl Adapter {
    /// Creates the plugin. The configuration is read at each event, as upstream reads it.
    pub(crate) fn new(configuration: PathBuf, search: SearchPath) -> Self {
        Self { configuration, search }
    }

    /// Calls the programs one after the other, until one fails.
    async fn invoke(
        &self,
        session: &Session,
        pod: &PodSandbox,
        subject: Subject<'_>,
    ) -> Result<(), AdapterError> {
        let configuration = Configuration::read(&self.configuration)?;
        let deadline = Deadline::after(time_limit(session));
        let mut results: Vec<ProgramResult> = Vec::new();
        for entry in &configuration.plugins {
            let request = Request {
                conf: entry.conf.as_deref(),
                version: &configuration.version,
                state: subject.state,
                id: subject.id,
                sandbox_id: &pod.id,
                pid: subject.pid,
                spec: &subject.spec,
                labels: sorted(&pod.labels),
                results: &results,
            };
            let request = serde_json::to_vec(&request)?;
            let failed = |source| AdapterError::Program { name: entry.name.clone(), source };
            let program = self.search.find(&entry.name).map_err(failed)?;
            let invoked = self.search.invoke(&program, &request, deadline).await;
            results.push(invoked.map_err(failed)?);
            tracing::info!("{:?} {}: called {}", subject.state, subject.id, entry.name);
        }
        Ok(())
    }
}

impl Plugin for Adapter {
    async fn run_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        Ok(self.invoke(session, &pod, of_pod(State::Create, &pod)).await?)
    }

    async fn stop_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        Ok(self.invoke(session, &pod, of_pod(State::Delete, &pod)).await?)
    }

    async fn start_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        Ok(self.invoke(session, &pod, of_container(State::Create, &container)).await?)
    }

    /// Reports errors instead of replying with them, as upstream does: the container has stopped.
    async fn stop_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Vec<Update>> {
        if let Err(e) = self.invoke(session, &pod, of_container(State::Delete, &container)).await {
            tracing::error!("container {}: {e}", container.id);
        }
        Ok(Vec::new())
    }
}

/// Time limit for all programs of an event: what the runtime grants, less a tenth, so that the
/// runtime receives the error.
fn time_limit(session: &Session) -> Duration {
    let granted = session.runtime().map(|runtime| runtime.request_timeout);
    granted.filter(|timeout| !timeout.is_zero()).unwrap_or(REQUEST_TIMEOUT) * 9 / 10
}

fn of_pod(state: State, pod: &PodSandbox) -> Subject<'_> {
    let linux = pod.linux.as_ref();
    let spec = spec(
        &pod.annotations,
        linux.map_or(&[], |linux| &linux.namespaces),
        linux.map_or("", |linux| &linux.cgroups_path),
        linux.and_then(|linux| linux.resources.as_ref()),
    );
    Subject { state, id: &pod.id, pid: pod.pid, spec }
}

fn of_container(state: State, container: &Container) -> Subject<'_> {
    let linux = container.linux.as_ref();
    let spec = spec(
        &container.annotations,
        linux.map_or(&[], |linux| &linux.namespaces),
        linux.map_or("", |linux| &linux.cgroups_path),
        linux.and_then(|linux| linux.resources.as_ref()),
    );
    Subject { state, id: &container.id, pid: container.pid, spec }
}

fn spec(
    annotations: &HashMap<String, String>,
    namespaces: &[LinuxNamespace],
    cgroups_path: &str,
    resources: Option<&LinuxResources>,
) -> Spec {
    let namespaces = namespaces.iter().map(|n| (n.type_.clone(), n.path.clone()));
    Spec {
        resources: oci_resources(resources),
        namespaces: namespaces.collect(),
        cgroups_path: cgroups_path.to_owned(),
        annotations: annotations.clone().into_iter().collect(),
    }
}
