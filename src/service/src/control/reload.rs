//! Reloads: the configuration and the plugin directory are read again while containers and plugins
//! run.
//!
//! An invalid configuration changes nothing. Changed keys that only a start can apply (sockets, the
//! state directory) are reported to the caller and logged.

use crate::{
    error::{Error, OperatorError},
    host::file_access::{self, FileSystem, FileSystemHangs, LOOKUP_TIMEOUT},
    plugins::{
        config::{adaptation_config, policy_warnings},
        shared::SharedLaunch,
    },
    resources::manager::ResourcePolicy,
    service::Service,
    settings::load::Settings,
};
use nri_adaptation::{
    PendingReload, PluginOrigin, PluginStatus, ReloadAction, ReloadOutcome, ReloadedPlugin,
};
use nri_config::Config;
use nri_control::{PluginChange, Reloaded};
use nri_files::OsText;
use nri_locate::{CONFIG_FILE, ConfigFileError, PLUGIN_SOCKET};
use std::{io, path::Path, sync::Arc, time::Duration};

/// Reason for launching a plugin file that was added after the start of `nrid`.
const FILE_ADDED: &str = "file added after the start";

/// Time that a status waits for the plugin directory. Shorter than the 2.5 s that older programs
/// wait for a status before they assume that `nrid` hangs.
pub const PLUGIN_DIR_TIMEOUT: Duration = Duration::from_secs(1);

/// What a reload would do with the files of the plugin directory.
#[derive(Debug, Default)]
pub struct PendingChanges {
    /// Changes.
    pub due: Vec<PluginChange>,
    /// Files that are named like plugins, and are ignored.
    pub ignored: Vec<PluginChange>,
}

impl Service {
    /// Reloads the configuration, and launches, relaunches and ends plugins accordingly.
    ///
    /// # Errors
    /// The configuration is invalid, or has a mistake. Then the previous one stays.
    pub async fn reload(&self) -> Result<Reloaded, Error> {
        let _reload_lock = self.process.reloading.lock().await;
        let before = self.settings();
        let mut after = load_again(&before).await?;
        if let Some(mistake) = after.mistakes().next() {
            return Err(OperatorError::ReloadMistake(mistake).into());
        }
        let needs_restart = needs_restart(&before, &after);
        // A reload keeps the state directory, because callers connect to the sockets in it.
        after.state_dir.clone_from(&before.state_dir);
        after.is_found_by_calls = before.is_found_by_calls;
        let after = Arc::new(after);
        // Held until the reload ends, since a creation would launch the shared plugins meanwhile.
        let deferred = self.plugins.deferred_launch().await;
        let has_adjusted = deferred.is_none() || !self.registry.all().is_empty();
        let shared = self.shared_launch(&after, has_adjusted).await?;
        let mut adaptation = adaptation_config(&after, &shared);
        adaptation.disable_connections = before.config.disable_connections;
        self.set_settings(after.clone());
        after.publish();
        self.resource_manager.set_policy(ResourcePolicy::of(&after.config));
        self.process.log.configure(&after);
        self.metrics.serve(&after).await;
        self.audit.apply(&after);
        let changed = before.digest != after.digest || before.file != after.file;
        let reloaded = self.plugins.reload(adaptation, &shared, deferred).await;
        let statuses = self.plugins.adaptation.plugins();
        let plugins: Vec<_> = reloaded.into_iter().map(|one| outcome(one, &statuses)).collect();
        let reloaded = Reloaded {
            config: after.file.as_ref().map(|f| OsText::from(f.as_os_str())),
            changed,
            plugins,
            needs_restart,
            notes: self.policy_notes().await,
            missing: missing_paths(after).await,
        };
        log(&reloaded);
        Ok(reloaded)
    }

    /// Decides whether `nrid` launches the shared plugins with these settings.
    async fn shared_launch(
        &self,
        settings: &Arc<Settings>,
        has_adjusted: bool,
    ) -> Result<SharedLaunch, OperatorError> {
        let (sockets, read) = (self.process.start.plugin_sockets.clone(), settings.clone());
        let decide = move || {
            let owns_socket = sockets.iter().any(|path| is_shared_socket(path));
            SharedLaunch::decide(&read, owns_socket, has_adjusted)
        };
        let decided = file_access::run(FileSystem::Configuration, LOOKUP_TIMEOUT, decide).await;
        decided.map_err(|hangs| unreadable(settings, hangs))
    }

    /// Returns the changes that a reload would make because of the plugin directory, and the files
    /// that it would ignore.
    pub fn pending_changes(&self, pending: PendingReload) -> PendingChanges {
        let plugins = self.plugins.adaptation.plugins();
        let has_ended = |path: &Path| {
            let of_file =
                |p: &&PluginStatus| matches!(&p.origin, PluginOrigin::Launched(f) if f == path);
            plugins.iter().any(|p| of_file(&p) && p.state.has_ended())
        };
        let mut changes = PendingChanges::default();
        for (path, action) in pending.actions {
            let (change, why) = match action {
                ReloadAction::Launch { .. } if has_ended(&path) => {
                    ("launch", "the plugin has ended, or could not be launched".to_owned())
                }
                ReloadAction::Launch { .. } => ("launch", FILE_ADDED.to_owned()),
                ReloadAction::Relaunch(why) => match pending.refused.get(&path) {
                    Some(why) => ("refused", why.clone()),
                    None => ("relaunch", why.to_owned()),
                },
                ReloadAction::End(why) => ("end", why.to_owned()),
                ReloadAction::Unusable(why) => ("unusable", why),
                ReloadAction::Withhold(why) => {
                    changes.ignored.push(plugin_change(&path, "withheld", why.to_string()));
                    continue;
                }
                ReloadAction::Ignore(why) => {
                    changes.ignored.push(plugin_change(&path, "ignored", why.to_owned()));
                    continue;
                }
            };
            changes.due.push(plugin_change(&path, change, why));
        }
        changes
    }

    /// Logs the policies that match no plugin, because their pattern may be wrong, and those that
    /// can be read in two ways.
    pub async fn log_policy_notes(&self) {
        for note in self.policy_notes().await {
            tracing::warn!("{note}");
        }
    }

    /// Returns a note for each policy that matches no plugin or can be read in two ways.
    async fn policy_notes(&self) -> Vec<String> {
        let settings = self.settings();
        let is_required = |name: &String| {
            settings.config.plugin.iter().any(|p| p.pattern == *name && p.refuses_without())
        };
        let note = |name: String| {
            let effect = if is_required(&name) {
                "it is required: creations are refused until a plugin of this name connects or is \
                 launched"
            } else {
                "the policy has no effect until a plugin of this name connects"
            };
            format!("[[plugin]] match = {name:?}: there is no such plugin; {effect}")
        };
        // A directory that cannot be read was reported by the start or the reload.
        let pending =
            self.plugins.adaptation.pending_reload(PLUGIN_DIR_TIMEOUT).await.unwrap_or_default();
        let unmatched = pending.unmatched_policies.into_iter().map(note);
        unmatched.chain(policy_warnings(&settings.config)).collect()
    }
}

/// Loads the configuration again.
async fn load_again(before: &Arc<Settings>) -> Result<Settings, OperatorError> {
    let settings = before.clone();
    let read = move || settings.load_again().map_err(OperatorError::Reload);
    let read = file_access::run(FileSystem::Configuration, LOOKUP_TIMEOUT, read).await;
    read.unwrap_or_else(|hangs| Err(unreadable(before, hangs)))
}

/// Returns the error for a configuration that cannot be read in time.
fn unreadable(settings: &Settings, hangs: FileSystemHangs) -> OperatorError {
    let file = settings.file.as_deref().or(settings.named_file());
    let file = file.unwrap_or(Path::new(CONFIG_FILE)).to_owned();
    let error = io::Error::new(io::ErrorKind::TimedOut, hangs);
    OperatorError::Reload(ConfigFileError::Read(file, error))
}

/// Returns a text for each path in the configuration that does not exist.
async fn missing_paths(settings: Arc<Settings>) -> Vec<String> {
    let find = move || settings.missing_paths();
    match file_access::run(FileSystem::ConfiguredPaths, LOOKUP_TIMEOUT, find).await {
        Ok(missing) => missing.iter().map(ToString::to_string).collect(),
        Err(hangs) => vec![format!("{}: {hangs}", FileSystem::ConfiguredPaths)],
    }
}

fn is_shared_socket(path: &Path) -> bool {
    let resolved = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    path == Path::new(PLUGIN_SOCKET) || resolved(path) == resolved(Path::new(PLUGIN_SOCKET))
}

/// Returns the keys whose new value needs a restart.
fn needs_restart(before: &Settings, after: &Settings) -> Vec<String> {
    let (old, new): (&Config, &Config) = (&before.config, &after.config);
    let mut keys = Vec::new();
    let mut check = |differs: bool, text: &str| {
        if differs {
            keys.push(text.to_owned());
        }
    };
    check(old.socket_path != new.socket_path, "socket_path: sockets are created at a start");
    check(
        old.disable_connections != new.disable_connections,
        "disable_connections: sockets are created at a start",
    );
    check(
        before.state_dir != after.state_dir,
        &format!(
            "state_dir: callers connect to the new directory, and start another nrid; stop this \
             one with `nrictl --state-dir {} stop`",
            before.state_dir.display()
        ),
    );
    keys
}

fn outcome(change: ReloadedPlugin, statuses: &[PluginStatus]) -> PluginChange {
    let (name, why) = match change.outcome {
        ReloadOutcome::Kept => ("kept", String::new()),
        ReloadOutcome::Launched => ("launched", String::new()),
        ReloadOutcome::Relaunched(why) => ("relaunched", why.to_owned()),
        ReloadOutcome::Ended(why) => ("ended", why.to_owned()),
        ReloadOutcome::Failed(why) => ("failed", why),
        ReloadOutcome::Unusable(why) => ("unusable", why),
        ReloadOutcome::Withheld(why) => ("withheld", why.to_string()),
        ReloadOutcome::Ignored(why) => ("ignored", why.to_owned()),
    };
    let mut reloaded = plugin_change(&change.path, name, why);
    let is_of_file = |status: &&PluginStatus| {
        matches!(&status.origin, PluginOrigin::Launched(file) if *file == change.path)
            && !status.state.has_ended()
    };
    if let Some(status) = statuses.iter().find(is_of_file) {
        reloaded.config = status.config_file.as_ref().map(|file| OsText::from(file.as_os_str()));
        reloaded.warnings.clone_from(&status.warnings);
    }
    reloaded
}

fn plugin_change(path: &Path, change: &str, why: String) -> PluginChange {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    PluginChange { name, change: change.to_owned(), why, ..PluginChange::default() }
}

fn log(reloaded: &Reloaded) {
    let config = reloaded.config.as_ref().map_or_else(|| "none".into(), |c| c.0.to_string_lossy());
    tracing::info!(%config, changed = reloaded.changed, "configuration reloaded");
    for PluginChange { name, change, why, .. } in &reloaded.plugins {
        match change.as_str() {
            "kept" => {}
            "failed" | "unusable" | "withheld" => {
                tracing::error!(plugin = name, error = why, "plugin not launched")
            }
            _ => tracing::info!(plugin = name, why, "{change}"),
        }
    }
    for key in &reloaded.needs_restart {
        tracing::warn!("change needs a restart: {key}");
    }
    for note in reloaded.notes.iter().chain(&reloaded.missing) {
        tracing::warn!("{note}");
    }
}
