//! What is known about each plugin, for `plugins()`, logs and the question whether anybody wants an
//! event.
//!
//! A record exists from the connection on, before the plugin has a name. Nothing here acts on a
//! plugin.

use nri_api::proto::Event;
use nri_api::{EventMask, PluginId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

use crate::config::PeerPolicy;
use crate::peers::PeerRefusal;

/// A plugin as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStatus {
    /// Unique for this adaptation; ascending in the order of launch or connection.
    pub serial: u64,
    /// `None` until an external plugin has registered.
    pub id: Option<PluginId>,
    /// How it came.
    pub origin: PluginOrigin,
    /// The NRI version that it registered with; empty until then, and from old plugins.
    pub version: String,
    /// Its process, as launched or as the socket tells it.
    pub pid: Option<u32>,
    /// What it subscribed to; empty until it is configured.
    pub events: EventMask,
    /// How far it has come.
    pub state: PluginState,
    /// Timeouts in a row, up to now.
    pub timeouts: u32,
    /// The last failure of a call to it, or why it was closed.
    pub last_error: Option<String>,
}

/// How a plugin came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginOrigin {
    /// Started by us from this file.
    Launched(PathBuf),
    /// Connected by itself.
    External,
}

/// How far a plugin has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginState {
    /// Connected or launched, but not registered.
    Connecting,
    /// Registered, being configured.
    Configuring,
    /// Configured; it has its place in the line and is about to be, or being, synchronized.
    Synchronizing,
    /// Gets events.
    Active,
    /// Gone, and about to be launched again.
    Restarting,
    /// Gone.
    Closed,
}

impl PluginState {
    /// Whether it is not there, and not on its way.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Restarting | Self::Closed)
    }
}

/// How long external plugins that went, or were refused, can be seen.
const SEEN: Duration = Duration::from_secs(600);
/// How many of them; the oldest are forgotten.
const MOST_SEEN: usize = 32;

/// The status of one plugin, shared by all who change it.
#[derive(Debug)]
pub(crate) struct Record {
    status: Mutex<PluginStatus>,
    ended: Mutex<Option<Instant>>,
}

impl Record {
    /// A copy of the present status.
    pub(crate) fn get(&self) -> PluginStatus {
        self.lock().clone()
    }

    /// Changes the status.
    pub(crate) fn set<T>(&self, change: impl FnOnce(&mut PluginStatus) -> T) -> T {
        change(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, PluginStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, Option<Instant>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The records of all plugins.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    records: Mutex<BTreeMap<u64, Arc<Record>>>,
    serials: AtomicU64,
}

impl Registry {
    /// A number for the next plugin.
    pub(crate) fn serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins a record.
    pub(crate) fn add(
        &self,
        serial: u64,
        id: Option<PluginId>,
        origin: PluginOrigin,
        pid: Option<u32>,
    ) -> Arc<Record> {
        let status = PluginStatus {
            serial,
            id,
            origin,
            version: String::new(),
            pid,
            events: EventMask::NONE,
            state: PluginState::Connecting,
            timeouts: 0,
            last_error: None,
        };
        let record = Arc::new(Record { status: Mutex::new(status), ended: Mutex::default() });
        self.lock().insert(serial, record.clone());
        record
    }

    /// Takes the place of a connection, unless there are too many.
    pub(crate) fn take_place(
        &self,
        policy: &PeerPolicy,
        pid: Option<u32>,
    ) -> Result<Arc<Record>, PeerRefusal> {
        // One look and one entry, though not in one lock: listeners that accept at the same time
        // may go beyond by one each.
        let (mut unregistered, mut plugins) = (0, 0);
        for record in self.lock().values() {
            let status = record.lock();
            let waits =
                status.state == PluginState::Connecting && status.origin == PluginOrigin::External;
            unregistered += usize::from(waits);
            plugins += usize::from(!status.state.is_gone());
        }
        if unregistered >= policy.max_unregistered {
            return Err(PeerRefusal::Unregistered(unregistered));
        }
        if plugins >= policy.max_plugins {
            return Err(PeerRefusal::Plugins(plugins));
        }
        Ok(self.add(self.serial(), None, PluginOrigin::External, pid))
    }

    /// Keeps in sight that somebody was refused; whether that is news.
    pub(crate) fn refuse(&self, pid: Option<u32>, why: &str) -> Option<PluginStatus> {
        let same = |record: &Arc<Record>| {
            let status = record.lock();
            status.state == PluginState::Closed && status.last_error.as_deref() == Some(why)
        };
        let known = self.lock().iter().find(|(_, record)| same(record)).map(|(serial, _)| *serial);
        if let Some(serial) = known {
            self.lock().remove(&serial);
        }
        let record = self.add(self.serial(), None, PluginOrigin::External, pid);
        let status = self.end(&record, why.to_owned());
        known.is_none().then_some(status)
    }

    /// Forgets a connection that went before it said who it was.
    pub(crate) fn leave(&self, serial: u64) {
        self.lock().remove(&serial);
    }

    /// Ends a record. It is kept, so that one can see why the plugin is not there: that of a
    /// launched one until its file is launched again, that of another for a while.
    pub(crate) fn end(&self, record: &Record, why: String) -> PluginStatus {
        let status = record.set(|s| {
            s.state = PluginState::Closed;
            s.last_error = Some(why);
            s.clone()
        });
        *record.ended() = Some(Instant::now());
        self.forget_old();
        status
    }

    /// Says that a launched plugin that ended will be back, unless it is there again.
    pub(crate) fn restarting(&self, file: &Path) -> Option<PluginStatus> {
        self.lock().values().find_map(|record| {
            record.set(|s| {
                let ended = s.state == PluginState::Closed
                    && s.origin == PluginOrigin::Launched(file.to_owned());
                ended.then(|| {
                    s.state = PluginState::Restarting;
                    s.clone()
                })
            })
        })
    }

    /// Says that a launched plugin will not be back.
    pub(crate) fn given_up(&self, file: &Path, why: &str) -> Option<PluginStatus> {
        self.lock().values().find_map(|record| {
            record.set(|s| {
                let waits = s.state == PluginState::Restarting
                    && s.origin == PluginOrigin::Launched(file.to_owned());
                waits.then(|| {
                    s.state = PluginState::Closed;
                    let last = s.last_error.take().unwrap_or_default();
                    s.last_error = Some(format!("{last}; not launched again: {why}"));
                    s.clone()
                })
            })
        })
    }

    fn forget_old(&self) {
        let mut records = self.lock();
        let external = |record: &Record| record.lock().origin == PluginOrigin::External;
        let mut ended: Vec<_> = records
            .iter()
            .filter_map(|(serial, record)| Some(((*record.ended())?, *serial, external(record))))
            .filter(|(_, _, external)| *external)
            .collect();
        ended.sort();
        let too_many = ended.len().saturating_sub(MOST_SEEN);
        for (i, (when, serial, _)) in ended.into_iter().enumerate() {
            if i < too_many || when.elapsed() > SEEN {
                records.remove(&serial);
            }
        }
    }

    /// Forgets that an external plugin of this name went: it is back.
    pub(crate) fn is_back(&self, id: &PluginId) {
        self.lock().retain(|_, record| {
            let status = record.lock();
            status.state != PluginState::Closed
                || status.origin != PluginOrigin::External
                || status.id.as_ref() != Some(id)
        });
    }

    /// Whether the plugin of this file is there, on its way, or not yet gone.
    pub(crate) fn is_there(&self, file: &Path) -> bool {
        self.lock().values().any(|record| {
            let status = record.lock();
            !status.state.is_gone()
                && matches!(&status.origin, PluginOrigin::Launched(f) if f == file)
        })
    }

    /// Forgets closed plugins of this file.
    pub(crate) fn forget(&self, file: &Path) {
        self.lock().retain(|_, record| {
            let status = record.lock();
            !status.state.is_gone()
                || !matches!(&status.origin, PluginOrigin::Launched(f) if f == file)
        });
    }

    /// All plugins, in the order in which they are called; those without a name last.
    pub(crate) fn all(&self) -> Vec<PluginStatus> {
        self.forget_old();
        let mut all: Vec<_> = self.lock().values().map(|r| r.get()).collect();
        all.sort_by_key(|s| (s.id.is_none(), s.id.as_ref().map(|id| id.index), s.serial));
        all
    }

    /// Whether any plugin is there, or on its way.
    pub(crate) fn has_plugins(&self) -> bool {
        self.lock().values().any(|record| !record.lock().state.is_gone())
    }

    /// Whether a plugin is subscribed to one of the events, or may be because it is not configured
    /// yet.
    pub(crate) fn wants(&self, events: EventMask) -> bool {
        self.lock().values().any(|record| {
            let status = record.lock();
            match status.state {
                PluginState::Connecting | PluginState::Configuring => true,
                PluginState::Synchronizing | PluginState::Active => {
                    events.iter().any(|e| status.events.contains(e))
                }
                PluginState::Restarting | PluginState::Closed => false,
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Record>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events whose subscribers take part in the handling of `event`: a creation also involves the
/// validators.
pub(crate) fn involved(event: Event) -> EventMask {
    let mask = EventMask::NONE.with(event);
    match event {
        Event::CREATE_CONTAINER => mask.with(Event::VALIDATE_CONTAINER_ADJUSTMENT),
        _ => mask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_still_subscribe_wants_everything() {
        let registry = Registry::default();
        let wants = |event| registry.wants(involved(event));
        assert!(!wants(Event::STOP_CONTAINER));
        let record = registry.add(0, None, PluginOrigin::External, None);
        assert!(wants(Event::STOP_CONTAINER));
        record.set(|s| {
            s.state = PluginState::Active;
            s.events = EventMask::from_iter([Event::VALIDATE_CONTAINER_ADJUSTMENT]);
        });
        assert!(wants(Event::CREATE_CONTAINER));
        assert!(!wants(Event::STOP_CONTAINER));
        registry.end(&record, "gone".into());
        assert!(!wants(Event::CREATE_CONTAINER));
        assert!(!registry.has_plugins());
    }

    #[tokio::test(start_paused = true)]
    async fn who_went_is_seen_for_a_while_and_not_in_any_number() {
        let registry = Registry::default();
        let go = |why: &str| {
            let record = registry.add(registry.serial(), None, PluginOrigin::External, None);
            registry.end(&record, why.into());
        };
        for i in 0..40 {
            go(&i.to_string());
        }
        let seen = || registry.all().into_iter().filter_map(|s| s.last_error).collect::<Vec<_>>();
        assert_eq!(seen().len(), MOST_SEEN);
        assert_eq!(seen()[0], "8");
        tokio::time::advance(SEEN).await;
        go("late");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(seen(), ["late"]);
        // The same refusal is seen once.
        assert!(registry.refuse(Some(1), "no").is_some());
        assert!(registry.refuse(Some(2), "no").is_none());
        assert_eq!(seen(), ["late", "no"]);
        assert_eq!(registry.all()[1].pid, Some(2));
        // Who is back is not gone.
        let id = PluginId::from_file_name("10-a").unwrap();
        let record =
            registry.add(registry.serial(), Some(id.clone()), PluginOrigin::External, None);
        registry.end(&record, "went".into());
        assert_eq!(seen().len(), 3);
        registry.is_back(&id);
        assert_eq!(seen(), ["late", "no"]);
    }

    #[test]
    fn listed_as_called_and_launched_ones_stay() {
        let registry = Registry::default();
        for name in ["20-b", "10-z", "10-a"] {
            let id = PluginId::from_file_name(name).unwrap();
            registry.add(registry.serial(), Some(id), PluginOrigin::Launched(name.into()), None);
        }
        registry.add(registry.serial(), None, PluginOrigin::External, None);
        let serials =
            |registry: &Registry| registry.all().iter().map(|s| s.serial).collect::<Vec<_>>();
        assert_eq!(serials(&registry), [1, 2, 0, 3]);
        let record = registry.lock()[&1].clone();
        registry.end(&record, "exited".into());
        assert_eq!(serials(&registry), [1, 2, 0, 3]);
        registry.forget("10-z".as_ref());
        assert_eq!(serials(&registry), [2, 0, 3]);
    }
}
