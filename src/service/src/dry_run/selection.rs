//! Decides which plugins a dry run asks, and how their instances are launched.

use crate::{
    host::error_chain::chain,
    plugins::{config::adaptation_config, shared::SharedLaunch},
    settings::load::Settings,
};
use nri_adaptation::{
    AdaptationConfig, FileUse, PluginPolicy, Privileges, SkipReason, plugin_files,
};
use nri_api::PluginId;
use nri_control::{DryRunAnswer, DryRunPlugin};
use std::path::Path;

/// The plugins of a dry run.
pub(super) struct PluginSelection {
    /// Configuration that launches only the plugins to ask, isolated.
    pub(super) config: AdaptationConfig,
    /// The plugins to ask.
    pub(super) asked: Vec<PluginId>,
    /// All others.
    pub(super) others: Vec<DryRunPlugin>,
}

/// Selects plugins of the plugin directory. `connected` are external plugins, of which a dry run
/// has no program.
pub(super) fn select(settings: &Settings, connected: &[PluginId]) -> PluginSelection {
    let mut config = adaptation_config(settings, &SharedLaunch::Launched(None));
    let (mut asked, mut others) = (Vec::new(), Vec::new());
    for (path, used) in plugin_files(&config) {
        let id = id_of(&path);
        let is_allowed = id.as_ref().is_some_and(|id| config.policy(id).dry_run);
        let name = id.as_ref().map_or_else(|| name_of(&path), ToString::to_string);
        match (used, id) {
            (FileUse::Launched, Some(id)) if is_allowed => asked.push(id),
            (FileUse::Launched, _) => {
                let reason = "its policy does not have `dry_run = true`".to_owned();
                others.push(plugin(name, DryRunAnswer::NotAsked, Some(reason)));
            }
            (FileUse::Skipped(SkipReason::SameName(_)), _) => {}
            (FileUse::Skipped(reason), _) => {
                let answer = if is_allowed { DryRunAnswer::Failed } else { DryRunAnswer::NotAsked };
                let reason = format!("it cannot be launched: {}", chain(&reason));
                others.push(plugin(name, answer, Some(reason)));
            }
            (FileUse::Ignored, _) => {}
        }
    }
    for id in connected.iter().filter(|id| !asked.contains(id)) {
        let reason = "it connects by itself: nrid cannot launch it".to_owned();
        others.push(plugin(id.to_string(), DryRunAnswer::NotAsked, Some(reason)));
    }
    config.selected = Some(asked.clone());
    // A plugin that is not asked must not make the answer a refusal.
    let others_named = others.iter().filter(|other| other.answer == DryRunAnswer::NotAsked);
    config.assumed =
        others_named.filter_map(|other| PluginId::from_file_name(&other.name).ok()).collect();
    config.policies.iter_mut().for_each(isolate);
    config.plugin_cgroups = None;
    // The failure of a required plugin is part of the answer.
    config.start_without_required = true;
    PluginSelection { config, asked, others }
}

/// Changes a policy for instances that are launched beside the real ones.
fn isolate(policy: &mut PluginPolicy) {
    let Privileges { capabilities, no_new_privs, isolated, .. } = &mut policy.privileges;
    (*capabilities, *no_new_privs, *isolated) = (Some(Vec::new()), true, true);
    // Whether the real plugin is active does not depend on the instance, which is not restarted.
    (policy.required, policy.restart) = (false, false);
}

/// Returns a plugin that has requested and printed nothing.
pub(super) fn plugin(name: String, answer: DryRunAnswer, reason: Option<String>) -> DryRunPlugin {
    DryRunPlugin { name, answer, reason, requests: Vec::new(), output: Vec::new() }
}

/// Returns the identity of the plugin, from its file name.
pub(super) fn id_of(path: &Path) -> Option<PluginId> {
    PluginId::from_file_name(path.file_name()?.to_str()?).ok()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
