//! Values with which nothing can work, such as a timeout of 0: a start uses the defaults instead.

use crate::{
    connections::ConnectionSettings, logs::AuditSettings, model::Config,
    plugin::DEFAULT_WASM_MEMORY,
};
use std::time::Duration;

/// Least time of a timeout or pause. A plugin replies in a tenth of it.
const LEAST: Duration = Duration::from_millis(1);

const NO_REGISTRATION: &str = "no plugin can register in that time";
const NO_REPLY: &str = "no plugin can reply in that time";
const NO_START: &str = "no nrid can start in that time";
const NO_PAUSE: &str = "a plugin that fails would be launched without pause";

/// A value that was replaced.
#[derive(Debug)]
pub(crate) struct Replaced {
    /// The key, with its tables.
    pub(crate) path: Vec<&'static str>,
    /// Index of its `[[plugin]]`.
    pub(crate) index: Option<usize>,
    /// What is wrong.
    pub(crate) message: String,
    /// What a start uses instead.
    pub(crate) effect: &'static str,
}

/// Replaces the values with which nothing can work.
pub(crate) fn replace(config: &mut Config) -> Vec<Replaced> {
    let mut found = Vec::new();
    let Config {
        plugin_registration_timeout: registration,
        plugin_request_timeout: request,
        plugin_restart_backoff: backoff,
        plugin_restart_backoff_limit: backoff_limit,
        start_timeout: start,
        ..
    } = config;
    let default = Config::default();
    for (key, value, default, why) in [
        (
            "plugin_registration_timeout",
            registration,
            default.plugin_registration_timeout,
            NO_REGISTRATION,
        ),
        ("plugin_request_timeout", request, default.plugin_request_timeout, NO_REPLY),
        ("plugin_restart_backoff", backoff, default.plugin_restart_backoff, NO_PAUSE),
        (
            "plugin_restart_backoff_limit",
            backoff_limit,
            default.plugin_restart_backoff_limit,
            NO_PAUSE,
        ),
        ("start_timeout", start, default.start_timeout, NO_START),
    ] {
        if *value < LEAST {
            *value = default;
            found.push(defaulted(
                vec![key],
                "\"1ms\"",
                why,
                &format!("\"{}s\"", default.as_secs()),
            ));
        }
    }
    let connections = ConnectionSettings::default();
    let max_unregistered = "no plugin could register: use disable_connections to refuse external \
                            plugins";
    for (key, value, default, why) in [
        (
            "max_unregistered",
            &mut config.connections.max_unregistered,
            connections.max_unregistered,
            max_unregistered,
        ),
        (
            "max_plugins",
            &mut config.connections.max_plugins,
            connections.max_plugins,
            "no plugin could register",
        ),
    ] {
        if *value == 0 {
            *value = default;
            found.push(defaulted(vec!["connections", key], "1", why, &default.to_string()));
        }
    }
    if config.audit.max_size == 0 {
        let default = AuditSettings::default().max_size;
        config.audit.max_size = default;
        let why = "no line would be kept: use enable = false for no audit log";
        found.push(defaulted(vec!["audit", "max_size"], "1", why, &default.to_string()));
    }
    replace_in_policies(config, &mut found);
    found
}

fn replace_in_policies(config: &mut Config, found: &mut Vec<Replaced>) {
    for (index, policy) in config.plugin.iter_mut().enumerate() {
        let index = Some(index);
        for (key, value, why, effect) in [
            (
                "timeout",
                &mut policy.timeout,
                "the plugin cannot reply in that time",
                "a start uses plugin_request_timeout",
            ),
            (
                "restart_backoff",
                &mut policy.restart_backoff,
                NO_PAUSE,
                "a start uses plugin_restart_backoff",
            ),
        ] {
            if value.is_some_and(|value| value < LEAST) {
                *value = None;
                let message = format!("plugin.{key} must be \"1ms\" or more, since {why}");
                found.push(Replaced { path: vec!["plugin", key], index, message, effect });
            }
        }
        let times = policy.budget.map(|budget| {
            [
                ("time", budget.time, "the plugin cannot reply in that time"),
                ("pause", budget.pause, "the plugin would be called again without pause"),
            ]
        });
        for (key, value, why) in times.into_iter().flatten() {
            if value < LEAST {
                policy.budget = None;
                let message = format!("plugin.budget.{key} must be \"1ms\" or more, since {why}");
                let (path, effect) = (vec!["plugin", "budget", key], "a start uses no budget");
                found.push(Replaced { path, index, message, effect });
            }
        }
        if policy.wasm_memory == 0 {
            policy.wasm_memory = DEFAULT_WASM_MEMORY;
            let (path, why) = (vec!["plugin", "wasm_memory"], "no module runs without memory");
            let default = DEFAULT_WASM_MEMORY.to_string();
            found.push(Replaced { index, ..defaulted(path, "1", why, &default) });
        }
    }
}

/// Returns the mistake of a key for which a start uses its default.
fn defaulted(path: Vec<&'static str>, least: &str, why: &str, default: &str) -> Replaced {
    let key = path.join(".");
    let message = format!("{key} must be {least} or more, since {why}; the default is {default}");
    Replaced { path, index: None, message, effect: "a start uses the default" }
}
