//! `create`, `run`, `restore`: plugins are asked, and the bundle is made what they agreed on.

use crate::{
    bundle::{
        config_json::{Bundle, MAX_DOCUMENT},
        exec_marker, hook_injection,
    },
    engine::{infra, own_nri::Maker},
    error::{CallerError, Error, HostError, PluginError},
    host::{adjustment_paths::AdjustmentPaths, cdi, classes, runtime::LowLevelRuntime},
    resources::apply::{By, check_required},
    service::Service,
    state::{
        record::{Caller, Key, PodRecord},
        registry::{Container, LaneGuard},
    },
    verb::{draft::Draft, shadow, shown::shown},
};
use nri_api::proto::{self, CreateContainerRequest};
use nri_control::Begin;
use nri_engine::Role;
use nri_merge::CreateOutcome;
use nri_spec::{ApplyContext, OciConfig};
use std::{os::fd::OwnedFd, path::Path, sync::Arc};

/// How a creation goes on.
#[derive(Debug)]
pub enum Creation {
    /// The runtime is to be called; the container is known. Until the runtime has read the bundle
    /// nobody else writes there.
    Proceed(Arc<Container>, LaneGuard),
    /// The runtime is to be called as if we were not there: it has the id, and will refuse it.
    Bypass,
}

/// What the plugins agreed on, and what it needs of the host.
pub(crate) struct Agreed {
    pub(crate) outcome: CreateOutcome,
    pub(crate) host: Result<HostView, HostError>,
}

/// What an adjustment needs of the host.
pub(crate) struct HostView {
    devices: cdi::Devices,
    places: AdjustmentPaths,
}

/// A document as it is to be written.
pub(crate) struct Layout {
    pub(crate) document: OciConfig,
    /// As plugins see it from now on.
    container: proto::Container,
    /// Its text, if it is not the engine's any more.
    changed: Option<Vec<u8>>,
    hooked: bool,
}

impl Service {
    /// Prepares a creation. The caller holds the lane.
    ///
    /// # Errors
    /// A bundle that cannot be used, or a plugin that refuses; then nothing has changed.
    pub async fn create(
        &self,
        begin: &Begin,
        key: &Key,
        dir: OwnedFd,
        caller: Option<Caller>,
    ) -> Result<Creation, Error> {
        let runtime = LowLevelRuntime::new(
            &begin.runtime,
            &begin.globals,
            begin.root.as_ref(),
            &begin.environment,
            &begin.cwd,
        );
        if let Some(known) = self.registry.get(key) {
            // One that asks again has no answer from the nrid before us, and so no runtime.
            if known.record().caller != caller {
                self.wait_until_made(&known).await?;
            }
            if runtime.has(&key.id) {
                return Ok(Creation::Bypass);
            }
            // Deleted behind our back.
            self.finish(&known).await;
        } else if runtime.has(&key.id) {
            return Ok(Creation::Bypass);
        }
        // Until there is a record.
        let claim = self.claims.claim(&self.registry, key);
        let path = begin.bundle.as_ref().map_or(Path::new("."), |b| b.as_path());
        let bundle = Bundle::new(dir, path, begin.config.as_ref().map(|c| c.as_path()))?;
        // Another container may be created from the same bundle, with other adjustments.
        let turn = self.lane(&Key::of_bundle(bundle.identity()?)).await;
        let mut draft = self.draft(begin, key, claim.id(), runtime, bundle).await?;
        draft.caller = caller;
        infra::prove(&self.path_probe, &mut draft, &begin.environment, |id| self.registry.pod(id))
            .await;
        if !self
            .engine_nri
            .is_ours(&self.settings().config.engines, &Maker::of(&draft.identity))
            .await
        {
            tracing::info!(container = key.id, engine = %draft.identity.engine, "its engine's own NRI is in charge");
            return Ok(Creation::Bypass);
        }
        self.take_shared_plugins().await;
        if let Some(annotation) = self.opts_out(&draft) {
            tracing::info!(container = key.id, annotation, "it is left alone");
            return Ok(Creation::Bypass);
        }
        if draft.identity.role == Role::Sandbox {
            let made = self.create_sandbox(draft).await;
            return made.map(|container| Creation::Proceed(container, turn));
        }
        let pod = draft.pod_id().to_owned();
        let entering = self.registry.enter(&pod);
        let created = match self.enter_pod(&draft).await {
            Ok(()) => self.ask(draft).await,
            Err(refusal) => Err(refusal),
        };
        drop(entering);
        if created.is_err() {
            self.leave_pod(&pod).await;
        }
        created.map(|container| Creation::Proceed(container, turn))
    }

    /// The annotation by which the container, or its pod, wants to be left alone, where the
    /// configuration allows that.
    fn opts_out(&self, draft: &Draft) -> Option<String> {
        let settings = self.settings();
        let annotation = settings.config.opt_out.annotation.as_deref()?;
        let pod = self.registry.pod(draft.pod_id());
        let values = [
            draft.document.annotation(annotation),
            draft.identity.annotations.get(annotation).map(String::as_str),
            draft.identity.pod.annotations.get(annotation).map(String::as_str),
            pod.as_ref().and_then(|p| p.sandbox.annotations.get(annotation)).map(String::as_str),
        ];
        values.into_iter().flatten().any(|value| value == "true").then(|| annotation.to_owned())
    }

    /// A sandbox container is no container to plugins: its pod is told when it starts.
    async fn create_sandbox(&self, draft: Draft) -> Result<Arc<Container>, Error> {
        let container = draft.container_message()?;
        let record = draft.record(container, None);
        let sandbox = draft.pod_with(&record.container);
        // The last container of a sandbox that is gone may be taking the pod along.
        let _lane = self.lane(&Key::of_pod(&sandbox.id)).await;
        // Containers of a sandbox that is gone may have kept the pod; plugins know it then.
        let told_run =
            self.registry.pod(&sandbox.id).is_some_and(|pod| pod.told_run && !pod.told_stop);
        let (id, before) = (sandbox.id.clone(), self.registry.pod(&sandbox.id));
        self.registry.set_pod(PodRecord {
            sandbox,
            real: true,
            shared: false,
            told_run,
            told_stop: false,
        });
        let kept = self.registry.keep_pod(&id).and_then(|()| self.registry.insert(record));
        if kept.is_err() {
            match before {
                Some(before) => self.registry.set_pod(before),
                None => self.registry.remove_pod(&id),
            }
        }
        Ok(kept?)
    }

    /// Tells of a pod that begins with this container.
    async fn enter_pod(&self, draft: &Draft) -> Result<(), Error> {
        let alone = draft.identity.role == Role::Alone;
        let sandbox = if alone {
            proto::PodSandbox {
                id: draft.nri_id.clone(),
                ..draft.pod_with(&draft.container_message()?)
            }
        } else {
            draft.pod_message()
        };
        // Two containers of one pod may be its first at the same time.
        let _lane = self.lane(&Key::of_pod(&sandbox.id)).await;
        if self.registry.pod(&sandbox.id).is_some() {
            return Ok(());
        }
        let id = sandbox.id.clone();
        let pod =
            PodRecord { sandbox, real: false, shared: !alone, told_run: true, told_stop: false };
        self.run_pod(pod).await?;
        // Who knows the container after us has to know its pod.
        Ok(self.registry.keep_pod(&id)?)
    }

    /// Asks the plugins, and makes what they agreed on real.
    async fn ask(&self, draft: Draft) -> Result<Arc<Container>, Error> {
        let draft = Arc::new(draft);
        let container = draft.container_message()?;
        let pod_id = draft.pod_id().to_owned();
        let pod =
            self.registry.pod(&pod_id).map(|p| p.sandbox).unwrap_or_else(|| draft.pod_message());
        let request = CreateContainerRequest {
            pod: Some(pod.clone()).into(),
            container: Some(container.clone()).into(),
            ..Default::default()
        };
        let asking = self.asking();
        let asked = self
            .adaptation
            .create_container(
                request,
                &asking,
                |outcome: CreateOutcome| self.look(outcome),
                |agreed: Agreed| self.commit(draft.clone(), pod_id, agreed, asking.consults_all()),
            )
            .await;
        let created = asked.map_err(Error::from).and_then(|created| created);
        if created.is_err() {
            // Plugins that were asked may hold something for it.
            self.tell_undone(&asking, pod, container).await;
        }
        shadow::tell_refusals(asking);
        created
    }

    /// Looks at what the outcome names on the host, before the commit: a path may hang, and then
    /// only this creation waits.
    async fn look(&self, outcome: CreateOutcome) -> Agreed {
        let adjust = &outcome.adjust;
        let names: Vec<&str> = adjust.CDI_devices.iter().map(|d| d.name.as_str()).collect();
        let devices = match names.as_slice() {
            [] => cdi::Devices::default(),
            _ => cdi::Devices::read(&self.settings().config.cdi.spec_dirs),
        };
        let propagates =
            |m: &&proto::Mount| m.options.iter().any(|o| o == "rshared" || o == "rslave");
        let sources = adjust.mounts.iter().filter(propagates).map(|m| m.source.clone()).collect();
        let seen = AdjustmentPaths::probe(&self.path_probe, sources, devices.nodes(&names)).await;
        let host = seen.map(|places| HostView { devices, places }).map_err(HostError::Paths);
        Agreed { outcome, host }
    }

    /// Runs at the commit station: one creation at a time, in the order in which the plugins saw
    /// them.
    async fn commit(
        &self,
        draft: Arc<Draft>,
        pod_id: String,
        mut agreed: Agreed,
        shadow: bool,
    ) -> Result<Arc<Container>, Error> {
        if shadow {
            self.tell_shadow(&draft, agreed).await;
            agreed = self.look(shadow::nothing(draft.container_message()?)).await;
        }
        let Agreed { outcome, host } = agreed;
        for ignored in &outcome.ignored {
            tracing::warn!(plugin = %ignored.plugin, container = ignored.container, what = ignored.what, "has no meaning, left out");
        }
        let Layout { document, container, changed, hooked } =
            self.lay_out_checked(&draft, &outcome, &host?).await?;
        let owners = outcome.owners.owners.get(&outcome.container.id).cloned().unwrap_or_default();
        let bytes = changed.as_deref().unwrap_or_else(|| draft.original_bytes());
        let rewrite = bytes != draft.found.bytes;
        let mut record = draft.record(container, changed.as_ref());
        record.pod_id = pod_id;
        record.hooked = hooked;
        record.owners = owners;
        record.in_force = document.resources().cloned().unwrap_or_else(|| serde_json::json!({}));
        let container = self.registry.insert(record)?;
        let performed = async {
            let failed = self.keeper.set_all(outcome.updates, By::Merged(&outcome.owners)).await;
            check_required(failed)?;
            let exec = exec_marker::changes(&draft.document, &document);
            exec_marker::set(
                &self.settings().state_dir,
                &draft.key.id,
                &draft.key.root,
                Some(exec),
            )
            .map_err(HostError::ExecMarker)?;
            if rewrite {
                let written = match &draft.link {
                    Some(link) if changed.is_none() => draft.bundle.link_again(link, &draft.found),
                    _ => draft.bundle.replace(bytes, &draft.found),
                };
                written?;
            }
            self.keeper.evict_all(outcome.evictions);
            Ok(())
        };
        match performed.await {
            Ok(()) => Ok(container),
            Err(refusal) => {
                self.forget(&draft.key);
                Err(refusal)
            }
        }
    }

    /// The document as agreed, if the runtime can do what it says.
    pub(crate) async fn lay_out_checked(
        &self,
        draft: &Draft,
        outcome: &CreateOutcome,
        host: &HostView,
    ) -> Result<Layout, Error> {
        let layout = self.lay_out(draft, outcome, host)?;
        let owners = outcome.owners.owners.get(&outcome.container.id).cloned().unwrap_or_default();
        let capable =
            self.keeper.check(&draft.runtime, &draft.document, &layout.document, &owners).await;
        capable.map_err(PluginError::from)?;
        Ok(layout)
    }

    /// The document as agreed.
    fn lay_out(
        &self,
        draft: &Draft,
        outcome: &CreateOutcome,
        HostView { devices, places }: &HostView,
    ) -> Result<Layout, Error> {
        let adjust = &outcome.adjust;
        let rules = self.keeper.rules();
        let sources = rules.classes.sources();
        let classes = classes::Resolved::of(&adjust.linux.resources, &sources)?;
        for broken in devices.broken() {
            tracing::warn!(broken, "CDI specification left out");
        }
        let mut document = draft.document.clone();
        let context = ApplyContext {
            blockio: &|_| classes.blockio.clone(),
            rdt: &|_| classes.rdt.clone(),
            cdi: devices,
            propagation: &|path| places.propagation(path),
            device: &|path| places.device(path),
        };
        let applied = nri_spec::apply(&mut document, adjust, &context)
            .map_err(|e| PluginError::from(devices.explain(e)))?;
        let container = shown(&outcome.container, &adjust.CDI_devices, &document)
            .map_err(PluginError::AdjustedField)?;
        let hooked = match &draft.hook {
            Some(call) if draft.wants_hooks() && self.adaptation.has_plugins() => {
                hook_injection::inject(&mut document, call).map_err(CallerError::from)?;
                true
            }
            _ => false,
        };
        let changed = match applied.changed || hooked {
            true => Some(text_of(&document, draft.original_bytes().len())?),
            false => None,
        };
        Ok(Layout { document, container, changed, hooked })
    }
}

/// The text of a document that we changed. We have to be able to read it again, or its engine would
/// never get its own back.
fn text_of(document: &OciConfig, before: usize) -> Result<Vec<u8>, PluginError> {
    let text = document.to_bytes();
    match text.len() {
        after if after as u64 > MAX_DOCUMENT => {
            Err(PluginError::ConfigTooLarge { before, after, limit: MAX_DOCUMENT })
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document whose text has this many bytes.
    fn document(size: u64) -> OciConfig {
        let of = |filling: usize| {
            let value = serde_json::json!({"ociVersion": "1.0.2", "hostname": "x".repeat(filling)});
            OciConfig::from_value(value).unwrap()
        };
        of(size as usize - of(0).to_bytes().len())
    }

    #[test]
    fn what_we_write_we_can_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let bundle = Bundle::open(dir.path(), "config.json").unwrap();
        let largest = text_of(&document(MAX_DOCUMENT), 100).unwrap();
        std::fs::write(&file, &largest).unwrap();
        let found = bundle.read().unwrap();
        OciConfig::parse(&found.bytes).unwrap();
        let larger = document(MAX_DOCUMENT + 1);
        let why = text_of(&larger, 16_000_000).unwrap_err();
        assert_eq!(
            Error::from(why).line("c1"),
            "container \"c1\": the adjustments make its config.json larger than 16777216 bytes: from 16000000 bytes to 16777217"
        );
        bundle.replace(&larger.to_bytes(), &found).unwrap();
        assert!(bundle.read().unwrap_err().to_string().contains("larger than 16777216 bytes"));
    }
}
