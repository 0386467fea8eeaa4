//! External plugins: those that are connected, and those that were connected to the previous `nrid`
//! and have not connected again (the missing plugins). Creations wait for missing plugins, because
//! an `nrid` that has just started would otherwise create containers without them.
//!
//! The names of the plugins are in a file in the state directory. The file is written at each
//! change, so that it is complete after a restart, an upgrade or a crash.

use crate::state::store::write_json;
use nri_adaptation::{AbsentPlugin, PluginOrigin, PluginState, PluginStatus};
use nri_api::PluginId;
use nri_trust::{MAX_CONFIG_FILE, read_regular};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Name of the file in the state directory.
const FILE: &str = "external-plugins.json";

/// Time for which a plugin that has left is expected to return, so that containers that are created
/// meanwhile are recorded as created without it. Longer than a plugin of Kubernetes is kept from
/// restarting after crashes (five minutes), or needs for an upgrade. A plugin that stays away
/// longer was removed on purpose.
const ABSENCE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum number of plugins that have left: bounds the list while clients connect in a loop.
const MAX_LEFT: usize = 32;

/// The external plugins of this `nrid`, and the missing plugins.
#[derive(Debug)]
pub struct ExternalPlugins {
    file: PathBuf,
    plugins: Mutex<Plugins>,
    /// Whether no plugin is missing any more, or the deadline has passed.
    complete: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Plugins {
    /// Active plugins, by their serial number.
    active: BTreeMap<u64, PluginId>,
    /// Plugins of the previous `nrid` that are not active yet.
    missing: BTreeSet<PluginId>,
    /// Plugins that were active and have left, or that were missing until the deadline.
    left: BTreeMap<PluginId, Left>,
    /// Whether this `nrid` ends, so that disconnections no longer count.
    ending: bool,
}

/// Why and when a plugin has left.
#[derive(Debug)]
struct Left {
    why: String,
    at: Instant,
}

/// Content of the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    /// Plugins, as `NN-name`.
    plugins: BTreeSet<String>,
}

impl ExternalPlugins {
    /// Reads the plugins of the previous `nrid`; none if the file is missing or broken.
    pub fn load(state_dir: &Path) -> Self {
        let file = state_dir.join(FILE);
        // A killed nrid may have left its temporary file.
        let _ = fs::remove_file(file.with_extension("new"));
        let saved = read_regular(&file, MAX_CONFIG_FILE)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        let Saved { plugins } = saved.unwrap_or_default();
        let missing: BTreeSet<_> =
            plugins.iter().filter_map(|name| PluginId::from_file_name(name).ok()).collect();
        let complete = watch::Sender::new(missing.is_empty());
        Self { file, plugins: Mutex::new(Plugins { missing, ..Plugins::default() }), complete }
    }

    /// Returns a state without plugins, for a process that lets none connect. Its file is not read.
    pub fn none() -> Self {
        let (file, plugins) = (PathBuf::new(), Mutex::new(Plugins::default()));
        Self { file, plugins, complete: watch::Sender::new(true) }
    }

    /// Records the new status of a plugin.
    pub fn update(&self, status: &PluginStatus) {
        let (PluginOrigin::External, Some(id)) = (&status.origin, &status.id) else { return };
        let mut plugins = self.lock();
        if plugins.ending {
            return;
        }
        let before = plugins.names();
        match status.state {
            PluginState::Active => {
                plugins.active.insert(status.serial, id.clone());
                plugins.missing.remove(id);
                plugins.left.remove(id);
            }
            state if state.has_ended() => {
                let was_active = plugins.active.remove(&status.serial).is_some();
                // A session that a newer one has replaced ends while the newer one is active.
                if was_active && !plugins.active.values().any(|active| active == id) {
                    plugins.set_left(id, status.last_error.clone().unwrap_or_default());
                }
            }
            _ => return,
        }
        if plugins.names() != before {
            self.save(&plugins);
        }
        if plugins.missing.is_empty() {
            self.complete.send_replace(true);
        }
    }

    /// Returns the plugins that have left within `ABSENCE_TIMEOUT` or are missing, and the reason
    /// for each.
    pub fn absent(&self) -> Vec<AbsentPlugin> {
        let plugins = self.lock();
        let left = plugins.left.iter().filter(|(_, left)| left.at.elapsed() < ABSENCE_TIMEOUT);
        let left = left.map(|(id, left)| (id, left.why.clone()));
        let missing = plugins.missing.iter().map(|id| (id, NOT_RETURNED.to_owned()));
        let is_active = |id: &PluginId| plugins.active.values().any(|active| active == id);
        let absent = left.chain(missing).filter(|(id, _)| !is_active(id));
        absent.map(|(id, why)| AbsentPlugin { plugin: id.clone(), why }).collect()
    }

    /// Whether no plugin is missing any more, or the deadline has passed: creations need not wait.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Waits until no plugin is missing any more, or the deadline has passed.
    pub async fn complete(&self) {
        // Cannot fail: the sender is a field of `self`, so it is not dropped meanwhile.
        let _ = self.complete.subscribe().wait_for(|complete| *complete).await;
    }

    /// Waits at most `timeout` for the missing plugins. Logs a warning for each plugin that is
    /// still missing then, and no longer expects it.
    pub async fn give_up_after(&self, timeout: Duration) {
        if !self.is_complete() {
            let plugins = self.lock().missing.iter().map(ToString::to_string).collect::<Vec<_>>();
            tracing::info!(
                plugins = plugins.join(" "),
                ?timeout,
                "creations wait for external plugins that were connected to the previous nrid"
            );
        }
        let _ = tokio::time::timeout(timeout, self.complete()).await;
        let mut plugins = self.lock();
        let missing = std::mem::take(&mut plugins.missing);
        if !missing.is_empty() && !plugins.ending {
            self.save(&plugins);
        }
        for plugin in missing {
            plugins.set_left(&plugin, NOT_RETURNED.to_owned());
            tracing::warn!(
                %plugin,
                "plugin was connected to the previous nrid and has not connected again within \
                 {timeout:?}; containers are created without it, or refused if it is required"
            );
        }
        self.complete.send_replace(true);
    }

    /// Keeps the current plugins for the next `nrid`: from now on, plugins disconnect because this
    /// `nrid` ends.
    pub fn keep_for_next(&self) {
        self.lock().ending = true;
    }

    /// Writes the file again, after the state directory was removed.
    pub fn save_again(&self) {
        self.save(&self.lock());
    }

    fn save(&self, plugins: &Plugins) {
        if let Err(error) = write_json(&self.file, &Saved { plugins: plugins.names() }) {
            tracing::error!(
                file = %self.file.display(),
                %error,
                "cannot write the names of external plugins; creations will not wait for them \
                 after a restart"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Plugins> {
        self.plugins.lock()
    }
}

/// Why a plugin of the previous `nrid` is absent.
const NOT_RETURNED: &str = "it was connected to the previous nrid and has not returned";

impl Plugins {
    /// Records that a plugin has left.
    fn set_left(&mut self, id: &PluginId, why: String) {
        self.left.retain(|_, left| left.at.elapsed() < ABSENCE_TIMEOUT);
        if self.left.len() < MAX_LEFT {
            self.left.insert(id.clone(), Left { why, at: Instant::now() });
        }
    }

    /// Returns the names for the file. Missing plugins stay in the file until the deadline: if
    /// `nrid` restarts before, the next `nrid` waits for them, too.
    fn names(&self) -> BTreeSet<String> {
        self.active.values().chain(&self.missing).map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_adaptation::PluginHistory;
    use nri_api::EventMask;

    fn status(serial: u64, name: &str, state: PluginState) -> PluginStatus {
        PluginStatus {
            serial,
            id: Some(PluginId::from_file_name(name).unwrap()),
            origin: PluginOrigin::External,
            version: String::new(),
            pid: None,
            events: EventMask::NONE,
            requested_failure_policy: None,
            state,
            synchronization: None,
            timeouts: 0,
            limit: None,
            last_error: None,
            failed: false,
            replacement_refused: false,
            next_launch: None,
            history: PluginHistory::default(),
            config_file: None,
            warnings: Vec::new(),
        }
    }

    fn absent(plugins: &ExternalPlugins) -> Vec<String> {
        plugins.absent().into_iter().map(|p| format!("{}: {}", p.plugin, p.why)).collect()
    }

    #[test]
    fn a_plugin_that_has_left_or_is_missing_is_absent_until_it_returns() {
        let dir = tempfile::tempdir().unwrap();
        let first = ExternalPlugins::load(dir.path());
        // A plugin that never became active is not expected.
        first.update(&status(1, "10-refused", PluginState::Closed));
        first.update(&status(2, "20-a", PluginState::Active));
        first.update(&status(3, "30-b", PluginState::Active));
        assert_eq!(absent(&first), [""; 0]);
        let last_error = Some("the plugin closed the connection".to_owned());
        first.update(&PluginStatus { last_error, ..status(2, "20-a", PluginState::Closed) });
        assert_eq!(absent(&first), ["20-a: the plugin closed the connection"]);
        first.update(&status(4, "20-a", PluginState::Synchronizing));
        assert_eq!(absent(&first).len(), 1);
        first.update(&status(4, "20-a", PluginState::Active));
        assert_eq!(absent(&first), [""; 0]);
        first.keep_for_next();

        let second = ExternalPlugins::load(dir.path());
        let [a, b] = ["20-a", "30-b"].map(|name| format!("{name}: {NOT_RETURNED}"));
        assert_eq!(absent(&second), [a.clone(), b]);
        second.update(&status(1, "30-b", PluginState::Active));
        assert_eq!(absent(&second), [a]);
    }

    #[test]
    fn plugins_that_come_and_go_do_not_fill_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let plugins = ExternalPlugins::load(dir.path());
        for serial in 0..2 * MAX_LEFT as u64 {
            let name = format!("10-p{serial}");
            plugins.update(&status(serial, &name, PluginState::Active));
            plugins.update(&status(serial, &name, PluginState::Closed));
        }
        assert_eq!(absent(&plugins).len(), MAX_LEFT);
    }

    #[test]
    fn a_plugin_whose_session_was_replaced_has_not_left() {
        let dir = tempfile::tempdir().unwrap();
        let plugins = ExternalPlugins::load(dir.path());
        plugins.update(&status(1, "10-a", PluginState::Active));
        plugins.update(&status(2, "10-a", PluginState::Active));
        plugins.update(&status(1, "10-a", PluginState::Closed));
        assert_eq!((absent(&plugins), saved(dir.path())), (vec![], vec!["10-a".to_owned()]));
        assert!(plugins.lock().left.is_empty());
        plugins.update(&status(2, "10-a", PluginState::Closed));
        assert_eq!(absent(&plugins), ["10-a: "]);
    }

    fn saved(dir: &Path) -> Vec<String> {
        let saved: Saved = serde_json::from_slice(&fs::read(dir.join(FILE)).unwrap()).unwrap();
        saved.plugins.into_iter().collect()
    }

    #[test]
    fn a_missing_or_broken_file_expects_no_plugin() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ExternalPlugins::load(dir.path()).is_complete());
        for broken in ["", "{", "[]", "{\"plugins\": [\"nonsense\"]}", "{\"plugins\": 1}"] {
            fs::write(dir.path().join(FILE), broken).unwrap();
            assert!(ExternalPlugins::load(dir.path()).is_complete(), "{broken}");
        }
    }

    #[test]
    fn plugins_that_leave_are_not_expected_unless_nrid_ends() {
        let dir = tempfile::tempdir().unwrap();
        let first = ExternalPlugins::load(dir.path());
        first.update(&status(1, "10-left", PluginState::Active));
        first.update(&status(2, "20-stayed", PluginState::Active));
        first.update(&status(3, "20-stayed", PluginState::Active));
        let launched = PluginOrigin::Launched("/30-launched".into());
        let state = PluginState::Active;
        first.update(&PluginStatus { origin: launched, ..status(4, "30-launched", state) });
        first.update(&status(1, "10-left", PluginState::Closed));
        first.update(&status(3, "20-stayed", PluginState::Closed));
        assert_eq!(saved(dir.path()), ["20-stayed"]);
        first.keep_for_next();
        first.update(&status(2, "20-stayed", PluginState::Closed));
        assert_eq!(saved(dir.path()), ["20-stayed"]);

        let second = ExternalPlugins::load(dir.path());
        second.update(&status(1, "40-other", PluginState::Active));
        assert!(!second.is_complete());
        // After another restart, the next nrid waits for the missing plugin, too.
        assert_eq!(saved(dir.path()), ["20-stayed", "40-other"]);
        second.update(&status(2, "20-stayed", PluginState::Synchronizing));
        assert!(!second.is_complete());
        second.update(&status(2, "20-stayed", PluginState::Active));
        assert!(second.is_complete());
    }

    #[tokio::test]
    async fn a_plugin_that_does_not_return_is_given_up_after_the_timeout() {
        let dir = tempfile::tempdir().unwrap();
        ExternalPlugins::load(dir.path()).update(&status(1, "10-a", PluginState::Active));
        let next = ExternalPlugins::load(dir.path());
        assert!(!next.is_complete());
        tokio::join!(next.give_up_after(Duration::from_millis(20)), next.complete());
        assert_eq!(saved(dir.path()), Vec::<String>::new());
        assert_eq!(absent(&next), [format!("10-a: {NOT_RETURNED}")]);
    }
}
