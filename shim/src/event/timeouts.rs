//! Time limits of the wrapper for replies of `nrid`.

use nri_args::verbs::Verb;
use nri_files::{CallSettings, reply_limit};
use std::time::Duration;

/// Time limit of a reply that the verb does not depend on: after a verb, and before a `delete`.
const FINISH: Duration = Duration::from_secs(30);
/// Longest time without a sign of life from `nrid`, for a verb that can proceed without it.
const SILENCE: Duration = Duration::from_secs(10);

/// Returns the time limit of the reply before the verb. `nrid` replies within it, however many
/// plugins there are; one that hangs is detected after [`silence`].
pub(crate) fn begin(verb: Verb, settings: &CallSettings) -> Duration {
    match verb {
        // nrid completes a deletion even if the wrapper no longer waits.
        Verb::Delete => finish(settings),
        _ => reply_limit(settings.request_timeout),
    }
}

/// Returns the time limit of the reply after the verb: at least the timeouts of five plugins.
pub(crate) fn finish(settings: &CallSettings) -> Duration {
    FINISH.max(settings.request_timeout.saturating_mul(5))
}

/// Returns the longest time without a sign of life from `nrid` before the verb: an `nrid` that
/// systemd is starting replies only when it is ready.
pub(crate) fn silence(verb: Verb, settings: &CallSettings) -> Duration {
    if verb.needs_nrid() { settings.start_timeout } else { silence_after(settings) }
}

/// Returns the longest time without a sign of life from `nrid` after the verb.
pub(crate) fn silence_after(settings: &CallSettings) -> Duration {
    SILENCE.min(settings.start_timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrapper_waits_for_the_plugin_with_the_longest_timeout() {
        let slow = CallSettings {
            request_timeout: Duration::from_secs(180),
            start_timeout: Duration::from_secs(3),
            ..CallSettings::default()
        };
        assert_eq!(begin(Verb::Create, &slow), Duration::from_secs(20 * 180));
        assert_eq!(finish(&slow), Duration::from_secs(5 * 180));
        assert_eq!(silence(Verb::Create, &slow), Duration::from_secs(3));
        let usual = CallSettings { request_timeout: Duration::from_secs(2), ..slow };
        assert_eq!(begin(Verb::Create, &usual), Duration::from_secs(120));
    }
}
