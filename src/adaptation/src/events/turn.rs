//! Turns of the plugins in a request that calls them one after the other, and the time that all of
//! them have together.
//!
//! Each call has a time limit, but whoever registers plugins chooses their number. So all plugins
//! of a request have three quarters of the time for which its caller waits
//! ([`AdaptationConfig::reply_limit`](crate::AdaptationConfig::reply_limit)): then the request
//! fails, and says why. Plugins without which it would proceed if they hung are skipped after half
//! of the time. Of these, the external plugins of one group of peers, such as a container, have an
//! eighth for their calls, so that they cannot take the time of others; and plugins whose replies
//! have no effect have a thirty-second, with the time until their turns. A call that has begun is
//! not cut off: none takes more than a twentieth.

use nri_api::proto::Event;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::core::Core;
use crate::error::{AdaptError, NoReply};
use crate::order::context::RequestContext;
use crate::order::slot::PluginTicket;
use crate::plugin::calls::EventRequest;
use crate::plugin::handle::Plugin;
use crate::plugin::queue::QueuePermit;
use crate::plugin::request::EncodedRequest;
use crate::plugin::status::AbsentPlugin;
use crate::policy::peers::PeerGroup;
use crate::policy::plugin_policy::{OnFailure, WithheldBy};
use crate::policy::scope::Subject;

/// Time of one request for its plugins.
pub(crate) struct RequestTime {
    event: Event,
    /// Id of the container or pod.
    about: String,
    /// Time for which the caller waits.
    limit: Duration,
    start: Instant,
    /// Times that calls have taken, by who shares a limit of them.
    used: Vec<(Sharer, Duration)>,
    has_warned: bool,
}

/// Plugins that share a part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharer {
    /// Those whose replies have no effect.
    Withheld,
    /// Those of one group of peers.
    Peers(PeerGroup),
}

/// Reason why a request has no time left for a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutOfTime {
    /// The request has taken this time.
    Request(Duration),
    /// The plugins of the same sharer have taken this time.
    Share(Sharer, Duration),
}

impl fmt::Display for OutOfTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(limit) => write!(f, "{}", NoReply::OutOfTime(*limit)),
            Self::Share(Sharer::Withheld, limit) => {
                write!(f, "plugins without effect on it have taken their {limit:?} already")
            }
            Self::Share(Sharer::Peers(group), limit) => {
                write!(f, "the plugins of {group} have taken their {limit:?} already")
            }
        }
    }
}

/// What the turn of a plugin is.
pub(crate) enum Turn {
    /// The plugin is called with this permit.
    Call(QueuePermit),
    /// The plugin has not subscribed to the event.
    Unsubscribed,
    /// The request has no time left for the plugin.
    Skipped,
}

impl Core {
    /// Returns the time of a request that has entered the pipeline; `None` is the context of one
    /// that cannot be refused.
    pub(crate) fn request_time(
        &self,
        event: Event,
        about: &str,
        context: Option<&RequestContext>,
    ) -> RequestTime {
        RequestTime {
            event,
            about: about.to_owned(),
            limit: self.config().reply_limit,
            start: context.map_or_else(Instant::now, RequestContext::start),
            used: Vec::new(),
            has_warned: false,
        }
    }

    /// Waits for the turn of a plugin, as long as the request has time for it. Returns the session
    /// that the request reaches.
    ///
    /// # Errors
    /// No time is left for a plugin without which the request fails.
    pub(crate) async fn turn(
        &self,
        ticket: PluginTicket,
        time: &mut RequestTime,
        context: &RequestContext,
        subject: Option<&Subject>,
    ) -> Result<(Arc<Plugin>, Turn), AdaptError> {
        let plugin = ticket.session().clone();
        let withheld = plugin.policy.get().withholds(subject);
        let is_optional = withheld.is_some() || self.is_optional(&plugin);
        let sharer = Sharer::of(&plugin, withheld);
        let why = match time.left(sharer, is_optional) {
            _ if !ticket.is_subscribed() => return Ok((plugin, Turn::Unsubscribed)),
            Ok(left) => {
                let start = Instant::now();
                let turn = tokio::time::timeout(left, ticket.turn()).await;
                if withheld.is_some() {
                    // Earlier requests wait for a reply without effect as well.
                    time.record(Sharer::Withheld, start.elapsed());
                }
                match turn {
                    Ok((plugin, Some(permit))) => return Ok((plugin, Turn::Call(permit))),
                    Ok((plugin, None)) => return Ok((plugin, Turn::Unsubscribed)),
                    Err(_) => {
                        let request = OutOfTime::Request(time.total(is_optional));
                        time.left(sharer, is_optional).err().unwrap_or(request)
                    }
                }
            }
            Err(why) => why,
        };
        time.record_skipped(&plugin, why);
        if !is_optional {
            context.refuse(self.out_of_time(&plugin, time))?;
        } else if withheld.is_none() {
            let (plugin, why) = (plugin.id.clone(), why.to_string());
            context.record_missed([AbsentPlugin { plugin, why }]);
        }
        Ok((plugin, Turn::Skipped))
    }

    /// Whether a request would proceed without the plugin if the plugin did not reply.
    fn is_optional(&self, plugin: &Plugin) -> bool {
        plugin.failure_handling().on_failure == OnFailure::Ignore
            && !self.config().is_required(&plugin.id)
    }

    fn out_of_time(&self, plugin: &Plugin, time: &RequestTime) -> AdaptError {
        let is_decided = plugin.policy.get().on_failure == OnFailure::Fail
            || self.config().is_required(&plugin.id);
        AdaptError::Unavailable {
            plugin: plugin.id.clone(),
            event: time.event,
            subject: time.about.clone(),
            source: NoReply::OutOfTime(time.total(false)),
            requested: !is_decided,
        }
    }
}

impl RequestTime {
    /// Calls the plugin. `withheld`: why its reply has no effect, if it has none.
    pub(crate) async fn call<Q: EventRequest>(
        &mut self,
        plugin: &Arc<Plugin>,
        withheld: Option<WithheldBy>,
        permit: QueuePermit,
        request: &EncodedRequest<Q>,
    ) -> Result<Option<Q::Reply>, AdaptError> {
        let start = Instant::now();
        let reply = plugin.call(permit, request).await;
        if let Some(sharer) = Sharer::of(plugin, withheld) {
            self.record(sharer, start.elapsed());
        }
        reply
    }

    /// Whether the request waits for the reply of this plugin, although it cannot be refused.
    pub(crate) fn waits_for(&mut self, plugin: &Plugin) -> bool {
        let withheld = plugin.policy.get().withholds(None);
        let left = self.left(Sharer::of(plugin, withheld), true);
        left.map_err(|why| self.record_skipped(plugin, why)).is_ok()
    }

    /// Returns the time that all plugins have, or those that may be absent.
    fn total(&self, is_optional: bool) -> Duration {
        if is_optional { self.limit / 2 } else { self.limit / 4 * 3 }
    }

    /// Returns the time that is left until the turn of a plugin.
    fn left(&self, sharer: Option<Sharer>, is_optional: bool) -> Result<Duration, OutOfTime> {
        let total = self.total(is_optional);
        let left = total.saturating_sub(self.start.elapsed());
        if left.is_zero() {
            return Err(OutOfTime::Request(total));
        }
        let Some(sharer) = sharer.filter(|_| is_optional) else { return Ok(left) };
        let share = match sharer {
            Sharer::Withheld => self.limit / 32,
            Sharer::Peers(_) => self.limit / 8,
        };
        let used = self.used.iter().find(|(other, _)| *other == sharer);
        let left_of_share = share.saturating_sub(used.map_or(Duration::ZERO, |(_, used)| *used));
        if left_of_share.is_zero() {
            return Err(OutOfTime::Share(sharer, share));
        }
        Ok(match sharer {
            Sharer::Withheld => left.min(left_of_share),
            Sharer::Peers(_) => left,
        })
    }

    /// Records the time of a call.
    fn record(&mut self, sharer: Sharer, took: Duration) {
        match self.used.iter_mut().find(|(other, _)| *other == sharer) {
            Some((_, used)) => *used = used.saturating_add(took),
            None => self.used.push((sharer, took)),
        }
    }

    /// Logs and counts that no time is left for a plugin. The first one is a warning; there may be
    /// hundreds.
    fn record_skipped(&mut self, plugin: &Plugin, why: OutOfTime) {
        let Self { event, about, .. } = &*self;
        plugin.record_skipped(*event, why);
        let id = &plugin.id;
        if self.has_warned {
            debug!(plugin = %id, ?event, about, "no time left for the plugin: {why}");
        } else {
            warn!(plugin = %id, ?event, about, "no time left for this and maybe others: {why}");
        }
        self.has_warned = true;
    }
}

impl Sharer {
    /// Returns with whom a plugin shares time; `None` for a launched one, and if its peer was not
    /// checked.
    fn of(plugin: &Plugin, withheld: Option<WithheldBy>) -> Option<Self> {
        match withheld {
            Some(_) => Some(Self::Withheld),
            None => plugin.record.group().map(Self::Peers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: Sharer = Sharer::Peers(PeerGroup::Namespace(4, 1));
    const OTHER: Sharer = Sharer::Peers(PeerGroup::Process(7));

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn time() -> RequestTime {
        RequestTime {
            event: Event::CREATE_CONTAINER,
            about: "c".to_owned(),
            limit: seconds(120),
            start: Instant::now(),
            used: Vec::new(),
            has_warned: false,
        }
    }

    /// 192 plugins of one process that reply after a second each took 192 s.
    #[tokio::test(start_paused = true)]
    async fn plugins_of_one_peer_leave_time_for_those_of_others() {
        let mut time = time();
        let mut calls = 0;
        while time.left(Some(POD), true).is_ok() {
            tokio::time::advance(seconds(1)).await;
            time.record(POD, seconds(1));
            calls += 1;
        }
        assert_eq!(calls, 15);
        let why = time.left(Some(POD), true).unwrap_err().to_string();
        let group = "pid namespace 1, such as a container,";
        assert_eq!(why, format!("the plugins of {group} have taken their 15s already"));
        for other in [Some(OTHER), None] {
            assert_eq!(time.left(other, true), Ok(seconds(45)));
        }
        let of_withheld = Duration::from_millis(3750);
        assert_eq!(time.left(Some(Sharer::Withheld), true), Ok(of_withheld));
        assert_eq!(time.left(Some(POD), false), Ok(seconds(75)), "never skipped");
    }

    #[tokio::test(start_paused = true)]
    async fn replies_without_effect_take_less_time() {
        let mut time = time();
        time.record(Sharer::Withheld, seconds(2));
        assert!(time.left(Some(Sharer::Withheld), true).is_ok());
        time.record(Sharer::Withheld, seconds(2));
        let why = time.left(Some(Sharer::Withheld), true).unwrap_err().to_string();
        assert_eq!(why, "plugins without effect on it have taken their 3.75s already");
    }

    #[tokio::test(start_paused = true)]
    async fn all_plugins_together_have_less_time_than_the_caller_waits() {
        let time = time();
        tokio::time::advance(seconds(60)).await;
        assert_eq!(time.left(None, true), Err(OutOfTime::Request(seconds(60))));
        assert_eq!(time.left(None, false), Ok(seconds(30)));
        tokio::time::advance(seconds(30)).await;
        let why = time.left(None, false).unwrap_err().to_string();
        assert_eq!(why, "the request has waited for plugins for 90s already");
    }
}
