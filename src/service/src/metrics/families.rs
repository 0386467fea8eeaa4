//! The metrics: names, types, labels and values. `docs/reference/operations.md` has a table
//! of them, which tests compare with the output.
//!
//! The library encodes the text. Its registry and its own metrics are not used: the values are in
//! the counters of the adaptation already, and copied at each scrape.

use crate::{
    host::process::resident_memory, resources::manager::ResourceManager, state::registry::Counts,
};
use nri_adaptation::{
    Adaptation, BUCKET_BOUNDS, DurationHistogram, EventStatistics, PluginState, PluginStatistics,
};
use nri_files::MissedPlugin;
use prometheus::{
    TextEncoder,
    proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// What the metrics are read from.
#[derive(Clone)]
pub struct MetricsSource {
    /// The plugins.
    pub adaptation: Adaptation,
    /// The containers and their resources.
    pub resource_manager: Arc<ResourceManager>,
    /// Time of the start.
    pub started: Instant,
    /// The same time by the wall clock.
    pub start_time: SystemTime,
}

/// State of the plugins of one name.
#[derive(Default)]
struct PluginGauges {
    active: bool,
    limited: bool,
    memory: u64,
    missed: u64,
}

impl MetricsSource {
    /// Returns the current metrics as text.
    ///
    /// # Errors
    /// The library refuses a metric.
    pub(super) fn text(&self) -> Result<String, prometheus::Error> {
        let mut families = self.of_nrid();
        families.extend(self.of_plugins());
        // The format has no families without metrics.
        families.retain(|family| !family.get_metric().is_empty());
        TextEncoder::new().encode_to_string(&families)
    }

    fn of_nrid(&self) -> Vec<MetricFamily> {
        let start = self.start_time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let Counts { pods, containers, .. } = self.resource_manager.registry.counts();
        let version = env!("CARGO_PKG_VERSION");
        vec![
            gauges(
                "nri_build_info",
                "Version of nrid; always 1.",
                [gauge(&[("version", version)], 1.0)],
            ),
            gauges(
                "nri_start_time_seconds",
                "Start of nrid, in seconds since the epoch.",
                [gauge(&[], start)],
            ),
            gauges(
                "nri_uptime_seconds",
                "Time since the start of nrid.",
                [gauge(&[], self.started.elapsed().as_secs_f64())],
            ),
            gauges("nri_pods", "Pods that exist.", [gauge(&[], pods as f64)]),
            gauges(
                "nri_containers",
                "Containers that exist, without those of sandboxes.",
                [gauge(&[], containers as f64)],
            ),
            histograms(
                "nri_commit_queue_duration_seconds",
                "Time that requests waited until the effects of earlier requests were committed.",
                [histogram(&[], &self.adaptation.commit_queue())],
            ),
            counters(
                "nri_enforcement_mismatches_total",
                "Values of plugins that a cgroup did not have, and that could not be written.",
                [counter(&[], self.resource_manager.mismatches())],
            ),
        ]
    }

    fn of_plugins(&self) -> Vec<MetricFamily> {
        let plugins: Vec<_> = self
            .adaptation
            .statistics()
            .into_iter()
            .map(|(id, statistics)| (id.to_string(), statistics))
            .collect();
        let gauges_of = self.gauges_of_plugins();
        let of_gauges = |value: fn(&PluginGauges) -> f64| {
            gauges_of.iter().map(move |(name, g)| gauge(&[("plugin", name)], value(g)))
        };
        let of_counters = |value: fn(&PluginStatistics) -> u64| {
            plugins.iter().map(move |(name, s)| counter(&[("plugin", name)], value(s)))
        };
        let events =
            || plugins.iter().flat_map(|(name, s)| s.events.iter().map(move |e| (name, e)));
        let latency = |(name, event): (&String, &EventStatistics)| {
            histogram(&[("event", &event_name(event)), ("plugin", name)], &event.latency)
        };
        let failures = |(name, event): (&String, &EventStatistics)| {
            let event_name = event_name(event);
            event.failures.by_reason().map(|(reason, number)| {
                counter(&[("event", &event_name), ("plugin", name), ("reason", reason)], number)
            })
        };
        let refusals = |(name, event): (&String, &EventStatistics)| {
            counter(&[("event", &event_name(event)), ("plugin", name)], event.refusals)
        };
        let queue = plugins.iter().map(|(name, s)| histogram(&[("plugin", name)], &s.queue));
        vec![
            histograms(
                "nri_plugin_call_duration_seconds",
                "Time from a request to the plugin's reply, or to the failure of the call.",
                events().map(latency),
            ),
            counters(
                "nri_plugin_call_failures_total",
                "Calls without a usable reply: timeout, disconnect, malformed, error (the plugin \
                 replied with one that refuses nothing), too_large (the request was not sent).",
                events().flat_map(failures),
            ),
            counters(
                "nri_plugin_refusals_total",
                "Requests that the plugin refused, by an error as its reply or by its verdict.",
                events().map(refusals),
            ),
            histograms(
                "nri_plugin_queue_duration_seconds",
                "Time that requests waited because the plugin handled other requests.",
                queue,
            ),
            counters(
                "nri_plugin_updates_total",
                "Updates of containers that the plugin requested.",
                of_counters(|s| s.updates),
            ),
            counters(
                "nri_plugin_evictions_total",
                "Evictions of containers that the plugin requested.",
                of_counters(|s| s.evictions),
            ),
            counters(
                "nri_plugin_conflicts_total",
                "Replies that were refused because another plugin had set the same field.",
                of_counters(|s| s.conflicts),
            ),
            counters(
                "nri_plugin_denials_total",
                "Replies and requests that the plugin's policy did not permit.",
                of_counters(|s| s.denials),
            ),
            counters(
                "nri_plugin_restarts_total",
                "Launches and connections after the first one.",
                of_counters(|s| s.restarts),
            ),
            counters(
                "nri_plugin_limited_requests_total",
                "Creations and updates that skipped the plugin because of its budget.",
                of_counters(|s| s.limited),
            ),
            gauges(
                "nri_plugin_limited",
                "Whether creations and updates skip the plugin because of its budget.",
                of_gauges(|g| f64::from(u8::from(g.limited))),
            ),
            gauges(
                "nri_plugin_active",
                "Whether the plugin is synchronized and receives events.",
                of_gauges(|g| f64::from(u8::from(g.active))),
            ),
            gauges(
                "nri_plugin_resident_memory_bytes",
                "Resident memory of the plugin's process; 0 if it does not run.",
                of_gauges(|g| g.memory as f64),
            ),
            gauges(
                "nri_plugin_missed_containers",
                "Containers that exist and were created without the plugin.",
                of_gauges(|g| g.missed as f64),
            ),
        ]
    }

    fn gauges_of_plugins(&self) -> BTreeMap<String, PluginGauges> {
        let mut all: BTreeMap<String, PluginGauges> = BTreeMap::new();
        for plugin in self.adaptation.plugins() {
            let budget = self.adaptation.budget(&plugin);
            let is_limited =
                plugin.limit.is_some() && budget.is_some_and(|(_, exemption)| exemption.is_none());
            let Some(id) = plugin.id else { continue };
            let gauges = all.entry(id.to_string()).or_default();
            gauges.active |= plugin.state == PluginState::Active;
            gauges.limited |= is_limited;
            if !plugin.state.has_ended() {
                gauges.memory += plugin.pid.and_then(resident_memory).unwrap_or_default();
            }
        }
        for container in
            self.resource_manager.registry.all().iter().filter(|container| !container.is_deleted())
        {
            for MissedPlugin { plugin, .. } in &container.record().missed {
                all.entry(plugin.clone()).or_default().missed += 1;
            }
        }
        all
    }
}

/// Returns the name of the event, as in the status of plugins: `CREATE_CONTAINER`.
fn event_name(event: &EventStatistics) -> String {
    format!("{:?}", event.event)
}

fn family(
    (name, help, kind): (&str, &str, MetricType),
    metrics: impl IntoIterator<Item = Metric>,
) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics.into_iter().collect());
    family
}

fn counters(name: &str, help: &str, metrics: impl IntoIterator<Item = Metric>) -> MetricFamily {
    family((name, help, MetricType::COUNTER), metrics)
}

fn gauges(name: &str, help: &str, metrics: impl IntoIterator<Item = Metric>) -> MetricFamily {
    family((name, help, MetricType::GAUGE), metrics)
}

fn histograms(name: &str, help: &str, metrics: impl IntoIterator<Item = Metric>) -> MetricFamily {
    family((name, help, MetricType::HISTOGRAM), metrics)
}

fn metric(labels: &[(&str, &str)]) -> Metric {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    Metric::from_label(labels.iter().map(pair).collect())
}

fn counter(labels: &[(&str, &str)], value: u64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value as f64);
    let mut metric = metric(labels);
    metric.set_counter(counter);
    metric
}

fn gauge(labels: &[(&str, &str)], value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = metric(labels);
    metric.set_gauge(gauge);
    metric
}

/// The library adds the bucket without a bound, which holds all durations.
fn histogram(labels: &[(&str, &str)], durations: &DurationHistogram) -> Metric {
    let mut below = 0;
    let buckets = BUCKET_BOUNDS.iter().zip(durations.buckets).map(|(bound, in_bucket)| {
        below += in_bucket;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound.as_secs_f64());
        bucket.set_cumulative_count(below);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(durations.count());
    histogram.set_sample_sum(durations.sum.as_secs_f64());
    let mut metric = metric(labels);
    metric.set_histogram(histogram);
    metric
}
