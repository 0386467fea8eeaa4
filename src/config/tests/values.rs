//! Values that cannot work, sizes, and the messages about wrong values.

// The lints do not recognize helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use nri_config::{Config, Limit};

/// Checks the error of a strict parser, and that a start uses the text `started` instead.
fn check_corrected(text: &str, expected: &str, effect: &str, started: &str) {
    let error = Config::parse(text).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, expected, "{text}");
    let (config, mistakes) = Config::parse_with_mistakes(text).unwrap();
    let mistakes: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
    assert_eq!(mistakes, [format!("{expected}; {effect}")]);
    assert_eq!(config, Config::parse(started).unwrap(), "{text}");
}

fn error(text: &str) -> String {
    Config::parse(text).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_time_in_which_nothing_can_work_is_a_mistake() {
    for (key, effect, default) in [
        ("plugin_registration_timeout", "no plugin can register in that time", "5s"),
        ("plugin_request_timeout", "no plugin can reply in that time", "2s"),
        ("plugin_restart_backoff", "a plugin that fails would be launched without pause", "1s"),
        (
            "plugin_restart_backoff_limit",
            "a plugin that fails would be launched without pause",
            "60s",
        ),
        ("start_timeout", "no nrid can start in that time", "20s"),
    ] {
        for value in ["0", "'0s'", "'999us'", "1e-9"] {
            let column = key.len() + 4;
            check_corrected(
                &format!("{key} = {value}\n"),
                &format!(
                    "line 1, column {column}: {key} must be \"1ms\" or more, since {effect}; the \
                     default is {default:?}"
                ),
                "a start uses the default",
                "",
            );
        }
        Config::parse(&format!("{key} = '1ms'")).unwrap();
    }
    // These two have a meaning of 0.
    Config::parse("idle_timeout = 0\nplugin_synchronization_timeout = 0\n").unwrap();
}

#[test]
fn a_policy_in_which_nothing_can_work_is_a_mistake() {
    let before = "[[plugin]]\nmatch = 'a'\n[[plugin]]\nmatch = 'b'\n";
    for (text, column, expected, effect) in [
        (
            "timeout = 0",
            11,
            "plugin.timeout must be \"1ms\" or more, since the plugin cannot reply in that time",
            "a start uses plugin_request_timeout",
        ),
        (
            "restart-backoff = '0ms'",
            19,
            "plugin.restart_backoff must be \"1ms\" or more, since a plugin that fails would be \
             launched without pause",
            "a start uses plugin_restart_backoff",
        ),
        (
            "budget = { share = 10, time = 0 }",
            31,
            "plugin.budget.time must be \"1ms\" or more, since the plugin cannot reply in that time",
            "a start uses no budget",
        ),
        (
            "budget = { time = '1s', pause = '0s' }",
            33,
            "plugin.budget.pause must be \"1ms\" or more, since the plugin would be called again \
             without pause",
            "a start uses no budget",
        ),
        (
            "wasm_memory = 0",
            15,
            "plugin.wasm_memory must be 1 or more, since no module runs without memory; the \
             default is 128",
            "a start uses the default",
        ),
    ] {
        let expected = format!("line 5, column {column}: {expected}");
        check_corrected(&format!("{before}{text}\n"), &expected, effect, before);
    }
    Config::parse(&format!("{before}consecutive_timeouts = 0\n")).unwrap();
}

#[test]
fn a_number_of_0_with_which_nothing_can_work_is_a_mistake() {
    for (table, key, why, default) in [
        (
            "connections",
            "max_unregistered",
            "no plugin could register: use disable_connections to \
          refuse external plugins",
            "64",
        ),
        ("connections", "max_plugins", "no plugin could register", "256"),
        (
            "audit",
            "max_size",
            "no line would be kept: use enable = false for no audit log",
            "8388608",
        ),
    ] {
        check_corrected(
            &format!("[{table}]\n{} = 0\n", key.replace('_', "-")),
            &format!(
                "line 2, column {}: {table}.{key} must be 1 or more, since {why}; the default is \
                 {default}",
                key.len() + 4
            ),
            "a start uses the default",
            "",
        );
    }
    let (config, mistakes) = Config::parse_with_mistakes(
        "start_timeout = 0\nstate_dir = 'x'\n[log]\nlevel = 'loud'\n[audit]\nmax_size = 0\n",
    )
    .unwrap();
    let lines: Vec<_> = mistakes.iter().map(|mistake| mistake.line).collect();
    assert_eq!((lines, config.audit.max_size), (vec![1, 2, 4, 6], 8 << 20));
}

#[test]
fn sizes_have_units() {
    let size = |text: &str| Config::parse(&format!("[audit]\nmax_size = {text}")).unwrap();
    for (text, bytes) in [
        ("1048576", 1 << 20),
        ("'1MiB'", 1 << 20),
        ("'1 MiB'", 1 << 20),
        ("'1.5Mi'", 3 << 19),
        ("'2M'", 2_000_000),
        ("'4096'", 4096),
    ] {
        assert_eq!(size(text).audit.max_size, bytes, "{text}");
    }
    assert_eq!(
        error("[audit]\nmax_size = '1 MB'"),
        "line 2, column 12: \"1 MB\" is not a size, such as \"512MiB\", \"1.5GiB\" or 1048576"
    );
    assert_eq!(
        error("[audit]\nmax_size = -1"),
        "line 2, column 12: audit.max_size must be a size such as \"512MiB\", or a number of \
         bytes, not -1"
    );
    let plugin = |text: &str| format!("[[plugin]]\nmatch = 'a'\n{text}\n");
    for (text, mebibytes) in [("64", 64), ("'64MiB'", 64), ("'1 GiB'", 1024)] {
        let config = Config::parse(&plugin(&format!("wasm_memory = {text}"))).unwrap();
        assert_eq!(config.plugin[0].wasm_memory, mebibytes, "{text}");
    }
    for text in ["'100KiB'", "'1.5MiB'", "'64GiB'", "'64'", "70000", "-1", "true"] {
        let error = error(&plugin(&format!("wasm_memory = {text}")));
        let expected = "line 3, column 15: plugin.wasm_memory must be a whole number of MiB up to \
                        65535, such as 64 or \"64MiB\", not ";
        assert!(error.starts_with(expected), "{error}");
    }
    let limits = Config::parse(&plugin("rlimits = { memlock = '64MiB', nofile = 1024 }")).unwrap();
    let limits: Vec<_> = limits.plugin[0].rlimits.values().copied().collect();
    assert_eq!(limits, [Limit::Value(64 << 20), Limit::Value(1024)]);
}

#[test]
fn an_unknown_key_is_named_with_the_key_that_was_meant() {
    for (text, expected) in [
        ("modus = 1", "line 1, column 1: unknown key `modus`, did you mean `mode`?"),
        (
            "plugin-request-timout = 1",
            "line 1, column 1: unknown key `plugin-request-timout`, did you mean \
             `plugin-request-timeout`?",
        ),
        (
            "[log]\nlevle = 1",
            "line 2, column 1: unknown key `levle` in [log], did you mean \
          `level`?",
        ),
        (
            "[log]\nmode = 'apply'",
            "line 2, column 1: unknown key `mode` in [log]: it belongs before the first table",
        ),
        ("max-size = 1", "line 1, column 1: unknown key `max-size`: it belongs in [audit]"),
        (
            "[[plugin]]\nmatch = '*'\ncolour = 1",
            "line 3, column 1: unknown key `colour` in [[plugin]], \
             see docs/reference/configuration.md",
        ),
        (
            "[plugins]\nmatch = '*'\n",
            "line 1, column 2: unknown key `plugins`, did you mean `plugin`?",
        ),
        (
            "[runtime.names.nri-x]\npaht = '/x'",
            "line 2, column 1: unknown key `paht` in [runtime.names.nri-x], did you mean `path`?",
        ),
        (
            "runtime = { x = 1 }",
            "line 1, column 13: unknown key `x` in [runtime], see \
          docs/reference/configuration.md",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn values_of_a_wrong_type_are_named_in_words_of_the_file() {
    for (text, expected) in [
        ("disable = 1", "1, column 11: disable must be true or false, not 1"),
        (
            "runtime.path = 3",
            "1, column 16: runtime.path must be an absolute path or a name without \
          slashes, not 3",
        ),
        ("log = 3", "1, column 7: log must be a table, not 3"),
        ("plugin = 'x'", "1, column 10: plugin must be a list, not \"x\""),
        (
            "start_timeout = true",
            "1, column 17: start_timeout must be a duration such as \"5s\", or a number of \
             seconds, not true",
        ),
        (
            "[connections]\nallow_uids = [0, -1]",
            "2, column 18: connections.allow_uids must be a \
          whole number from 0 to 4294967295, not -1",
        ),
        (
            "[connections]\nmax_plugins = 'x'",
            "2, column 15: connections.max_plugins must be a \
          whole number from 0 to 18446744073709551615, not \"x\"",
        ),
        (
            "mode = 'aply'",
            "1, column 8: mode must be \"apply\" or \"shadow\", not \"aply\"; did \
          you mean \"apply\"?",
        ),
        ("mode = 7", "1, column 8: mode must be a text"),
        ("[[plugin]]\nmatch = 'a'\n[[plugin]]\n", "3, column 1: the key `match` is missing"),
        ("[log]\nlevel = 3", "2, column 9: log.level must be a level, such as \"info\", not 3"),
        (
            "[pods]\nannotations_from_labels = [1]",
            "2, column 28: pods.annotations_from_labels must \
          be a text, not 1",
        ),
        (
            "plugin_path = '/a'\nplugin-path = '/b'",
            "2, column 1: the key `plugin_path` is there \
          twice",
        ),
    ] {
        assert_eq!(error(text), format!("line {expected}"), "{text}");
    }
}
