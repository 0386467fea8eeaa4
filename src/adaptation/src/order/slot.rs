//! Slot of a plugin in the pipeline: the sessions with its index and name, of which each request
//! reaches one.
//!
//! Usually a slot has one session. A session that registers under the index and name of another one
//! is to replace it, and takes a ticket of the same queue. When the ticket is granted, all earlier
//! requests have passed the old session, and all later ones wait. The new session is synchronized
//! then. The requests that waited are delivered to it, or to the old session if it failed or takes
//! too long: it takes another ticket then, and gets another snapshot. So the new session misses no
//! request whose effect its snapshot does not have.
//!
//! Each request asks the slot for its session only when its own turn comes, so that a failure of
//! the new session needs no repair. The old session is closed when all requests that entered before
//! have been committed ([`crate::session::admission`]). Who may replace a session is decided in
//! [`crate::plugin::registrant`].

use nri_api::proto::Event;
use nri_api::{PluginId, PluginIndex};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use crate::order::context::RequestContext;
use crate::plugin::handle::Plugin;
use crate::plugin::queue::{QueuePermit, Ticket};
use crate::plugin::registrant::{Registrant, ReplacementBar, ReplacementRefused};
use crate::plugin::status::involved_events;
use crate::policy::scope::Subject;

/// Limit of replacements in one slot within [`REPLACEMENT_PERIOD`]: an upgrade and its revocation.
/// Two programs that connect again whenever they are replaced would otherwise go on for ever.
const MAX_REPLACEMENTS: usize = 2;
/// Period in which replacements are counted, and in which what was replaced does not come back. A
/// refusal begins it anew: otherwise a program that goes on trying would get in once a period.
const REPLACEMENT_PERIOD: Duration = Duration::from_secs(60);

/// The sessions of one plugin, which have one queue.
pub(crate) struct PluginSlot {
    id: PluginId,
    /// Serial number of the first session. Of slots with the same index, the one with the lower
    /// number comes first.
    serial: u64,
    /// Sessions in the order of their registration. The first one that is open is called; each
    /// later one waits for its turn to replace those before it.
    sessions: Vec<Arc<Plugin>>,
    /// The replacements within [`REPLACEMENT_PERIOD`].
    replacements: Vec<Replacement>,
}

/// A replacement of sessions, also one that failed after requests had waited for it.
struct Replacement {
    at: Instant,
    /// Processes of the sessions that were replaced; none if the replacement failed.
    replaced: Vec<Registrant>,
}

impl PluginSlot {
    /// Creates the slot of a plugin's first session.
    pub(crate) fn new(first: &Arc<Plugin>) -> Self {
        let (id, serial) = (first.id.clone(), first.serial);
        Self { id, serial, sessions: vec![first.clone()], replacements: Vec::new() }
    }

    /// Whether the slot is that of this plugin.
    pub(crate) fn is_of(&self, plugin: &PluginId) -> bool {
        self.id == *plugin
    }

    /// Returns the key by which slots are ordered.
    pub(crate) fn order(&self) -> (PluginIndex, u64) {
        (self.id.index, self.serial)
    }

    /// Returns the sessions.
    pub(crate) fn sessions(&self) -> &[Arc<Plugin>] {
        &self.sessions
    }

    /// Returns the sessions that are not closed. The session task of a closed one removes it soon.
    fn open(&self) -> impl DoubleEndedIterator<Item = &Arc<Plugin>> {
        self.sessions.iter().filter(|session| !session.is_closed())
    }

    /// Checks whether a session of this process may replace those of the slot, if any is open.
    pub(crate) fn check(&mut self, registrant: &Registrant) -> Result<(), ReplacementRefused> {
        let Some(holder) = self.open().next_back().cloned() else { return Ok(()) };
        let holder = &holder.registrant;
        registrant.check_replaces(&self.id, holder)?;
        let pending = self.open().count() - 1;
        self.forget_replacements();
        let mut replaced = self.replacements.iter().flat_map(|r| &r.replaced);
        let why = if replaced.any(|replaced| registrant.has_returned(replaced, holder)) {
            ReplacementBar::Returned
        } else if self.replacements.len() + pending >= MAX_REPLACEMENTS {
            ReplacementBar::TooOften
        } else {
            return Ok(());
        };
        // Those that failed are not counted anew: the program that failed has to try again.
        for replacement in self.replacements.iter_mut().filter(|r| !r.replaced.is_empty()) {
            replacement.at = Instant::now();
        }
        Err(registrant.refused(&self.id, holder.pid, why))
    }

    fn forget_replacements(&mut self) {
        self.replacements.retain(|replacement| replacement.at.elapsed() < REPLACEMENT_PERIOD);
    }

    /// Adds a session that is to replace those before it.
    pub(crate) fn add(&mut self, session: &Arc<Plugin>) {
        if let Some(other) = self.sessions.first() {
            session.share_queue(other);
        }
        session.record.set_order(self.serial);
        self.sessions.push(session.clone());
    }

    /// Lets a synchronized session replace those before it, and returns the open ones among those.
    /// Returns `None` if the session has ended.
    pub(crate) fn replace_with(&mut self, session: &Plugin) -> Option<Vec<Arc<Plugin>>> {
        let at = self.sessions.iter().position(|s| s.serial == session.serial)?;
        if session.is_closed() {
            return None;
        }
        let replaced: Vec<_> = self.sessions.drain(..at).filter(|s| !s.is_closed()).collect();
        if !replaced.is_empty() {
            let replaced = replaced.iter().map(|session| session.registrant.clone());
            self.count_replacement(replaced.collect());
        }
        session.set_admitted();
        Some(replaced)
    }

    /// Counts a replacement of these sessions, or of none if it failed after requests had waited
    /// for it: programs that try again and again would delay all requests.
    pub(crate) fn count_replacement(&mut self, replaced: Vec<Registrant>) {
        self.forget_replacements();
        self.replacements.push(Replacement { at: Instant::now(), replaced });
    }

    /// Removes sessions. Returns whether the slot has any left.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Plugin) -> bool) -> bool {
        self.sessions.retain(|session| is_kept(session));
        !self.sessions.is_empty()
    }

    /// Enters a request about `subject`; `None` if no session is connected, or if the plugin must
    /// not know of the subject. All sessions of a slot have the same policy.
    pub(crate) fn enter(&self, event: Event, subject: Option<&Subject>) -> Option<PluginTicket> {
        let mut connected = self.sessions.iter().filter(|session| session.is_connected());
        let plugin = connected.next()?.clone();
        if subject.is_some() && !plugin.policy.get().shows(subject) {
            return None;
        }
        let successors: Vec<_> = connected.cloned().collect();
        let is_subscribed = match &*successors {
            [] if plugin.is_admitted() => plugin.mask.contains(event),
            // Waits for the synchronization, or for the turns of the successors, even if no session
            // is called now: one of them may be a validator of the request later.
            successors => involved_events(event).iter().any(|event| {
                [&plugin].into_iter().chain(successors).any(|p| p.mask.contains(event))
            }),
        };
        let ticket = is_subscribed.then(|| plugin.queue().ticket());
        Some(PluginTicket { event, plugin, successors, ticket })
    }
}

/// The position of a request in the queue of a slot.
pub(crate) struct PluginTicket {
    event: Event,
    /// Session that is called unless a successor has replaced it.
    plugin: Arc<Plugin>,
    /// Sessions that were about to replace it when the request entered.
    successors: Vec<Arc<Plugin>>,
    /// `None` if no session has subscribed to the event.
    ticket: Option<Ticket>,
}

impl PluginTicket {
    /// Returns the sessions, of which one is called if it has subscribed to the event.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        [&self.plugin].into_iter().chain(&self.successors)
    }

    /// Returns the session that the request reaches if its turn is now.
    pub(crate) fn session(&self) -> &Arc<Plugin> {
        let successor = self.successors.iter().rev().find(|plugin| plugin.is_admitted());
        successor.unwrap_or(&self.plugin)
    }

    /// Whether a session has subscribed to the event.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.ticket.is_some()
    }

    /// Restricts the ticket to the session that received the request of `context`; `None` if no
    /// session did.
    pub(crate) fn of_reached(self, context: &RequestContext) -> Option<Self> {
        // A session that has received a request has no predecessors.
        let Self { event, plugin, ticket, .. } = self;
        context.has_reached(&plugin).then(|| Self { event, plugin, successors: Vec::new(), ticket })
    }

    /// Waits for the turn of the request. Returns the session that it reaches, and the permit to
    /// call it if it has subscribed to the event.
    pub(crate) async fn turn(self) -> (Arc<Plugin>, Option<QueuePermit>) {
        let permit = match self.ticket {
            Some(ticket) => Some(ticket.permit().await),
            None => None,
        };
        let successor = self.successors.into_iter().rev().find(|plugin| plugin.is_admitted());
        let plugin = successor.unwrap_or(self.plugin);
        let permit = permit.filter(|_| plugin.mask.contains(self.event));
        (plugin, permit)
    }
}
