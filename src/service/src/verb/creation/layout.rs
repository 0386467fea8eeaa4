//! The adjusted `config.json` of a creation.

use crate::{
    bundle::{config_json::MAX_CONFIG_SIZE, hook_injection},
    error::{CallerError, Error, HostError, PluginError},
    host::{adjustment_paths::AdjustmentPaths, cdi, classes},
    service::Service,
    verb::creation::{agreed_container::agreed_container, draft::Draft},
};
use nri_api::proto;
use nri_merge::CreateOutcome;
use nri_spec::{ApplyContext, OciConfig};

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
pub(super) struct Layout {
    pub(super) config: OciConfig,
    /// The container as plugins know it from now on.
    pub(super) container: proto::Container,
    /// The text, if it differs from the engine's.
    pub(super) changed: Option<Vec<u8>>,
    /// Whether our hook is injected.
    pub(super) hooked: bool,
}

impl Service {
    /// Probes the paths that an outcome names. Called before the commit, so that only this creation
    /// waits if a path hangs.
    pub(super) async fn probe_host(&self, outcome: CreateOutcome) -> Agreed {
        let adjust = &outcome.adjust;
        let names: Vec<&str> = adjust.CDI_devices.iter().map(|d| d.name.as_str()).collect();
        let devices = match names.as_slice() {
            [] => cdi::Devices::default(),
            _ => cdi::Devices::read(&self.settings().config.cdi.spec_dirs),
        };
        let propagates =
            |m: &&proto::Mount| m.options.iter().any(|o| o == "rshared" || o == "rslave");
        let sources = adjust.mounts.iter().filter(propagates).map(|m| m.source.clone()).collect();
        let paths = AdjustmentPaths::probe(&self.path_probe, sources, devices.nodes(&names)).await;
        let host = paths.map(|paths| HostView { devices, paths }).map_err(HostError::Paths);
        Agreed { outcome, host }
    }

    /// Applies the adjustments, and checks that the runtime and the kernel support the result.
    pub(super) async fn lay_out_checked(
        &self,
        draft: &Draft,
        outcome: &CreateOutcome,
        host: &HostView,
    ) -> Result<Layout, Error> {
        let layout = self.lay_out(draft, outcome, host)?;
        let owners = outcome.owners.owners.get(&outcome.container.id).cloned().unwrap_or_default();
        let supported = self
            .resource_manager
            .check(&draft.runtime, &draft.config, &layout.config, &owners)
            .await;
        supported.map_err(PluginError::from)?;
        Ok(layout)
    }

    /// Applies the adjustments.
    fn lay_out(
        &self,
        draft: &Draft,
        outcome: &CreateOutcome,
        HostView { devices, paths }: &HostView,
    ) -> Result<Layout, Error> {
        let adjust = &outcome.adjust;
        let rules = self.resource_manager.policy();
        let sources = rules.classes.sources();
        let classes = classes::Resolved::of(&adjust.linux.resources, &sources)?;
        for broken in devices.broken() {
            tracing::warn!(broken, "CDI specification ignored");
        }
        let mut config = draft.config.clone();
        let context = ApplyContext {
            blockio: &|_| classes.blockio.clone(),
            rdt: &|_| classes.rdt.clone(),
            cdi: devices,
            propagation: &|path| paths.propagation(path),
            device: &|path| paths.device(path),
        };
        let applied = nri_spec::apply(&mut config, adjust, &context)
            .map_err(|e| PluginError::from(devices.explain(e)))?;
        let container = agreed_container(&outcome.container, &adjust.CDI_devices, &config)
            .map_err(PluginError::AdjustedField)?;
        let hooked = match &draft.hook {
            Some(call) if draft.wants_hooks() && self.adaptation.has_plugins() => {
                hook_injection::inject(&mut config, call).map_err(CallerError::from)?;
                true
            }
            _ => false,
        };
        let changed = match applied.changed || hooked {
            true => Some(text_of(&config, draft.original_bytes().len())?),
            false => None,
        };
        Ok(Layout { config, container, changed, hooked })
    }
}

/// Returns the text of an adjusted `config.json`. Fails if `nrid` could not read the text again,
/// and so could not restore the engine's `config.json`.
fn text_of(config: &OciConfig, before: usize) -> Result<Vec<u8>, PluginError> {
    let text = config.to_bytes();
    match text.len() {
        after if after as u64 > MAX_CONFIG_SIZE => {
            Err(PluginError::ConfigTooLarge { before, after, limit: MAX_CONFIG_SIZE })
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::config_json::Bundle;

    /// Returns a config with a text of `size` bytes.
    fn config(size: u64) -> OciConfig {
        let of = |filling: usize| {
            let value = serde_json::json!({"ociVersion": "1.0.2", "hostname": "x".repeat(filling)});
            OciConfig::from_value(value).unwrap()
        };
        of(size as usize - of(0).to_bytes().len())
    }

    #[test]
    fn an_adjusted_config_is_never_too_large_to_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let bundle = Bundle::open(dir.path(), "config.json").unwrap();
        let largest = text_of(&config(MAX_CONFIG_SIZE), 100).unwrap();
        std::fs::write(&file, &largest).unwrap();
        let found = bundle.read().unwrap();
        OciConfig::parse(&found.bytes).unwrap();
        let larger = config(MAX_CONFIG_SIZE + 1);
        let why = text_of(&larger, 16_000_000).unwrap_err();
        assert_eq!(
            Error::from(why).line("c1"),
            "container \"c1\": the adjustments make its config.json larger than 16777216 bytes: \
             from 16000000 bytes to 16777217"
        );
        bundle.replace(&larger.to_bytes(), &found).unwrap();
        assert!(bundle.read().unwrap_err().to_string().contains("larger than 16777216 bytes"));
    }
}
