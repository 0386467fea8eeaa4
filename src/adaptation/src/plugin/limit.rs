//! Requests and events that skip a plugin, as its status, its counters and the log say: because it
//! exceeds its budget, as [`crate::plugin::breaker`] decides, or because of another limit.

use crate::plugin::breaker::{BreakerChange, Source};
use crate::plugin::handle::Plugin;
use crate::plugin::statistics::CallEnd;
use crate::plugin::status::{AbsentPlugin, PluginLimit};
use crate::policy::budget::Budget;
use nri_api::proto::Event;
use nri_wire::CallError;
use std::fmt;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tracing::{debug, info, warn};

impl Plugin {
    /// Records that an event is not delivered, since too many wait for the plugin.
    pub(crate) fn record_undelivered(&self, event: Event) {
        let why = "too many events wait for the plugin, which does not reply";
        warn!(plugin = %self.id, ?event, "event not delivered: {why}");
        self.record_skipped(event, why);
    }

    /// Records, as a timeout is, that the plugin does not get an event, and why.
    pub(crate) fn record_skipped(&self, event: Event, why: impl fmt::Display) {
        self.counters.record_out_of_time(event);
        self.record.set(|status| {
            if !status.state.has_ended() {
                status.last_error = Some(format!("{event:?}: {why}"));
            }
        });
    }

    /// Returns the plugin if a request skips it because of its budget, with the reason. Must be
    /// called with the permit of the plugin's queue; a request that is not skipped must be sent.
    pub(crate) fn skipped_by_budget(&self, source: Source) -> Option<AbsentPlugin> {
        let budget = self.budget()?;
        // A plugin that is not connected is skipped, or not, for reasons of its own.
        if !self.is_admitted() || !self.is_connected() {
            return None;
        }
        let now = Instant::now();
        let (is_admitted, next_try) = {
            let mut breaker = self.breaker.lock();
            (breaker.admits(now, source, budget), breaker.next_try())
        };
        let next_try = next_try?;
        self.record.set(|status| {
            let Some(limit) = &mut status.limit else { return };
            limit.next_try = wall_clock(now, next_try);
            limit.skipped += u64::from(!is_admitted);
        });
        if is_admitted {
            debug!(plugin = %self.id, "plugin is limited by its budget, tried again");
            return None;
        }
        self.counters.record_limited();
        let why = format!("limited by its budget: {budget}");
        Some(AbsentPlugin { plugin: self.id.clone(), why })
    }

    /// Records the time of a call about a container.
    pub(crate) fn record_time(&self, source: Source, took: Duration, end: CallEnd<'_>) {
        let Some(budget) = self.budget() else { return };
        let is_slow = match end {
            // The plugin got no request, or ended.
            CallEnd::Failure(
                CallError::TooLarge { .. } | CallError::Closed(_) | CallError::Malformed(_),
            ) => return,
            CallEnd::Failure(CallError::Timeout(_)) => true,
            CallEnd::Failure(CallError::Status { .. }) | CallEnd::Reply | CallEnd::Refusal => {
                took > budget.time
            }
        };
        let now = Instant::now();
        let (change, next_try) = {
            let mut breaker = self.breaker.lock();
            (breaker.record(now, source, is_slow, budget), breaker.next_try())
        };
        match change {
            Some(BreakerChange::Opened) => {
                let since = SystemTime::now();
                let next_try = next_try.map_or(since, |next_try| wall_clock(now, next_try));
                let limit = PluginLimit { since, skipped: 0, next_try };
                self.record.set(|status| status.limit = Some(limit));
                let pause = budget.pause;
                warn!(
                    plugin = %self.id, ?pause,
                    "plugin is limited by its budget, creations and updates skip it: {budget}"
                );
            }
            Some(BreakerChange::Closed) => {
                let limit = self.record.set(|status| status.limit.take());
                let skipped = limit.map_or(0, |limit| limit.skipped);
                info!(
                    plugin = %self.id, skipped, ?took,
                    "plugin replies in time again, creations and updates reach it"
                );
            }
            None => {}
        }
    }

    /// Returns the budget that limits the plugin.
    fn budget(&self) -> Option<Budget> {
        let policy = self.policy.get();
        let budget = policy.budget?;
        let requested = self.record.read(|status| status.requested_failure_policy);
        policy.budget_exemption(requested).is_none().then_some(budget)
    }
}

/// Returns the time of `then` by the wall clock.
fn wall_clock(now: Instant, then: Instant) -> SystemTime {
    SystemTime::now() + then.saturating_duration_since(now)
}
