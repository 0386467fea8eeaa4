//! Decision of a reload: which plugins are launched, relaunched or ended.
//!
//! The plan compares the inputs of each launch with the current plugin directory and configuration.
//! [`crate::launch::reload`] carries it out.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::AdaptationConfig;
use crate::launch::directory::Discovered;
use crate::launch::discovery::{PluginFile, PluginFiles, SkippedFile};
use crate::launch::skip_reason::{LaunchedByOther, SkipReason};
use crate::policy::privileges::Privileges;

/// Inputs of the last launch, by file, and the configurations that plugins have refused.
#[derive(Default)]
pub(crate) struct LaunchInputs {
    launched: Mutex<BTreeMap<PathBuf, LaunchInput>>,
    refused: Mutex<BTreeMap<PathBuf, RefusedConfiguration>>,
}

/// A configuration with which a plugin has failed, so that it runs with the previous one.
#[derive(Debug)]
struct RefusedConfiguration {
    config: String,
    why: String,
}

/// Inputs of a launch. A change of any of them requires a relaunch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchInput {
    file: PluginFile,
    privileges: Privileges,
    /// Registration and request timeout, which `Configure` sends.
    timeouts: (Duration, Duration),
    variables: Vec<(String, String)>,
}

impl LaunchInput {
    fn new(file: &PluginFile, config: &AdaptationConfig) -> Self {
        let policy = config.policy(&file.id);
        let timeouts = (config.registration_timeout, config.timeout(&policy));
        let variables = config.plugin_variables.clone();
        Self { file: file.clone(), privileges: policy.privileges, timeouts, variables }
    }

    /// Returns the reason for a relaunch, if an input differs.
    fn relaunch_reason(&self, now: &Self) -> Option<&'static str> {
        if self.file.program != now.file.program {
            Some("program changed")
        } else if self.file.digest != now.file.digest {
            Some("digest changed")
        } else if self.file.config != now.file.config {
            Some("configuration changed")
        } else if self.file.wasm_host != now.file.wasm_host {
            Some("host of webassembly modules changed")
        } else if self.privileges != now.privileges {
            Some("privileges changed")
        } else if self.timeouts != now.timeouts {
            Some("timeouts changed")
        } else if self.variables != now.variables {
            Some("variables changed")
        } else {
            None
        }
    }

    /// Returns the file with the configuration of this launch, if no more than that has changed.
    pub(crate) fn previous_configuration(&self, now: &PluginFile) -> Option<PluginFile> {
        let is_same_program = self.file.program == now.program && self.file.digest == now.digest;
        (is_same_program && self.file.config != now.config).then(|| self.file.clone())
    }
}

impl LaunchInputs {
    /// Records a launch. Returns whether its inputs differ from those of the previous launch.
    pub(crate) fn record(&self, file: &PluginFile, config: &AdaptationConfig) -> bool {
        let now = LaunchInput::new(file, config);
        let before = self.launched.lock().insert(file.path.clone(), now.clone());
        before.is_none_or(|before| before != now)
    }

    /// Removes the record of a file that is not launched any more.
    pub(crate) fn remove(&self, path: &Path) {
        self.launched.lock().remove(path);
        self.refused.lock().remove(path);
    }

    /// Returns a copy of all records.
    pub(crate) fn all(&self) -> BTreeMap<PathBuf, LaunchInput> {
        self.launched.lock().clone()
    }

    /// Records that the plugin has failed with the configuration of `file`, for this reason.
    pub(crate) fn refuse(&self, file: &PluginFile, why: String) {
        let refused = RefusedConfiguration { config: file.config.clone(), why };
        self.refused.lock().insert(file.path.clone(), refused);
    }

    /// Returns why the plugin has failed with the configuration of `file`, if it runs with the
    /// previous one since.
    pub(crate) fn refusal(&self, file: &PluginFile) -> Option<String> {
        let refused = self.refused.lock();
        refused.get(&file.path).filter(|r| r.config == file.config).map(|r| r.why.clone())
    }
}

/// Action of a reload on one file of the plugin directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadAction {
    /// Launch the plugin: its file is new, or the plugin had ended.
    Launch {
        /// Whether the plugin was never launched before.
        new: bool,
    },
    /// End the plugin and launch it again, for this reason.
    Relaunch(&'static str),
    /// End the plugin, for this reason.
    End(&'static str),
    /// Keep the running plugin, if any; the file cannot be launched, for this reason.
    Unusable(String),
    /// Do not launch the plugin, which another NRI runtime launches.
    Withhold(LaunchedByOther),
    /// Do nothing; the file is named like a plugin, but is none, for this reason.
    Ignore(&'static str),
}

/// Action for each file; `None` keeps the plugin as it is.
pub(crate) type ReloadPlan = BTreeMap<PathBuf, Option<ReloadAction>>;

/// Decides the action for each file. `is_running` returns whether a plugin of the file runs or is
/// about to be restarted.
pub(crate) fn plan(
    discovered: &Discovered,
    launched: &BTreeMap<PathBuf, LaunchInput>,
    config: &AdaptationConfig,
    is_running: impl Fn(&Path) -> bool,
) -> ReloadPlan {
    let Discovered { found: PluginFiles { files, skipped, not_executable }, existing, .. } =
        discovered;
    let mut plan = ReloadPlan::new();
    for file in files {
        let before = launched.get(&file.path);
        let action = match before {
            _ if !is_running(&file.path) => Some(ReloadAction::Launch { new: before.is_none() }),
            // The plugin runs, but its launch was not recorded: no inputs can be compared.
            None => None,
            Some(before) => {
                before.relaunch_reason(&LaunchInput::new(file, config)).map(ReloadAction::Relaunch)
            }
        };
        plan.insert(file.path.clone(), action);
    }
    for SkippedFile { path, reason } in skipped {
        // The target of a symlink was removed.
        let is_removed =
            matches!(reason, SkipReason::Unreadable(e) if e.kind() == io::ErrorKind::NotFound);
        let action = match reason {
            _ if is_removed && is_running(path) => Some(ReloadAction::End("file removed")),
            // Launched before the other runtime: containers depend on it.
            SkipReason::LaunchedByOther(_) if is_running(path) => None,
            SkipReason::LaunchedByOther(why) => Some(ReloadAction::Withhold(why.clone())),
            // What runs was launched without this digest.
            SkipReason::Digest(mismatch)
                if is_running(path) && !is_pinned_to(launched.get(path), &mismatch.expected) =>
            {
                Some(ReloadAction::End("program has another digest than its policy"))
            }
            SkipReason::SameName(_) if is_running(path) => {
                Some(ReloadAction::End("another file of this name is launched in its place"))
            }
            SkipReason::SameName(_) => {
                Some(ReloadAction::Ignore("another file of this name is launched in its place"))
            }
            _ => Some(ReloadAction::Unusable(with_cause(reason))),
        };
        plan.insert(path.clone(), action);
    }
    for path in launched.keys() {
        let is_in_dir = config.plugin_dirs().any(|dir| path.parent() == Some(dir));
        let why = if !is_in_dir {
            "file outside plugin_path"
        } else if existing.contains(path) {
            "file no longer executable"
        } else {
            "file removed"
        };
        plan.entry(path.clone()).or_insert(Some(ReloadAction::End(why)));
    }
    for path in not_executable {
        plan.entry(path.clone()).or_insert(Some(ReloadAction::Ignore("not executable")));
    }
    plan
}

/// Whether a plugin was launched with this digest.
fn is_pinned_to(launched: Option<&LaunchInput>, digest: &str) -> bool {
    launched.is_some_and(|input| input.file.digest.as_deref() == Some(digest))
}

/// Formats an error with its source, unless the error's text contains the source already.
fn with_cause(error: &SkipReason) -> String {
    let text = error.to_string();
    match error.source().map(|source| format!(": {source}")) {
        Some(cause) if !text.contains(&cause) => text + &cause,
        _ => text,
    }
}
