//! Statistics of plugins: calls, refusals, failures and times per event, and what replies request.
//!
//! They are counted by name, so that a plugin that is launched or connects again continues to
//! count, and two plugins of one name count together. Their size depends on the number of plugins
//! and events, not on that of calls or containers.

use nri_api::PluginId;
use nri_api::proto::Event;
use nri_merge::MergeError;
use nri_wire::CallError;
use parking_lot::Mutex;
use protobuf::Enum;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::AdaptError;
use crate::plugin::calls::EventRequest;
use crate::plugin::histogram::{DurationHistogram, DurationRecorder};

/// Limit of names that are counted while no session has them; the one that was used least recently
/// goes first. It bounds the memory while a client connects with new names.
const MAX_UNUSED: usize = 256;

/// Number after the last event of the protocol.
const EVENTS: usize = Event::LAST as usize;

/// Counters of a plugin.
#[derive(Debug, Default)]
pub(crate) struct PluginCounters {
    /// Number of launches and connections.
    sessions: AtomicU64,
    /// Counters per event, by its number; set at the first call.
    events: [OnceLock<Box<EventCounters>>; EVENTS],
    queue: DurationRecorder,
    updates: AtomicU64,
    evictions: AtomicU64,
    conflicts: AtomicU64,
    denials: AtomicU64,
    limited: AtomicU64,
}

/// Counters of the calls for one event.
#[derive(Debug, Default)]
struct EventCounters {
    latency: DurationRecorder,
    refusals: AtomicU64,
    timeouts: AtomicU64,
    disconnects: AtomicU64,
    malformed: AtomicU64,
    errors: AtomicU64,
    too_large: AtomicU64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallEnd<'a> {
    /// The plugin replied.
    Reply,
    /// The plugin refused the request, by an error as its reply.
    Refusal,
    /// There was no usable reply.
    Failure(&'a CallError),
}

impl<'a> CallEnd<'a> {
    /// Returns how a call of a request ended.
    pub(crate) fn of<Q: EventRequest>(result: &'a Result<Q::Reply, CallError>) -> Self {
        match result {
            Ok(_) => Self::Reply,
            Err(error) if is_refusal::<Q>(error) => Self::Refusal,
            Err(error) => Self::Failure(error),
        }
    }
}

/// Whether an error is a reply of the plugin that refuses the request.
pub(crate) fn is_refusal<Q: EventRequest>(error: &CallError) -> bool {
    Q::CAN_BE_REFUSED && error.is_refusal()
}

impl PluginCounters {
    /// Records a call: its time from the request to the reply, and how it ended.
    pub(crate) fn record_call(&self, event: Event, took: Duration, end: CallEnd<'_>) {
        let Some(counters) = self.event(event) else { return };
        counters.latency.record(took);
        let counter = match end {
            CallEnd::Reply => return,
            CallEnd::Refusal => &counters.refusals,
            CallEnd::Failure(CallError::Timeout(_)) => &counters.timeouts,
            CallEnd::Failure(CallError::Closed(_)) => &counters.disconnects,
            CallEnd::Failure(CallError::Malformed(_)) => &counters.malformed,
            CallEnd::Failure(CallError::Status { .. }) => &counters.errors,
            CallEnd::Failure(CallError::TooLarge { .. }) => &counters.too_large,
        };
        count(counter, 1);
    }

    /// Records that the plugin, as a validator, rejected a container in its reply.
    pub(crate) fn record_rejection(&self) {
        let counters = self.event(Event::VALIDATE_CONTAINER_ADJUSTMENT);
        counters.iter().for_each(|counters| count(&counters.refusals, 1));
    }

    /// Records that a request had no time left for the plugin.
    pub(crate) fn record_out_of_time(&self, event: Event) {
        let counters = self.event(event);
        counters.iter().for_each(|counters| count(&counters.timeouts, 1));
    }

    fn event(&self, event: Event) -> Option<&EventCounters> {
        let counters = usize::try_from(event.value()).ok().and_then(|n| self.events.get(n))?;
        Some(counters.get_or_init(Box::default))
    }

    /// Records the time that a request waited because the plugin handled other requests.
    pub(crate) fn record_queue(&self, waited: Duration) {
        self.queue.record(waited);
    }

    /// Records the updates and evictions that the plugin requests.
    pub(crate) fn record_requests(&self, updates: usize, evictions: usize) {
        count(&self.updates, updates);
        count(&self.evictions, evictions);
    }

    /// Records why a reply of the plugin was refused.
    pub(crate) fn record_refusal(&self, error: &AdaptError) {
        match error {
            AdaptError::Merge { source: MergeError::Conflict { .. }, .. } => {
                count(&self.conflicts, 1);
            }
            AdaptError::Denied { .. } => self.record_denial(),
            _ => {}
        }
    }

    /// Records a reply or request that the plugin's policy does not permit.
    pub(crate) fn record_denial(&self) {
        count(&self.denials, 1);
    }

    /// Records a request that skipped the plugin because of its budget.
    pub(crate) fn record_limited(&self) {
        count(&self.limited, 1);
    }

    fn get(&self) -> PluginStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of_event = |(number, counters): (usize, &OnceLock<Box<EventCounters>>)| {
            let event = i32::try_from(number).ok().and_then(Event::from_i32)?;
            let counters = counters.get()?;
            let failures = CallFailures {
                timeouts: load(&counters.timeouts),
                disconnects: load(&counters.disconnects),
                malformed: load(&counters.malformed),
                errors: load(&counters.errors),
                too_large: load(&counters.too_large),
            };
            let (latency, refusals) = (counters.latency.get(), load(&counters.refusals));
            Some(EventStatistics { event, latency, refusals, failures })
        };
        PluginStatistics {
            restarts: load(&self.sessions).saturating_sub(1),
            events: self.events.iter().enumerate().filter_map(of_event).collect(),
            queue: self.queue.get(),
            updates: load(&self.updates),
            evictions: load(&self.evictions),
            conflicts: load(&self.conflicts),
            denials: load(&self.denials),
            limited: load(&self.limited),
        }
    }
}

fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// Statistics of a plugin since the start of the adaptation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginStatistics {
    /// Number of times that the plugin was launched or connected again, reloads included.
    pub restarts: u64,
    /// The events for which the plugin was called.
    pub events: Vec<EventStatistics>,
    /// Times that requests waited because the plugin handled other requests.
    pub queue: DurationHistogram,
    /// Number of updates of containers that the plugin requested.
    pub updates: u64,
    /// Number of evictions that the plugin requested.
    pub evictions: u64,
    /// Number of replies that were refused because another plugin had set the same field.
    pub conflicts: u64,
    /// Number of replies and requests that the plugin's policy did not permit.
    pub denials: u64,
    /// Number of creations and updates that skipped the plugin because of its budget.
    pub limited: u64,
}

impl PluginStatistics {
    /// Returns the times of the calls for all events.
    pub fn latency(&self) -> DurationHistogram {
        let mut sum = DurationHistogram::default();
        self.events.iter().for_each(|event| sum.add(&event.latency));
        sum
    }
}

/// Statistics of the calls of a plugin for one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStatistics {
    /// The event.
    pub event: Event,
    /// Times from the request to the reply, or to the failure. A timeout that ended while
    /// this process was stopped is left out.
    pub latency: DurationHistogram,
    /// Number of requests that the plugin refused: by an error as its reply, or, as a validator, by
    /// its verdict. Such a reply is no failure.
    pub refusals: u64,
    /// Calls without a usable reply.
    pub failures: CallFailures,
}

/// Numbers of calls that failed, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallFailures {
    /// The plugin did not reply in time.
    pub timeouts: u64,
    /// The connection ended before the reply.
    pub disconnects: u64,
    /// The reply could not be decoded.
    pub malformed: u64,
    /// The plugin replied with an error that is no refusal: to an event that cannot be refused, or
    /// with a code of its library, as after a panic.
    pub errors: u64,
    /// The request exceeded the size of a message, and was not sent.
    pub too_large: u64,
}

impl CallFailures {
    /// Returns the numbers with the names of their reasons.
    pub fn by_reason(self) -> [(&'static str, u64); 5] {
        [
            ("timeout", self.timeouts),
            ("disconnect", self.disconnects),
            ("malformed", self.malformed),
            ("error", self.errors),
            ("too_large", self.too_large),
        ]
    }

    /// Returns the number of all failed calls.
    pub fn total(self) -> u64 {
        self.by_reason().iter().map(|(_, number)| number).sum()
    }
}

/// The counters of all plugins, by name. Those that were used last are at the end.
#[derive(Debug, Default)]
pub(crate) struct StatisticsTable(Mutex<Vec<(PluginId, Arc<PluginCounters>)>>);

impl StatisticsTable {
    /// Returns the counters of the plugin, and counts one more session of it.
    pub(crate) fn start_session(&self, id: &PluginId) -> Arc<PluginCounters> {
        let counters = self.counters(id);
        count(&counters.sessions, 1);
        counters
    }

    /// Returns the counters of the plugin.
    pub(crate) fn counters(&self, id: &PluginId) -> Arc<PluginCounters> {
        let mut table = self.0.lock();
        let known = table.iter().position(|(known, _)| known == id);
        let counters = known.map(|at| table.remove(at).1).unwrap_or_default();
        table.push((id.clone(), counters.clone()));
        let is_unused = |entry: &(PluginId, Arc<PluginCounters>)| Arc::strong_count(&entry.1) == 1;
        if table.iter().filter(|entry| is_unused(entry)).count() > MAX_UNUSED
            && let Some(oldest) = table.iter().position(is_unused)
        {
            table.remove(oldest);
        }
        counters
    }

    /// Returns the statistics of all plugins, ordered by index and name.
    pub(crate) fn all(&self) -> Vec<(PluginId, PluginStatistics)> {
        let table = self.0.lock();
        let mut all: Vec<_> = table.iter().map(|(id, c)| (id.clone(), c.get())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> PluginId {
        PluginId::new("10", name).unwrap()
    }

    #[test]
    fn each_event_has_counters() {
        let counters = PluginCounters::default();
        let is_event = |event: &Event| !matches!(event, Event::UNKNOWN | Event::LAST);
        let mut events: Vec<_> = Event::VALUES.iter().copied().filter(is_event).collect();
        for event in &events {
            counters.record_call(*event, Duration::ZERO, CallEnd::Reply);
        }
        let counted: Vec<_> = counters.get().events.iter().map(|e| e.event).collect();
        events.sort_by_key(Enum::value);
        assert_eq!(counted, events);
    }

    #[test]
    fn failures_are_counted_by_reason() {
        let counters = PluginCounters::default();
        let errors = [
            CallError::Timeout(Duration::ZERO),
            CallError::Closed(None),
            CallError::Malformed(String::new()),
            CallError::Status { code: 2, message: String::new() },
            CallError::TooLarge { size: 1 },
        ];
        for (n, error) in errors.iter().enumerate() {
            for _ in 0..=n {
                let end = CallEnd::Failure(error);
                counters.record_call(Event::STOP_CONTAINER, Duration::ZERO, end);
            }
        }
        counters.record_call(Event::STOP_CONTAINER, Duration::ZERO, CallEnd::Reply);
        let statistics = counters.get();
        let failures = statistics.events[0].failures;
        assert_eq!(failures.by_reason().map(|(_, number)| number), [1, 2, 3, 4, 5]);
        assert_eq!((failures.total(), statistics.latency().count()), (15, 16));
    }

    #[test]
    fn a_name_keeps_its_counters_and_the_number_of_unused_names_is_limited() {
        let table = StatisticsTable::default();
        table.start_session(&id("first")).record_requests(3, 1);
        let used = table.start_session(&id("used"));
        for n in 0..MAX_UNUSED - 1 {
            table.start_session(&id(&n.to_string()));
        }
        // Used again, and so kept.
        table.start_session(&id("first"));
        for n in 0..10 {
            table.start_session(&id(&format!("more{n}")));
        }
        let all = table.all();
        assert_eq!(all.len(), MAX_UNUSED + 2, "the last one was still used when it was added");
        let find = |name| all.iter().find(|(known, _)| *known == id(name)).map(|(_, s)| s.clone());
        let first = find("first").unwrap();
        assert_eq!((first.restarts, first.updates, first.evictions), (1, 3, 1));
        assert!(find("used").is_some() && find("0").is_none());
        drop(used);
    }
}
