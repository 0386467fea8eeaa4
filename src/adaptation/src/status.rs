//! What is known about each plugin, for `plugins()`, logs and the question whether anybody wants an event.
//!
//! A record exists from the connection on, before the plugin has a name. Nothing here acts on a plugin.

use nri_api::proto::Event;
use nri_api::{EventMask, PluginId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A plugin as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStatus {
    /// Unique for this adaptation; ascending in the order of launch or connection.
    pub serial: u64,
    /// `None` until an external plugin has registered.
    pub id: Option<PluginId>,
    /// How it came.
    pub origin: Origin,
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
pub enum Origin {
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
    /// Gone.
    Closed,
}

/// The status of one plugin, shared by all who change it.
#[derive(Debug)]
pub(crate) struct Record(Mutex<PluginStatus>);

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        origin: Origin,
        pid: Option<u32>,
    ) -> Arc<Record> {
        let record = Arc::new(Record(Mutex::new(PluginStatus {
            serial,
            id,
            origin,
            version: String::new(),
            pid,
            events: EventMask::NONE,
            state: PluginState::Connecting,
            timeouts: 0,
            last_error: None,
        })));
        self.lock().insert(serial, record.clone());
        record
    }

    /// Ends a record. That of a launched plugin is kept, so that one can see why it is not there, until its file is launched again.
    pub(crate) fn end(&self, record: &Record, why: String) -> PluginStatus {
        let status = record.set(|s| {
            s.state = PluginState::Closed;
            s.last_error = Some(why);
            s.clone()
        });
        if status.origin == Origin::External {
            self.lock().remove(&status.serial);
        }
        status
    }

    /// Forgets closed plugins of this file.
    pub(crate) fn forget(&self, file: &std::path::Path) {
        self.lock().retain(|_, record| {
            let status = record.lock();
            status.state != PluginState::Closed || !matches!(&status.origin, Origin::Launched(f) if f == file)
        });
    }

    /// All plugins, in the order in which they are called; those without a name last.
    pub(crate) fn all(&self) -> Vec<PluginStatus> {
        let mut all: Vec<_> = self.lock().values().map(|r| r.get()).collect();
        all.sort_by_key(|s| (s.id.is_none(), s.id.as_ref().map(|id| id.index), s.serial));
        all
    }

    /// Whether a plugin is subscribed to one of the events, or may be because it is not configured yet.
    pub(crate) fn wants(&self, events: EventMask) -> bool {
        self.lock().values().any(|record| {
            let status = record.lock();
            match status.state {
                PluginState::Connecting | PluginState::Configuring => true,
                PluginState::Synchronizing | PluginState::Active => {
                    events.iter().any(|e| status.events.contains(e))
                }
                PluginState::Closed => false,
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Record>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events whose subscribers take part in the handling of `event`: a creation also involves the validators.
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
        let record = registry.add(0, None, Origin::External, None);
        assert!(wants(Event::STOP_CONTAINER));
        record.set(|s| {
            s.state = PluginState::Active;
            s.events = EventMask::from_iter([Event::VALIDATE_CONTAINER_ADJUSTMENT]);
        });
        assert!(wants(Event::CREATE_CONTAINER));
        assert!(!wants(Event::STOP_CONTAINER));
        registry.end(&record, "gone".into());
        assert!(!wants(Event::CREATE_CONTAINER));
        assert_eq!(registry.all(), []);
    }

    #[test]
    fn listed_as_called_and_launched_ones_stay() {
        let registry = Registry::default();
        for name in ["20-b", "10-z", "10-a"] {
            let id = PluginId::from_file_name(name).unwrap();
            registry.add(registry.serial(), Some(id), Origin::Launched(name.into()), None);
        }
        registry.add(registry.serial(), None, Origin::External, None);
        let serials = |registry: &Registry| registry.all().iter().map(|s| s.serial).collect::<Vec<_>>();
        assert_eq!(serials(&registry), [1, 2, 0, 3]);
        let record = registry.lock()[&1].clone();
        registry.end(&record, "exited".into());
        assert_eq!(serials(&registry), [1, 2, 0, 3]);
        registry.forget("10-z".as_ref());
        assert_eq!(serials(&registry), [2, 0, 3]);
    }
}
