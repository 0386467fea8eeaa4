//! Parses text into a [`Config`]; errors have line and column.

use crate::{
    model::Config,
    reference::sections,
    unusable::{self, Replaced},
};
use nri_values::{TomlMistake, UnknownKey, line_and_column, nearest, toml_value};
use std::ops::Range;

/// Error in the text of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ConfigError {
    /// Line, counted from 1.
    pub line: usize,
    /// Column, counted from 1, in characters.
    pub column: usize,
    /// Text of the error.
    pub message: String,
}

impl Config {
    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// A syntax error, a value of a wrong type or with which nothing can work, an unknown key, or a
    /// second policy for the same plugins, with line and column.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::parse_with_span(text).map_err(|(error, _)| error)?;
        let replaced = unusable::replace(&mut config).into_iter();
        let errors = replaced.map(|replaced| ConfigError::unusable(text, replaced));
        match errors.min_by_key(|error| (error.line, error.column)) {
            Some(first) => Err(first),
            None => Ok(config),
        }
    }

    /// Parses like [`Config::parse`], but accepts values with which nothing can work. The error
    /// comes with the range in `text` that the TOML parser reports, if any.
    pub(crate) fn parse_with_span(text: &str) -> Result<Self, (ConfigError, Option<Range<usize>>)> {
        let config: Self =
            toml::from_str(text).map_err(|e| (ConfigError::of_parser(text, &e), e.span()))?;
        for (index, policy) in config.plugin.iter().enumerate() {
            if config.plugin[..index].iter().any(|before| before.pattern == policy.pattern) {
                return Err((ConfigError::second_policy(text, index, &policy.pattern), None));
            }
            if policy.pattern == "*" && policy.digest.is_some() {
                return Err((ConfigError::digest_for_all(text, index), None));
            }
        }
        Ok(config)
    }
}

impl ConfigError {
    /// Error of a second policy for the same plugins: only one of the two could apply.
    fn second_policy(text: &str, index: usize, pattern: &str) -> Self {
        let tables = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.trim_start().starts_with("[[plugin]]"));
        let line = tables.map(|(line, _)| line + 1).nth(index).unwrap_or(1);
        Self {
            line,
            column: 1,
            message: format!("a policy with `match = {pattern:?}` exists already: merge the two"),
        }
    }

    /// Error of a digest for all plugins: no two have the same file.
    fn digest_for_all(text: &str, index: usize) -> Self {
        let place = toml_value(text, &["plugin", "digest"], Some(index));
        let message = "digest is that of one plugin: `match` must name it, and is \"*\"".to_owned();
        Self::at(text, place.map_or(0, |place| place.start), message)
    }

    /// Error of a value with which nothing can work.
    pub(crate) fn unusable(text: &str, Replaced { path, index, message, .. }: Replaced) -> Self {
        let place = toml_value(text, &path, index);
        Self::at(text, place.map_or(0, |place| place.start), message)
    }

    /// Error of the TOML parser or of serde, at the position that the parser reports.
    fn of_parser(text: &str, error: &toml::de::Error) -> Self {
        let TomlMistake { offset, message, unknown } = TomlMistake::new(text, error);
        Self::at(text, offset, unknown.map_or(message, |unknown| unknown_key(&unknown)))
    }

    /// Error at an offset of the text.
    fn at(text: &str, offset: usize, message: String) -> Self {
        let (line, column) = line_and_column(text, offset);
        Self { line, column, message }
    }
}

/// Returns the message about a key that its table does not have.
fn unknown_key(UnknownKey { key, table, known }: &UnknownKey) -> String {
    // A key has two spellings; the one that was meant is most likely spelled as the other.
    let known = known.iter().map(String::as_str);
    let known = known.filter(|known| key.contains('-') || !known.contains('-'));
    let table = match table.join(".").as_str() {
        "" => String::new(),
        "plugin" => " in [[plugin]]".to_owned(),
        table => format!(" in [{table}]"),
    };
    let hint = match (section_of(key), nearest(key, known)) {
        (Some(""), _) => ": it belongs before the first table".to_owned(),
        (Some(header), _) => format!(": it belongs in {header}"),
        (None, Some(meant)) => format!(", did you mean `{meant}`?"),
        (None, None) => ", see docs/reference/configuration.md".to_owned(),
    };
    format!("unknown key `{key}`{table}{hint}")
}

/// Returns the header of the only table that has this key; of a general key, the empty one.
fn section_of(key: &str) -> Option<&'static str> {
    let key = key.replace('-', "_");
    let all = sections();
    let mut having = all.iter().filter(|section| section.keys.iter().any(|k| k.name == key));
    let first = having.next()?;
    (first.header.is_empty() || having.next().is_none()).then_some(first.header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdaptedBy, ConnectionSettings, EngineSettings, Mode};

    fn check(text: &str, expected: &str) {
        assert_eq!(Config::parse(text).map(|_| ()).unwrap_err().to_string(), expected, "{text}");
    }

    #[test]
    fn errors_have_line_and_column() {
        check(
            "runtime = \n",
            "line 1, column 11: string values must be quoted, expected literal string",
        );
        let e = Config::parse("\n  modus = 1\n").unwrap_err();
        assert_eq!((e.line, e.column), (2, 3));
        assert!(e.message.contains("unknown key `modus`"), "{e}");
        let e = Config::parse("[runtime]\npath = 3\n").unwrap_err();
        assert_eq!((e.line, e.column), (2, 8));
        let e = Config::parse("plugin_request_timeout = \"2 weeks\"\n").unwrap_err();
        assert!(e.message.contains("2 weeks"), "{e}");
    }

    #[test]
    fn a_second_policy_for_the_same_plugins_is_an_error() {
        check(
            "[[plugin]]\nmatch = '*'\n[[plugin]]\nmatch = 'a'\n\n [[plugin]]\nmatch = '*'\n\
             deny = ['env']\n",
            "line 6, column 1: a policy with `match = \"*\"` exists already: merge the two",
        );
    }

    /// tracing would take an unknown level as the name of a target, and log nothing else.
    #[test]
    fn an_unknown_log_level_is_refused() {
        for level in ["loud", "", "info,verbose", "nri_wire=all"] {
            let wrong = level.rsplit([',', '=']).next().unwrap();
            check(
                &format!("[log]\nlevel = '{level}'\n"),
                &format!(
                    "line 2, column 9: {wrong:?} is not a level; known levels: off, error, warn, \
                     info, debug, trace"
                ),
            );
        }
        for (level, expected) in [
            ("off", "off"),
            ("WARN", "WARN"),
            ("WARNING", "warn"),
            ("Info, nri_wire=Warning", "Info,nri_wire=warn"),
            ("info,nri_wire=debug", "info,nri_wire=debug"),
        ] {
            let config = Config::parse(&format!("[log]\nlevel = '{level}'\n")).unwrap();
            assert_eq!(config.log.level, expected);
        }
    }

    /// A relative path would name a different file for each caller.
    #[test]
    fn a_relative_path_is_refused() {
        let absolute = "an absolute path";
        let or_empty = "an absolute path or \"\"";
        let program = "an absolute path or a name without slashes";
        for (text, column, wrong, expected) in [
            ("state_dir = 'relative'", 13, "relative", absolute),
            ("state-dir = ''", 13, "", absolute),
            ("plugin_path = './plugins'", 15, "./plugins", or_empty),
            ("plugin_config_path = 'conf.d'", 22, "conf.d", absolute),
            ("socket_path = 'nri.sock'", 15, "nri.sock", or_empty),
            ("runtime.path = 'bin/runc'", 16, "bin/runc", program),
            ("runtime.path = ''", 16, "", program),
            ("runtime.candidates = ['runc', './crun']", 31, "./crun", program),
            ("runtime.names.nri-x.path = './x'", 28, "./x", program),
            ("connections.allow_programs = ['p']", 31, "p", absolute),
            ("log.file = 'nrid.log'", 12, "nrid.log", absolute),
            ("blockio.config_file = 'b.yaml'", 23, "b.yaml", absolute),
            ("rdt.config_file = 'r.yaml'", 19, "r.yaml", absolute),
            ("cdi.spec_dirs = ['/etc/cdi', 'cdi']", 30, "cdi", absolute),
        ] {
            check(text, &format!("line 1, column {column}: {wrong:?} is not {expected}"));
        }
        Config::parse("plugin_path = ''\nsocket_path = ''\nruntime.path = 'crun'\n").unwrap();
    }

    #[test]
    fn an_empty_file_means_the_defaults() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn keys_may_have_dashes_and_bare_numbers_are_seconds() {
        let config = Config::parse(
            "plugin-path = '/p'\nplugin-request-timeout = 3\n\
             plugin_registration_timeout = '250ms'\ndisable-connections = true\n",
        )
        .unwrap();
        assert_eq!(config.plugin_path, Some("/p".into()));
        assert_eq!(config.plugin_request_timeout.as_secs(), 3);
        assert_eq!(config.plugin_registration_timeout.as_millis(), 250);
        assert!(config.disable_connections);
        assert_eq!(config.idle_timeout, None);
        let config = Config::parse("idle-timeout = '10m'\n").unwrap();
        assert_eq!(config.idle_timeout.map(|t| t.as_secs()), Some(600));
    }

    #[test]
    fn the_keys_of_engines_accept_auto_engine_and_ours() {
        let config = Config::parse("[engines]\ncontainerd = 'ours'\ncrio = 'engine'\n").unwrap();
        let (ours, engine, auto) = (AdaptedBy::Nrid, AdaptedBy::Engine, AdaptedBy::Auto);
        let expected =
            EngineSettings { containerd: ours, crio: engine, docker: auto, isulad: auto };
        assert_eq!(config.engines, expected);
        check(
            "[engines]\ncontainerd = 'both'\n",
            "line 2, column 14: engines.containerd must be one of \"auto\", \"engine\", \"ours\", \
             not \"both\"",
        );
    }

    #[test]
    fn mode_and_opt_out_annotation_are_parsed() {
        let config =
            Config::parse("mode = 'shadow'\n[opt-out]\nannotation = 'example.com/no-nri'\n")
                .unwrap();
        assert_eq!(
            (config.mode, config.opt_out.annotation.as_deref()),
            (Mode::Shadow, Some("example.com/no-nri"))
        );
        assert_eq!(
            (Config::default().mode, Config::default().opt_out.annotation),
            (Mode::Apply, None)
        );
        check(
            "mode = 'dark'\n",
            "line 1, column 8: mode must be \"apply\" or \"shadow\", not \"dark\"",
        );
    }

    #[test]
    fn connection_and_restart_settings_are_parsed() {
        let config = Config::parse(
            "plugin-restart-backoff = '2s'\n[connections]\nallow-uids = [7]\n\
             allow-programs = ['/p']\nmax-unregistered = 1\n",
        )
        .unwrap();
        let expected = ConnectionSettings {
            allow_uids: vec![7],
            allow_programs: Some(vec!["/p".into()]),
            max_unregistered: 1,
            max_plugins: 256,
        };
        assert_eq!(config.connections, expected);
        let backoff = (
            config.plugin_restart_backoff.as_secs(),
            config.plugin_restart_backoff_limit.as_secs(),
        );
        assert_eq!(backoff, (2, 60));
        let e = Config::parse("[connections]\nallow_uids = [-1]\n").unwrap_err();
        assert_eq!((e.line, e.column), (2, 15), "{e}");
    }

    #[test]
    fn blockio_rdt_and_cdi_sections_are_parsed() {
        let config = Config::parse(
            "[blockio]\nconfig_file = '/b.yaml'\n[rdt]\nconfig-file = '/r'\n[cdi]\n\
             spec-dirs = ['/a', '/b']\n",
        )
        .unwrap();
        assert_eq!(config.blockio.config_file, Some("/b.yaml".into()));
        assert_eq!(config.rdt.config_file, Some("/r".into()));
        assert_eq!(config.cdi.spec_dirs, ["/a", "/b"].map(std::path::PathBuf::from));
        assert_eq!(
            Config::default().cdi.spec_dirs,
            ["/etc/cdi", "/var/run/cdi"].map(std::path::PathBuf::from)
        );
        assert_eq!(Config::default().rdt.config_file, None);
    }
}
