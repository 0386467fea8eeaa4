//! Preparation of a creation: decides whether plugins receive it, and adds the container's pod.
//!
//! The draft (`draft.rs`) says who the container is; `engine/names.rs` completes it with names that
//! only files or the API of the engine have. A container that has opted out is skipped, and a
//! sandbox is not adjusted. Otherwise the pod is announced (`lifecycle/pod.rs`), and plugins are
//! asked. Their replies become the plan of the creation (`plan.rs`), with the adjusted
//! `config.json`, which is checked before anything changes. Then follow the record, updates of
//! other containers, and the bundle of `nrid`, in this order (`commit.rs`).

use crate::{
    audit::line_of_key,
    bundle::{bounded, config_json::BundleError, own},
    engine::own_nri::ContainerEngine,
    error::{CallerError, Error, HostError, OperatorError},
    host::{process::ProcessIdentity, runtime::LowLevelRuntime},
    lifecycle::creation::{Drafted, Recorded},
    service::Service,
    state::{
        exec_marker,
        key::ContainerKey,
        locks::ContainerLock,
        pod::{PodKind, PodRecord, PodStatus},
    },
    verb::{
        creation::{draft::Draft, exec_limits, infra, own_arguments, pod_identity},
        request::VerbRequest,
    },
};
use nri_adaptation::TraceContext;
use nri_api::{Packed, proto::Event};
use nri_control::Substitute;
use nri_engine::Role;
use nri_files::{AuditEvent, AuditLine, ExecChanges};
use nri_merge::validator;
use std::{
    fs,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Result of [`prepare`].
#[derive(Debug)]
pub enum Creation {
    /// The container has a record, and the wrapper calls the runtime with these replacements.
    Proceed(Recorded, Substitute),
    /// The wrapper calls the runtime, and plugins receive no request for the container.
    Bypass,
}

/// Prepares the creation of the container to which the lock belongs.
///
/// # Errors
/// The bundle cannot be used, or a plugin refuses. Then nothing has changed.
pub async fn prepare(
    service: &Service,
    lock: &ContainerLock,
    request: VerbRequest,
    caller: Option<ProcessIdentity>,
) -> Result<Creation, Error> {
    let verb = request.begin.verb.name();
    let mut line = line_of_key(&request.key, AuditEvent::Refusal);
    let prepared = try_prepare(service, lock, request, caller, &mut line).await;
    if let Err(error) = &prepared {
        service.audit_refusal(line, verb, error);
    }
    prepared
}

/// Prepares a creation, and adds to `line` what becomes known of the container.
async fn try_prepare(
    service: &Service,
    lock: &ContainerLock,
    mut request: VerbRequest,
    caller: Option<ProcessIdentity>,
    line: &mut AuditLine,
) -> Result<Creation, Error> {
    let bundle = request.bundle.take().ok_or(CallerError::NoBundle)?;
    let VerbRequest { key, runtime, begin, .. } = &request;
    let known = service.registry.locked(lock);
    if let Some(known) = &known {
        // The same wrapper may repeat its request after a restart of nrid: it had no reply, and has
        // not called its runtime.
        if known.record().caller != caller {
            service.wait_for_creation(known).await?;
        }
    }
    // A root directory that cannot be read does not show that the runtime refuses the id.
    let exists = runtime.look_up(&key.id).await;
    if exists.map_err(|e| HostError::unreadable_root(key, e))? {
        tracing::info!(
            container = key.id,
            root = %key.root.display(),
            "container skipped, the runtime has a container of this id and refuses another"
        );
        return Ok(Creation::Bypass);
    }
    if let Some(known) = known {
        // The container was deleted without a verb.
        service.on_removed(&known).await;
    }
    // Reserves the id until the container has a record.
    let claim = service.verbs.claims.claim(&service.registry, lock);
    let identified = service.identified_draft(&request, bundle, caller, claim.id(), |_| ());
    let mut draft = match identified.await {
        Err(error) if service.may_bypass(&error) => {
            log_unreadable(key, &error);
            return Ok(Creation::Bypass);
        }
        draft => draft?,
    };
    // BuildKit sets the trace context of the container's process.
    request.trace.adopt(TraceContext::of_environment(draft.config.env()));
    draft.name_in(line);
    let engines = &service.settings().config.engines;
    if !service.engines.own_nri.is_ours(engines, &ContainerEngine::of(&draft.identity)).await {
        let engine = &draft.identity.engine;
        let (container, pod) = (&key.id, draft.pod_id());
        let why = "the engine's own NRI is enabled";
        tracing::info!(container, pod, %engine, "container skipped, {why}");
        return Ok(Creation::Bypass);
    }
    if let Some(annotation) = service.opt_out(&draft) {
        let (container, pod) = (&key.id, draft.pod_id());
        tracing::info!(container, pod, annotation, "container skipped, it has opted out");
        return Ok(Creation::Bypass);
    }
    service.plugins.launch_shared(|| service.settings()).await;
    draft.find_facts(service).await;
    if let Err(error) = draft.container_message().map_err(Error::from)
        && service.may_bypass(&error)
    {
        log_unreadable(key, &error);
        return Ok(Creation::Bypass);
    }
    // Taken before plugins are called: a container that cannot be watched is refused.
    let descriptor = service.process.descriptors.pidfd().map_err(OperatorError::from)?;
    if draft.identity.role == Role::Sandbox {
        let recorded = service.add_sandbox(lock, draft).await?;
        recorded.container().keep_descriptor(descriptor);
        return Ok(Creation::Proceed(recorded, Substitute::default()));
    }
    service.wait_for_external_plugins(&draft).await;
    let drafted = Drafted::new(&service.registry, draft.pod_id());
    let bundle_path = draft.bundle_path.clone();
    let created = match service.ensure_pod(&draft).await {
        Ok(()) => service.request_creation(lock, draft).await,
        Err(error) => Err(error),
    };
    let recorded = drafted.then(service, created).await?;
    recorded.container().keep_descriptor(descriptor);
    let own = recorded.container().record().bundle.own.as_ref().map(|own| own.name.clone());
    let own = own.map(|name| own::path(&service.settings().state_dir, &name));
    let arguments = match own {
        Some(own) => {
            let kind = service.resource_manager.versions.of(runtime).await.kind;
            Some(own_arguments::with_bundle(begin, kind, &bundle_path, &own))
        }
        None => None,
    };
    Ok(Creation::Proceed(recorded, Substitute { arguments, ..Substitute::default() }))
}

/// Returns the path of an open directory without links, against which runtimes resolve paths. In
/// another mount namespace it is the path as the engine has it.
fn resolved(dir: &OwnedFd, runtime: &LowLevelRuntime, path: &Path) -> PathBuf {
    let link = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let resolved = || fs::read_link(link).ok().filter(|path| path.is_absolute());
    let is_here = runtime.namespace_inode().is_none();
    is_here.then(resolved).flatten().unwrap_or_else(|| path.to_owned())
}

/// Logs that a container is created without events.
fn log_unreadable(key: &ContainerKey, error: &Error) {
    let error = error.line(&key.id);
    tracing::warn!(
        container = key.id,
        error,
        "container skipped, its config.json cannot be sent to plugins; none could refuse or adjust \
         it, and none receives its events"
    );
}

impl Service {
    /// Returns the draft of a creation, with the names, the pod and the role of the container.
    /// `correct` changes those that the bundle and the engine have.
    ///
    /// # Errors
    /// The bundle cannot be used.
    pub(super) async fn identified_draft(
        &self,
        request: &VerbRequest,
        bundle: OwnedFd,
        caller: Option<ProcessIdentity>,
        nri_id: &str,
        correct: impl FnOnce(&mut Draft),
    ) -> Result<Draft, Error> {
        let VerbRequest { runtime, begin, .. } = request;
        let path = begin.bundle.as_ref().map_or(Path::new("."), |b| b.as_path());
        let config = begin.config.as_ref().map(|c| c.as_path());
        let bundle_path = resolved(&bundle, runtime, path);
        let bundle = (bounded::open(bundle, path, config).await?, bundle_path);
        let mut draft = self.draft(request, caller, nri_id, bundle).await?;
        let pod = |id: &str| self.registry.pods.get(id);
        infra::prove(&self.path_probe, &mut draft, &begin.environment, pod).await;
        correct(&mut draft);
        let has_members = |pod: PodRecord| pod.kind != PodKind::SingleContainer;
        if draft.identity.role == Role::Alone && pod(&draft.nri_id).is_some_and(has_members) {
            // Users of some engines choose ids. A pod that is not its own has this id.
            draft.nri_id = draft.key.distinct_id();
        }
        let pods = &self.settings().config.pods;
        pod_identity::complete(&mut draft.identity, &draft.key, &draft.config, pods);
        Ok(draft)
    }

    /// Whether the wrapper may call the runtime in spite of the error: the error only means that
    /// plugins cannot receive this `config.json`, and no plugin could refuse or change the
    /// container. The runtime may accept the `config.json`.
    fn may_bypass(&self, error: &Error) -> bool {
        let is_unreadable = matches!(
            error,
            Error::Caller(
                CallerError::Config { .. }
                    | CallerError::ConfigField { .. }
                    | CallerError::LargeMessage { .. }
                    | CallerError::Bundle(BundleError::TooLarge(_))
            )
        );
        if self.settings().config.exec.refuses() {
            // The container would have no limits of `exec`.
            return false;
        }
        let can_refuse = [
            Event::RUN_POD_SANDBOX,
            Event::CREATE_CONTAINER,
            Event::VALIDATE_CONTAINER_ADJUSTMENT,
            Event::START_CONTAINER,
        ];
        let is_requested = || can_refuse.iter().any(|e| self.plugins.adaptation.needs_request(*e));
        is_unreadable && !(self.settings().plugins_can_refuse() && is_requested())
    }

    /// Returns the annotation by which the container or its pod opts out, if it does.
    pub(super) fn opt_out(&self, draft: &Draft) -> Option<String> {
        let settings = self.settings();
        let annotation = settings.config.opt_out.annotation.as_deref()?;
        let pod = self.registry.pods.get(draft.pod_id());
        let values = [
            draft.config.annotation(annotation),
            draft.identity.annotations.get(annotation).map(String::as_str),
            draft.identity.pod.annotations.get(annotation).map(String::as_str),
            pod.as_ref().and_then(|p| p.sandbox.entry("annotations", annotation)),
        ];
        values.into_iter().flatten().any(|value| value == "true").then(|| annotation.to_owned())
    }

    /// Waits for external plugins that were connected to the previous `nrid`, unless the pod
    /// tolerates missing plugins: a plugin in a container cannot connect before its container runs.
    async fn wait_for_external_plugins(&self, draft: &Draft) {
        let pod = self.registry.pods.get(draft.pod_id()).map(|pod| pod.sandbox.get());
        let pod = pod.unwrap_or_else(|| draft.pod_message());
        let settings = self.settings();
        let annotation = &settings.config.default_validator.tolerate_missing_plugins_annotation;
        let tolerates = annotation.as_deref().is_some_and(|key| {
            validator::tolerates_missing_plugins(key, &pod, &draft.identity.name)
        });
        let external_plugins = &self.plugins.requests.external;
        if !tolerates && !external_plugins.is_complete() {
            let (container, pod) = (&draft.key.id, draft.pod_id());
            tracing::info!(container, pod, "creation waits for external plugins");
            external_plugins.complete().await;
        }
    }

    /// Adds a sandbox container and its pod. Plugins are notified of the pod when it starts.
    async fn add_sandbox(&self, lock: &ContainerLock, draft: Draft) -> Result<Recorded, Error> {
        let container = draft.container_message()?;
        let mut record = draft.record(&container, None);
        record.exec_limits = exec_limits::limits(&draft.config, &self.settings().config.exec);
        let sandbox = draft.pod_with(&container);
        // Without the lock, the removal of a previous sandbox's last container could remove the pod
        // at the same time.
        let _lock = self.verbs.locks.pod(&sandbox.id).await;
        let id = sandbox.id.clone();
        let previous = self.registry.pods.get(&id);
        // If containers of a previous sandbox have kept the pod, plugins know the pod already.
        let is_running = previous.as_ref().is_some_and(|pod| pod.status == PodStatus::Running);
        let status = if is_running { PodStatus::Running } else { PodStatus::New };
        self.registry.pods.set(PodRecord {
            sandbox: Packed::new(&sandbox),
            kind: PodKind::Sandbox,
            status,
            origin: draft.origin(),
        });
        let saved = self.registry.pods.ensure_saved(&id).map_err(Error::from);
        let saved = saved.and_then(|()| Recorded::insert(&self.registry, lock, record));
        let saved = match saved {
            Ok(recorded) => {
                let (state_dir, record) =
                    (&self.settings().state_dir, recorded.container().record());
                let marked = exec_marker::set(state_dir, &record, ExecChanges::default());
                recorded.then(self, marked.map_err(|e| HostError::ExecMarker(e).into())).await
            }
            Err(error) => Err(error),
        };
        if saved.is_err() {
            match previous {
                Some(previous) => self.registry.pods.set(previous),
                None => self.registry.pods.remove(&id),
            }
        }
        saved
    }

    /// Notifies plugins of the container's pod, if the container is the first of the pod.
    async fn ensure_pod(&self, draft: &Draft) -> Result<(), Error> {
        let sandbox = draft.new_pod()?;
        let kind = match draft.identity.role {
            Role::Alone => PodKind::SingleContainer,
            _ => PodKind::Shared,
        };
        // Two containers of one pod may be created at the same time.
        let _lock = self.verbs.locks.pod(&sandbox.id).await;
        if self.registry.pods.get(&sandbox.id).is_some() {
            return Ok(());
        }
        let id = sandbox.id.clone();
        let sandbox = Packed::new(&sandbox);
        let (status, origin) = (PodStatus::New, draft.origin());
        self.run_pod(PodRecord { sandbox, kind, status, origin }).await?;
        // Saved before the container's record: the next nrid needs the records of both.
        Ok(self.registry.pods.ensure_saved(&id)?)
    }
}
