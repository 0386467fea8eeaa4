//! The order in which requests reach the plugins: one order, the same everywhere.
//!
//! A request takes its places in all queues at once when it enters: at each plugin that subscribed
//! to it, at the validators, and at the commit. So every queue holds the requests in the order of
//! their entry. From this follows
//!
//! - that no request overtakes another at any plugin, and effects are committed in that order,
//!   while different requests are at work at different plugins;
//! - that requests cannot block one another for ever: whoever holds a turn waits only for requests
//!   that entered before it, so the oldest always moves. (Nobody may enter the line and wait for it
//!   from within: not a commit, not the [`ContainerManager`](crate::ContainerManager).)
//! - that plugins may come and go at any time: places are not affected, only who enters later is. A
//!   plugin that registers takes, in one moment, the first place at its own station and a place at
//!   the commit. Who entered before does not know the plugin, and has committed when the plugin's
//!   turn at the commit comes, where its snapshot is taken. Who enters later finds the plugin,
//!   waits behind its synchronization, and commits after the snapshot. So each request is in the
//!   snapshot or is heard of, and never both.
//!
//! Post-events change nothing, so they need no commit and go to all their plugins at the same time;
//! they too take their places at entry, so that each plugin hears of them after all that was
//! before, and before all that comes later. Order by container is the caller's: it lets a
//! container's next request enter only after the one before returned (for post-events: after the
//! call, not after their delivery).

use nri_api::proto::Event;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

use crate::asking::RequestContext;
use crate::plugin::Plugin;
use crate::station::{Place, Station};

/// All plugins in the order in which they are asked, and what comes after them.
#[derive(Default)]
pub(crate) struct Line {
    plugins: Mutex<Vec<Arc<Plugin>>>,
    validation: Station,
    commit: Station,
    /// Closed while a plugin is relaunched, to requests that it could change. It is changed and
    /// looked at under the lock of the plugins.
    open: Open,
}

/// Whether the line is open.
struct Open(watch::Sender<bool>);

impl Default for Open {
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

/// The places of one request. A place that is dropped is given up.
pub(crate) struct Passage {
    pub(crate) stops: Vec<Stop>,
    pub(crate) validation: Place,
    pub(crate) commit: Place,
}

/// A plugin, and the place there if it subscribed to the event.
pub(crate) struct Stop {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) place: Option<Place>,
}

/// A line that is closed. Dropping it opens the line.
pub(crate) struct Closed<'a>(&'a Line);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.open.0.send_replace(true);
    }
}

/// The places of a plugin that registers.
pub(crate) struct Admission {
    pub(crate) station: Place,
    pub(crate) commit: Place,
}

impl Line {
    /// Enters a request.
    pub(crate) fn enter(&self, event: Event) -> Passage {
        self.enter_with(&self.lock(), event)
    }

    /// Enters a request for those whom another one has reached.
    pub(crate) fn enter_again(&self, event: Event, asking: &RequestContext) -> Passage {
        let mut passage = self.enter(event);
        passage.stops.retain(|stop| asking.has_reached(&stop.plugin));
        passage
    }

    /// Enters a request that must not miss a plugin that is being relaunched: at once, or when it
    /// is there again.
    pub(crate) async fn enter_open(&self, event: Event) -> Passage {
        loop {
            {
                let plugins = self.lock();
                if *self.open.0.borrow() {
                    return self.enter_with(&plugins, event);
                }
            }
            // The sender is in self.
            let _ = self.open.0.subscribe().wait_for(|open| *open).await;
        }
    }

    fn enter_with(&self, plugins: &[Arc<Plugin>], event: Event) -> Passage {
        let stop = |plugin: &Arc<Plugin>| Stop {
            place: plugin.mask.contains(event).then(|| plugin.station.queue()),
            plugin: plugin.clone(),
        };
        Passage {
            stops: plugins.iter().map(stop).collect(),
            validation: self.validation.queue(),
            commit: self.commit.queue(),
        }
    }

    /// Enters a post-event, which passes neither validators nor commit.
    pub(crate) fn enter_post(&self, event: Event) -> Vec<(Arc<Plugin>, Place)> {
        let plugins = self.lock();
        let subscribed = plugins.iter().filter(|p| p.mask.contains(event));
        subscribed.map(|p| (p.clone(), p.station.queue())).collect()
    }

    /// Enters a plugin: behind those of its index that came before.
    pub(crate) fn admit(&self, plugin: &Arc<Plugin>) -> Admission {
        let mut plugins = self.lock();
        let order = |p: &Plugin| (p.id.index, p.serial);
        let at = plugins.partition_point(|p| order(p) < order(plugin));
        plugins.insert(at, plugin.clone());
        Admission { station: plugin.station.queue(), commit: self.commit.queue() }
    }

    /// Takes a plugin out. Who has a place there keeps it.
    pub(crate) fn remove(&self, plugin: &Plugin) {
        self.lock().retain(|p| p.serial != plugin.serial);
    }

    /// Takes plugins out, for others in their places, and closes the line until the guard is
    /// dropped: what these could change, waits for them.
    pub(crate) fn replace(&self, leaving: &[Arc<Plugin>]) -> Closed<'_> {
        let mut plugins = self.lock();
        self.open.0.send_replace(false);
        plugins.retain(|p| !leaving.iter().any(|l| l.serial == p.serial));
        Closed(self)
    }

    /// Waits until all that entered before has passed this plugin, which was taken out, and has
    /// been committed.
    pub(crate) async fn passed(&self, plugin: &Plugin) {
        let (station, commit) = (plugin.station.queue(), self.commit.queue());
        drop(station.turn().await);
        drop(commit.turn().await);
    }

    /// The plugins, in order.
    pub(crate) fn plugins(&self) -> Vec<Arc<Plugin>> {
        self.lock().clone()
    }

    // The lock makes an entry one moment; nothing waits while it is held.
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Plugin>>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
