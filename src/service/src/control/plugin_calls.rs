//! Statistics of plugins in the form of the control protocol.

use nri_adaptation::{Adaptation, CallFailures, DurationHistogram, PluginStatistics};
use nri_api::PluginId;
use nri_control::{CallCounts, EventCalls, PluginCalls};
use std::collections::BTreeMap;

/// Returns the calls of all plugins by name.
pub(super) fn of_all(adaptation: &Adaptation) -> BTreeMap<PluginId, Box<PluginCalls>> {
    adaptation.statistics().into_iter().map(|(id, s)| (id, Box::new(calls(&s)))).collect()
}

fn calls(statistics: &PluginStatistics) -> PluginCalls {
    let failures = |count: fn(CallFailures) -> u64| -> u64 {
        statistics.events.iter().map(|event| count(event.failures)).sum()
    };
    let of_event = |event: &nri_adaptation::EventStatistics| EventCalls {
        event: format!("{:?}", event.event),
        counts: counts(&event.latency, event.failures.total(), event.failures.timeouts),
    };
    PluginCalls {
        total: counts(
            &statistics.latency(),
            failures(CallFailures::total),
            failures(|failures| failures.timeouts),
        ),
        events: statistics.events.iter().map(of_event).collect(),
        queue_p50_us: micros(&statistics.queue, 0.5),
        queue_p99_us: micros(&statistics.queue, 0.99),
        updates: statistics.updates,
        evictions: statistics.evictions,
        conflicts: statistics.conflicts,
        denials: statistics.denials,
    }
}

fn counts(latency: &DurationHistogram, failures: u64, timeouts: u64) -> CallCounts {
    CallCounts {
        calls: latency.count(),
        failures,
        timeouts,
        p50_us: micros(latency, 0.5),
        p99_us: micros(latency, 0.99),
    }
}

fn micros(histogram: &DurationHistogram, part: f64) -> Option<u64> {
    histogram.quantile(part).and_then(|found| u64::try_from(found.as_micros()).ok())
}
