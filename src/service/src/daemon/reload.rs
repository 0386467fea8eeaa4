//! The configuration read anew, and the plugin directory looked at again, while containers and
//! plugins run.
//!
//! A configuration that is wrong changes nothing. What a start alone can do (sockets, the state
//! directory) is told, with the way to do it.

use crate::{
    daemon::sharing,
    error::{Error, OperatorError},
    resources::keeper::Rules,
    service::Service,
    settings::{load::Settings, plugins::adaptation_config},
};
use nri_adaptation::{PluginOrigin, ReloadAction, ReloadOutcome, ReloadedPlugin};
use nri_config::Config;
use nri_control::{OsText, PluginChange, Reloaded};
use nri_locate::PLUGIN_SOCKET;
use std::{path::Path, sync::Arc};

/// Where it was not yet launched, although it could be.
const DROPPED_IN: &str = "dropped in after the start";

impl Service {
    /// Reads the configuration anew, and looks into the plugin directory.
    ///
    /// # Errors
    /// The configuration is wrong; the one of before holds.
    pub async fn reload(&self) -> Result<Reloaded, Error> {
        let _one = self.reloading.lock().await;
        let before = self.settings();
        let mut after = before.load_again().map_err(OperatorError::Reload)?;
        let needs_restart = needs_restart(&before, &after);
        // Callers look for us where we are.
        after.state_dir.clone_from(&before.state_dir);
        // Sockets stay as they are, and so what was said of them.
        let after = Arc::new(after);
        let ours = self.plugin_sockets.iter().any(|path| is_shared(path));
        let plugin_dir = sharing::plugin_dir(&after, ours);
        self.shared_plugins.set(plugin_dir.is_none()).await;
        let mut told = adaptation_config(&after.config, plugin_dir);
        told.disable_connections = before.config.disable_connections;
        self.set_settings(after.clone());
        self.keeper.set_rules(Rules::of(&after.config));
        self.log.reopen(&after);
        let changed = before.digest != after.digest || before.file != after.file;
        let plugins: Vec<_> = self.adaptation.reload(told).await.into_iter().map(done).collect();
        let reloaded = Reloaded {
            config: after.file.as_ref().map(|f| OsText::from(f.as_os_str())),
            changed,
            plugins,
            needs_restart,
            notes: self.idle_notes().await,
        };
        tell(&reloaded);
        Ok(reloaded)
    }

    /// What a reload would do with files of the plugin directory. What cannot be launched, and was
    /// seen at the start, is among the plugins.
    pub async fn due(&self) -> Vec<PluginChange> {
        let plugins = self.adaptation.plugins();
        let known = |path: &Path| {
            plugins.iter().any(|p| matches!(&p.origin, PluginOrigin::Launched(f) if f == path))
        };
        let due = self.adaptation.pending_reload().await.into_iter().filter_map(|(path, due)| {
            let (change, why) = match due {
                ReloadAction::Launch { new: true } => ("launch", DROPPED_IN.to_owned()),
                ReloadAction::Launch { new: false } => return None,
                ReloadAction::Relaunch(why) => ("relaunch", why.to_owned()),
                ReloadAction::End(why) => ("end", why.to_owned()),
                ReloadAction::Unusable(_) if known(&path) => return None,
                ReloadAction::Unusable(why) => ("unusable", why),
            };
            Some(plugin_change(&path, change, why))
        });
        due.collect()
    }

    /// Says which policies are about nobody: their names may be wrong, and then nothing holds what
    /// they say.
    pub async fn tell_idle_policies(&self) {
        for note in self.idle_notes().await {
            tracing::warn!("{note}");
        }
    }

    async fn idle_notes(&self) -> Vec<String> {
        let settings = self.settings();
        let is_required =
            |name: &String| settings.config.plugin.iter().any(|p| p.pattern == *name && p.required);
        let note = |name: String| {
            let holds = if is_required(&name) {
                "it is required: creations are refused until one of this name connects or is launched"
            } else {
                "it holds nothing unless one of this name connects"
            };
            format!("[[plugin]] match = {name:?}: there is no such plugin; {holds}")
        };
        self.adaptation.unmatched_policies().await.into_iter().map(note).collect()
    }
}

fn is_shared(path: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    path == Path::new(PLUGIN_SOCKET) || real(path) == real(Path::new(PLUGIN_SOCKET))
}

/// Keys whose new value does not hold yet.
fn needs_restart(before: &Settings, after: &Settings) -> Vec<String> {
    let (old, new): (&Config, &Config) = (&before.config, &after.config);
    let mut needs = Vec::new();
    let mut look = |differs: bool, text: &str| {
        if differs {
            needs.push(text.to_owned());
        }
    };
    look(old.socket_path != new.socket_path, "socket_path: sockets are made at a start");
    look(
        old.disable_connections != new.disable_connections,
        "disable_connections: sockets are made at a start",
    );
    look(
        before.state_dir != after.state_dir,
        "state_dir: callers look in the new one now, and start an nrid of its own; end this one with `nrictl --state-dir OLD stop`",
    );
    needs
}

fn done(change: ReloadedPlugin) -> PluginChange {
    let (word, why) = match change.outcome {
        ReloadOutcome::Kept => ("kept", String::new()),
        ReloadOutcome::Launched => ("launched", String::new()),
        ReloadOutcome::Relaunched(why) => ("relaunched", why.to_owned()),
        ReloadOutcome::Ended(why) => ("ended", why.to_owned()),
        ReloadOutcome::Failed(why) => ("failed", why),
        ReloadOutcome::Unusable(why) => ("unusable", why),
    };
    plugin_change(&change.path, word, why)
}

fn plugin_change(path: &Path, change: &str, why: String) -> PluginChange {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    PluginChange { name, change: change.to_owned(), why }
}

fn tell(reloaded: &Reloaded) {
    let config = reloaded.config.as_ref().map_or_else(|| "none".into(), |c| c.0.to_string_lossy());
    tracing::info!(%config, changed = reloaded.changed, "reloaded");
    for PluginChange { name, change, why } in &reloaded.plugins {
        match change.as_str() {
            "kept" => {}
            "failed" | "unusable" => tracing::error!(plugin = name, error = why, "not launched"),
            _ => tracing::info!(plugin = name, why, "{change}"),
        }
    }
    for key in &reloaded.needs_restart {
        tracing::warn!("needs a restart: {key}");
    }
    for note in &reloaded.notes {
        tracing::warn!("{note}");
    }
}
