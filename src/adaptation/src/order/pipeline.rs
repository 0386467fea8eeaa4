//! Pipeline of plugin queues: all plugins see requests in the same order.
//!
//! When a request enters, it takes a ticket in every queue that it will pass: the queues of the
//! subscribed plugins, of the validators, and of the commit. Every queue therefore holds requests
//! in the order of their entry. It follows that
//!
//! - no request overtakes another at any plugin, and effects are committed in the same order, while
//!   different plugins handle different requests;
//! - requests cannot deadlock: the holder of a permit waits only for requests that entered earlier,
//!   so the oldest request always proceeds. (Neither a commit nor the
//!   [`ContainerManager`](crate::ContainerManager) may enter a request and wait for it.)
//! - plugins may connect and disconnect at any time: existing tickets stay valid, and only later
//!   requests are affected. A plugin that registers takes, at one point in time, the first ticket
//!   of its own queue and a ticket of the commit. Its snapshot is taken when its ticket of the
//!   commit is granted. Requests that entered before the plugin have committed by then, and are not
//!   delivered to it. Requests that enter after the plugin wait until it is synchronized, and
//!   commit after the snapshot. So each request either has its effect in the snapshot or is
//!   delivered to the plugin, never both. A plugin that takes longer than for a request leaves its
//!   permit: requests skip it. It takes new tickets after its reply, and gets a second snapshot if
//!   that differs from the first.
//!
//! Post-events cannot change anything, so they need no commit and are sent to all subscribers at
//! the same time. They take their tickets at entry too, so that each plugin receives them after all
//! earlier requests and before all later ones. The caller keeps the events of one container in
//! order: it makes the next request after the previous one returned. After a post-event, it need
//! not await the delivery.

use nri_api::PluginId;
use nri_api::proto::Event;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use tokio::sync::watch;

use crate::order::context::RequestContext;
use crate::order::slot::{PluginSlot, PluginTicket};
use crate::plugin::handle::Plugin;
use crate::plugin::queue::{PluginQueue, Ticket};
use crate::plugin::registrant::{Registrant, ReplacementRefused};
use crate::policy::scope::Subject;

/// All plugins in the order in which they are called, then the queues of validation and commit.
#[derive(Default)]
pub(crate) struct Pipeline {
    slots: Mutex<Vec<PluginSlot>>,
    validation: PluginQueue,
    commit: PluginQueue,
    /// Closed while a plugin is relaunched. Closing and reading take the lock of `slots`.
    gate: Gate,
}

/// Gate for requests that a relaunched plugin could change. The value is true while it is open.
struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

/// The tickets of one request. Dropping a ticket leaves that queue.
pub(crate) struct RequestTickets {
    pub(crate) plugins: Vec<PluginTicket>,
    pub(crate) validation: Ticket,
    pub(crate) commit: Ticket,
}

/// Guard that keeps the gate of a pipeline closed. Dropping the guard opens the gate.
pub(crate) struct ClosedGate<'a>(&'a Pipeline);

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.0.gate.0.send_replace(true);
    }
}

/// The tickets of a plugin that registers.
pub(crate) struct AdmissionTickets {
    pub(crate) queue: Ticket,
    pub(crate) commit: Ticket,
}

impl Pipeline {
    /// Enters a request about `subject`.
    pub(crate) fn enter(&self, event: Event, subject: Option<&Subject>) -> RequestTickets {
        self.enter_locked(&self.lock(), event, subject)
    }

    /// Enters a request for the plugins that received the request of `context`.
    pub(crate) fn enter_for_reached(
        &self,
        event: Event,
        context: &RequestContext,
    ) -> RequestTickets {
        let RequestTickets { plugins, validation, commit } = self.enter(event, None);
        let plugins = plugins.into_iter().filter_map(|ticket| ticket.of_reached(context)).collect();
        RequestTickets { plugins, validation, commit }
    }

    /// Enters a request that must not miss a plugin that is being relaunched: waits until the gate
    /// is open.
    pub(crate) async fn enter_when_open(
        &self,
        event: Event,
        subject: Option<&Subject>,
    ) -> RequestTickets {
        loop {
            {
                let slots = self.lock();
                if *self.gate.0.borrow() {
                    return self.enter_locked(&slots, event, subject);
                }
            }
            // The sender is a field of self, so the channel stays open.
            let _ = self.gate.0.subscribe().wait_for(|is_open| *is_open).await;
        }
    }

    fn enter_locked(
        &self,
        slots: &[PluginSlot],
        event: Event,
        subject: Option<&Subject>,
    ) -> RequestTickets {
        RequestTickets {
            plugins: slots.iter().filter_map(|slot| slot.enter(event, subject)).collect(),
            validation: self.validation.ticket(),
            commit: self.commit.ticket(),
        }
    }

    /// Enters a post-event, which passes neither validators nor commit.
    pub(crate) fn enter_post(&self, event: Event, subject: Option<&Subject>) -> Vec<PluginTicket> {
        let slots = self.lock();
        let tickets = slots.iter().filter_map(|slot| slot.enter(event, subject));
        tickets.filter(PluginTicket::is_subscribed).collect()
    }

    /// Checks whether a session of this process may register as `plugin`: no other session has the
    /// name, or may be replaced by it.
    pub(crate) fn check(
        &self,
        plugin: &PluginId,
        registrant: &Registrant,
    ) -> Result<(), ReplacementRefused> {
        let mut slots = self.lock();
        slots.iter_mut().filter(|slot| slot.is_of(plugin)).try_for_each(|s| s.check(registrant))
    }

    /// Adds a session: to the slot of its index and name, if there is one, to replace the session
    /// there; otherwise in call order, by index, then by serial number.
    pub(crate) fn add(&self, plugin: &Arc<Plugin>) -> Result<AdmissionTickets, ReplacementRefused> {
        let mut slots = self.lock();
        match slots.iter_mut().find(|slot| slot.is_of(&plugin.id)) {
            Some(slot) => {
                slot.check(&plugin.registrant)?;
                slot.add(plugin);
            }
            None => {
                let new = PluginSlot::new(plugin);
                let at = slots.partition_point(|slot| slot.order() < new.order());
                slots.insert(at, new);
            }
        }
        Ok(AdmissionTickets { queue: plugin.queue().ticket(), commit: self.commit.ticket() })
    }

    /// Lets a session that is synchronized replace the earlier ones of its slot. Must be called
    /// with the permit of its queue. Returns the sessions that it has replaced, or `None` if it has
    /// ended meanwhile.
    pub(crate) fn replace_with(&self, plugin: &Plugin) -> Option<Vec<Arc<Plugin>>> {
        let mut slots = self.lock();
        let slot = slots.iter_mut().find(|slot| slot.is_of(&plugin.id))?;
        slot.replace_with(plugin)
    }

    /// Counts the failed replacement of a plugin's session.
    pub(crate) fn count_replacement(&self, plugin: &PluginId) {
        let mut slots = self.lock();
        if let Some(slot) = slots.iter_mut().find(|slot| slot.is_of(plugin)) {
            slot.count_replacement(Vec::new());
        }
    }

    /// Takes the tickets of a plugin that has not been synchronized in time, and is to be
    /// synchronized again.
    pub(crate) fn readmit(&self, plugin: &Plugin) -> AdmissionTickets {
        // With the lock, no request enters between the two tickets.
        let _plugins = self.lock();
        AdmissionTickets { queue: plugin.queue().ticket(), commit: self.commit.ticket() }
    }

    /// Removes a plugin. Tickets of its queue stay valid.
    pub(crate) fn remove(&self, plugin: &Plugin) {
        self.lock().retain_mut(|slot| slot.retain(|p| p.serial != plugin.serial));
    }

    /// Removes plugins, and closes the gate until the guard is dropped: requests that replacements
    /// of the plugins could change wait until then.
    pub(crate) fn remove_and_close(&self, removed: &[Arc<Plugin>]) -> ClosedGate<'_> {
        let mut slots = self.lock();
        self.gate.0.send_replace(false);
        let is_kept = |plugin: &Plugin| !removed.iter().any(|r| r.serial == plugin.serial);
        slots.retain_mut(|slot| slot.retain(is_kept));
        ClosedGate(self)
    }

    /// Waits until all requests with a ticket of this removed plugin have passed its queue and have
    /// committed.
    pub(crate) async fn wait_drained(&self, plugin: &Plugin) {
        let (queue, commit) = (plugin.queue().ticket(), self.commit.ticket());
        drop(queue.permit().await);
        drop(commit.permit().await);
    }

    /// Returns the sessions of all plugins in call order.
    pub(crate) fn plugins(&self) -> Vec<Arc<Plugin>> {
        self.lock().iter().flat_map(PluginSlot::sessions).cloned().collect()
    }

    // Held for the whole entry of a request, which makes the entry atomic. No code waits for
    // anything else while it holds this lock.
    fn lock(&self) -> MutexGuard<'_, Vec<PluginSlot>> {
        self.slots.lock()
    }
}
