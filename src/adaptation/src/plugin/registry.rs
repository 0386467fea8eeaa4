//! Status records of all plugins, including those that closed a while ago.
//!
//! The registry reports which plugins exist and whether any may subscribe to an event. It neither
//! calls plugins nor ends their sessions.

use nri_api::{EventMask, PluginId};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

use crate::plugin::status::{
    AbsentPlugin, PluginHistory, PluginOrigin, PluginState, PluginStatus, SessionEnd, StatusRecord,
};
use crate::policy::peers::{PeerGroup, PeerPolicy, PeerRefusal};

/// Time that a closed or refused external plugin stays listed: long enough for an operator to find
/// out why it is not active.
const CLOSED_RETENTION: Duration = Duration::from_secs(600);
/// Limit of listed external plugins that closed or were refused; the oldest are removed first. It
/// bounds the list while a client connects in a loop.
const MAX_CLOSED: usize = 32;

/// The status records of all plugins.
#[derive(Debug, Default)]
pub(crate) struct PluginRegistry {
    records: Mutex<BTreeMap<u64, Arc<StatusRecord>>>,
    serials: AtomicU64,
    /// Notified of launches of plugins and of their ends.
    changes: watch::Sender<()>,
}

/// What the record of a launched plugin says of its restart.
#[derive(Debug)]
pub(crate) struct LaunchedRecord {
    pub(crate) plugin: PluginId,
    pub(crate) file: PathBuf,
    pub(crate) serial: u64,
    pub(crate) state: PluginState,
    /// See [`PluginStatus::next_launch`].
    pub(crate) next_launch: Option<SystemTime>,
    /// See [`StatusRecord::restarts`].
    pub(crate) restarts: bool,
    /// Whether the session was configured, so that it was in the pipeline.
    pub(crate) was_configured: bool,
    /// Whether an earlier session of the plugin has failed.
    pub(crate) is_restart: bool,
}

impl PluginRegistry {
    /// Returns the serial number for the next plugin.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a record.
    pub(crate) fn add(
        &self,
        serial: u64,
        id: Option<PluginId>,
        origin: PluginOrigin,
        pid: Option<u32>,
    ) -> Arc<StatusRecord> {
        let record = Arc::new(StatusRecord::new(serial, id, origin, pid));
        self.lock().insert(serial, record.clone());
        record
    }

    /// Adds the record of an external connection, unless a limit of the policy is reached. `group`:
    /// the peers that share places with it, if the peer was checked.
    pub(crate) fn add_connection(
        &self,
        policy: &PeerPolicy,
        pid: Option<u32>,
        group: Option<PeerGroup>,
    ) -> Result<Arc<StatusRecord>, PeerRefusal> {
        // Counting and adding lock the records separately: listeners that accept at the same time
        // may exceed the limit by one connection each.
        let (mut waiting, mut plugins) = (Vec::new(), Vec::new());
        for record in self.lock().values() {
            if record.read(is_waiting) {
                waiting.push(record.group());
            } else if record.read(|s| !s.state.has_ended()) {
                plugins.push(record.group());
            }
        }
        policy.check_unregistered(group, &waiting)?;
        // Whether the name has a policy, or is that of a session to replace, is not known yet.
        policy.check_plugins(None, &plugins, true)?;
        let record = self.add(self.next_serial(), None, PluginOrigin::External, pid);
        if let Some(group) = group {
            record.set_group(group);
        }
        Ok(record)
    }

    /// Counts the connection of `record` as the plugin `id` from now on, unless a limit of the
    /// policy is reached. `has_policy`: a place may be kept for this name.
    pub(crate) fn register(
        &self,
        record: &StatusRecord,
        id: &PluginId,
        policy: &PeerPolicy,
        has_policy: bool,
    ) -> Result<(), PeerRefusal> {
        // The lock is held meanwhile: plugins that register at the same time do not exceed a limit.
        let records = self.lock();
        // A session of the same name is about to be replaced.
        let counts =
            |s: &PluginStatus| !s.state.has_ended() && !is_waiting(s) && s.id.as_ref() != Some(id);
        let plugins = records.values().filter(|record| record.read(counts));
        let plugins: Vec<_> = plugins.map(|record| record.group()).collect();
        policy.check_plugins(record.group(), &plugins, has_policy)?;
        record.set(|status| status.state = PluginState::Configuring);
        Ok(())
    }

    /// Lists a refused connection in place of an earlier one that was refused for the same reason.
    /// Returns the status if there was no earlier one.
    pub(crate) fn add_refused(&self, pid: Option<u32>, why: &str) -> Option<PluginStatus> {
        let is_same = |record: &Arc<StatusRecord>| {
            record.read(|s| s.state == PluginState::Closed && s.last_error.as_deref() == Some(why))
        };
        let listed =
            self.lock().iter().find(|(_, record)| is_same(record)).map(|(serial, _)| *serial);
        if let Some(serial) = listed {
            self.lock().remove(&serial);
        }
        let record = self.add(self.next_serial(), None, PluginOrigin::External, pid);
        let status = self.close(&record, SessionEnd::failure(why));
        listed.is_none().then_some(status)
    }

    /// Returns a receiver that is notified of launches of plugins and of their ends.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Notifies the receivers of [`PluginRegistry::changes`].
    pub(crate) fn notify(&self) {
        self.changes.send_replace(());
    }

    /// Returns the launched plugins, also those that have ended.
    pub(crate) fn launched_records(&self) -> Vec<LaunchedRecord> {
        let of_record = |record: &Arc<StatusRecord>| {
            let restarts = record.restarts();
            record.read(|status| {
                let PluginOrigin::Launched(file) = &status.origin else { return None };
                Some(LaunchedRecord {
                    plugin: status.id.clone()?,
                    file: file.clone(),
                    serial: status.serial,
                    state: status.state,
                    next_launch: status.next_launch,
                    restarts,
                    was_configured: status.events != EventMask::NONE,
                    is_restart: status.history.restarts > 0,
                })
            })
        };
        self.lock().values().filter_map(of_record).collect()
    }

    /// Replaces the records of earlier sessions of a file by that of its launch, which continues
    /// their history.
    pub(crate) fn add_launch(&self, serial: u64, id: PluginId, file: &Path) -> Arc<StatusRecord> {
        let origin = PluginOrigin::Launched(file.to_owned());
        let record = Arc::new(StatusRecord::new(serial, Some(id), origin, None));
        let mut records = self.lock();
        let is_earlier =
            |status: &PluginStatus| status.state.has_ended() && status.origin.is_file(file);
        let history = remove_if(&mut records, is_earlier);
        record.set(|status| status.history = history);
        records.insert(serial, record.clone());
        drop(records);
        self.notify();
        record
    }

    /// Removes a record.
    pub(crate) fn remove(&self, serial: u64) {
        self.lock().remove(&serial);
    }

    /// Closes a record. The record stays listed, so that an operator sees why the plugin is not
    /// active: a launched plugin until its file is launched again, other plugins for
    /// [`CLOSED_RETENTION`].
    pub(crate) fn close(&self, record: &StatusRecord, end: SessionEnd) -> PluginStatus {
        let status = record.close(end);
        self.remove_expired();
        self.notify();
        status
    }

    /// Marks the plugin of this file, whose session has ended, as about to be launched again at
    /// this time.
    pub(crate) fn set_restarting(&self, file: &Path, next: SystemTime) -> Option<PluginStatus> {
        self.change_if(file, PluginState::has_ended, |status| {
            status.state = PluginState::Restarting;
            status.next_launch = Some(next);
        })
    }

    /// Records why the plugin of this file could not be launched again; it is tried again later.
    pub(crate) fn set_restart_error(&self, file: &Path, why: &str) {
        self.change_if(file, PluginState::has_ended, |status| {
            status.last_error = Some(why.to_owned());
        });
    }

    /// Marks the plugin of this file as closed instead of restarting: it is not launched again.
    pub(crate) fn abandon_restart(&self, file: &Path, why: &str) -> Option<PluginStatus> {
        let is_restarting = |state| state == PluginState::Restarting;
        self.change_if(file, is_restarting, |status| {
            status.state = PluginState::Closed;
            status.next_launch = None;
            let last = status.last_error.take().unwrap_or_default();
            status.last_error = Some(format!("{last}; not launched again: {why}"));
        })
    }

    /// Changes the first record of this file whose state matches, and returns its new status.
    fn change_if(
        &self,
        file: &Path,
        matches: impl Fn(PluginState) -> bool,
        change: impl Fn(&mut PluginStatus),
    ) -> Option<PluginStatus> {
        let changed = self.lock().values().find_map(|record| {
            let changed = record.set(|status| {
                (matches(status.state) && status.origin.is_file(file)).then(|| {
                    change(status);
                    status.clone()
                })
            });
            // From now on, the state says whether the plugin is launched again.
            changed.inspect(|_| record.set_restarts(false))
        });
        self.notify();
        changed
    }

    fn remove_expired(&self) {
        let mut records = self.lock();
        let is_external =
            |record: &StatusRecord| record.read(|s| s.origin == PluginOrigin::External);
        let mut closed: Vec<_> = records
            .iter()
            .filter(|(_, record)| is_external(record))
            .filter_map(|(serial, record)| Some((record.closed_at()?, *serial)))
            .collect();
        closed.sort();
        let excess = closed.len().saturating_sub(MAX_CLOSED);
        for (i, (when, serial)) in closed.into_iter().enumerate() {
            if i < excess || when.elapsed() > CLOSED_RETENTION {
                records.remove(&serial);
            }
        }
    }

    /// Removes the closed records of an external plugin that has registered again. Returns the
    /// plugin's history.
    pub(crate) fn remove_closed(&self, id: &PluginId) -> PluginHistory {
        remove_if(&mut self.lock(), |status| {
            status.state == PluginState::Closed
                && status.origin == PluginOrigin::External
                && status.id.as_ref() == Some(id)
        })
    }

    /// Returns the process of a launched plugin with this index and name that has not ended for
    /// good: it runs, or is about to be launched again. `Some(None)` if the process is not known.
    pub(crate) fn launched(&self, id: &PluginId) -> Option<Option<u32>> {
        self.lock().values().find_map(|record| {
            record.read(|status| {
                let is_launched = matches!(status.origin, PluginOrigin::Launched(_));
                let is_kept = status.state != PluginState::Closed && status.id.as_ref() == Some(id);
                let pid = status.pid.filter(|_| !status.state.has_ended());
                (is_launched && is_kept).then_some(pid)
            })
        })
    }

    /// Removes the records of sessions of this plugin that were refused because another session
    /// had its name.
    pub(crate) fn remove_refused(&self, id: &PluginId) {
        let is_refused = |s: &PluginStatus| s.replacement_refused && s.id.as_ref() == Some(id);
        let is_external = |s: &PluginStatus| s.origin == PluginOrigin::External;
        self.lock().retain(|_, record| !record.read(|s| is_refused(s) && is_external(s)));
    }

    /// Whether a plugin of this file is active or becoming active, or its program still runs.
    pub(crate) fn is_running(&self, file: &Path) -> bool {
        self.any(|status| !status.state.has_ended() && status.origin.is_file(file))
    }

    /// Returns the last line that the program of this file wrote before it ended.
    pub(crate) fn last_output(&self, file: &Path) -> Option<String> {
        let records = self.lock();
        let mut of_file =
            records.values().rev().map(|r| r.get()).filter(|s| s.origin.is_file(file));
        of_file.next()?.history.last_output
    }

    /// Removes the closed records of a file that a reload ends.
    pub(crate) fn remove_closed_file(&self, file: &Path) {
        let is_removed =
            |status: &PluginStatus| status.state.has_ended() && status.origin.is_file(file);
        remove_if(&mut self.lock(), is_removed);
        self.notify();
    }

    /// Removes the closed records of launched plugins whose files are gone.
    pub(crate) fn remove_closed_without_file(&self, exists: impl Fn(&Path) -> bool) {
        let is_removed = |status: &PluginStatus| match &status.origin {
            PluginOrigin::Launched(file) => status.state.has_ended() && !exists(file),
            PluginOrigin::External => false,
        };
        remove_if(&mut self.lock(), is_removed);
        self.notify();
    }

    /// Returns the launched plugins that are not among the plugins that a creation calls, and the
    /// reason for each.
    pub(crate) fn absent(&self, is_called: impl Fn(&PluginId) -> bool) -> Vec<AbsentPlugin> {
        let is_removed = |record: &&Arc<StatusRecord>| record.is_removed();
        let absent = |status: &PluginStatus| {
            let plugin = status.id.clone().filter(|id| !is_called(id))?;
            let is_launched = matches!(status.origin, PluginOrigin::Launched(_));
            is_launched.then(|| AbsentPlugin { plugin, why: reason_of_absence(status) })
        };
        let records = self.lock();
        records.values().filter(|r| !is_removed(r)).filter_map(|r| r.read(absent)).collect()
    }

    /// Returns all plugins in the order in which they are called; those without a name last.
    pub(crate) fn all(&self) -> Vec<PluginStatus> {
        self.remove_expired();
        let mut all: Vec<_> = self.lock().values().map(|r| (r.get(), r.order())).collect();
        let index = |s: &PluginStatus| s.id.as_ref().map(|id| id.index);
        all.sort_by_key(|(s, order)| (s.id.is_none(), index(s), *order, s.serial));
        all.into_iter().map(|(status, _)| status).collect()
    }

    /// Whether any plugin is active or becoming active.
    pub(crate) fn has_plugins(&self) -> bool {
        self.any(|status| !status.state.has_ended())
    }

    /// Whether a plugin is subscribed to one of the events, or may still subscribe because it is
    /// not configured yet.
    pub(crate) fn may_subscribe(&self, events: EventMask) -> bool {
        self.any(|status| match status.state {
            PluginState::Connecting | PluginState::Configuring => true,
            PluginState::Synchronizing | PluginState::Active => {
                events.iter().any(|e| status.events.contains(e))
            }
            PluginState::Restarting | PluginState::Closed => false,
        })
    }

    fn any(&self, matches: impl Fn(&PluginStatus) -> bool) -> bool {
        self.lock().values().any(|record| record.read(&matches))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<StatusRecord>>> {
        self.records.lock()
    }
}

/// Removes the records that match. Returns the history of the next session of their plugin; empty
/// if a reload or the shutdown ended it.
fn remove_if(
    records: &mut BTreeMap<u64, Arc<StatusRecord>>,
    matches: impl Fn(&PluginStatus) -> bool,
) -> PluginHistory {
    let mut history = PluginHistory::default();
    records.retain(|_, record| {
        record.read(|status| {
            let is_removed = matches(status);
            let is_external = status.origin == PluginOrigin::External;
            if is_removed && !status.replacement_refused && (status.failed || is_external) {
                history = status.history.clone();
                history.restarts = history.restarts.saturating_add(1);
            }
            !is_removed
        })
    });
    history
}

/// Whether this is an external connection that has not registered yet.
fn is_waiting(status: &PluginStatus) -> bool {
    status.state == PluginState::Connecting && status.origin == PluginOrigin::External
}

/// Describes why a launched plugin receives no requests.
fn reason_of_absence(status: &PluginStatus) -> String {
    let state = match status.state {
        PluginState::Connecting => "it was launched and has not registered yet",
        PluginState::Configuring => "it has not replied to Configure yet",
        PluginState::Synchronizing | PluginState::Active => "its session begins or ends",
        PluginState::Restarting => "it is about to be launched again",
        PluginState::Closed => "it does not run",
    };
    match status.last_error.as_ref().or(status.history.last_exit.as_ref()) {
        Some(why) => format!("{state}: {why}"),
        None => state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::status::involved_events;
    use nri_api::proto::Event;

    #[test]
    fn a_plugin_that_is_not_configured_may_subscribe_to_any_event() {
        let registry = PluginRegistry::default();
        let may_subscribe = |event| registry.may_subscribe(involved_events(event));
        assert!(!may_subscribe(Event::STOP_CONTAINER));
        let record = registry.add(0, None, PluginOrigin::External, None);
        assert!(may_subscribe(Event::STOP_CONTAINER));
        record.set(|s| {
            s.state = PluginState::Active;
            s.events = EventMask::from_iter([Event::VALIDATE_CONTAINER_ADJUSTMENT]);
        });
        assert!(may_subscribe(Event::CREATE_CONTAINER));
        assert!(!may_subscribe(Event::STOP_CONTAINER));
        registry.close(&record, SessionEnd::failure("exited"));
        assert!(!may_subscribe(Event::CREATE_CONTAINER));
        assert!(!registry.has_plugins());
    }

    #[tokio::test(start_paused = true)]
    async fn closed_external_plugins_stay_listed_for_a_limited_time_and_in_limited_number() {
        let registry = PluginRegistry::default();
        let close_new = |why: &str| {
            let record = registry.add(registry.next_serial(), None, PluginOrigin::External, None);
            registry.close(&record, SessionEnd::failure(why));
        };
        // Eight more than the limit, so that the records 0 to 7 are removed.
        for i in 0..MAX_CLOSED + 8 {
            close_new(&i.to_string());
        }
        let listed = || registry.all().into_iter().filter_map(|s| s.last_error).collect::<Vec<_>>();
        assert_eq!(listed().len(), MAX_CLOSED);
        assert_eq!(listed()[0], "8");
        tokio::time::advance(CLOSED_RETENTION).await;
        close_new("late");
        // The earlier records exceed their retention now.
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(listed(), ["late"]);
        // The same refusal is listed once.
        assert!(registry.add_refused(Some(1), "no").is_some());
        assert!(registry.add_refused(Some(2), "no").is_none());
        assert_eq!(listed(), ["late", "no"]);
        assert_eq!(registry.all()[1].pid, Some(2));
        // A plugin that registers again is no longer listed as closed.
        let id = PluginId::from_file_name("10-a").unwrap();
        let record =
            registry.add(registry.next_serial(), Some(id.clone()), PluginOrigin::External, None);
        registry.close(&record, SessionEnd::failure("exited"));
        assert_eq!(listed().len(), 3);
        let history = registry.remove_closed(&id);
        assert_eq!((history.restarts, history.last_exit.as_deref()), (1, Some("exited")));
        assert_eq!(listed(), ["late", "no"]);
    }

    #[test]
    fn plugins_are_listed_in_call_order_and_closed_launched_plugins_stay_listed() {
        let registry = PluginRegistry::default();
        for name in ["20-b", "10-z", "10-a"] {
            let id = PluginId::from_file_name(name).unwrap();
            let origin = PluginOrigin::Launched(name.into());
            registry.add(registry.next_serial(), Some(id), origin, None);
        }
        registry.add(registry.next_serial(), None, PluginOrigin::External, None);
        let serials =
            |registry: &PluginRegistry| registry.all().iter().map(|s| s.serial).collect::<Vec<_>>();
        assert_eq!(serials(&registry), [1, 2, 0, 3]);
        let record = registry.lock()[&1].clone();
        registry.close(&record, SessionEnd::failure("exited"));
        assert_eq!(serials(&registry), [1, 2, 0, 3]);
        registry.remove_closed_file("10-z".as_ref());
        assert_eq!(serials(&registry), [2, 0, 3]);
    }
}
