//! Statistics of plugins in the form of the control protocol.

use nri_adaptation::{Adaptation, DurationHistogram, EventStatistics, PluginStatistics};
use nri_api::PluginId;
use nri_control::{CallCounts, EventCalls, PluginCalls};
use std::collections::BTreeMap;

/// Returns the calls of all plugins by name.
pub(super) fn of_all(adaptation: &Adaptation) -> BTreeMap<PluginId, Box<PluginCalls>> {
    adaptation.statistics().into_iter().map(|(id, s)| (id, Box::new(calls(&s)))).collect()
}

fn calls(statistics: &PluginStatistics) -> PluginCalls {
    let of_event = |event: &EventStatistics| EventCalls {
        event: format!("{:?}", event.event),
        counts: counts(&event.latency, std::slice::from_ref(event)),
    };
    PluginCalls {
        total: counts(&statistics.latency(), &statistics.events),
        events: statistics.events.iter().map(of_event).collect(),
        queue_p50_us: micros(&statistics.queue, 0.5),
        queue_p99_us: micros(&statistics.queue, 0.99),
        updates: statistics.updates,
        evictions: statistics.evictions,
        conflicts: statistics.conflicts,
        denials: statistics.denials,
    }
}

/// Returns the numbers of the calls for these events, whose times are `latency`.
fn counts(latency: &DurationHistogram, events: &[EventStatistics]) -> CallCounts {
    let sum = |count: fn(&EventStatistics) -> u64| events.iter().map(count).sum();
    CallCounts {
        calls: latency.count(),
        failures: sum(|event| event.failures.total()),
        refusals: sum(|event| event.refusals),
        timeouts: sum(|event| event.failures.timeouts),
        p50_us: micros(latency, 0.5),
        p99_us: micros(latency, 0.99),
    }
}

fn micros(histogram: &DurationHistogram, part: f64) -> Option<u64> {
    histogram.quantile(part).and_then(|found| u64::try_from(found.as_micros()).ok())
}
