//! Computes the adjusted `config.json` of a creation from the merged adjustments, in memory. Start
//! from `AdjustedConfig`.

use crate::{
    bundle::{config_json::MAX_CONFIG_SIZE, hook_injection},
    error::{CallerError, Error, HostError, PluginError},
    host::{
        adjustment_paths::AdjustmentPaths,
        cdi, classes,
        file_access::{self, FileSystem, FileSystemHangs},
    },
    service::Service,
    state::derived::DerivedFields,
    verb::creation::{draft::Draft, facts},
};
use nri_api::proto::{self, Field};
use nri_merge::{CreateOutcome, plugins_of};
use nri_spec::{ApplyContext, OciConfig, agreed_container, resolve_paths};
use std::{cell::OnceCell, sync::Arc, time::Duration};

/// Time limit of reading CDI specifications.
const CDI_TIMEOUT: Duration = Duration::from_secs(2);

/// The merged adjustments of all plugins, and the state of the host that they depend on.
pub(super) struct Agreed {
    pub(super) outcome: CreateOutcome,
    pub(super) host: Result<HostView, HostError>,
}

/// State of the host that adjustments depend on: CDI devices and paths.
pub(super) struct HostView {
    devices: cdi::Devices,
    paths: AdjustmentPaths,
}

/// An adjusted `config.json` that is not written yet.
pub(super) struct AdjustedConfig {
    pub(super) config: OciConfig,
    /// The container for messages to plugins, after the adjustments.
    pub(super) container: proto::Container,
    /// The text of the `config.json` in the bundle of `nrid`; `None` if no plugin was asked, so
    /// that the runtime reads the engine's.
    pub(super) text: Option<Arc<str>>,
    /// Whether plugins have adjusted `config`; an injected hook does not count.
    pub(super) is_adjusted: bool,
    /// Whether our hook is injected.
    pub(super) hooked: bool,
    /// Resource fields that follow from others.
    pub(super) derived: DerivedFields,
}

/// Logs that our hook could not be added to the `config.json` of a container that no plugin has
/// adjusted.
pub(super) fn log_without_hook(draft: &Draft, error: &str) {
    tracing::warn!(
        container = draft.key.id,
        pod = draft.pod_id(),
        error,
        "container runs without the hook of nrid, plugins receive events when the runtime has ended"
    );
}

impl Service {
    /// Probes the paths that an outcome names, in the mount namespace of the runtime. Called before
    /// the commit, so that only this creation waits if the file system of a path hangs.
    pub(super) async fn probe_host(&self, draft: &Draft, outcome: CreateOutcome) -> Agreed {
        let adjust = &outcome.adjust;
        let names: Vec<&str> = adjust.CDI_devices.iter().map(|d| d.name.as_str()).collect();
        let devices = match names.as_slice() {
            [] => cdi::Devices::default(),
            _ => self.devices().await,
        };
        let propagates =
            |m: &&proto::Mount| m.options.iter().any(|o| o == "rshared" || o == "rslave");
        let sources = adjust.mounts.iter().filter(propagates).map(|m| m.source.clone()).collect();
        let (namespace, nodes) = (draft.runtime.namespace(), devices.nodes(&names));
        let namespace = namespace.map(AsRef::as_ref);
        let paths = AdjustmentPaths::probe(&self.path_probe, namespace, sources, nodes).await;
        let host = paths.map(|paths| HostView { devices, paths }).map_err(HostError::Paths);
        Agreed { outcome, host }
    }

    /// Reads the CDI specifications of this host.
    async fn devices(&self) -> cdi::Devices {
        let dirs = self.settings().config.cdi.spec_dirs.clone();
        let read = dirs.clone();
        file_access::run(FileSystem::CdiSpecs, CDI_TIMEOUT, move || cdi::Devices::read(&read))
            .await
            .unwrap_or_else(|FileSystemHangs| cdi::Devices::unread(&dirs))
    }

    /// Applies the adjustments, and checks that the runtime and the kernel support the result. Adds
    /// the owners of fields that follow from others.
    pub(super) async fn adjust_checked(
        &self,
        draft: &Draft,
        outcome: &mut CreateOutcome,
        host: &HostView,
    ) -> Result<AdjustedConfig, Error> {
        let id = outcome.container.id.clone();
        let mut owners = outcome.owners.owners.get(&id).cloned().unwrap_or_default();
        let resources = &outcome.adjust.linux.resources;
        let classes = self.resource_manager.resolve_classes(resources, &owners).await?;
        let adjusted = self.adjust_config(draft, outcome, &mut owners, host, &classes)?;
        if !adjusted.derived.is_empty() {
            outcome.owners.owners.insert(id, owners.clone());
        }
        let supported = self
            .resource_manager
            .check(&draft.runtime, &draft.config, &adjusted.config, &owners)
            .await;
        supported.map_err(PluginError::from)?;
        Ok(adjusted)
    }

    /// Applies the adjustments to a copy of the engine's `config.json`.
    fn adjust_config(
        &self,
        draft: &Draft,
        outcome: &CreateOutcome,
        owners: &mut proto::FieldOwners,
        HostView { devices, paths }: &HostView,
        classes: &classes::Resolved,
    ) -> Result<AdjustedConfig, Error> {
        let adjust = &outcome.adjust;
        if let Some(key) = facts::reserved(adjust.annotations.keys()) {
            let plugins = plugins_of(owners, &[(Field::Annotations, Some(key))]);
            return Err(PluginError::ReservedAnnotation { key: key.to_owned(), plugins }.into());
        }
        for broken in devices.broken() {
            tracing::warn!(broken, "CDI specification ignored");
        }
        let mut config = draft.config.clone();
        let swap_accounting = OnceCell::new();
        let context = ApplyContext {
            blockio: &|_| classes.blockio.clone(),
            rdt: &|_| classes.rdt.clone(),
            cdi: devices,
            propagation: &|path| paths.propagation(path),
            device: &|path| paths.device(path),
            swap_accounting: &|| {
                *swap_accounting.get_or_init(|| self.resource_manager.has_swap_accounting())
            },
        };
        let applied = nri_spec::apply(&mut config, adjust, &context).map_err(|error| {
            let plugins = plugins_of(owners, &error.fields());
            PluginError::from(devices.explain(error, plugins))
        })?;
        let container = agreed_container(&outcome.container, &adjust.CDI_devices, &config)
            .map_err(PluginError::AdjustedField)?;
        let hook = draft.hook.as_ref().filter(|_| draft.wants_hooks());
        let hook = hook.filter(|_| self.plugins.adaptation.has_plugins());
        let is_adjusted = applied.changed;
        let mut derived = DerivedFields::default();
        derived.set_swap(applied.swap_follows, owners);
        let is_asked = !outcome.consulted.is_empty();
        let original = || Some(String::from_utf8_lossy(&draft.text).into());
        let unadjusted = |container| AdjustedConfig {
            config: draft.config.clone(),
            container,
            // What plugins were asked about, byte by byte.
            text: is_asked.then(original).flatten(),
            is_adjusted: false,
            hooked: false,
            derived: DerivedFields::default(),
        };
        if let Some(call) = hook {
            hook_injection::inject(&mut config, call).map_err(CallerError::from)?;
        }
        // The runtime resolves relative paths in the bundle of nrid.
        let mut moved = config.clone();
        let is_moved = resolve_paths(&mut moved, &draft.bundle_path.to_string_lossy());
        self.resource_manager.set_idle_at_creation(&mut moved, owners);
        if !is_adjusted && hook.is_none() && !(is_asked && is_moved) {
            return Ok(unadjusted(container));
        }
        if let Err(source) = moved.check_change(&draft.config, &draft.text) {
            if is_adjusted || (is_asked && is_moved) {
                let file = draft.bundle.file();
                return Err(CallerError::Unchangeable { file, source }.into());
            }
            log_without_hook(draft, &source.to_string());
            return Ok(unadjusted(container));
        }
        Ok(AdjustedConfig {
            config,
            container,
            text: Some(text_of(&moved, draft.text.len())?.into()),
            is_adjusted,
            hooked: hook.is_some(),
            derived,
        })
    }
}

/// Returns the text of an adjusted `config.json`. Fails if the text exceeds the size that runtimes
/// read.
fn text_of(config: &OciConfig, original_length: usize) -> Result<String, PluginError> {
    let text = config.value().to_string();
    match text.len() {
        after if after as u64 > MAX_CONFIG_SIZE => Err(PluginError::ConfigTooLarge {
            before: original_length,
            after,
            limit: MAX_CONFIG_SIZE,
        }),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::config_json::Bundle;

    /// Returns a config with a text of `size` bytes.
    fn config(size: u64) -> OciConfig {
        let with_hostname = |length: usize| {
            let value = serde_json::json!({"ociVersion": "1.0.2", "hostname": "x".repeat(length)});
            OciConfig::from_value(value).unwrap()
        };
        with_hostname(size as usize - with_hostname(0).to_bytes().len())
    }

    #[test]
    fn an_adjusted_config_is_never_too_large_to_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let bundle = Bundle::open(dir.path(), "config.json").unwrap();
        // The second argument of `text_of` is only for the error.
        let largest = text_of(&config(MAX_CONFIG_SIZE), 100).unwrap();
        std::fs::write(&file, &largest).unwrap();
        OciConfig::parse(&bundle.read().unwrap()).unwrap();
        let larger = config(MAX_CONFIG_SIZE + 1);
        let error = text_of(&larger, 16_000_000).unwrap_err();
        assert_eq!(
            Error::from(error).line("c1"),
            "container \"c1\": the adjustments make its config.json larger than 16777216 bytes: \
             from 16000000 bytes to 16777217"
        );
        std::fs::write(&file, larger.to_bytes()).unwrap();
        assert!(bundle.read().unwrap_err().to_string().contains("larger than 16777216 bytes"));
    }
}
