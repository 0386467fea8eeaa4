//! How long the wrapper waits for `nrid`.

use super::policy::VerbPolicy;
use nri_config::Config;
use nri_control::Verb;
use std::time::Duration;

/// Time for the reply before the verb. `nrid` bounds each plugin by itself; this leaves room for
/// requests that wait in a queue behind slow plugins. An `nrid` that hangs is given up after
/// [`silence`].
const BEGIN: Duration = Duration::from_secs(120);
/// Time for a reply that the verb does not depend on: after it, and before a `delete`.
const FINISH: Duration = Duration::from_secs(30);
/// Longest silence of an `nrid` before a verb that can proceed without it.
const SILENCE: Duration = Duration::from_secs(10);

/// Time for the reply before the verb: at least that of twenty plugins.
pub(crate) fn begin(verb: Verb, config: &Config) -> Duration {
    match verb {
        // nrid completes a deletion by itself where the wrapper does not wait.
        Verb::Delete => finish(config),
        _ => BEGIN.max(config.plugin_request_timeout * 20),
    }
}

/// Time for the reply after the verb: at least that of five plugins.
pub(crate) fn finish(config: &Config) -> Duration {
    FINISH.max(config.plugin_request_timeout * 5)
}

/// Longest silence of `nrid` before the verb: one that systemd is just starting answers only when
/// it is ready.
pub(crate) fn silence(verb: Verb, config: &Config) -> Duration {
    if verb.needs_nrid() { config.start_timeout } else { silence_after(config) }
}

/// Longest silence of `nrid` after the verb.
pub(crate) fn silence_after(config: &Config) -> Duration {
    SILENCE.min(config.start_timeout)
}
