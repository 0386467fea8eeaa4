//! The draft of a creation, before plugins receive the request: the engine's `config.json`, and the
//! names by which the engine knows the container.

use crate::{
    audit::line_of_key,
    bundle::{
        config_json::{Bundle, digest},
        hook_injection::HookCall,
        own,
        record::{BundleRecord, OwnBundle},
    },
    engine::{names, own_nri::ContainerEngine},
    error::{CallerError, Error},
    host::{clock::now, file_access::blocking, process::ProcessIdentity, runtime::LowLevelRuntime},
    service::Service,
    state::{derived::DerivedFields, key::ContainerKey, record::Record, status::ContainerStatus},
    verb::{
        creation::{
            facts::{self, Subject},
            pod_identity::{self, is_of_kubernetes},
        },
        request::VerbRequest,
    },
};
use nri_adaptation::Origin;
use nri_api::{MAX_CONTAINER, Packed, proto};
use nri_config::PluginPolicy;
use nri_control::{Begin, Verb};
use nri_engine::{Clues, Identity, Map, Role, identify};
use nri_files::{AuditEvent, AuditLine, reply_limit};
use nri_spec::{ContainerImage, ContainerInfo, OciConfig};
use protobuf::Message;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

/// A creation in preparation.
pub struct Draft {
    /// Runtime root and id of the container.
    pub key: ContainerKey,
    /// Id by which plugins know the container.
    pub nri_id: String,
    /// `create`, `run` or `restore`.
    pub verb: Verb,
    /// The container's runtime: program, global options, environment.
    pub runtime: LowLevelRuntime,
    /// The bundle.
    pub bundle: Bundle,
    /// Absolute path of the bundle without links, against which runtimes resolve paths.
    pub bundle_path: PathBuf,
    /// `config.json` as the engine wrote it.
    pub config: OciConfig,
    /// Text of `config`.
    pub text: Vec<u8>,
    /// Names, pod and role that the engine gave to the container.
    pub identity: Identity,
    /// Command of our OCI hook; `None` if the wrapper has not found the hook's program.
    pub hook: Option<HookCall>,
    /// The wrapper's process.
    pub caller: Option<ProcessIdentity>,
    /// Annotations with facts about the container, see [`Draft::find_facts`].
    facts: Vec<(String, String)>,
    /// Time of the creation, which distinguishes successive containers of the same id.
    pub incarnation: i64,
    /// When the creation was begun, for whose end the wrapper waits.
    pub begun: Instant,
    /// Permit for a large `config.json`.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Service {
    /// Reads `config.json` and identifies the container, if necessary by the engine's files or API.
    ///
    /// # Errors
    /// The bundle cannot be used.
    pub(super) async fn draft(
        &self,
        request: &VerbRequest,
        caller: Option<ProcessIdentity>,
        nri_id: &str,
        (bundle, bundle_path): (Bundle, PathBuf),
    ) -> Result<Draft, Error> {
        let VerbRequest { begin, key, runtime, .. } = request;
        let begun = Instant::now();
        let (bundle, text, permit) = self.large_configs.read(bundle).await?;
        let config = match permit {
            Some(_) => blocking(|| OciConfig::parse(&text)),
            None => OciConfig::parse(&text),
        };
        let config =
            config.map_err(|source| CallerError::Config { file: bundle.file(), source })?;
        let mut identity = identity(begin, key, &bundle, &config);
        let pod = |id: &str| self.registry.pods.get(id).is_some();
        let pod_is_known = pod(&identity.pod.id);
        let pods = &self.settings().config.pods;
        let uses_labels = !pods.annotations_from_labels.is_empty()
            || self.settings().config.plugin.iter().any(PluginPolicy::is_limited_by_labels);
        let needs_labels = uses_labels && !is_of_kubernetes(&identity);
        let is_complete = names::complete(&mut identity, &key.id, pod_is_known, needs_labels).await;
        if identity.role == Role::Member && !pod(&identity.pod.id) {
            // A container of Podman may name only the sandbox container of its pod.
            let sandbox = ContainerKey { root: key.root.clone(), id: identity.pod.sandbox.clone() };
            if let Some(sandbox) = self.registry.get(&sandbox) {
                identity.pod.id.clone_from(&sandbox.record().pod_id);
            }
        }
        if !pod_identity::may_join(&self.registry, &identity, bundle.dir()) {
            tracing::warn!(
                container = key.id,
                pod = identity.pod.id,
                engine = %identity.engine,
                "container names a pod of another engine or store, to which it does not belong"
            );
            identity.leave_pod(&key.id, &annotations(&config));
        }
        let incarnation = now();
        let hook = begin.hook.as_ref().map(|program| HookCall {
            program: program.as_path().to_owned(),
            socket: self.settings().state_dir.join(nri_files::CONTROL_SOCKET),
            record: key.hook_name(incarnation),
            timeout: reply_limit(self.settings().config.longest_request_timeout()),
        });
        Ok(Draft {
            key: key.clone(),
            nri_id: nri_id.to_owned(),
            verb: begin.verb,
            runtime: runtime.clone(),
            bundle,
            bundle_path,
            config,
            text,
            identity,
            hook,
            caller,
            facts: facts::of_names(is_complete).into_iter().collect(),
            incarnation,
            begun,
            _permit: permit,
        })
    }
}

/// Returns the annotations of an OCI config.
pub(super) fn annotations(config: &OciConfig) -> Map {
    config.annotations().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn identity(begin: &Begin, key: &ContainerKey, bundle: &Bundle, config: &OciConfig) -> Identity {
    let annotations = annotations(config);
    let mounts: Vec<_> = config.mounts().filter_map(|m| m.source).map(PathBuf::from).collect();
    identify(&Clues {
        id: &key.id,
        annotations: &annotations,
        bundle: bundle.dir(),
        cgroups_path: config.cgroups_path().unwrap_or_default(),
        hostname: config.hostname().unwrap_or_default(),
        root: Path::new(config.rootfs_path().unwrap_or_default()),
        mounts: &mounts,
        runtime_root: begin.root.as_ref().map(|r| r.as_path()),
        environment: &environment(begin),
    })
}

fn environment(begin: &Begin) -> Map {
    let pair = |v: &nri_files::OsText| {
        let text = v.0.to_str()?;
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    begin.environment.iter().filter_map(pair).collect()
}

impl Draft {
    /// Whether our hook is to be injected: under `run` and `restore` the hook reports what the
    /// wrapper reports under `create` and `start`.
    pub fn wants_hooks(&self) -> bool {
        matches!(self.verb, Verb::Run | Verb::Restore)
    }

    /// Finds the facts that the configuration lists, for messages to plugins. Not before plugins
    /// are about to receive the container: some facts need a process.
    pub(super) async fn find_facts(&mut self, service: &Service) {
        let settings = service.settings();
        let subject = Subject {
            id: &self.key.id,
            engine: &self.identity.engine,
            config: &self.config,
            bundle: &self.bundle_path,
            runtime: &self.runtime,
        };
        let versions = &service.resource_manager.versions;
        let wanted = &settings.config.containers.facts;
        let found = facts::annotations(wanted, subject, versions, &service.path_probe).await;
        self.facts.extend(found);
    }

    /// Returns a line of the audit log about the creation.
    pub fn audit_line(&self, event: AuditEvent) -> AuditLine {
        let mut line = line_of_key(&self.key, event);
        line.request = self.verb.name().to_owned();
        self.name_in(&mut line);
        line
    }

    /// Sets the names of the container in a line of the audit log.
    pub fn name_in(&self, line: &mut AuditLine) {
        let pod = &self.identity.pod;
        line.name.clone_from(&self.identity.name);
        line.engine = self.identity.engine.name().to_owned();
        line.runtime = self.runtime.name();
        line.creation = self.incarnation;
        if self.identity.role != Role::Alone {
            line.pod.clone_from(&pod.id);
            line.pod_name.clone_from(&pod.name);
            line.namespace.clone_from(&pod.namespace);
        }
    }

    /// Returns what policies of plugins may be limited to, beyond the messages to plugins.
    pub fn origin(&self) -> Origin {
        let engine = self.identity.engine.name().to_owned();
        Origin { engine, runtime: self.runtime.name() }
    }

    /// Returns the pod, with the fields that are known from any of its containers.
    pub fn pod_message(&self) -> proto::PodSandbox {
        let pod = &self.identity.pod;
        let mut annotations = pod.annotations.clone().into_iter().collect();
        facts::remove_forged(&mut annotations);
        proto::PodSandbox {
            id: pod.id.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            labels: pod.labels.clone().into_iter().collect(),
            annotations,
            runtime_handler: pod.runtime_handler.clone(),
            linux: Some(proto::LinuxPodSandbox {
                cgroup_parent: pod.cgroup_parent.clone(),
                ..Default::default()
            })
            .into(),
            ..Default::default()
        }
    }

    /// Returns the pod with the namespaces and resources of `holder`, the container that holds the
    /// pod's namespaces. The pod has no cgroup before the container has one: RunPodSandbox of a pod
    /// that is made for one container comes before the container's creation.
    pub fn pod_with(&self, holder: &proto::Container) -> proto::PodSandbox {
        let mut pod = self.pod_message();
        if let (Some(pod), Some(holder)) = (pod.linux.as_mut(), holder.linux.as_ref()) {
            pod.namespaces.clone_from(&holder.namespaces);
            pod.resources.clone_from(&holder.resources);
        }
        pod
    }

    /// Returns the pod that starts with the container, which is no sandbox.
    ///
    /// # Errors
    /// Those of [`Draft::container_message`].
    pub fn new_pod(&self) -> Result<proto::PodSandbox, CallerError> {
        if self.identity.role != Role::Alone {
            return Ok(self.pod_message());
        }
        let pod = self.pod_with(&self.container_message()?);
        Ok(proto::PodSandbox { id: self.nri_id.clone(), ..pod })
    }

    /// Returns the pod's id; for a container that its engine put in no pod, the container's id.
    pub fn pod_id(&self) -> &str {
        if self.identity.role == Role::Alone { &self.nri_id } else { &self.identity.pod.id }
    }

    /// Returns the container as the engine requests it.
    ///
    /// # Errors
    /// A field of `config.json` has a wrong type, or no message can hold the container.
    pub fn container_message(&self) -> Result<proto::Container, CallerError> {
        let info = ContainerInfo {
            id: self.nri_id.clone(),
            pod_sandbox_id: self.pod_id().to_owned(),
            name: self.identity.name.clone(),
            labels: self.identity.labels.clone().into_iter().collect(),
            annotations: self.identity.annotations.clone().into_iter().collect(),
            image: self.image(),
            state: proto::ContainerState::CONTAINER_CREATED,
            created_at: now(),
            ..ContainerInfo::default()
        };
        let mut container = nri_spec::to_container(&self.config, &info)
            .map_err(|source| CallerError::ConfigField { file: self.bundle.file(), source })?;
        facts::remove_forged(&mut container.annotations);
        container.annotations.extend(self.facts.iter().cloned());
        let size = container.compute_size();
        if size > MAX_CONTAINER as u64 {
            return Err(CallerError::LargeMessage { size });
        }
        Ok(container)
    }

    fn image(&self) -> Option<ContainerImage> {
        let name = self.identity.image.clone();
        (!name.is_empty()).then(|| ContainerImage { name, ..ContainerImage::default() })
    }

    /// Builds the container's record. `config` is the `config.json` that the runtime gets in place
    /// of the engine's.
    pub fn record(&self, container: &proto::Container, config: Option<&Arc<str>>) -> Record {
        let own = |config: &Arc<str>| OwnBundle {
            name: own::name(&self.key.id, &self.key.file_name(), self.incarnation),
            made_from: digest(&self.text),
            access: self.config.has_namespace("user").then(|| self.bundle.access()).flatten(),
            config: Some(config.clone()),
        };
        let requested = self.config.resources().cloned().unwrap_or_else(|| serde_json::json!({}));
        let requested = Arc::new(requested);
        Record {
            key: self.key.clone(),
            pod_id: self.pod_id().to_owned(),
            sandbox: self.identity.role == Role::Sandbox,
            engine: ContainerEngine::of(&self.identity),
            runtime: self.runtime.clone(),
            bundle: BundleRecord {
                dir: self.bundle.dir().to_owned(),
                name: self.bundle.name(),
                identity: self.bundle.identity(),
                own: config.map(own),
                edited: None,
            },
            container: Packed::new(container),
            owners: proto::FieldOwners::default(),
            effective: requested.clone(),
            requested,
            derived: DerivedFields::default(),
            pending_update: None,
            replaced: Vec::new(),
            eviction: None,
            status: ContainerStatus::Creating,
            pid: None,
            start_time: None,
            cgroups: None,
            caller: self.caller,
            incarnation: self.incarnation,
            by_run: self.wants_hooks(),
            hooked: false,
            missed: Vec::new(),
            exec_limits: None,
        }
    }
}
