//! Preparation of a creation: decides whether plugins receive it, and adds the container's pod.

use crate::{
    bundle::config_json::Bundle,
    engine::own_nri::ContainerEngine,
    error::{CallerError, Error},
    host::process::ProcessIdentity,
    service::Service,
    state::{
        container::Container,
        locks::LockGuard,
        pod::{PodKind, PodRecord, PodStatus},
    },
    verb::{
        creation::{draft::Draft, infra},
        request::VerbRequest,
    },
};
use nri_api::proto;
use nri_engine::Role;
use std::{path::Path, sync::Arc};

/// Result of [`prepare`].
#[derive(Debug)]
pub enum Creation {
    /// The container has a record, and the wrapper calls the runtime. The bundle lock must be held
    /// until the runtime has read `config.json`.
    Proceed(Arc<Container>, LockGuard),
    /// The wrapper calls the runtime, and plugins do not receive the container.
    Bypass,
}

/// Prepares a creation. The caller holds the container lock.
///
/// # Errors
/// The bundle cannot be used, or a plugin refuses. Then nothing has changed.
pub async fn prepare(
    service: &Service,
    mut request: VerbRequest,
    caller: Option<ProcessIdentity>,
) -> Result<Creation, Error> {
    let bundle_dir = request.bundle.take().ok_or(CallerError::NoBundle)?;
    let VerbRequest { key, runtime, begin, .. } = &request;
    if let Some(known) = service.registry.get(key) {
        // The same wrapper may repeat its request after a restart of nrid: it had no reply, and has
        // not called its runtime.
        if known.record().caller != caller {
            service.wait_for_creation(&known).await?;
        }
        if runtime.has(&key.id) {
            return Ok(Creation::Bypass);
        }
        // The container was deleted without a verb.
        service.removed(&known).await;
    } else if runtime.has(&key.id) {
        // The runtime refuses an id that is in use.
        return Ok(Creation::Bypass);
    }
    // Reserves the id until the container has a record.
    let claim = service.claims.claim(&service.registry, key);
    let path = begin.bundle.as_ref().map_or(Path::new("."), |b| b.as_path());
    let bundle = Bundle::new(bundle_dir, path, begin.config.as_ref().map(|c| c.as_path()))?;
    // Another container may be created from the same bundle, with other adjustments.
    let bundle_lock = service.locks.bundle(bundle.identity()?).await;
    let mut draft = service.draft(&request, caller, claim.id(), bundle).await?;
    let pod = |id: &str| service.registry.pods.get(id);
    infra::prove(&service.path_probe, &mut draft, &begin.environment, pod).await;
    let engines = &service.settings().config.engines;
    if !service.engine_nri.is_ours(engines, &ContainerEngine::of(&draft.identity)).await {
        let engine = &draft.identity.engine;
        let container = &key.id;
        tracing::info!(container, %engine, "container skipped, the engine's own NRI is enabled");
        return Ok(Creation::Bypass);
    }
    service.take_shared_plugins().await;
    if let Some(annotation) = service.opt_out(&draft) {
        tracing::info!(container = key.id, annotation, "container skipped, it has opted out");
        return Ok(Creation::Bypass);
    }
    if draft.identity.role == Role::Sandbox {
        let container = service.add_sandbox(draft).await?;
        return Ok(Creation::Proceed(container, bundle_lock));
    }
    let pod = draft.pod_id().to_owned();
    let entering = service.registry.pods.enter(&pod);
    let created = match service.ensure_pod(&draft).await {
        Ok(()) => service.request_creation(draft).await,
        Err(error) => Err(error),
    };
    drop(entering);
    if created.is_err() {
        service.remove_empty_pod(&pod).await;
    }
    Ok(Creation::Proceed(created?, bundle_lock))
}

impl Service {
    /// Returns the annotation by which the container or its pod opts out, if it does.
    fn opt_out(&self, draft: &Draft) -> Option<String> {
        let settings = self.settings();
        let annotation = settings.config.opt_out.annotation.as_deref()?;
        let pod = self.registry.pods.get(draft.pod_id());
        let values = [
            draft.config.annotation(annotation),
            draft.identity.annotations.get(annotation).map(String::as_str),
            draft.identity.pod.annotations.get(annotation).map(String::as_str),
            pod.as_ref().and_then(|p| p.sandbox.annotations.get(annotation)).map(String::as_str),
        ];
        values.into_iter().flatten().any(|value| value == "true").then(|| annotation.to_owned())
    }

    /// Adds a sandbox container and its pod. Plugins are notified of the pod when it starts.
    async fn add_sandbox(&self, draft: Draft) -> Result<Arc<Container>, Error> {
        let container = draft.container_message()?;
        let record = draft.record(container, None);
        let sandbox = draft.pod_with(&record.container);
        // The removal of a previous sandbox's last container may remove the pod at the same time.
        let _lock = self.locks.pod(&sandbox.id).await;
        let id = sandbox.id.clone();
        let before = self.registry.pods.get(&id);
        // Containers of a previous sandbox may have kept the pod. Then plugins know it already.
        let runs = before.as_ref().is_some_and(|pod| pod.status == PodStatus::Running);
        let status = if runs { PodStatus::Running } else { PodStatus::New };
        self.registry.pods.set(PodRecord { sandbox, kind: PodKind::Sandbox, status });
        let saved =
            self.registry.pods.ensure_saved(&id).and_then(|()| self.registry.insert(record));
        if saved.is_err() {
            match before {
                Some(before) => self.registry.pods.set(before),
                None => self.registry.pods.remove(&id),
            }
        }
        Ok(saved?)
    }

    /// Notifies plugins of the container's pod, if the container is the first of the pod.
    async fn ensure_pod(&self, draft: &Draft) -> Result<(), Error> {
        let (sandbox, kind) = if draft.identity.role == Role::Alone {
            let pod = draft.pod_with(&draft.container_message()?);
            let sandbox = proto::PodSandbox { id: draft.nri_id.clone(), ..pod };
            (sandbox, PodKind::SingleContainer)
        } else {
            (draft.pod_message(), PodKind::Shared)
        };
        // Two containers of one pod may be created at the same time.
        let _lock = self.locks.pod(&sandbox.id).await;
        if self.registry.pods.get(&sandbox.id).is_some() {
            return Ok(());
        }
        let id = sandbox.id.clone();
        self.pod_running(PodRecord { sandbox, kind, status: PodStatus::New }).await?;
        // Saved before the container's record, because the next nrid needs the pod's as well.
        Ok(self.registry.pods.ensure_saved(&id)?)
    }
}
